"""The verify is launched kernel by kernel, and the GPU waits for the launches.

What it sees:
    In the traces: a verify (or plain forward) with many launches outside of CUDA graphs, and the GPU idle in it
    because the host had not launched the next kernel yet. Many is more than a replayed verify has around its graph;
    beside a graph launch twice as many, because a graph may leave out attention.

Why it matters:
    A verify of a few tokens is many small kernels. Launched one by one they cost the host several microseconds
    each, more than many of them run; a replayed graph is one launch. With tensor parallelism one slow host delays
    all ranks.

How sure and why:
    High with 20 or more cycles and no graph launch in the verify: launches and idle time are counted, and the host
    is known to be what the GPU waited for. Medium when the profiler recorded stacks or memory, which stretches host
    times; low with fewer cycles.

Rivals:
    CYC005 (the host waits for the GPU first and can only launch then), a profiler that slows launches down, a host
    that is busy with something else.

Confirm:
    The same load with CUDA graphs for this batch size, without profiler: does the cycle shrink by about this much?

Fix:
    Have the batch captured: SGLang --cuda-graph-max-bs at or above the running requests and no
    --disable-cuda-graph; vLLM without --enforce-eager, cudagraph_mode FULL or FULL_AND_PIECEWISE and an attention
    backend that supports it.

References:
    sgl-project/sglang #29960 (28 and 47 launches beside the graph per cycle); kekzl/imp PR 856 (1800 launches of an
    eager verify, 8 ms).
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts, TracePhase
from traceana.rules._text import count, ms, pct
from traceana.rules._traces import TARGET, Amount, amount, confidence, explained, gate, seen_in, target_phases
from traceana.rules.interface import Clear, Confidence, Finding, Outcome, Rule, Severity, Threshold

MANY_LAUNCHES = Threshold(
    "many_launches",
    100,
    "launches per verify",
    "beside graph launches; a replayed verify has a few tens around it",
    "sglang #29960: 47 and 28 with a graph; kekzl/imp PR 856: 1800 without",
    True,
)
EAGER_LAUNCHES = Threshold(
    "eager_launches", 48, "launches per verify", "without a single graph launch", "sglang #29960: at most 47", True
)
GAP_SHARE = Threshold(
    "gap_share", 0.1, "share of the cycle", "launch gaps below this are not worth a finding", "a choice", False
)

_FIX = {
    "sglang": (
        "have the batch captured: --cuda-graph-max-bs at or above the running requests, without --disable-cuda-graph",
        "an attention backend that supports graphs for target verify",
    ),
    "vllm": (
        "without --enforce-eager, with cudagraph_mode FULL or FULL_AND_PIECEWISE in --compilation-config",
        "an attention backend with uniform-batch graph support (the log names the mode it fell back to)",
    ),
}
_ANY_FIX = ("have the verify of this batch size captured in a CUDA graph",)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when launch gaps inside an eager target forward take a good part of the cycle."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    rows = target_phases(trace)
    launched, replays = _launches(rows)
    if launched < (EAGER_LAUNCHES if replays < 1 else MANY_LAUNCHES).value:
        return Clear(f"{launched:.0f} launches and {replays:.0f} graph launches in a target forward")
    gap = amount(trace, ("launch_gap",), TARGET)
    if gap.share < GAP_SHARE.value:
        return Clear(f"{launched:.0f} launches in a target forward, and launch gaps are {pct(gap.share)} of the cycle")
    return _finding(facts, rows[0].phase, launched, replays, gap)


def _launches(rows: tuple[TracePhase, ...]) -> tuple[float, float]:
    """Launches beside graphs, and graph launches, of the timeline with most launches."""
    most = max(rows, key=lambda p: (p.launches or 0) - (p.graph_launches or 0), default=None)
    return (0.0, 0.0) if most is None else ((most.launches or 0) - (most.graph_launches or 0), most.graph_launches or 0)


def _finding(facts: Facts, phase: str, launched: float, replays: float, gap: Amount) -> Finding:
    trace = facts.trace
    assert trace is not None
    eager = replays < 1
    beside = "no graph launch" if eager else count(round(replays), "graph launch")
    per_launch = 1000 * gap.mean / launched
    return Finding(
        code=RULE.code,
        title=f"The {phase} is launched kernel by kernel ({count(round(launched), 'launch')}, {beside}): the GPU "
        "idles "
        f"{ms(gap.mean)} of each cycle ({pct(gap.share)}) for want of launches",
        severity=Severity.WARNING,
        confidence=confidence(trace, Confidence.HIGH if eager else Confidence.MEDIUM),
        why=f"Launch gaps in the {phase}: {gap} per cycle, {per_launch:.0f} us of idle GPU per "
        "launch. "
        "A gap counts only until the call that launched the next kernel returned.",
        fix=_FIX.get(facts.identity.engine.value or "", _ANY_FIX),
        evidence=seen_in(trace),
        confirm="the same load with CUDA graphs for this batch size and without profiler: does the cycle shrink by "
        "this?",
        rivals=("CYC005", "a profiler that slows launches down", "a host that is busy with something else"),
        **explained(facts, trace, gap.low, gap.high, what=f"launch gaps in the {phase}, by rank"),
    )


RULE = Rule(
    code="GRF002",
    name="verify-launched-kernel-by-kernel",
    severity=Severity.WARNING,
    check=check,
    thresholds=(MANY_LAUNCHES, EAGER_LAUNCHES, GAP_SHARE),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether the verify is launch-bound",
    needs="trace",
)
