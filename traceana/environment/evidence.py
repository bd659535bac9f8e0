"""What is known of every process's environment: from /proc, from start lines, from NCCL's own lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from traceana.environment import nccl_conf, procfs
from traceana.environment.nccl_conf import ConfFile
from traceana.environment.procfs import PROC, Environ, Process
from traceana.environment.servers import Member, Server
from traceana.environment.start_lines import StartLine
from traceana.facts.model import Evidence, Facts, NcclProcess
from traceana.rules._nccl_env import clean_value
from traceana_instrument import envreport


@dataclass(frozen=True, slots=True)
class Known:
    """What may be said of a variable's value in one process, and where that was read."""

    value: str
    where: str


@dataclass(frozen=True, slots=True)
class View:
    """One process as far as it can be seen.

    `complete`: a name that is not among `variables` is not in the environment. `nccl`: what NCCL said that it read.
    """

    pid: int
    role: str
    rank: str
    worker: bool
    title: str
    environment: str
    variables: dict[str, Known]
    sources: tuple[str, ...]
    complete: bool
    conf: tuple[ConfFile, ...] = ()
    nccl: dict[str, Known] = field(default_factory=dict)
    nccl_finished: bool = False  # its initialisation is in the log to the end


def views(
    server: Server, starts: list[StartLine], facts: Facts | None, nccl: str | None, proc: Path = PROC
) -> tuple[list[View], int]:
    """(one view per process of a live server, start lines and NCCL processes of the logs that fit none of them)."""
    by_pid = {start.pid: start for start in starts}
    logged = {process.pid: process for process in facts.nccl.processes} if facts else {}
    used: set[int] = set()
    found = []
    for member in server.members:
        pids = procfs.inner_pids(member.process.pid, proc)
        start = next((by_pid[pid] for pid in reversed(pids) if pid in by_pid), None)
        lines = next((logged[pid] for pid in reversed(pids) if pid in logged), None)
        used |= set(pids)
        found.append(_with_log(_live(member, nccl, proc), start, lines))
    return found, len((by_pid.keys() | logged.keys()) - used)


def logged_views(starts: list[StartLine], facts: Facts | None) -> list[View]:
    """One view per process that logs alone show: workers, for no other prints a start line or has NCCL's."""
    logged = {process.pid: process for process in facts.nccl.processes} if facts else {}
    by_pid = {start.pid: start for start in starts}
    out = []
    for pid in sorted(by_pid.keys() | logged.keys()):
        start, lines = by_pid.get(pid), logged.get(pid)
        role = start.process if start else "NCCL process"
        rank = start.rank if start else ""
        if not rank and lines is not None and lines.rank is not None:
            rank = f"rank {lines.rank}"
        view = View(pid, role, rank, True, role, "not running", {}, (), False)
        out.append(_with_log(view, start, lines))
    return out


def _live(member: Member, nccl: str | None, proc: Path) -> View:
    process = member.process
    block = Environ("gone", {}) if process.zombie else procfs.environ(process, proc)
    where = f"/proc/{process.pid}/environ"
    raw = block.variables if block.state in ("read", "blanked") else None
    return View(
        pid=process.pid,
        role=member.role,
        rank=member.rank,
        worker=member.worker,
        title=process.title,
        environment=block.state,
        variables={name: Known(value, where) for name, value in said(raw or {}, process, proc).items()},
        sources=(where,) if block.state in ("read", "empty") or raw else (),
        complete=block.state in ("read", "empty"),
        conf=tuple(nccl_conf.files(process, raw, nccl, proc)),
    )


def said(variables: Mapping[str, str], process: Process, proc: Path = PROC) -> dict[str, str]:
    """Name -> what may be said of its value, for the names that belong in a report; files are looked up in its root."""
    names = sorted(filter(envreport.reported, variables))[: envreport.MOST]
    return {name: _said(name, variables[name], process, proc) for name in names}


def _said(name: str, value: str, process: Process, proc: Path) -> str:
    if not envreport.is_file_variable(name):
        return envreport.shown(name, value)
    base = procfs.root(process.pid, proc) if value.startswith("/") else proc / str(process.pid) / "cwd"
    try:
        return envreport.shown(name, value, file_exists=(base / value.lstrip("/")).is_file())
    except (OSError, ValueError):  # another user's process
        return envreport.SET


def _with_log(view: View, start: StartLine | None, lines: NcclProcess | None) -> View:
    """The view with what logs say of the same process. A start line is younger than /proc's block and wins."""
    variables, sources = dict(view.variables), list(view.sources)
    if start is not None:
        where = f"start line, {start.path}:{start.line}"
        variables |= {name: Known(value, where) for name, value in start.variables.items()}
        sources.append(where)
    nccl = {}
    if lines is not None and lines.env:
        nccl = {row.name: Known(clean(row.name, row.value), place(row.evidence)) for row in lines.env}
        sources.append(f"NCCL's lines, {place(lines.env[0].evidence)}")
    return replace(
        view,
        rank=view.rank or (start.rank if start else ""),
        variables=variables,
        sources=tuple(sources),
        complete=view.complete or start is not None,
        nccl=nccl,
        nccl_finished=lines is not None and lines.init_complete,
    )


def clean(name: str, value: str) -> str:
    """What may be said of a value that a line of a log gives a variable."""
    return envreport.SET if envreport.is_file_variable(name) else envreport.shown(name, clean_value(value))


def place(evidence: Evidence | None) -> str:
    """`server.log:12`, or "a log"."""
    return f"{evidence.path}:{evidence.line}" if evidence else "a log"
