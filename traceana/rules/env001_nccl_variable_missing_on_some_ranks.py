"""An NCCL variable reached some workers and not others, or was asked for and reached none.

What it sees:
The "X set by environment to Y" rows of every process. A variable counts as missing in a process only if NCCL reads it
in every initialisation, that process finished its initialisation (Init COMPLETE) and shows ENV rows of other
variables. Variables of a launch command that no process shows count as missing in all. Different values count too.

Why it matters:
Sized first: lost P2P_LEVEL or P2P_DISABLE costs about 83 us per small allreduce on 8 PCIe ranks, PROTO about 68, a
graph or topology file about 23 (8.3, 6.8 and 2.3 ms per 100), ALGO was not sized. Channel counts, BUFFSIZE and
NTHREADS do nothing below about 0.5 MB: losing them explains no slow verify.

How sure and why:
High, because the same process shows other ENV rows. A process without any ENV row is "not shown", never "missing":
the lines may be filtered. A blank /proc/PID/environ of an SGLang worker is no evidence at all: setproctitle
overwrites it (SPT_NOENV=1 at launch keeps it readable), and spawned workers do inherit the environment.

Rivals:
Parameters of paths that are not used are never read and so never logged; they are left out here. The value may come
from /etc/nccl.conf on one node only. A proxy or a log collector may have dropped lines.

Confirm:
NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS unset or INIT,ENV, for one start, with the lines of all ranks in one file.

Fix:
Export the variable where the workers start: unit file, docker -e, ray start and runtime_env, the second node. The
robust cure is /etc/nccl.conf (NAME=value, one per line, no spaces) on every node: NCCL reads it itself.

References:
vllm-project/vllm #6803 #15525; OpenRLHF #1138; ray-project/ray #2260; NCCL param.cc; nccl.conf in NVIDIA's user guide
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts, NcclProcess
from traceana.facts.nccl_variables import variable
from traceana.rules._collectives import one_gpu, per_hundred
from traceana.rules._nccl_env import NO_ENV_LINES, NO_NCCL_LINES, clean_value, env_rows
from traceana.rules._text import count, picked
from traceana.rules._wording import names, ranks
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity


@dataclass(frozen=True, slots=True)
class _Gap:
    """One variable that is not the same everywhere: the processes without it, and the values seen."""

    name: str
    missing: tuple[NcclProcess, ...]
    values: tuple[str, ...]
    nowhere: bool = False

    @property
    def weight(self) -> str | None:
        row = variable(self.name)
        return None if row is None else row.weight


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a process that shows other ENV rows lacks a variable; CannotTell when ENV rows are not shown."""
    processes = tuple(p for p in facts.nccl.processes if p.nranks is None or p.nranks > 1)
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    if not processes:
        return NO_NCCL_LINES
    shown = tuple(p for p in processes if p.env)
    if not shown:
        return NO_ENV_LINES
    gaps = _gaps(facts, shown)
    if gaps:
        return _finding(gaps, shown, len(processes) - len(shown))
    return _without_gaps(processes, shown)


def _gaps(facts: Facts, shown: tuple[NcclProcess, ...]) -> list[_Gap]:
    judged = tuple(p for p in shown if p.init_complete)
    gaps = []
    for name in sorted({row.name for p in shown for row in p.env}):
        values = tuple(sorted({clean_value(row.value) for p in shown for row in p.env if row.name == name}))
        missing = tuple(p for p in judged if _would_show(p, name) and name not in _variables(p))
        if missing or len(values) > 1:
            gaps.append(_Gap(name, missing, values))
    seen = {row.name for row in env_rows(facts)}
    for name in dict.fromkeys(row.name for row in facts.nccl.requested):
        nowhere = tuple(p for p in judged if _would_show(p, name))
        if name not in seen and nowhere:
            gaps.append(_Gap(name, nowhere, (), nowhere=True))
    return sorted(gaps, key=lambda gap: {"tens": 0, None: 1, "none": 2}[gap.weight])


def _variables(process: NcclProcess) -> set[str]:
    return {row.name for row in process.env}


