"""Few steps have a draft: accepted drafts make up so little of the output that speculation can hardly help.

What it sees:
    n-gram and suffix drafting propose only where the text repeats. Tokens per cycle are 1 + coverage x (accept length
    - 1), and 1 - 1 / tokens_per_cycle is the share of the output that came from drafts.

Why it matters:
    The accept length and accept rate are printed over steps that had a draft and look good regardless. Speculation can
    save at most the share of the output that drafts supply; matching on the CPU and a wider batch cost something in
    every step. Large batches are compute bound, so there the cost is larger still.

How sure and why:
    High for the arithmetic over 1,000 drafted tokens, medium below. Whether the overhead exceeds the little gain needs
    a baseline; with one that shows a gain the rule stays silent.

Rivals:
    Prompts that do not repeat (random benchmark text) where production traffic would; a lookup window that matches too
    seldom.

Confirm:
    The same load without speculation, as --baseline.

Fix:
    Switch it off at this load; shorten the lookup (prompt_lookup_min 2, prompt_lookup_max 4); or use a draft head,
    which drafts in every step.

References:
    vllm #19254, #16258, #16883, #8439, #6494.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._drafts import sparse_drafts
from traceana.rules._levels import gate, loads, loss, pairs, pays, plain
from traceana.rules._text import count, length, listing, pct, picked, requests
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
from traceana.speculation.acceptance import tokens_per_cycle

FEW = Threshold(
    "accepted_share",
    0.20,
    "share of generated tokens",
    "accepted drafts make up less than this",
    "vllm #19254: 6-16 % loses; vLLM n-gram on an idle CPU server: 43 % pays",
    True,
)
LARGE_BATCH = Threshold("large_batch", 64, "running requests", "a batch likely compute bound", "EAGLE #298", False)
DRAFTED = Threshold("drafted", 1000, "draft tokens", "enough for confidence high", "rates within 3 %", True)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when accepted drafts are less than a fifth of the generated tokens and drafts are not made every step."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    acceptance = facts.acceptance
    coverage = acceptance.coverage.value
    if not sparse_drafts(facts) and (coverage is None or coverage >= 0.5):
        return NotApplicable("this kind of drafter drafts in every step")
    emitted = _emitted(facts)
    if emitted is None:
        return CannotTell(
            "the share of steps that had a draft is not known",
            "keep the `Engine 000: Avg ... throughput` lines beside the `SpecDecoding metrics` lines in the log",
        )
    share = 1.0 - 1.0 / emitted
    if share >= FEW.value:
        return Clear(f"{pct(share)} of the output comes from drafts, {length(emitted)} tokens per cycle")
    if baseline is not None and plain(baseline):
        winning = [pair for pair in pairs(facts, baseline) if pays(pair)]
        if winning:
            return Clear(f"few steps have a draft, yet it pays at {listing(loads(winning))} running")
    return _finding(facts, baseline, emitted, share)


def _emitted(facts: Facts) -> float | None:
    acceptance = facts.acceptance
    if acceptance.tokens_per_cycle.value is not None:
        return max(1.0, acceptance.tokens_per_cycle.value)
    accept_length, coverage = acceptance.accept_length.value, acceptance.coverage.value
    if accept_length is None or coverage is None or not (accept_length >= 1 and 0 <= coverage <= 1):
        return None
    return tokens_per_cycle(accept_length, coverage)


def _busiest(facts: Facts) -> int | None:
    return max((regime.running for regime in facts.regimes), default=None)


def _finding(facts: Facts, baseline: Facts | None, emitted: float, share: float) -> Finding:
    acceptance = facts.acceptance
    busiest, coverage = _busiest(facts), acceptance.coverage.value
    large = busiest is not None and busiest >= LARGE_BATCH.value
    at = f" at up to {requests(busiest)}" if busiest is not None else ""
    why = [f"Speculation can save at most {pct(share)} of the steps: {length(emitted)} tokens per cycle."]
    if coverage is not None:
        why.append(f"{pct(coverage)} of the steps had a draft.")
    if acceptance.accept_length.value is not None:
        why.append(f"Accept length {length(acceptance.accept_length.value)} counts only those, so it looks better.")
    if large:
        why.append("At this batch a forward is likely compute bound, and matching runs per request on the CPU.")
    certain = acceptance.drafted is not None and acceptance.drafted >= DRAFTED.value
    return Finding(
        code=RULE.code,
        title=f"Only {pct(share)} of the generated tokens come from accepted drafts{at}",
        severity=Severity.WARNING if large else Severity.INFO,
        confidence=Confidence.HIGH if certain else Confidence.MEDIUM,
        why=" ".join(why),
        fix=(
            "switch speculation off at this load",
            "or a shorter lookup (prompt_lookup_min 2, prompt_lookup_max 4), or a draft head, which drafts every step",
        ),
        evidence=picked(acceptance.coverage.evidence, acceptance.evidence, acceptance.tokens_per_cycle.evidence),
        confirm="the same load without speculation, passed as --baseline"
        + (f" ({count(acceptance.n_samples, 'stats line')} seen here)" if acceptance.n_samples else ""),
        rivals=("prompts that do not repeat, where production traffic would", "GRF001"),
        explains_ms_per_token=loss(facts, baseline),
    )


RULE = Rule(
    code="ACC005",
    name="few-steps-have-a-draft",
    severity=Severity.WARNING,
    check=check,
    thresholds=(FEW, LARGE_BATCH, DRAFTED),
    asks="whether enough steps have a draft",
)
