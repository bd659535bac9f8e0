"""Which processes are an LLM server, what each of them does, and which engine and NCCL they run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from traceana.environment import procfs
from traceana.environment.engine_source import EngineSource, engines_in, nccl_version
from traceana.environment.procfs import PROC, Process

#: most servers that one audit shows
MOST_SERVERS = 8

#: engine -> what a command line or a title of one of its processes holds
_ENGINES = (
    ("sglang", re.compile(r"\bsglang\.launch_server\b|\bsglang::|(?:^|[\s/])sglang serve\b|\bsglang\.srt\.")),
    ("vllm", re.compile(r"\bVLLM::|(?:^|[\s/])vllm serve\b|\bvllm\.entrypoints\.")),
)
#: titles that the engines give their processes -> role; the first that fits
_ROLES = (
    (re.compile(r"sglang::scheduler"), "scheduler"),
    (re.compile(r"sglang::detoken"), "detokenizer"),
    (re.compile(r"sglang::data_parallel"), "DP controller"),
    (re.compile(r"sglang::(\w{1,40})"), ""),
    (re.compile(r"VLLM::Worker"), "worker"),
    (re.compile(r"VLLM::EngineCore"), "engine core"),
    (re.compile(r"VLLM::APIServer|VLLM::ApiServer"), "API server"),
    (re.compile(r"VLLM::(\w{1,40})"), ""),
    (re.compile(r"multiprocessing\.(?:resource_tracker|forkserver|semaphore_tracker)\b"), "helper"),
    (re.compile(r"\btorch\._inductor\.compile_worker\b|(?:^|[\s/])(?:ninja|nvcc|ptxas|cicc|cc1plus)\b"), "compiler"),
    (re.compile(r"multiprocessing\.spawn import spawn_main|--multiprocessing-fork"), "spawned"),
)
_RANK = re.compile(r"(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,5}")
_PROGRAMS = re.compile(r"python[\d.]*$|vllm\b|sglang\b")
_PACKAGES = re.compile(r".*?/(?:site|dist)-packages(?=/)")


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a server. `worker`: it runs the model, so its NCCL variables are the ones that count."""

    process: Process
    role: str
    rank: str
    worker: bool


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its processes, the first of them the one that was started. `engine`: None when not recognised."""

    engine: str | None
    members: tuple[Member, ...]

    @property
    def top(self) -> Process:
        """The process that was started."""
        return self.members[0].process

    @property
    def workers(self) -> tuple[Member, ...]:
        """Those that run the model."""
        return tuple(member for member in self.members if member.worker)


def find(everyone: Mapping[int, Process], itself: int) -> list[Server]:
    """All SGLang and vLLM servers among the processes, without the process `itself` and those that started it."""
    mine = {itself, *(found.pid for found in procfs.ancestors(itself, everyone))}
    tops = {
        top.pid
        for found in everyone.values()
        if found.pid not in mine and not found.zombie and engine_of(found) and (top := top_of(found, everyone))
    }
    return [server(pid, everyone) for pid in sorted(tops - mine)]


def matching(word: str, everyone: Mapping[int, Process], itself: int) -> list[Server]:
    """The servers with a process whose command line or title holds `word`; else plain processes that do."""
    mine = {itself, *(found.pid for found in procfs.ancestors(itself, everyone))}
    hits = [p for p in everyone.values() if p.pid not in mine and not p.zombie and (word in p.title or word == p.name)]
    tops = {top_of(found, everyone).pid if engine_of(found) else found.pid for found in hits}
    nested = {pid for pid in tops if any(a.pid in tops for a in procfs.ancestors(pid, everyone))}
    return [server(pid, everyone) for pid in sorted(tops - nested - mine)]


def of_pid(pid: int, everyone: Mapping[int, Process]) -> Server:
    """The server that a process belongs to, from its first process down; `pid` itself where no engine is recognised."""
    found = everyone[pid]
    related = [found, *procfs.ancestors(pid, everyone)]
    first = next((p for p in related if engine_of(p)), None)
    return server(top_of(first, everyone).pid if first else pid, everyone)


def engine_of(found: Process) -> str | None:
    """The engine that a title or the command line of a Python names; not that of a shell, an editor or grep."""
    program = PurePosixPath(found.argv[0]).name if found.argv else ""
    if "::" not in program and not _PROGRAMS.match(program):
        return None
    return next((engine for engine, pattern in _ENGINES if pattern.search(found.title)), None)


def top_of(found: Process, everyone: Mapping[int, Process]) -> Process:
    """The first process of the server: the highest one in an unbroken line that runs an engine or Python's spawning."""
    top = found
    for parent in procfs.ancestors(found.pid, everyone):
        if engine_of(parent):
            top = parent
        elif _role(parent)[0] != "spawned":
            break
    return top


def server(top: int, everyone: Mapping[int, Process]) -> Server:
    """The server below one process."""
    family = procfs.descendants(top, everyone)
    engine = next((engine for found in family if (engine := engine_of(found))), None)
    first = "launcher" if engine else "process"
    roles = [(first, "") if number == 0 and not _titled(p) else _role(p) for number, p in enumerate(family)]
    workers = _workers([role for role, _ in roles])
    return Server(
        engine,
        tuple(
            Member(found, role, rank, number in workers)
            for number, (found, (role, rank)) in enumerate(zip(family, roles, strict=True))
        ),
    )


def _titled(found: Process) -> bool:
    return "::" in found.title and engine_of(found) is not None


def _role(found: Process) -> tuple[str, str]:
    """(role, rank) by the title."""
    rank = " ".join(_RANK.findall(found.title)) if "::" in found.title else ""
    for pattern, role in _ROLES:
        hit = pattern.search(found.title)
        if hit:
            return role or hit[1].lower(), rank
    return "other", rank


def _workers(roles: list[str]) -> set[int]:
    """Which processes run the model, by number: titled ones, else engine cores, spawned ones, the first."""
    for wanted in (("scheduler", "worker"), ("engine core",), ("spawned",)):
        found = {number for number, role in enumerate(roles) if role in wanted}
        if found:
            return found
    return {0} if roles else set()


def site_packages(found: Process, proc: Path = PROC) -> list[Path]:
    """Folders of installed packages that the process uses, as seen from here (through its root in a container)."""
    root = procfs.root(found.pid, proc)
    hits = (_PACKAGES.match(path) for path in procfs.mapped_files(found.pid, proc))
    return [root / name.lstrip("/") for name in dict.fromkeys(hit[0] for hit in hits if hit)]


def source_of(server_found: Server, proc: Path = PROC) -> tuple[EngineSource | None, str | None]:
    """(engine's source, NCCL's version) as the server's processes have them mapped; None for what is not found."""
    for member in (*server_found.workers, server_found.members[0]):
        folders = site_packages(member.process, proc)
        sources = [source for folder in folders for source in _engines(folder)]
        chosen = next((s for s in sources if server_found.engine in (None, s.engine)), None)
        nccl = next((found for folder in folders if (found := nccl_version(folder))), None)
        if chosen or nccl:
            return chosen, nccl
    return None, None


def _engines(folder: Path) -> list[EngineSource]:
    try:
        return engines_in(folder)
    except OSError:  # another user's root
        return []