def _would_show(process: NcclProcess, name: str) -> bool:
    """Whether the initialisation of this process reads the variable, so that its absence means something."""
    row = variable(name)
    skipped = name == "NCCL_P2P_LEVEL" and "NCCL_P2P_DISABLE" in _variables(process)
    return row is not None and row.at_init and not skipped


def _without_gaps(processes: tuple[NcclProcess, ...], shown: tuple[NcclProcess, ...]) -> Outcome:
    seen = sorted({name for p in shown for name in _variables(p)})
    open_ends = [p for p in shown if not p.init_complete and _variables(p) != set(seen)]
    expected = max((p.nranks for p in processes if p.nranks is not None), default=len(processes))
    if open_ends:
        return CannotTell(
            f"{_processes(len(open_ends))} did not reach Init COMPLETE in this log",
            NO_ENV_LINES.capture,
        )
    if len(shown) < max(expected, len(processes)):
        return CannotTell(
            f"ENV rows of {len(shown)} of {max(expected, len(processes))} ranks are in the log: not shown is not the "
            "same as not set",
            NO_ENV_LINES.capture,
        )
    return Clear(f"{count(len(seen), 'NCCL variable')} reached all {len(shown)} processes: {names(seen)}")


def _finding(gaps: list[_Gap], shown: tuple[NcclProcess, ...], silent: int) -> Finding:
    heavy = any(gap.weight == "tens" for gap in gaps)
    aside = f" Not counted, because no ENV row of theirs is in the log: {_processes(silent)}." if silent else ""
    with_it = [row.evidence for gap in gaps for p in shown for row in p.env if row.name == gap.name]
    return Finding(
        code=RULE.code,
        title=_title(gaps, shown),
        severity=Severity.WARNING if heavy else Severity.INFO,
        confidence=Confidence.HIGH,
        why=f"{' '.join(_size(gap) for gap in gaps[:4])}{aside}",
        fix=(
            "set it where every worker starts (unit file, docker -e, ray runtime_env, each node)",
            "or write it to /etc/nccl.conf on every node (NAME=value, no spaces): NCCL reads that itself",
        ),
        evidence=picked(with_it, (p.evidence for gap in gaps for p in gap.missing)),
        confirm="NCCL_DEBUG=INFO for one start: 'set by environment to' must appear once per rank for the variable",
        rivals=("a collector dropped lines of some ranks", "nccl.conf differs between nodes"),
    )


def _title(gaps: list[_Gap], shown: tuple[NcclProcess, ...]) -> str:
    first, more = gaps[0], f", and {count(len(gaps) - 1, 'more variable')}" if len(gaps) > 1 else ""
    if first.nowhere:
        return f"{first.name} was asked for and reached none of {_processes(len(first.missing))}{more}"
    if first.missing:
        rest = len(shown) - len(first.missing)
        return f"{first.name} is missing in {_who(first.missing)} and set in the other {rest}{more}"
    return f"{first.name} differs between processes: {names(first.values)}{more}"


def _processes(n: int) -> str:
    return f"{n} process" if n == 1 else f"{n} processes"


def _who(processes: tuple[NcclProcess, ...]) -> str:
    known = [p.rank for p in processes if p.rank is not None]
    if len(known) == len(processes):
        return ranks(known)
    return f"pid {names((str(p.pid) for p in processes), 4)}"


def _size(gap: _Gap) -> str:
    row = variable(gap.name)
    if gap.weight == "none":
        return f"{gap.name} does nothing to allreduces below about 0.5 MB: it explains no slow verify."
    if row is not None and row.small_allreduce_us is not None:
        cost = row.small_allreduce_us
        return (
            f"{gap.name} can cost up to {cost:.0f} us per small allreduce on 8 PCIe ranks, {per_hundred((cost,))} "
            "per 100 (modelled)."
        )
    if gap.weight == "tens":
        return f"{gap.name} can cost tens of us per small allreduce; it was not sized."
    return f"What {gap.name} costs was not sized."


RULE = Rule(
    "ENV001",
    "nccl-variable-missing-on-some-ranks",
    Severity.WARNING,
    check,
    asks="whether the NCCL variables reached all ranks",
)
