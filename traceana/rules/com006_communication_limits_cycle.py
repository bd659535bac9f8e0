"""Communication itself, with all ranks present, takes a large part of the cycle.

What it sees:
    In the traces of all ranks: time in collectives after the last rank arrived, and not under compute. Waiting for
    late ranks is not in it (COM007, COM008).

Why it matters:
    A decode forward has two allreduces per layer, each too small to use the links: their latency adds up, whatever
    the GPUs could compute meanwhile. Better kernels or a better drafter do not shorten it.

How sure and why:
    Medium: transfer is what the last rank to arrive sees, exact where all ranks were traced. What could be saved of
    it is not in a trace: some of it is the floor of these links. Low with fewer than 20 cycles or ranks missing.

Rivals:
    COM001, COM003, COM004, COM005 (why NCCL is slower than it could be), COM010 (a faster path exists), a floor
    that nothing undercuts.

Confirm:
    nccl-tests all_reduce_perf at the same ranks and message size: the difference is not the links.

Fix:
    Find out by which path it goes first (COM findings, NCCL_DEBUG=INFO). Fewer ranks per replica; a fused or custom
    allreduce where the box has one; NCCL tuned for small messages (P2P, LL).

References:
    nccl #2196; vllm #52777; pegainfer 4.75 against 7.73 ms; aiconfigurator data: allreduce of 57 KB on 8 PCIe GPUs
    31 us.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts
from traceana.rules._text import ms, num, pct
from traceana.rules._traces import (
    HIDDEN,
    ONE_RANK,
    all_ranks,
    allreduces,
    amount,
    confidence,
    explained,
    gate,
    hidden,
    per_cycle,
    protocol_hint,
    seen_in,
)
from traceana.rules.interface import Clear, Confidence, Finding, Outcome, Rule, Severity, Threshold

LARGE_SHARE = Threshold(
    "large_share",
    0.25,
    "share of the cycle",
    "transfer above this is a limit of its own",
    "a choice; 8x RTX PRO 6000 at its floor: 3.3 ms of a 17.8 ms step",
    False,
)
_TRANSFER = ("allreduce_transfer", "other_comm_exposed")
_ALL = (*_TRANSFER, "allreduce_unsplit", "allreduce_wait")


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when transfer and other exposed communication are a large part of the cycle."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    whole, transfer = amount(trace, _ALL), amount(trace, _TRANSFER)
    if hidden(trace) and whole.share < LARGE_SHARE.value:
        return HIDDEN
    if whole.share < LARGE_SHARE.value or (trace.ranks > 1 and transfer.share < LARGE_SHARE.value):
        return Clear(f"communication is {pct(whole.share)} of the cycle, {pct(transfer.share)} without waiting")
    if trace.ranks <= 1:
        return ONE_RANK
    every = all_ranks(trace)
    return Finding(
        code=RULE.code,
        title=f"Communication with all ranks present takes {ms(transfer.mean)} of each cycle ({pct(transfer.share)})"
        if every
        else f"Communication takes at most {ms(transfer.mean)} of each cycle ({pct(transfer.share)}), waiting for "
        "ranks that were not traced included",
        severity=Severity.WARNING,
        confidence=confidence(trace) if every else Confidence.LOW,
        why=f"Transfer and other communication not under compute: {transfer} per cycle. {_calls(trace)}"
        f"Waiting for {'late ranks' if every else 'the traced ranks'} is not in it.",
        fix=(
            "find out which path the allreduces take (NCCL_DEBUG=INFO: `via P2P` or `via SHM`; the engine's "
            "start-up lines)",
            "then: NCCL tuned for small messages, a custom or fused allreduce where the box has one, or fewer ranks",
        ),
        evidence=seen_in(trace),
        confirm="nccl-tests all_reduce_perf with the same ranks and message size: the rest is not the links",
        rivals=("COM001", "COM003", "COM004", "COM005", "COM010", "the floor of these links"),
        **explained(
            facts, trace, 0.0, transfer.high, trace.skew_provenance, "all of it; the floor of the links is part of it"
        ),
    )


def _calls(trace: TraceFacts) -> str:
    """How many allreduces a cycle has, how long one takes, and what their launch shape hints at."""
    kernels = allreduces(trace)
    n = per_cycle(trace, kernels)
    if not n:
        return ""
    each = 1000 * amount(trace, ("allreduce_transfer",)).mean / n
    sizes = sorted({c.bytes for c in kernels if c.bytes is not None})
    size = (
        ""
        if not sizes
        else f" of {sizes[0]:,} bytes"
        if len(sizes) == 1
        else f" of {sizes[0]:,} to {sizes[-1]:,} bytes"
    )
    hint = protocol_hint(kernels)
    return f"{num(n)} allreduces per cycle{size} take {num(each)} us each{f'; {hint}' if hint else ''}. "


RULE = Rule(
    code="COM006",
    name="communication-limits-cycle",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LARGE_SHARE,),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether allreduce transfer limits the cycle",
    needs="trace",
)
