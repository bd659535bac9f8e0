"""Between two cycles the GPU waits for the host: scheduling is not overlapped with GPU work.

What it sees:
    In the traces: launch gaps outside of draft, verify and re-extend, which is where the scheduler runs, a good
    part of the cycle; less what follows a wait of the host (CYC005).

Why it matters:
    Sampling results, stop strings, detokenising, batching: while the host does them in turn with the GPU, each
    cycle pays them. A scheduler that prepares the next batch meanwhile hides them.

How sure and why:
    Medium: the gaps are measured and are the host's. What the host did in them, and that it could be hidden, is not
    in the device part of a trace. Low with fewer than 20 cycles.

Rivals:
    CYC005, requests that came and went (prefill work between cycles), a profiler that stretches the host's part.

Confirm:
    The same load without profiler at one request and at many: does the cycle grow with the number of requests while
    the verify does not?

Fix:
    SGLang: leave --disable-overlap-schedule out (speculative decoding v2 overlaps since 0.5.4); vLLM:
    --async-scheduling. Fewer stop strings, no per-token Python callbacks; the tokenizer in its own process.

References:
    sglang #15307, #29960; vllm #49730.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import TraceFacts
from traceana.rules._text import ms, pct
from traceana.rules._traces import amount, confidence, cycle_ms, explained, gate, seen_in
from traceana.rules.cyc005_host_waits_for_gpu_each_cycle import idle_by_rank, looping
from traceana.rules.interface import Clear, Finding, Outcome, Rule, Severity, Threshold

GAP_SHARE = Threshold(
    "gap_share", 0.1, "share of the cycle", "launch gaps between phases below this are usual", "a choice", False
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when launch gaps outside of the phases, not after a host wait, are a good part of the cycle."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    gap, whole = amount(trace, ("launch_gap",), ("other",)), cycle_ms(trace)
    idle = idle_by_rank(trace, looping(trace))
    waited = min(gap.mean, sum(idle) / len(idle))
    rest = gap.mean - waited
    if rest < GAP_SHARE.value * whole:
        after = f", {ms(waited)} of them after host waits (CYC005)" if waited else ""
        return Clear(f"launch gaps between the phases are {ms(gap.mean)} ({pct(gap.share)}) of the cycle{after}")
    return Finding(
        code=RULE.code,
        title=f"The GPU idles {ms(rest)} of each cycle ({pct(rest / whole)}) between the phases, while the host "
        "prepares the "
        "next one",
        severity=Severity.WARNING,
        confidence=confidence(trace),
        why=f"Launch gaps outside of draft, verify and re-extend: {gap} per cycle"
        f"{f'; {ms(waited)} of them follow a host wait (CYC005) and are not counted' if waited else ''}.",
        fix=(
            "SGLang: leave out --disable-overlap-schedule (speculative decoding v2); vLLM: --async-scheduling",
            "fewer stop strings and callbacks per token; keep other work off the scheduler's core",
        ),
        evidence=seen_in(trace),
        confirm="the same load with 1 and with many requests: does the cycle grow with them while the verify does not?",
        rivals=("CYC005", "prefill work between cycles", "a profiler that stretches the host's part"),
        **explained(facts, trace, max(0.0, gap.low - waited), max(rest, gap.high - waited), what="such gaps, by rank"),
    )


RULE = Rule(
    code="CYC006",
    name="host-work-between-cycles",
    severity=Severity.WARNING,
    check=check,
    thresholds=(GAP_SHARE,),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether the host's work between cycles is hidden",
    needs="trace",
)
