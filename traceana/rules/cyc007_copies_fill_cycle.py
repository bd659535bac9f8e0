"""Memory copies and fills, with nothing else running, take a large part of the cycle.

What it sees:
    In the traces: copies between host and GPU, within the GPU or between GPUs, and fills, that no kernel runs
    beside, a good part of the cycle; and which direction takes most.

Why it matters:
    A decode cycle has a few kilobytes to move: tokens in, tokens out. Copies that show are KV cache or weights on
    the move, or hundreds of small ones.

How sure and why:
    Medium: directions, bytes and times are measured. Why they are moved is not in a trace. Low with fewer than 20
    cycles.

Rivals:
    KV offloading or disaggregation that is meant to be there, weight offloading (--cpu-offload-gb), a prefill
    inside the window.

Confirm:
    The same load without offloading (SGLang: no HiCache; vLLM: no KV connector, --cpu-offload-gb 0): are the copies
    gone?

Fix:
    By direction: HtoD or DtoH of megabytes is offloading, keep the working set on the GPU; many small ones belong
    into one pinned buffer; DtoD of megabytes is a layout that is copied in every step.

References:
    lucebox PR 482 (pageable copies in each step); sglang HiCache threads #32176, #31600.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts, cycles_by_timeline
from traceana.rules._text import ms, num, pct
from traceana.rules._traces import HIDDEN, amount, confidence, explained, gate, hidden, seen_in
from traceana.rules.interface import Clear, Finding, Outcome, Rule, Severity, Threshold

LARGE_SHARE = Threshold(
    "large_share", 0.15, "share of the cycle", "copies below this are usual", "a choice; seen: below 2 %", False
)
_WORDS = {
    "HtoD": "host to GPU",
    "DtoH": "GPU to host",
    "DtoD": "within the GPU",
    "PtoP": "GPU to GPU",
    "memset": "fills",
}


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when exposed copies are a good part of the cycle."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    found = amount(trace, ("copies",))
    if hidden(trace) and found.share < LARGE_SHARE.value:
        return HIDDEN
    if found.share < LARGE_SHARE.value:
        return Clear(f"copies are {pct(found.share)} of the cycle")
    return Finding(
        code=RULE.code,
        title=f"Copies with nothing else running take {ms(found.mean)} of each cycle ({pct(found.share)}), most of it "
        f"{_largest(trace)}",
        severity=Severity.WARNING,
        confidence=confidence(trace),
        why=f"Exposed copies: {found} per cycle. {_directions(trace)}",
        fix=(
            "megabytes to or from the host: keep what each cycle needs on the GPU (offloading, KV transfer)",
            "many small ones: gather them in one pinned buffer; megabytes within the GPU: a layout copied in each step",
        ),
        evidence=seen_in(trace),
        confirm="the same load without offloading or KV transfer: are the copies gone?",
        rivals=("offloading that is meant to be there", "a prefill inside the window"),
        **explained(facts, trace, found.low, found.high, what="exposed copies, by rank"),
    )


def _by_kind(trace: TraceFacts) -> list[tuple[str, float, float, float]]:
    """Direction, ms, copies and bytes per cycle of one timeline (mean over the timelines), most time first."""
    cycles = max(sum(cycles_by_timeline(trace.phases).values()), 1)
    sums: dict[str, list[float]] = {}
    for row in trace.copies:
        mine = sums.setdefault(row.kind, [0.0, 0.0, 0.0])
        for at, value in enumerate((row.total_ms, row.copies, row.bytes or 0)):
            mine[at] += value / cycles
    return sorted(((kind, *values) for kind, values in sums.items()), key=lambda row: -row[1])  # type: ignore[misc]


def _largest(trace: TraceFacts) -> str:
    rows = _by_kind(trace)
    return _WORDS.get(rows[0][0], rows[0][0]) if rows else "of no known direction"


def _directions(trace: TraceFacts) -> str:
    parts = []
    for kind, time, copies, size in _by_kind(trace)[:3]:
        rate = f", {num(size / time / 1e6)} GB/s" if time and size else ""
        parts.append(f"{_WORDS.get(kind, kind)}: {num(copies)} per cycle, {num(size / 1e6)} MB in {ms(time)}{rate}")
    return "; ".join(parts) + ("." if parts else "")


RULE = Rule(
    code="CYC007",
    name="copies-fill-cycle",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LARGE_SHARE,),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether copies fill the cycle",
    needs="trace",
)
