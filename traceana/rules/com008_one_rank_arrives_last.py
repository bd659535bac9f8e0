"""One rank arrives last at most collectives, and all others wait for it.

What it sees:
    In the traces of all ranks: collectives matched across them, one rank's the shortest (it came last) so often,
    and the others' waiting caused by it so much, that chance does not do it; and what that rank's device did before
    it came.

Why it matters:
    A tensor-parallel forward runs at the pace of its slowest rank. The other ranks show the time as allreduce.

How sure and why:
    High who it is, with all ranks traced and 20 or more cycles. Why is told apart as far as a trace goes: its GPU
    was still computing, its host had not launched, or the kernel was held back. Low with fewer cycles or missing
    ranks.

Rivals:
    Uneven work by design (an extra shard, the sampler on one rank), a profiler that slows one rank down, another
    process on its GPU or cores.

Confirm:
    Exchange two GPUs (CUDA_VISIBLE_DEVICES in another order): does the lateness stay with the rank or move with the
    GPU?

Fix:
    By what it was doing: GPU clocks, temperature, power cap, another process on the GPU; or host cores, NUMA node,
    another process on the core.

References:
    vllm #52777, #52911, #21852; InferenceX #2422; pegainfer #568.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import LateRank, TraceFacts
from traceana.rules._text import ms, pct
from traceana.rules._traces import all_ranks, amount, confidence, cycle_ms, explained, gate, seen_in, waiting
from traceana.rules._wording import kernel
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, Outcome, Rule, Severity, Threshold

WORTH = Threshold("worth", 0.08, "share of the cycle", "waiting below this is not worth a finding", "a choice", False)
CAUSED = Threshold(
    "caused", 0.5, "share of all waiting", "caused by one rank; 0.75 of two", "chance gives 1 / ranks", True
)
TWO_RANKS = 0.75
LAST = Threshold("last", 0.9, "share of collectives", "so often last is no chance", "chance gives 1 / ranks", True)

_DID = {
    "busy": "its GPU was still computing",
    "launch_gap": "its host had not launched the collective yet",
    "idle": "the collective was launched and held back (a dependency or a stream)",
    "start": "its trace begins there",
}
_FIX = {
    "busy": (
        "look at that GPU under load: clocks, power cap, temperature, ECC, another process (nvidia-smi -q -i N)",
        "or at its share of the work: uneven shards, experts, attention lengths",
    ),
    "launch_gap": (
        "look at that rank's host threads: other work on their cores, the wrong NUMA node, a slower clock",
        "CUDA graphs make a late host matter less",
    ),
}
_ANY_FIX = ("compare that rank's trace with another one around the late collectives",)


def culprit(trace: TraceFacts) -> LateRank | None:
    """The rank that causes most of the waiting, if one does."""
    total = sum(late.wait_caused_ms for late in trace.late)
    if not trace.late or not total:
        return None
    needed = TWO_RANKS if trace.ranks <= 2 else CAUSED.value
    first = trace.late[0]
    return first if first.wait_caused_ms / total >= needed else None


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when one rank causes most of a waiting that matters."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    wait = waiting(trace, WORTH.value)
    if isinstance(wait, CannotTell):
        return wait
    if trace.ranks <= 1 or wait.high < WORTH.value * cycle_ms(trace):
        return Clear(f"waiting in allreduces is {pct(wait.share)} of the cycle")
    late = culprit(trace)
    return _finding(facts, trace, late) if late is not None else Clear("no single rank causes most of the waiting")


def _finding(facts: Facts, trace: TraceFacts, late: LateRank) -> Finding:
    wait, gpus = amount(trace, ("allreduce_wait",)), len(trace.timelines)
    waits = wait.mean * gpus / max(gpus - 1, 1)  # of the others: the late one hardly waits
    caused = late.wait_caused_ms / sum(rank.wait_caused_ms for rank in trace.late)
    who = f"Rank {late.rank}" if late.rank is not None else f"Device {late.device}"
    others = f"the other {trace.ranks - 1} wait" if trace.ranks > 2 else "the other waits"
    best = Confidence.HIGH if late.share_last >= LAST.value else Confidence.MEDIUM
    missing = "" if all_ranks(trace) else "Not all ranks were traced: the last one may be another. "
    return Finding(
        code=RULE.code,
        title=f"{who} arrives last at {pct(late.share_last)} of {trace.instances:,} collectives: {others} "
        f"{ms(waits)} of "
        f"each cycle, {pct(caused)} of it for that rank",
        severity=Severity.WARNING,
        confidence=confidence(trace, best) if all_ranks(trace) else Confidence.LOW,
        why=f"{_before(late)}{missing}Waiting in allreduces is {wait} per cycle. To the others it looks like "
        "communication.",
        fix=_FIX.get(late.before or "", _ANY_FIX),
        evidence=seen_in(trace, late.rank),
        confirm="exchange two GPUs (CUDA_VISIBLE_DEVICES in another order): does the lateness move with the GPU?",
        rivals=("uneven work by design", "a profiler that slows one rank down"),
        **explained(facts, trace, caused * waits, waits, trace.skew_provenance, "waiting of the other ranks"),
    )


def _before(late: LateRank) -> str:
    if late.before not in _DID:
        return ""
    share = f" (at {pct(late.before_share)} of the waiting)" if late.before_share is not None else ""
    name = f", mostly {kernel(late.before_name)}" if late.before == "busy" and late.before_name else ""
    return f"Before it came, {_DID[late.before]}{name}{share}. "


RULE = Rule(
    code="COM008",
    name="one-rank-arrives-last",
    severity=Severity.WARNING,
    check=check,
    thresholds=(WORTH, CAUSED, LAST),
    engines=("sglang", "vllm", "trtllm"),
    asks="which rank the others wait for",
    needs="trace",
)
