"""The draft loop is launched kernel by kernel while the verify replays a CUDA graph.

What it sees:
    In the traces: drafts without a graph launch and with launch gaps, in cycles whose verify is a graph replay.

Why it matters:
    A drafter is one or two layers, run k times: its kernels are shorter than their launches. Outside of a graph the
    draft costs as much host time as GPU time, k times per cycle, and eats what its tokens save.

How sure and why:
    Medium: launches and idle time are counted, but that a graph would take them away is not; some drafters and
    attention backends cannot be captured. Low with fewer than 20 cycles.

Rivals:
    CYC005 (a host wait between the draft steps), sampling on the host between the steps, a profiler that slows
    launches down.

Confirm:
    The start-up lines say which runners captured graphs (SGLang: `Capture draft cuda graph`; vLLM: cudagraph_mode
    of the drafter). Is the draft's among them at this batch size?

Fix:
    SGLang: leave --disable-cuda-graph off and raise --cuda-graph-max-bs to the running requests; another
    --speculative-draft-attention-backend where the present one cannot be captured. vLLM: a release in which this
    drafter runs in graphs. Else fewer draft tokens.

References:
    vllm #7586 (time per stage); lucebox PR 482 (a captured draft loop covers 84 % of it).
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts
from traceana.rules._text import count, ms, pct
from traceana.rules._traces import amount, confidence, explained, gate, seen_in, target_phases
from traceana.rules.interface import Clear, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

MANY_LAUNCHES = Threshold(
    "many_launches", 10, "launches per draft", "a captured draft loop is one launch or one per step", "a choice", False
)
GAP_SHARE = Threshold(
    "gap_share", 0.05, "share of the cycle", "launch gaps below this are not worth a finding", "a choice", False
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the draft is eager, the verify is not, and the GPU waits for the draft's launches."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    drafts = [p for p in trace.on_gpu if p.phase == "draft"]
    if not drafts:
        return NotApplicable("no draft in the traced cycles")
    launches = max(p.launches or 0 for p in drafts)
    replays = max(p.graph_launches or 0 for p in drafts)
    if replays >= 1 or launches < MANY_LAUNCHES.value:
        return Clear(f"{launches:.0f} launches in a draft, {replays:.0f} of them graphs")
    if not any((p.graph_launches or 0) >= 1 for p in target_phases(trace)):
        return NotApplicable("nothing in the traced cycles replays a graph: see GRF002")
    gap = amount(trace, ("launch_gap",), ("draft",))
    if gap.share < GAP_SHARE.value:
        return Clear(f"launch gaps of the draft are {pct(gap.share)} of the cycle")
    return Finding(
        code=RULE.code,
        title=f"The draft loop runs outside of CUDA graphs ({count(round(launches), 'launch')}) while the verify "
        f"replays one: the GPU idles {ms(gap.mean)} of each cycle ({pct(gap.share)}) in the draft",
        severity=Severity.WARNING,
        confidence=confidence(trace),
        why=f"Launch gaps in the draft: {gap} per cycle.",
        fix=(
            "SGLang: --cuda-graph-max-bs at or above the running requests; another "
            "--speculative-draft-attention-backend where the present one cannot be captured"
            if facts.identity.engine.value != "vllm"
            else "a vLLM release in which this drafter runs in CUDA graphs",
            "else fewer draft tokens: each costs these launches again",
        ),
        evidence=seen_in(trace),
        confirm="the start-up lines: is a graph of the draft runner captured at this batch size?",
        rivals=("CYC005", "sampling on the host between draft steps", "a profiler that slows launches down"),
        **explained(facts, trace, gap.low, gap.high, what="launch gaps in the draft, by rank"),
    )


RULE = Rule(
    code="GRF003",
    name="draft-loop-outside-graph",
    severity=Severity.WARNING,
    check=check,
    thresholds=(MANY_LAUNCHES, GAP_SHARE),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether the draft loop runs in a CUDA graph",
    needs="trace",
)
