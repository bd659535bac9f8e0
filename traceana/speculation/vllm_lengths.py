"""vLLM's printed acceptance lengths, normalised.

"Mean acceptance length" leaves the bonus token out before 0.9.0 and counts it since, under the same words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traceana.speculation.common import (
    EDGE,
    HALF_OF_THREE_DECIMALS,
    HALF_OF_TWO_DECIMALS,
    Normalised,
    accept_length_of,
    not_negative,
    positive,
    version_order,
)

#: first release whose "Mean acceptance length" counts the bonus token
_BONUS_SINCE = ((0, 9), -1)
_WITH = "printed length counts the bonus token"
_WITHOUT = "printed length leaves the bonus token out"


def vllm_accept_length(
    printed_mal: float | None,
    per_position: Sequence[float] | None,
    accepted: int | None,
    drafted: int | None,
    k: int | None,
    version: str | None,
) -> Normalised:
    """Accept length (tokens per request and drafted cycle, bonus included) of one V1 "SpecDecoding metrics" line.

    The line itself tells what it printed: sum(per-position) is without, 1 + sum(per-position) with the bonus token.
    Where it lists no rates the version decides, and without a version the counts, which need a fixed k. Pass None for
    what is absent. The value is None when nothing decides or the numbers contradict each other.
    Source: docs/arithmetic.md. Only steps that had a draft count: see `tokens_per_cycle` for n-gram and suffix.
    """
    if drafted == 0 or (printed_mal is not None and math.isnan(printed_mal)):
        return Normalised(None, "no drafts in this interval")
    earned = _from_positions(per_position) or _from_counts(accepted, drafted, k)
    if printed_mal is None:
        if earned is None:
            return Normalised(None, "no acceptance length, per-position rates or counts are printed")
        return _bounded(1.0 + earned.per_draft, k, f"derived: 1 + {earned.source}")
    counts_bonus, because = _meaning(printed_mal, earned, bool(per_position), version)
    if counts_bonus is None:
        return Normalised(None, because)
    if counts_bonus:
        return _bounded(printed_mal, k, f"{_WITH}: {because}")
    return _bounded(printed_mal + 1.0, k, f"{_WITHOUT}: {because}")


@dataclass(frozen=True, slots=True)
class _Earned:
    """Accepted drafts per cycle, how far rounding may have moved it, and which numbers of the line gave it."""

    per_draft: float
    slack: float
    source: str


def _from_positions(rates: Sequence[float] | None) -> _Earned | None:
    """Accepted drafts per cycle from the per-position rates, None when there are none or they are damaged."""
    if not rates or not all(0 <= rate <= 1 for rate in rates):
        return None
    return _Earned(math.fsum(rates), HALF_OF_THREE_DECIMALS * len(rates), "the sum of the per-position rates")


def _from_counts(accepted: int | None, drafted: int | None, k: int | None) -> _Earned | None:
    """Accepted drafts per cycle from the counts at a fixed k, None when one is missing or senseless."""
    if accepted is None or not drafted or not k or not 0 <= accepted <= drafted:
        return None
    return _Earned(accepted * k / drafted, 0.0, "accepted x k / drafted")


def _meaning(printed: float, earned: _Earned | None, lists_rates: bool, version: str | None) -> tuple[bool | None, str]:
    """Whether the printed length counts the bonus token, and why; (None, reason) when nothing decides."""
    by_version = None if lists_rates else _counts_bonus(version)
    if by_version is not None:
        return by_version, f"vLLM {version}"
    if earned is None:
        return None, f"acceptance length {printed}: no version and no rates to tell whether it counts the bonus token"
    slack = earned.slack + HALF_OF_TWO_DECIMALS + EDGE
    for counts_bonus, expected, words in (
        (True, 1.0 + earned.per_draft, f"it is 1 + {earned.source}"),
        (False, earned.per_draft, f"it is {earned.source}"),
    ):
        if abs(printed - expected) <= slack:
            return counts_bonus, words
    return None, f"acceptance length {printed} is neither {earned.source} ({earned.per_draft:.3f}) nor 1 more"


def _bounded(value: float, k: int | None, definition: str) -> Normalised:
    """The value unless it lies outside 1 ... k + 1, where no accept length can."""
    if not 1.0 <= value < math.inf or (k is not None and value > k + 1 + HALF_OF_TWO_DECIMALS):
        ceiling = "" if k is None else f" ... {k + 1}"
        return Normalised(None, f"{value:.2f} is no accept length (1{ceiling}), if the {definition}")
    return Normalised(float(value), definition)


def _counts_bonus(version: str | None) -> bool | None:
    """Whether this version's printed length counts the bonus token; None when the version is unknown."""
    order = version_order(version)
    return None if order is None else order >= _BONUS_SINCE


@dataclass(frozen=True, slots=True)
class V0Counters:
    """One V0 "Speculative metrics" line: token counts since the server's start, `emitted` with bonus tokens."""

    accepted: int
    drafted: int
    emitted: int


def vllm_v0_window(previous: V0Counters, current: V0Counters) -> V0Counters | None:
    """What happened between two V0 lines, in tokens; None when the counters went back (restart) or nothing was drafted.

    `accepted` also counts tokens after the first rejection and overstates: use `vllm_v0_accept_length` instead.
    """
    window = V0Counters(
        current.accepted - previous.accepted, current.drafted - previous.drafted, current.emitted - previous.emitted
    )
    return window if window.drafted > 0 and window.accepted >= 0 and window.emitted >= 0 else None


def vllm_v0_accept_length(emitted: float, drafted: float, k: int) -> float:
    """Accept length of a V0 window, in tokens per cycle with the bonus: emitted * k / drafted tokens.

    ValueError when a count is not positive or the result falls outside 1 ... k + 1. Source: docs/arithmetic.md;
    vLLM V0 spec_decode/metrics.py (efficiency = emitted / (drafts * (k + 1)), drafts = drafted / k).
    """
    length = positive("emitted tokens", emitted) * positive("k", k) / positive("drafted tokens", drafted)
    if length > k + 1 + EDGE:
        raise ValueError(f"{emitted} tokens emitted from {drafted} drafted are more than k + 1 = {k + 1} per cycle")
    return accept_length_of(length)


def vllm_v0_accept_length_from_efficiency(system_efficiency: float, k: int) -> float:
    """Accept length since the server's start, from V0's "System efficiency": efficiency * (k + 1) tokens per cycle.

    Less exact than the counters (three decimals). ValueError when it falls outside 1 ... k + 1, rounding allowed.
    """
    ceiling = positive("k", k) + 1.0
    length = not_negative("system efficiency", system_efficiency) * ceiling
    slack = HALF_OF_THREE_DECIMALS * ceiling + EDGE
    if not 1.0 - slack <= length <= ceiling + slack:
        raise ValueError(f"system efficiency {system_efficiency} with k = {k} is no accept length (1 ... {k + 1})")
    return min(ceiling, max(1.0, length))
