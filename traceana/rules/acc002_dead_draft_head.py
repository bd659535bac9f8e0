"""The draft head is dead: next to nothing it proposes is accepted.

What it sees:
    Either the first draft position is accepted in less than 10 % of the cycles and the later ones never, over more than
    1,000 drafted tokens; or the accept length lies between 1.00 and 1.04 over many stats lines with drafting on.

Why it matters:
    A live head has its first draft accepted in more than half of the cycles. A dead one costs the whole draft time and
    a verify of k + 1 tokens per request, and earns nothing. Switching it off saves up to half of the cycle.

How sure and why:
    High that the head is dead: no working drafter comes near these numbers. Why it is dead is not in a log.

Rivals:
    Draft weights missing from the checkpoint or not loaded; an MTP layer quantised with the target; a draft made for
    another model or version; ACC001 (EAGLE flag with an EAGLE-3 draft); NaN logits (ACC007).

Confirm:
    Load the draft in bf16 beside the unquantised target and send the same prompts. The start-up log should show a
    second `Load weight` for the draft.

Fix:
    Switch speculation off until the head works; use the checkpoint made for this target, the MTP layer in bf16, and
    the same precision as it was trained beside.

References:
    paroquant #42, #47; vllm-mlx #471; GSQ #11; vllm #55605, #41789.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._collectives import one_gpu
from traceana.rules._drafts import eagle3_under_eagle, head_gate, nearly_all_rejected
from traceana.rules._levels import loss
from traceana.rules._text import count, length, pct, picked
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

FIRST_POSITION = Threshold(
    "first_position", 0.10, "share of drafts", "first position accepted less often", "paroquant #42, vllm #55605", True
)
LATER_POSITIONS = Threshold(
    "later_positions",
    0.01,
    "share of drafts",
    "later positions accepted at most so often",
    "paroquant #42, vllm #55605",
    True,
)
DRAFTED = Threshold("drafted", 1000, "draft tokens", "drafted at least so many", "paroquant #42, vllm #55605", True)
DEAD_LENGTH = Threshold("dead_length", 1.04, "tokens", "accept length at most", "paroquant #42, vllm #55605", True)
MANY_LINES = Threshold("many_lines", 20, "lines", "stats lines for confidence high", "sglang PR #21272", True)
SOME_LINES = Threshold("some_lines", 5, "lines", "stats lines for confidence medium", "40 cycles a line", False)
FEW_LINES = Threshold("few_lines", 3, "lines", "stats lines below which nothing is said", "40 cycles a line", False)

_WRONG_DATA = "a collective that returns wrong data: the text is garbage then as well (ACC009)"
_WHY_DEAD = (
    "draft weights missing from the checkpoint or not loaded",
    "an MTP layer quantised together with the target",
    "a draft head made for another model or precision",
    "prefill on another server that does not hand over the drafter's state",
    "ACC001",
    "NaN logits",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when per-position rates or the accept length say that drafts are never accepted."""
    stopped = _elsewhere(facts)
    if stopped is not None:
        return stopped
    acceptance = facts.acceptance
    positions, accept_length = acceptance.per_position.value, acceptance.accept_length.value
    if positions and _dead_positions(positions) and (acceptance.drafted or 0) > DRAFTED.value:
        return _finding(facts, baseline, Confidence.HIGH)
    if accept_length is None:
        return CannotTell(
            "no accept length is in the log",
            "SGLang: --decode-log-interval 10; vLLM: keep the `SpecDecoding metrics` lines (stats logging on)",
        )
    return _by_length(facts, baseline, accept_length)


def looks_dead(facts: Facts) -> bool:
    """True when the accept length or the positions are those of a dead head, over however few lines."""
    acceptance = facts.acceptance
    accept_length, positions = acceptance.accept_length.value, acceptance.per_position.value
    if positions and _dead_positions(positions):
        return True
    return accept_length is not None and accept_length <= DEAD_LENGTH.value


