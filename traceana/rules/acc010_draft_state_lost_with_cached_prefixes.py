"""Acceptance returned when the prefix cache was flushed: the drafter's state is lost with cached prefixes.

What it sees:
    A line that says the prefix cache was flushed (SGLang) or reset (vLLM), with ten windows before it that accept at
    most 60 % of the drafts of the ten windows behind it.

Why it matters:
    A cached prefix brings back the KV of the target, and not in every path that of the drafter: loaded back from
    HiCache, or handed over from prefill to decode, it starts without. The better the cache works, the less is accepted,
    and no error says so.

How sure and why:
    Low after one flush: other requests may have followed it. Medium when the same happened at two flushes or more.

Rivals:
    Other requests behind the flush (benchmarks flush before they start). ACC008: cached prefixes are long ones.

Confirm:
    The same prompts twice on a fresh server: the second time they are served from the cache. Does the accept length
    fall, and return after another flush?

Fix:
    A version that keeps or hands over the drafter's KV and hidden states (the issues below are about SGLang with
    HiCache and disaggregation); until then without HiCache, or without prefix caching.

References:
    sglang #32176, #31600, #28771, #7927, #7242; vllm-ascend #13523; rule catalogue R08.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._levels import gate
from traceana.rules._text import count, length, picked
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

LOST = Threshold(
    "lost", 0.6, "accepted drafts before / behind the flush", "at most, for a finding", "sglang #32176, #28771", False
)
TWICE = Threshold("twice", 2, "flushes", "with the same effect, for confidence medium", "a choice", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the accept length rose behind flushes of the prefix cache."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    flushes = facts.stability.flushes
    if not flushes:
        return NotApplicable("no flush of the prefix cache with windows on both sides")
    lost = [f for f in flushes if f.before - 1 <= LOST.value * (f.after - 1)]
    if not lost or 2 * len(lost) <= len(flushes):
        return Clear(f"accept length {length(flushes[0].before)} before a flush and {length(flushes[0].after)} behind")
    first, often = lost[0], len(lost) >= TWICE.value
    return Finding(
        code=RULE.code,
        title=f"Accept length rose from {length(first.before)} to {length(first.after)} when the prefix cache was "
        f"flushed ({len(lost)} of {count(len(flushes), 'flush')})",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if often else Confidence.LOW,
        why="Before the flush requests could be served from the cache, behind it none was. A drafter whose own state "
        "is not cached, or not loaded back, guesses blindly at first.",
        fix=(
            "update the engine: several paths that lost the drafter's state are fixed upstream",
            "until then serve without HiCache, or without prefix caching, if acceptance then stays",
        ),
        evidence=picked(f.evidence for f in lost),
        confirm="the same prompts twice on a fresh server: does the accept length fall the second time?",
        rivals=("other requests followed the flush", "ACC008"),
    )


RULE = Rule(
    code="ACC010",
    name="draft-state-lost-with-cached-prefixes",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LOST, TWICE),
    asks="whether cached prefixes cost acceptance",
)
