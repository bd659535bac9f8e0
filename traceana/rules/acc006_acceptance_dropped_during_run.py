"""Acceptance fell during the run.

What it sees:
    The accept length falls by 5 % per hour or more over an hour and 60 windows at one load, and by more than the
    scatter of the windows would give; or it is lower after a line that says the expert load balancer (EPLB) moved the
    target's experts. Windows in which prompts were prefilled count as well, except with SGLang to 0.5.3, whose accept
    length counts prefills: there only those in which they are too few to show.

Why it matters:
    Output stays right while acceptance decays, so nothing alarms: the server gets slower from hour to hour and a
    restart hides the cause.

How sure and why:
    Low: other prompts lower acceptance just the same. Medium for a trend that lost a fifth or more.

Rivals:
    The workload changed (other prompts, longer contexts); draft state lost when the prefix cache or HiCache serves a
    request, or on a prefill/decode hand-over; experts moved by EPLB while the MTP layer kept the old map.

Confirm:
    Send the same few prompts at start and hours later; flush the cache (/flush_cache) and look whether acceptance
    returns; or one run with EPLB off.

Fix:
    Update the engine (vLLM 0.19.1 and later with PR #42359); disable prefix caching or HiCache; disable EPLB.

References:
    vllm #41838; sglang #28771, #32176, #31600; vllm-ascend #10495, #12521, #13523.
"""

from __future__ import annotations

from traceana.facts.model import Evidence, Facts, Trend
from traceana.rules._levels import gate
from traceana.rules._text import count, hours, length, pct, picked
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

DRIFT = Threshold(
    "drift", -0.05, "relative change per hour", "accept length falls at least so fast", "vllm #41838", False
)
MIN_SPAN = Threshold("min_span", 3600, "seconds", "a drift is looked for in runs as long as this", "vllm #41838", False)
MIN_WINDOWS = Threshold("min_windows", 60, "windows", "windows at one load", "one a minute over an hour", False)
SCATTER = Threshold(
    "scatter", 4, "standard errors", "the fall is at least so many", "t of a line; windows are not independent", False
)
LARGE_LOSS = Threshold(
    "large_loss", 0.20, "relative change", "lost over the run, for confidence medium", "sglang #28771", False
)
EPLB_DROP = Threshold("eplb_drop", 0.20, "relative change", "lost after an EPLB line", "vllm-ascend #12521", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding for a falling accept length over hours, or a drop behind an EPLB weight update."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    stability, span_s = facts.stability, facts.windows.span_s or 0.0
    if stability.eplb_then_drop is not None:
        evidence, before, after = stability.eplb_then_drop
        if before > 1 and after / before <= 1 - EPLB_DROP.value:
            return _after_eplb(evidence, before, after)
    if span_s < MIN_SPAN.value:
        return NotApplicable(f"a drift takes hours, and the log spans {hours(span_s)}")
    trend = stability.accept_trend
    if trend is None or trend.n < MIN_WINDOWS.value:
        return CannotTell(
            f"too few windows at one load whose accept length counts drafts alone: {trend.n if trend else 0}",
            "the log of an hour or more under steady load (SGLang to 0.5.3 counts prefills as well: there with long "
            "answers or a large --decode-log-interval)",
        )
    if trend.per_hour > DRIFT.value or -trend.per_hour < SCATTER.value * trend.error:
        return Clear(f"accept length changes by {pct(trend.per_hour)} per hour")
    return _drift(facts, trend, span_s)


def _after_eplb(evidence: Evidence, before: float, after: float) -> Finding:
    return Finding(
        code=RULE.code,
        title=f"Accept length fell from {length(before)} to {length(after)} after an EPLB expert weight update",
        severity=Severity.WARNING,
        confidence=Confidence.LOW,
        why="The order in time is all there is: EPLB moved the target's experts, then acceptance fell. The MTP layer "
        "may have kept the old expert map.",
        fix=("run without EPLB until the engine updates the MTP layer's map with the target's",),
        evidence=picked((evidence,)),
        confirm="the same prompts with EPLB off",
        rivals=("the workload changed at that time", "draft state lost on a prefill/decode hand-over"),
    )


def _drift(facts: Facts, trend: Trend, span_s: float) -> Finding:
    lost = -trend.per_hour * span_s / 3600.0
    windows = count(trend.n, "window")
    return Finding(
        code=RULE.code,
        title=f"Accept length fell by {pct(-trend.per_hour)} per hour over {hours(span_s)} ({windows})",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if lost >= LARGE_LOSS.value else Confidence.LOW,
        why=f"A straight line through the accept lengths of {windows} loses {pct(lost)} in all.",
        fix=(
            "update the engine (vLLM 0.19.1 and later: PR #42359)",
            "or serve without prefix caching (SGLang: HiCache) and see whether acceptance stays",
        ),
        evidence=picked(facts.acceptance.evidence, facts.acceptance.accept_length.evidence),
        confirm="the same few prompts now and after /flush_cache or a restart: acceptance returns if state was lost",
        rivals=(
            "the workload changed: other prompts or longer contexts",
            "draft state lost through the prefix cache, HiCache or a prefill/decode hand-over",
        ),
    )


RULE = Rule(
    code="ACC006",
    name="acceptance-dropped-during-run",
    severity=Severity.WARNING,
    check=check,
    thresholds=(DRIFT, MIN_SPAN, MIN_WINDOWS, SCATTER, LARGE_LOSS, EPLB_DROP),
    asks="whether acceptance drops during the run",
)
