"""The drafter's state is lost with cached or handed-over prefixes: acceptance is far better without them.

What it sees:
    One of four. SGLang's own warning that HiCache does not support the draft's pool and skips it. A line that says the
    prefix cache was flushed (SGLang) or reset (vLLM), with ten windows before it that accept at most 60 % of the drafts
    of the ten windows behind it. One request at a time, the same between prompts that came from the prefix cache by
    half or more and prompts that did by a tenth or less. A run with HiCache, on a decode server, or with KV handed
    over, that accepts at most 60 % of the drafts of a baseline without.

Why it matters:
    A cached prefix brings back the KV of the target, and not in every path that of the drafter: loaded back from
    HiCache, or handed over from prefill to decode, it starts without. The better the cache works, the less is accepted,
    and no error says so.

How sure and why:
    High that the draft's KV is not stored where SGLang says so; what it costs shows only against a cold cache. Else low
    after one flush, between prompts, or against one baseline: other requests may have followed. Medium when the same
    happened at two flushes or more.

Rivals:
    Other requests behind the flush (benchmarks flush before they start), or behind the longer prefix. ACC008: cached
    prefixes are long ones.

Confirm:
    The same prompts twice on a fresh server: the second time they are served from the cache. Does the accept length
    fall, and return after another flush?

Fix:
    A version that keeps or hands over the drafter's KV and hidden states (see the releases below); until then without
    HiCache, or without prefix caching.

References:
    sglang #32176, #31600, #28771, #7927, #7242, #10846, #21125, #30393; vllm-ascend #13523; rule catalogue R08.
"""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts.model import Evidence, Facts, Setting
from traceana.rules._drafts import chain_length
from traceana.rules._levels import drafting, gate
from traceana.rules._text import count, length, picked
from traceana.rules._wording import clip
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

LOST = Threshold(
    "lost",
    0.6,
    "accepted drafts with / without cached prefixes",
    "at most, for a finding",
    "sglang #32176, #28771",
    False,
)
TWICE = Threshold("twice", 2, "flushes", "with the same effect, for confidence medium", "a choice", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the accept length rose behind flushes, or is higher without cached or handed-over prefixes."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    return _told(facts) or _flushed(facts) or _by_prompt(facts) or _against(facts, baseline) or _answer(facts)


def _told(facts: Facts) -> Finding | None:
    lines = facts.stability.draft_not_kept
    if not lines:
        return None
    return _finding(
        "HiCache stores the target's KV and not the draft's: SGLang skips the draft's pool",
        Confidence.HIGH,
        "Behind every prefix that is loaded back, the drafter reads KV of other requests.",
        lines,
        "little is loaded back, and then little is lost",
    )


def _lost(before: float, after: float) -> bool:
    """Whether so few drafts are accepted before, measured by those after, that something must be missing."""
    return before - 1 <= LOST.value * (after - 1)


def _flushed(facts: Facts) -> Finding | None:
    flushes = facts.stability.flushes
    lost = [f for f in flushes if _lost(f.before, f.after)]
    if not lost or 2 * len(lost) <= len(flushes):
        return None
    first, often = lost[0], len(lost) >= TWICE.value
    return _finding(
        f"Accept length rose from {length(first.before)} to {length(first.after)} when the prefix cache was "
        f"flushed ({len(lost)} of {count(len(flushes), 'flush')})",
        Confidence.MEDIUM if often else Confidence.LOW,
        "Before the flush requests could be served from the cache, behind it none was.",
        [f.evidence for f in lost],
        "other requests followed the flush",
    )


def _by_prompt(facts: Facts) -> Finding | None:
    seen = facts.stability.cached
    if seen is None or not _lost(seen.cached, seen.cold):
        return None
    cold, cached = seen.windows
    return _finding(
        f"Accept length is {length(seen.cached)} behind prompts from the prefix cache and {length(seen.cold)} behind "
        f"others, one request at a time",
        Confidence.LOW,
        f"{count(cached, 'window')} follow a prompt that came from the cache by half or more, {cold} one that hardly "
        "did.",
        seen.evidence,
        "the requests with cached prompts are other texts",
    )


def _against(facts: Facts, baseline: Facts | None) -> Finding | None:
    """A baseline with as many drafts and without the cache or the hand-over that this run has."""
    if baseline is None or not drafting(baseline) or chain_length(facts) != chain_length(baseline):
        return None
    mine, other = facts.acceptance.accept_length.value, baseline.acceptance.accept_length.value
    on = [row for row in _paths(facts) if row.name not in {r.name for r in _paths(baseline)}]
    if not on or not baseline.settings.rows or mine is None or other is None or not _lost(mine, other):
        return None
    return _finding(
        f"Accept length is {length(mine)} with {on[0].name}={clip(on[0].value, 30)} and {length(other)} in the "
        "baseline without",
        Confidence.LOW,
        "The runs differ in where prefixes come from.",
        [*(row.evidence for row in on), *facts.acceptance.evidence, *baseline.acceptance.evidence],
        "other requests, or another difference between the two runs (`traceana compare`)",
    )


def _answer(facts: Facts) -> Outcome:
    """What is left to say without a finding."""
    flushes, seen, on = facts.stability.flushes, facts.stability.cached, _paths(facts)
    if flushes:
        return Clear(f"accept length {length(flushes[0].before)} before a flush and {length(flushes[0].after)} behind")
    if seen is not None:
        return Clear(f"accept length {length(seen.cached)} behind cached prompts and {length(seen.cold)} behind others")
    if on:
        return CannotTell(
            f"{on[0].name} is on, and no flush of the prefix cache is in the log",
            "send the same prompts twice, POST /flush_cache (SGLang) or /reset_prefix_cache (vLLM), and once more",
        )
    return NotApplicable("no flush of the prefix cache with windows on both sides")


def _paths(facts: Facts) -> list[Setting]:
    """Settings that bring prefixes from elsewhere than this server's own cache in GPU memory."""
    rows = [facts.settings.get(name) for name in _ELSEWHERE]
    return [row for row in rows if row is not None and row.value.strip("'\"") not in _OFF]


#: HiCache, prefill and decode servers apart, vLLM's connectors
_ELSEWHERE = ("enable_hierarchical_cache", "disaggregation_mode", "kv_transfer_config", "kv_offloading_size")
#: values that mean off; a prefill server does not decode
_OFF = ("None", "null", "False", "0", "0.0", "", "prefill")


def _finding(title: str, confidence: Confidence, why: str, evidence: Sequence[Evidence | None], rival: str) -> Finding:
    return Finding(
        code=RULE.code,
        title=title,
        severity=Severity.WARNING,
        confidence=confidence,
        why=f"{why} A drafter whose own state is not cached, not loaded back or not handed over guesses blindly at "
        "first.",
        fix=(
            "update the engine: several paths that lost the drafter's state are fixed upstream",
            "until then serve without HiCache, or without prefix caching, if acceptance then stays",
        ),
        evidence=picked(evidence),
        confirm="the same prompts twice on a fresh server: does the accept length fall the second time?",
        rivals=(rival, "ACC008"),
    )


RULE = Rule(
    code="ACC010",
    name="draft-state-lost-with-cached-prefixes",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LOST, TWICE),
    asks="whether cached prefixes cost acceptance",
)
