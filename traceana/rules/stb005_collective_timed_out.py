"""A collective did not come back: ranks waited in it until PyTorch ended them.

What it sees:
    PyTorch's "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=..., OpType=...)" of each rank, and which
    ranks of the group did not write one.

Why it matters:
    All ranks die together and each says the same of itself. The one to look at is the rank that differs: it stands at
    another collective, or it never came and so has nothing to report.

How sure and why:
    That it timed out is certain. Medium where ranks differ from the others. Low where one did not report: it may have
    been ended before its own time ran out. Low where all report the same: then the collective itself hangs, and the log
    does not say in which link.

Rivals:
    A rank that died earlier (STB003); lines of a rank that are in another file; a forward that takes longer than the
    timeout, for example a first compilation.

Confirm:
    py-spy dump --pid of all ranks before the timeout; TORCH_NCCL_TRACE_BUFFER_SIZE=2000 for the next start keeps what
    each rank launched last; NCCL_P2P_DISABLE=1 for one start when all ranks report the same.

Fix:
    Ranks that differ take different decisions (batch, padding, an expert's path): upgrade the engine, and report it
    with these lines. All the same: P2P or network; ACS and IOMMU off for P2P between GPUs.

References:
    sglang #30642, #3783; PyTorch ProcessGroupNCCL.cpp; rule catalogue R28.
"""

from __future__ import annotations

from collections import Counter

from traceana.facts.model import CollectiveTimeout, Facts
from traceana.rules._collectives import one_gpu
from traceana.rules._text import count, picked
from traceana.rules._wording import ranks
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity

_APART = (
    "upgrade the engine: ranks that launch different collectives have taken different decisions",
    "report it upstream with one line of each rank and the arguments",
)
_TOGETHER = (
    "NCCL_P2P_DISABLE=1 for one start: if it runs, P2P is the cause (ACS and IOMMU off, or a lower NCCL_P2P_LEVEL)",
    "over several nodes: NCCL_SOCKET_IFNAME and NCCL_IB_HCA name the network that all of them share",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a collective timed out; names the ranks that differ from the others or did not report."""
    if not facts.collective_timeouts:
        return NotApplicable("one GPU per replica") if one_gpu(facts) else Clear("no collective timed out")
    group = Counter(t.group for t in facts.collective_timeouts).most_common(1)[0][0]
    reports = tuple(t for t in facts.collective_timeouts if t.group == group)
    return _finding(facts, reports)


def _place(report: CollectiveTimeout) -> str:
    elements = f" of {report.elements:,} elements" if report.elements is not None else ""
    return f"{report.operation}{elements}, number {report.sequence:,}"


def _odd(reports: tuple[CollectiveTimeout, ...]) -> tuple[CollectiveTimeout, ...]:
    """The reports that differ from most in operation, size or number; () when all agree or none is in the majority."""
    places = Counter(_place(r) for r in reports).most_common()
    if len(places) < 2 or 2 * places[0][1] <= len(reports):
        return ()
    return tuple(r for r in reports if _place(r) != places[0][0])


def _missing(facts: Facts, reports: tuple[CollectiveTimeout, ...]) -> list[int]:
    """Ranks of the server without a report, where most have one: only then is it a group of all of them."""
    sizes = (facts.parallelism.tp.value, facts.parallelism.pp.value, facts.parallelism.dp.value)
    known = max((p.nranks or 0 for p in facts.nccl.processes), default=0)
    world = max(known, (sizes[0] or 0) * (sizes[1] or 1))
    told = {r.rank for r in reports}
    rest = [rank for rank in range(world) if rank not in told]
    return rest if len(told) > len(rest) and max(told) < world else []


def _finding(facts: Facts, reports: tuple[CollectiveTimeout, ...]) -> Finding:
    odd, missing = _odd(reports), _missing(facts, reports)
    apart = len({_place(r) for r in reports}) > 1
    who = count(len(reports), "rank")
    usual = next(r for r in reports if r not in odd)
    head = f"A collective timed out on {who} ({_place(usual)})"
    if odd:
        differ = "; ".join(f"{ranks([r.rank])} in {_place(r)}" for r in odd[:3])
        title = f"A collective timed out on {who}: most wait in {_place(usual)}, {differ}"
        why = "The ranks ran apart: they wait in different collectives, so none can end."
    elif apart:
        title, why = f"{head}, and they wait in different ones", "The ranks ran apart; no majority says which is right."
    elif missing:
        title = f"{head}; {ranks(missing)} did not report"
        why = "The others wait in the same collective. A rank that never came to it has nothing to report."
    else:
        title, why = f"{head}: all that report wait in the same one", "The collective itself hangs: P2P or network."
    return Finding(
        code=RULE.code,
        title=title,
        severity=Severity.CRITICAL,
        confidence=Confidence.MEDIUM if odd else Confidence.LOW,
        why=why,
        fix=_APART
        if apart
        else ("look at the missing rank first: its last lines, dmesg, nvidia-smi",) * bool(missing) or _TOGETHER,
        evidence=picked((r.evidence for r in odd), (usual.evidence,), (r.evidence for r in reports)),
        confirm="py-spy dump --pid of all ranks before the timeout, and TORCH_NCCL_TRACE_BUFFER_SIZE=2000 at the next "
        "start: what did each rank launch last?",
        rivals=(
            *(("it was ended before its own time ran out", "its lines are in another file") * (bool(missing) > apart)),
            *(("a rank that died earlier (STB003)",) if not odd else ()),
            "a forward longer than the timeout, such as a first compilation",
        ),
    )


RULE = Rule("STB005", "collective-timed-out", Severity.CRITICAL, check, asks="whether a collective timed out")
