"""Throughput fell when requests were retracted, and did not come back.

What it sees:
    A `KV cache pool is full. Retract requests.` line (older: `Decode out of memory happened`) and the throughput of the
    windows before and after it on the same stream. It came back when three windows in a row hold four fifths of it,
    also between one retraction and the next.

Why it matters:
    A retraction costs a second prefill and should be over in seconds. In known cases the server stayed 14 times slower
    until it was restarted.

How sure and why:
    High for the event and the loss when both sides are in the log and as many requests run after it as before; medium
    when fewer run. When the log ends at the event nothing is said of the loss: CAP001 names the full pool.

Rivals:
    The load ended or shrank at the same time; CAP001 (the pool is still full); CAP003 (few are readmitted).

Confirm:
    Restart the server and send the same load: is the throughput of before the event back?

Fix:
    Restart; lower --max-running-requests or the context length and raise --mem-fraction-static so that the pool does
    not fill; a newer engine.

References:
    sglang #26248, #14972, #19881.
"""

from __future__ import annotations

from statistics import median

from traceana.facts.model import Facts, Retraction
from traceana.rules._levels import NO_WINDOWS
from traceana.rules._text import count, num, picked, times, tok
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

RECOVERED = Threshold("recovered", 0.8, "throughput after / before", "it came back", "windows vary by 10-15 %", False)
LOST = Threshold("lost", 0.5, "throughput after / before", "most of the speed is gone", "meaning of critical", True)
SAME_LOAD = Threshold("same_load", 0.7, "running after / before", "the load is still there", "one of a few left", False)
MIN_AFTER = Threshold(
    "min_after", 3, "windows", "after the event", "as many as throughput must hold to have come back", False
)
PREEMPTING = Threshold(
    "preempting", 0.85, "share of the KV pool", "vLLM may preempt unseen", "seen to preempt at 0.89", False
)

_FIX = (
    "restart the server; a newer engine",
    "lower --max-running-requests or --context-length, raise --mem-fraction-static: keep the pool from filling",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when throughput after the last retraction never comes back to what it was before the first."""
    events = facts.capacity.retractions
    if not events:
        return _none(facts)
    before = next((e.before_tps for e in events if e.before_tps), None)
    # where the log ends at the last ones, those before them tell whether it comes back
    last = next((e for e in reversed(events) if e.n_after >= MIN_AFTER.value), None)
    if before is None or last is None or last.after_tps is None:
        return _unknown(facts, events, before)
    best = max(last.after_tps, last.best_after_tps or 0.0)
    if best / before >= RECOVERED.value:
        return Clear(f"throughput came back after {count(len(events), 'retraction')}: {num(before)} -> {tok(best)}")
    return _finding(facts, events, before, last.after_tps)


def _none(facts: Facts) -> Outcome:
    if facts.identity.engine.value == "vllm" and facts.capacity.preemptions is None:
        usage = facts.capacity.usage_max.value
        if usage is not None and usage >= PREEMPTING.value:
            return CannotTell(
                "vLLM V1 prints no line when it preempts a request",
                "scrape /metrics and pass it: vllm:num_preemptions_total",
            )
    if facts.windows.n == 0:
        return NO_WINDOWS
    if facts.capacity.preemptions:
        return CannotTell(
            f"{facts.capacity.preemptions:,} preemptions were counted since the server's start, without their times",
            "scrape /metrics every few seconds while the load runs: throughput beside vllm:num_preemptions_total",
        )
    return Clear("no request was retracted")


def _unknown(facts: Facts, events: tuple[Retraction, ...], before: float | None) -> Outcome:
    missing = "before" if before is None else "after"
    if facts.capacity.windows_full:  # CAP001 names the retractions
        return CannotTell(
            f"too few windows {missing} {count(len(events), 'retraction')} to tell whether throughput came back",
            "a log that begins before the retractions and goes on for a minute after them",
        )
    times_seen = count(len(events), "retraction")
    return Finding(
        code=RULE.code,
        title=f"{times_seen} of requests because the KV pool was full; the log shows no throughput {missing} it",
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
        why="Retracted requests are prefilled again. Whether throughput came back cannot be read from this log.",
        fix=_FIX[1:],
        evidence=picked(event.evidence for event in events),
        confirm="the stats lines before and after the event",
        rivals=("CAP001",),
    )


def _running(facts: Facts, event: Retraction, last: Retraction) -> tuple[float, float] | None:
    """Median running requests before the first event and after the last, from the sampled windows of that file."""
    first_line, last_line = event.evidence.line, last.evidence.line
    if first_line is None or last_line is None:
        return None
    rows = [
        (w.evidence.line, w.running)
        for w in facts.windows.sample
        if w.evidence.path == event.evidence.path and w.evidence.line is not None and w.running is not None
    ]
    old = [running for line, running in rows if line < first_line]
    new = [running for line, running in rows if line > last_line]
    return (median(old), median(new)) if old and new else None


def _finding(facts: Facts, events: tuple[Retraction, ...], before: float, after: float) -> Finding:
    running = _running(facts, events[0], events[-1])
    fewer = running is not None and running[1] < SAME_LOAD.value * running[0]
    loads = f" Running requests: {num(running[0])} before, {num(running[1])} after." if running is not None else ""
    times_seen = "a retraction" if len(events) == 1 else f"{len(events)} retractions"
    return Finding(
        code=RULE.code,
        title=f"Throughput fell from {num(before)} to {tok(after)} ({times(after / before)}) at {times_seen} and did "
        "not come back",
        severity=Severity.CRITICAL if after / before < LOST.value else Severity.WARNING,
        confidence=Confidence.MEDIUM if fewer else Confidence.HIGH,
        why=f"The KV pool was full, requests were thrown out, and the windows after it stay slow.{loads}",
        fix=_FIX,
        evidence=picked((event.evidence for event in events), facts.capacity.full_evidence),
        confirm="restart and send the same load: is the former throughput back?",
        rivals=("the load shrank at the same time", "CAP001", "CAP003") if fewer else ("CAP001", "CAP003"),
    )


RULE = Rule(
    code="CAP002",
    name="throughput-lost-after-retraction",
    severity=Severity.CRITICAL,
    check=check,
    thresholds=(RECOVERED, LOST, SAME_LOAD, MIN_AFTER, PREEMPTING),
    asks="whether retractions cost throughput",
)
