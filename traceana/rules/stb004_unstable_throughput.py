"""Throughput at constant load is unstable, and acceptance is not the reason.

What it sees:
    The spread of throughput within the load level with the most windows, after what acceptance and context length
    explain: scatter, a step from one mean to another, or a trend over an hour or more. Kernels compiled during the run
    (JIT) are named when the log shows them.

Why it matters:
    A figure that swings by a quarter cannot be compared with another run, and users feel the slow windows. A step means
    that something changed while the server ran.

How sure and why:
    Medium: the spread is measured, its cause is not in a log, except for JIT stalls, which vLLM names.

Rivals:
    Other work on the machine or GPU; clocks (power or heat); prefills the windows do not show; graph and eager forwards
    mixed (GRF001); one slow rank (COM findings); a client that pauses.

Confirm:
    Repeat on an otherwise idle machine while logging clocks: nvidia-smi dmon -s pc.

Fix:
    Remove the other load, lock the clocks, warm up every batch size before measuring.

References:
    vllm #52777; vLLM jit_monitor (0.24+); five repeated runs of one server spread by 11 %.
"""

from __future__ import annotations

from math import sqrt

from traceana.facts.model import Facts, Stability
from traceana.rules._levels import NO_WINDOWS, context_moves_cycle, drafting
from traceana.rules._text import count, hours, ms, num, pct, picked, tok
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

SPREAD = Threshold("spread", 0.15, "standard deviation / mean", "more is unstable", "healthy logs: 2-11 %", False)
STEP = Threshold("step", 0.2, "relative change", "between two means", "twice the run-to-run spread of 11 %", False)
TREND = Threshold("trend", 0.2, "relative change over the run", "a drift worth naming", "as a step", False)
TREND_SPAN = Threshold(
    "trend_span", 3600, "seconds", "a trend is looked for in runs as long as this", "vllm #41838", False
)
MIN_WINDOWS = Threshold(
    "min_windows", 10, "windows", "steady windows at the load", "standard deviation within 25 %", True
)
TREND_WINDOWS = Threshold("trend_windows", 60, "windows", "the same for a trend", "as ACC006", False)
BY_ACCEPTANCE = Threshold("by_acceptance", 0.5, "share of variance", "acceptance is the reason", "exact split", True)

_RIVALS = (
    "other work on the machine or GPU",
    "clocks: power or heat",
    "GRF001",
    "COM findings: one slow rank",
    "a client that pauses",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding for scatter, a step or a trend of throughput at constant load that acceptance does not explain."""
    stability = facts.stability
    if facts.windows.n == 0:
        return NO_WINDOWS
    if stability.n < MIN_WINDOWS.value or stability.cv is None:
        return CannotTell(
            f"{count(stability.n, 'steady window')} at one load: too few to judge how stable throughput is",
            "hold one load for a few minutes (SGLang: --decode-log-interval 10)",
        )
    quiet = f"throughput varies by {pct(stability.cv)} at {stability.running} running"
    kind = _kind(facts, stability)
    if kind is None:
        return Clear(quiet)
    reason = _explained(facts)
    return _finding(facts, kind) if reason is None else Clear(f"{quiet}; {reason}")


def _explained(facts: Facts) -> str | None:
    """What explains the spread without a fault in the server: acceptance, context length, or another rule's finding."""
    drivers = facts.drivers
    if drafting(facts) and drivers is not None and drivers.acceptance_share >= BY_ACCEPTANCE.value:
        return f"{pct(drivers.acceptance_share)} of the variance is acceptance"
    context = context_moves_cycle(facts)
    if context is not None:
        return f"the cycle follows context length, {ms(context[0])} to {ms(context[1])}"
    return "requests were retracted: see CAP002" if facts.capacity.retractions else None


def _kind(facts: Facts, stability: Stability) -> str | None:
    """`step`, `scatter` or `trend`; None when throughput is stable."""
    if stability.step_change is not None:
        before, after, _ = stability.step_change
        if before > 0 and abs(after / before - 1) >= STEP.value:
            return "step"
    if _spread(facts, stability.cv or 0.0) > SPREAD.value:
        return "scatter"
    span_s = facts.windows.span_s or 0.0
    if stability.trend_per_hour is None or span_s < TREND_SPAN.value or stability.n < TREND_WINDOWS.value:
        return None
    return "trend" if abs(stability.trend_per_hour) * span_s / 3600.0 >= TREND.value else None


def _spread(facts: Facts, cv: float) -> float:
    """The part of the spread that acceptance does not explain."""
    drivers = facts.drivers
    if drivers is None or not drafting(facts):
        return cv
    return cv * sqrt(min(1.0, max(0.0, 1.0 - drivers.acceptance_share)))


def _title(facts: Facts, kind: str) -> str:
    stability = facts.stability
    at = f"at {stability.running} running" if stability.running is not None else "at constant load"
    if kind == "step" and stability.step_change is not None:
        before, after, _ = stability.step_change
        return f"Throughput {at} stepped from {num(before)} to {tok(after)} during the run"
    if kind == "trend" and stability.trend_per_hour is not None:
        way = "rises" if stability.trend_per_hour > 0 else "falls"
        return f"Throughput {at} {way} by {pct(abs(stability.trend_per_hour))} per hour"
    return f"Throughput {at} varies by {pct(stability.cv or 0.0)} over {count(stability.n, 'steady window')}"


def _finding(facts: Facts, kind: str) -> Finding:
    stability, drivers, level = facts.stability, facts.drivers, facts.regime(facts.stability.running or -1)
    step = stability.step_change[2] if kind == "step" and stability.step_change is not None else None
    parts: list[str] = []
    if level is not None:
        low, high = num(level.gen_tps.low), tok(level.gen_tps.high)
        parts.append(f"10th to 90th percentile: {low} to {high}.")
    if drivers is not None and drafting(facts):
        parts.append(f"Acceptance explains {pct(max(0.0, drivers.acceptance_share))} of the variance.")
    if stability.jit_stalls:
        parts.append(f"{count(stability.jit_stalls, 'kernel')} compiled during inference, each a pause of its own.")
    if kind == "trend" and facts.windows.span_s is not None:
        parts.append(f"Seen over {hours(facts.windows.span_s)}; contexts that grow would do the same.")
    parts.append("" if stability.jit_stalls else "The cause is not in the log.")
    jit = bool(stability.jit_stalls) and kind == "scatter"
    return Finding(
        code=RULE.code,
        title=_title(facts, kind) + (f", with {count(stability.jit_stalls, 'JIT stall')}" if jit else ""),
        severity=Severity.INFO if kind == "trend" else Severity.WARNING,
        confidence=Confidence.LOW if kind == "trend" else Confidence.MEDIUM,
        why=" ".join(part for part in parts if part),
        fix=_fix(jit),
        evidence=picked((step,), stability.jit_evidence, level.evidence if level is not None else ()),
        confirm="repeat on an idle machine while logging clocks: nvidia-smi dmon -s pc",
        rivals=_RIVALS if kind != "trend" else ("contexts that grow", *_RIVALS),
    )


def _fix(jit: bool) -> tuple[str, ...]:
    warm = "warm up every batch size and prompt shape before measuring"
    other = "remove other load from the machine and lock the clocks"
    return (warm, other) if jit else (other, warm)


RULE = Rule(
    code="STB004",
    name="unstable-throughput",
    severity=Severity.WARNING,
    check=check,
    thresholds=(SPREAD, STEP, TREND, TREND_SPAN, MIN_WINDOWS, TREND_WINDOWS, BY_ACCEPTANCE),
    asks="whether throughput is stable",
)
