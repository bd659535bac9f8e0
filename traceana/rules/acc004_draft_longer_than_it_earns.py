"""The last draft positions are hardly ever accepted: the draft is longer than it earns.

What it sees:
    The unconditional acceptance rate of every position is exactly the number of tokens that position adds per cycle.
    Position i is worth its place while its rate, relative to the tokens emitted without it, exceeds what it lengthens
    the cycle by. The tail is what lies behind the first position that does not.

Why it matters:
    Each position costs a draft step and one more token per request in the verify forward. A long draft also makes the
    average accept rate look bad while nothing is wrong: 27 % over seven positions can be a sound drafter.

How sure and why:
    Medium. The gain per position is counted; the cost of one is not in a log and stands in with a published range.

Rivals:
    A block drafter (DFlash, DSpark) proposes all positions in one pass: shortening then saves verify width only.
    Positions may still pay at one running request, where a wider verify is nearly free.

Confirm:
    The same load with the shorter draft, or a sweep over k: best k is where accept length / cycle is largest.

Fix:
    Lower num_speculative_tokens (vLLM) or --speculative-num-steps with --speculative-num-draft-tokens (SGLang).

References:
    vllm-ascend #13640; vllm #20780, #16937, #24343; strix #53.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._drafts import chain_length, sparse_drafts
from traceana.rules._levels import gate
from traceana.rules._text import length, pct, picked, span
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

COST_PER_POSITION = Threshold(
    "cost_per_position",
    0.08,
    "share of the cycle",
    "what one more draft position lengthens the cycle by",
    "vllm #20780, two drafters, k = 2 to 7 at one request: 4.5-11.9 %, mean 7.6 %",
    False,
)
LONG_DRAFT = Threshold("long_draft", 4, "drafts", "shorter drafts are left alone", "k of 1 to 3 is common", False)
TAIL = Threshold("tail", 2, "positions", "positions behind the cut needed to say so", "one position is noise", False)
DRAFTED = Threshold("drafted", 300, "draft tokens", "drafted at least so many", "rates within 0.1 at k = 7", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when per-position rates show a tail that adds less than a position costs."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    if sparse_drafts(facts):
        return NotApplicable("n-gram and suffix drafting cost no draft step per position")
    rates = facts.acceptance.per_position.value
    k = len(rates) if rates else chain_length(facts)
    if k is not None and k < LONG_DRAFT.value:
        return Clear(f"{k} draft positions are few")
    if not rates:
        return CannotTell(
            "acceptance per draft position is not in the log",
            "SGLang: spec_correct_drafts_histogram (older: spec_accept_histogram) in a reply's meta_info, or a sweep "
            "over --speculative-num-steps; vLLM prints it in the `SpecDecoding metrics` lines",
        )
    return _by_rates(facts, rates)


def _by_rates(facts: Facts, rates: tuple[float, ...]) -> Outcome:
    drafted = facts.acceptance.drafted
    if drafted is None or drafted < DRAFTED.value:
        return CannotTell(
            f"only {drafted or 0} drafted tokens stand behind the per-position rates",
            "let it decode for a minute under load",
        )
    keep = worth(rates)
    if keep == 0:
        return Clear("not even the first position earns its place: length is not the matter (ACC002, ACC003)")
    if len(rates) - keep < TAIL.value:
        return Clear(f"{keep} of {len(rates)} draft positions earn their place")
    return _finding(facts, rates, keep)


def worth(rates: tuple[float, ...]) -> int:
    """Positions in front of the first whose rate, relative to the tokens before it, is below the cost of one."""
    emitted = 1.0
    for position, rate in enumerate(rates):
        if rate / emitted < COST_PER_POSITION.value:
            return position
        emitted += rate
    return len(rates)


def _finding(facts: Facts, rates: tuple[float, ...], keep: int) -> Finding:
    k, extra, kept = len(rates), sum(rates), sum(rates[:keep])
    tail = f"{extra - kept:.2f} of {extra:.2f} extra tokens per cycle"
    listed = " ".join(f"{rate:.2f}" for rate in rates)
    acceptance = facts.acceptance
    return Finding(
        code=RULE.code,
        title=f"Draft positions {span(keep + 1, k)} add {tail}: {keep} drafts keep {kept:.2f} "
        f"at {keep}/{k} of the draft width",
        severity=Severity.WARNING if 2 * (k - keep) >= k else Severity.INFO,
        confidence=Confidence.MEDIUM,
        why=f"Accepted per position: {listed} ({acceptance.drafted:,} drafted tokens). Accept length falls from "
        f"{length(1 + extra)} to {length(1 + kept)} with {keep} drafts. The average accept rate, {pct(extra / k)} over "
        f"{k} positions, would be {pct(kept / keep)} over {keep}: the drafter is not at fault.",
        fix=(_fix(facts, keep),),
        evidence=picked(acceptance.per_position.evidence, acceptance.evidence),
        confirm=f"the same load with {keep} draft tokens: tokens per cycle / cycle time should rise",
        rivals=(
            "a block drafter (DFlash, DSpark) drafts all positions in one pass: only verify width is saved",
            "at one running request a wider verify may be nearly free",
        ),
    )


def _fix(facts: Facts, keep: int) -> str:
    if facts.identity.engine.value == "sglang":
        return f"--speculative-num-steps {keep} --speculative-num-draft-tokens {keep + 1}"
    return f"num_speculative_tokens {keep}"


RULE = Rule(
    code="ACC004",
    name="draft-longer-than-it-earns",
    severity=Severity.WARNING,
    check=check,
    thresholds=(COST_PER_POSITION, LONG_DRAFT, TAIL, DRAFTED),
    asks="whether the draft is longer than it earns",
)
