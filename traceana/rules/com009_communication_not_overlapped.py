"""Communication besides allreduce stands alone on the GPU in a batch large enough to hide it.

What it sees:
    In the traces: all-to-all, gathers and scatters that no compute runs beside, a good part of the cycle, with
    several requests in the batch.

Why it matters:
    With two half batches one computes while the other communicates. Without, the GPU's arithmetic stands still for
    the whole of the exchange. (A tensor-parallel allreduce has nothing independent beside it and is not counted
    here.)

How sure and why:
    Low: the exposed time is measured; that it can be hidden depends on the batch, the model and the engine's
    support.

Rivals:
    The batch is too small to split, or the exchange waits for a late rank (COM007, COM008), which overlap does not
    cure.

Confirm:
    The same load with two-batch overlap on: does the exposed time fall, and the throughput rise?

Fix:
    SGLang: --enable-two-batch-overlap. vLLM: --enable-dbo. Both pay from a certain batch on only.

References:
    DeepEP #28; SGLang two-batch overlap; vLLM dual-batch overlap.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts
from traceana.rules._text import ms, num, pct
from traceana.rules._traces import HIDDEN, amount, explained, gate, hidden, seen_in
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

LARGE_SHARE = Threshold(
    "large_share", 0.15, "share of the cycle", "exposed exchanges below this are not worth a finding", "a choice", False
)
HARDLY = Threshold(
    "hardly", 0.1, "share of the exchanges", "under compute; a run with overlap hides more", "a choice", False
)
MIN_BATCH = Threshold(
    "min_batch", 8, "requests", "smaller batches have nothing to split", "a choice; engines gate it alike", False
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when exchanges are exposed and the batch is large enough to hide them."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    exposed = amount(trace, ("other_comm_exposed",))
    if hidden(trace) and exposed.share < LARGE_SHARE.value:
        return HIDDEN
    if exposed.share < LARGE_SHARE.value:
        return Clear(f"communication besides allreduce is {pct(exposed.share)} of the cycle")
    under = _overlapped_share(trace)
    if under >= HARDLY.value:
        return Clear(f"{pct(under)} of it runs under compute")
    if trace.batch is None or trace.batch.median < MIN_BATCH.value:
        return NotApplicable("the batch is too small to split, or not known")
    return Finding(
        code=RULE.code,
        title=f"Communication besides allreduce stands alone for {ms(exposed.mean)} of each cycle "
        f"({pct(exposed.share)}); "
        f"{pct(under)} of it runs under compute",
        severity=Severity.INFO,
        confidence=Confidence.LOW,
        why=f"Exposed: {exposed} per cycle, with {num(trace.batch.median)} requests in the batch: "
        "half of them could compute while the other half communicates.",
        fix=(
            "SGLang: --enable-two-batch-overlap; vLLM: --enable-dbo; measure at this load, both cost at small batches",
        ),
        evidence=seen_in(trace),
        confirm="the same load with two-batch overlap: does the exposed time fall, and the throughput rise?",
        rivals=("a batch too small to split", "COM007", "COM008"),
        **explained(facts, trace, 0.0, exposed.mean, what="exposed exchanges; overlap hides a part at most"),
    )


def _overlapped_share(trace: TraceFacts) -> float:
    """Share of all communication besides allreduce that runs under other work."""
    under = sum(p.beside.get("other_comm_overlapped", 0) for p in trace.on_gpu)
    alone = sum(p.bucket_ns.get("other_comm_exposed", 0) for p in trace.on_gpu)
    return under / (under + alone) if under + alone else 0.0


RULE = Rule(
    code="COM009",
    name="communication-not-overlapped",
    severity=Severity.INFO,
    check=check,
    thresholds=(LARGE_SHARE, HARDLY, MIN_BATCH),
    asks="whether communication could be overlapped",
    needs="trace",
)
