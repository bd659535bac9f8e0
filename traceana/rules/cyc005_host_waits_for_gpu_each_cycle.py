"""In every cycle the host waits for the GPU, and then the GPU waits for the host.

What it sees:
    In the traces: calls like cudaStreamSynchronize, cudaEventSynchronize or a blocking copy, in (nearly) every
    cycle, that the host entered while the GPU was busy and left when it had run dry; and the GPU idle until the
    next launch.

Why it matters:
    While it waits the host cannot queue anything. When it wakes up, the GPU stands still for as long as the host
    needs to read the result, decide and launch.

How sure and why:
    Medium: calls, idle time and their order are measured. That the wait is avoidable is not: acceptance has to be
    read somewhere, but not before the next launch. Low with fewer than 20 cycles.

Rivals:
    A result that the next launch really needs, a host slow for another reason (GRF002), the profiler, which
    stretches the host's part.

Confirm:
    A capture with stacks names the line that calls it (for the place only: stacks slow the host).

Fix:
    An engine mode that launches ahead: SGLang's overlap scheduler (speculative decoding v2), vLLM's
    --async-scheduling; no .item(), .cpu() or .tolist() between draft and verify; pinned memory and non-blocking
    copies.

References:
    rtx6kpro Kimi (cpu_avg far above gpu_avg); sglang #11144, #29960.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.trace_model import HostWait, TraceFacts
from traceana.rules._text import ms, num, pct
from traceana.rules._traces import confidence, cycle_ms, explained, gate, seen_in
from traceana.rules._wording import clip
from traceana.rules.interface import Clear, Finding, Outcome, Rule, Severity, Threshold

MOST_CYCLES = Threshold("most_cycles", 0.8, "share of cycles", "with such a wait: it is the loop's", "a choice", False)
IDLE_SHARE = Threshold(
    "idle_share",
    0.05,
    "share of the cycle",
    "idle time after waits below this is not worth a finding",
    "a choice",
    False,
)

_FIX = {
    "sglang": "the overlap scheduler with speculative decoding (SGLANG_ENABLE_SPEC_V2=1 where the version has it)",
    "vllm": "--async-scheduling, where the version supports it with this drafter",
}


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when waits in most cycles leave the GPU idle for a good part of them."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    looped = looping(trace)
    if not trace.waits:
        return Clear("no call in the cycles waits for the GPU")
    idle = idle_by_rank(trace, looped)
    whole = cycle_ms(trace)
    if not looped or max(idle) < IDLE_SHARE.value * whole:
        return Clear("waits of the host in the cycles leave the GPU idle hardly, or not in each of them")
    return _finding(facts, trace, looped, idle, whole)


def looping(trace: TraceFacts) -> tuple[HostWait, ...]:
    """Waits that leave the GPU idle in most cycles of their timeline."""
    return tuple(w for w in trace.waits if w.cycles and w.cycles_waiting >= MOST_CYCLES.value * w.cycles)


def idle_by_rank(trace: TraceFacts, waits: tuple[HostWait, ...]) -> list[float]:
    """ms per cycle that each timeline is idle after these waits."""
    return [sum(w.idle_ms / w.cycles for w in waits if w.timeline == timeline) for timeline in trace.timelines] or [0.0]


def _finding(facts: Facts, trace: TraceFacts, looped: tuple[HostWait, ...], idle: list[float], whole: float) -> Finding:
    mean = sum(idle) / len(idle)
    calls = ", ".join(dict.fromkeys(clip(w.call, 40) for w in looped[:8]))
    each = max(w.calls / w.cycles for w in looped)
    engine = facts.identity.engine.value or ""
    return Finding(
        code=RULE.code,
        title=f"In every cycle the host waits for the GPU ({calls}), and the GPU then idles {ms(mean)} "
        f"({pct(mean / whole)})",
        severity=Severity.WARNING,
        confidence=confidence(trace),
        why=f"{num(each)} such calls per cycle in {pct(looped[0].cycles_waiting / looped[0].cycles)} of the "
        "cycles. The host "
        f"entered them with the GPU busy and left them with it idle; the idle time until the next operation is "
        f"{ms(mean)} "
        f"per cycle.",
        fix=(
            *([_FIX[engine]] if engine in _FIX else _FIX.values()),
            "no .item(), .cpu() or .tolist() between draft and verify; pinned memory and non-blocking copies",
        ),
        evidence=seen_in(trace),
        confirm="a short capture with stacks names the line that waits (for the place only: stacks slow the host)",
        rivals=("a result that the next launch needs", "GRF002", "the profiler, which stretches the host's part"),
        **explained(facts, trace, min(idle), max(idle), what="GPU idle after host waits, by rank"),
    )


RULE = Rule(
    code="CYC005",
    name="host-waits-for-gpu-each-cycle",
    severity=Severity.WARNING,
    check=check,
    thresholds=(MOST_CYCLES, IDLE_SHARE),
    engines=("sglang", "vllm", "trtllm"),
    asks="whether the host waits for the GPU in each cycle",
    needs="trace",
)
