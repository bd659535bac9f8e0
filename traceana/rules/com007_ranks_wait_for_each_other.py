"""Ranks wait for each other in allreduces, and no single rank is to blame.

What it sees:
    In the traces of all ranks: time in allreduces before the last rank arrived, where the last one is now this
    rank, now that.

Why it matters:
    The time looks like communication and is not: faster links or another protocol change nothing. What differs
    between the ranks does: their hosts, their share of the work, their clocks.

How sure and why:
    Medium: wait is duration minus that of the rank that arrived last, exact where all ranks were traced. Why
    arrivals scatter is not in it. Low with fewer than 20 cycles or with ranks missing.

Rivals:
    GRF002 (each host launches at its own pace), uneven experts or attention lengths per rank, the profiler itself,
    which slows hosts unevenly.

Confirm:
    The same capture with CUDA graphs in node mode: where no launch gap precedes the late arrivals, the GPUs differ,
    not the hosts.

Fix:
    Take away what scatters: CUDA graphs in place of single launches, pinned host threads, nothing else on these
    cores; for mixture-of-experts models an expert placement that balances.

References:
    vllm RFC #52777 and PR #57037 (classes of transfer and skew).
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts
from traceana.rules._text import ms, pct
from traceana.rules._traces import all_ranks, confidence, explained, gate, seen_in, waiting
from traceana.rules.com008_one_rank_arrives_last import WORTH, culprit
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, Outcome, Rule, Severity


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when waiting is a good part of the cycle and the late rank changes."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    wait = waiting(trace, WORTH.value)
    if isinstance(wait, CannotTell):
        return wait
    if wait.share < WORTH.value or trace.ranks <= 1:
        return Clear(f"waiting in allreduces is {pct(wait.share)} of the cycle")
    if culprit(trace) is not None:
        return Clear("one rank is to blame: see COM008")
    named = [f"rank {late.rank} last at {pct(late.share_last)}" for late in trace.late[:3] if late.rank is not None]
    return Finding(
        code=RULE.code,
        title=f"Ranks wait for each other {ms(wait.mean)} of each cycle ({pct(wait.share)}), now for one, now for "
        "another",
        severity=Severity.WARNING,
        confidence=confidence(trace) if all_ranks(trace) else Confidence.LOW,
        why=f"Waiting in allreduces: {wait} per cycle. Over {trace.instances:,} matched collectives: "
        f"{', '.join(named) or 'no rank is known by number'}.",
        fix=(
            "CUDA graphs in place of single launches; pin the worker threads, and keep other work off their cores",
            "mixture of experts: balance the experts over the ranks",
        ),
        evidence=seen_in(trace),
        confirm="is there a launch gap before the late arrivals (hosts differ), or compute (the GPUs' work differs)?",
        rivals=("GRF002", "uneven experts or lengths per rank", "the profiler, which slows hosts unevenly"),
        **explained(facts, trace, wait.low, wait.high, trace.skew_provenance, "waiting in allreduces, by rank"),
    )


RULE = Rule(
    code="COM007",
    name="ranks-wait-for-each-other",
    severity=Severity.WARNING,
    check=check,
    thresholds=(WORTH,),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether ranks wait for each other",
    needs="trace",
)