def _elsewhere(facts: Facts) -> Outcome | None:
    """What ends the search before it begins: no head, drafting off on purpose, or ACC001."""
    stopped = head_gate(facts, "n-gram and suffix drafting have no draft head")
    if stopped is not None:
        return stopped
    if eagle3_under_eagle(facts) and nearly_all_rejected(facts):
        return Clear("explained by ACC001: algorithm EAGLE with an EAGLE-3 draft")
    return None


def _by_length(facts: Facts, baseline: Facts | None, accept_length: float) -> Outcome:
    acceptance = facts.acceptance
    dead = acceptance.per_position.value is not None and _dead_positions(acceptance.per_position.value)
    if accept_length > DEAD_LENGTH.value and not dead:
        return Clear(f"accept length {length(accept_length)} over {count(acceptance.n_samples, 'line')}")
    if accept_length <= DEAD_LENGTH.value and (acceptance.drafted or 0) > DRAFTED.value:
        return _finding(facts, baseline, Confidence.HIGH)  # vLLM's lines count the drafts: few lines are enough
    if accept_length > DEAD_LENGTH.value or acceptance.n_samples < FEW_LINES.value:
        return _too_few(facts)
    lines = acceptance.n_samples
    if lines < SOME_LINES.value and acceptance.drafted is not None:
        return _too_few(facts)  # counted, and too few to tell
    sure = Confidence.MEDIUM if lines >= SOME_LINES.value else Confidence.LOW
    return _finding(facts, baseline, Confidence.HIGH if lines >= MANY_LINES.value else sure)


def _dead_positions(positions: tuple[float, ...]) -> bool:
    return positions[0] < FIRST_POSITION.value and all(p <= LATER_POSITIONS.value for p in positions[1:])


def _too_few(facts: Facts) -> CannotTell:
    drafted = f", {facts.acceptance.drafted:,} drafted tokens," if facts.acceptance.drafted else ""
    return CannotTell(
        f"drafts look rejected throughout, but only {count(facts.acceptance.n_samples, 'stats line')}{drafted} show it",
        f"let it decode until {MANY_LINES.value:.0f} stats lines are in the log (SGLang: --decode-log-interval 10)",
    )


def _finding(facts: Facts, baseline: Facts | None, confidence: Confidence) -> Finding:
    acceptance = facts.acceptance
    positions, accept_length = acceptance.per_position.value, acceptance.accept_length.value
    over = f"{acceptance.drafted:,} drafted tokens" if acceptance.drafted else count(acceptance.n_samples, "stats line")
    rate = f"the first position is accepted {pct(positions[0])} of the time" if positions else ""
    emitted = f"accept length is {length(accept_length)}" if accept_length is not None else ""
    return Finding(
        code=RULE.code,
        title=f"The draft head is dead: {emitted or rate} over {over}",
        severity=Severity.CRITICAL,
        confidence=confidence,
        why=(f"Of the drafts, {rate} and the later ones never. " if rate else "")
        + "Each cycle pays for drafting and a wide verify and emits the bonus token alone. "
        "Why the head is dead cannot be read from a log.",
        fix=(
            "switch speculation off until the head works",
            "use the draft made for this target, its MTP layer unquantised",
        ),
        evidence=picked(acceptance.evidence, acceptance.per_position.evidence, acceptance.accept_length.evidence),
        confirm="the same prompts with the draft in bf16 beside the unquantised target",
        rivals=_WHY_DEAD if one_gpu(facts) else (*_WHY_DEAD, _WRONG_DATA),
        explains_ms_per_token=loss(facts, baseline),
    )


RULE = Rule(
    code="ACC002",
    name="dead-draft-head",
    severity=Severity.CRITICAL,
    check=check,
    thresholds=(FIRST_POSITION, LATER_POSITIONS, DRAFTED, DEAD_LENGTH, MANY_LINES, SOME_LINES, FEW_LINES),
    asks="whether the draft head is dead",
)
