"""SGLang's three printed definitions of `accept rate`, told apart by version or by the numbers themselves.

`accept len` (A) counts the bonus token in every version; `accept rate` changed twice:
A / (num_steps + 1), then A / num_draft_tokens, then (A - 1) / (num_draft_tokens - 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from traceana.speculation.common import EDGE, HALF_OF_TWO_DECIMALS, Normalised, version_order

Pair = tuple[float, float]  # (accept length, accept rate), both as printed


class RateDefinition(str, Enum):
    """What a printed accept rate divides; accept len counts the bonus token."""

    PER_STEP = "accept len / (num_steps + 1)"
    PER_DRAFT_TOKEN = "accept len / num_draft_tokens"
    STRICT = "(accept len - 1) / (num_draft_tokens - 1)"


#: first release with the definition, newest first; releases before the last row print no rate
_SINCE = (
    (((0, 5, 11), -1), RateDefinition.STRICT),
    (((0, 5, 6), -1), RateDefinition.PER_DRAFT_TOKEN),
    (((0, 5, 3), 3), RateDefinition.PER_STEP),
)


@dataclass(frozen=True, slots=True)
class RateMatch:
    """Which definitions fit printed pairs. `definition` is None when none or several fit; `reason` then says so."""

    definition: RateDefinition | None
    candidates: tuple[RateDefinition, ...]
    reason: str | None = None


def sglang_rate_definition(version: str | None) -> RateDefinition | None:
    """The definition of `accept rate` in one SGLang version; None for unknown, unreadable or rate-less versions."""
    order = version_order(version)
    if order is None:
        return None
    return next((definition for since, definition in _SINCE if order >= since), None)


def identify_sglang_rate_definition(
    printed_rate: float, accept_length: float, num_steps: int | None, num_draft_tokens: int | None
) -> RateMatch:
    """Which definitions agree with one printed pair, both numbers being rounded to 0.01.

    Needs num_draft_tokens; without num_steps the oldest definition is not considered. On a chain num_draft_tokens is
    num_steps + 1 and the two older definitions are one and the same: the newer of them is named then.
    Source: docs/arithmetic.md.
    """
    return identify_sglang_rate_definition_from_pairs([(accept_length, printed_rate)], num_steps, num_draft_tokens)


def identify_sglang_rate_definition_from_pairs(
    pairs: Sequence[Pair], num_steps: int | None, num_draft_tokens: int | None
) -> RateMatch:
    """As `identify_sglang_rate_definition`, over several (accept length, accept rate) pairs: all must agree."""
    if not pairs:
        return RateMatch(None, (), "no accept rate is printed")
    if num_draft_tokens is None:
        return RateMatch(None, (), "num_draft_tokens is not known")
    fits = [d for d in RateDefinition if _fits_all(d, pairs, _width(d, num_steps, num_draft_tokens))]
    distinct = [d for d in fits if d is not RateDefinition.PER_STEP or num_draft_tokens != (num_steps or 0) + 1]
    if len(distinct) == 1:
        return RateMatch(distinct[0], tuple(fits))
    if not distinct:
        return RateMatch(None, (), "the printed accept rate fits no known definition at these settings")
    named = " and ".join(d.value for d in distinct)
    return RateMatch(None, tuple(fits), f"the printed accept rate fits {named} within rounding")


def infer_num_draft_tokens(
    pairs: Iterable[Pair], definition: RateDefinition = RateDefinition.PER_DRAFT_TOKEN
) -> int | None:
    """The one whole number n for which every printed pair obeys `definition` within rounding; None if none or several.

    For PER_STEP the answer is num_steps + 1, which is num_draft_tokens on a chain only. Source: docs/arithmetic.md.
    """
    first, last = _possible_widths(pairs, definition)
    return first if first == last else None


def infer_sglang_rate(pairs: Sequence[Pair]) -> tuple[RateDefinition, int] | None:
    """With neither version nor settings: the definition and num_draft_tokens that fit all pairs, None if not unique.

    The two older definitions cannot be told apart from numbers alone and count as PER_DRAFT_TOKEN.
    """
    possible = {d: _possible_widths(pairs, d) for d in (RateDefinition.PER_DRAFT_TOKEN, RateDefinition.STRICT)}
    found = [(definition, first) for definition, (first, last) in possible.items() if first <= last]
    if len(found) != 1 or found[0][1] != possible[found[0][0]][1]:
        return None
    return found[0]


def sglang_accepted_share(
    printed_rate: float | None,
    accept_length: float | None,
    num_steps: int | None,
    num_draft_tokens: int | None,
    version: str | None,
) -> Normalised:
    """Accepted drafts / drafted tokens (0 ... 1) of one SGLang stats line: (A - 1) / (num_draft_tokens - 1).

    `accept_length` and `printed_rate` are as printed, None when absent. The printed rate only checks the settings, or
    stands in for a missing accept length; the numbers win over the version, which a fork or a nightly may blur.
    The value is None when num_draft_tokens is unknown or the pair contradicts every definition.
    Source: docs/arithmetic.md. UNO drafting (two tokens per cycle that are no drafts) is not covered.
    """
    if num_draft_tokens is None or num_draft_tokens < 2:
        said = "not known" if num_draft_tokens is None else str(num_draft_tokens)
        return Normalised(None, f"num_draft_tokens is {said}: how many drafts a cycle had is not known")
    if accept_length is None:
        return _from_rate_alone(printed_rate, num_steps, num_draft_tokens, sglang_rate_definition(version))
    if not 1 <= accept_length <= num_draft_tokens + HALF_OF_TWO_DECIMALS:
        return Normalised(None, f"accept len {accept_length} is outside 1 ... {num_draft_tokens} (num_draft_tokens)")
    value = min(1.0, (accept_length - 1.0) / (num_draft_tokens - 1.0))
    if printed_rate is None:
        return Normalised(value, "from accept len; no accept rate is printed")
    pair_fits, words = _check_pair(printed_rate, accept_length, num_steps, num_draft_tokens, version)
    return Normalised(value if pair_fits else None, words)


def _check_pair(
    printed_rate: float, accept_length: float, num_steps: int | None, num_draft_tokens: int, version: str | None
) -> tuple[bool, str]:
    """Whether a printed pair fits some definition, and in words which one or why not."""
    by_version = sglang_rate_definition(version)
    match = identify_sglang_rate_definition(printed_rate, accept_length, num_steps, num_draft_tokens)
    if by_version is not None and by_version in match.candidates:
        return True, f"printed accept rate is {by_version.value} (SGLang {version})"
    if not match.candidates:
        return False, f"accept rate {printed_rate} at accept len {accept_length}: {match.reason}"
    if match.definition is None:
        return True, f"from accept len; {match.reason}"
    return True, f"printed accept rate is {match.definition.value} (told from the numbers)"


def _from_rate_alone(
    rate: float | None, num_steps: int | None, num_draft_tokens: int, definition: RateDefinition | None
) -> Normalised:
    """The share from a printed rate without its accept length: only the version can say what it means."""
    if rate is None:
        return Normalised(None, "neither accept len nor accept rate is printed")
    width = None if definition is None else _width(definition, num_steps, num_draft_tokens)
    if definition is None or width is None or not 0 <= rate <= 1:
        return Normalised(None, f"accept rate {rate} without accept len: its definition is not certain")
    if definition is RateDefinition.STRICT:
        return Normalised(float(rate), f"printed accept rate is {definition.value}")
    value = (rate * width - 1.0) / (num_draft_tokens - 1.0)
    slack = HALF_OF_TWO_DECIMALS * width / (num_draft_tokens - 1.0) + EDGE
    if not -slack <= value <= 1.0 + slack:
        return Normalised(None, f"accept rate {rate} cannot be {definition.value} with {num_draft_tokens} draft tokens")
    return Normalised(min(1.0, max(0.0, value)), f"printed accept rate is {definition.value}")


def _width(definition: RateDefinition, num_steps: int | None, num_draft_tokens: int | None) -> int | None:
    """The denominator's setting (before the bonus is taken off), or None when it is not known."""
    if definition is RateDefinition.PER_STEP:
        return None if num_steps is None else num_steps + 1
    return num_draft_tokens


def _fits_all(definition: RateDefinition, pairs: Iterable[Pair], width: int | None) -> bool:
    """True when each pair obeys the definition within the rounding of both its numbers."""
    bonus = 1 if definition is RateDefinition.STRICT else 0
    if width is None or width - bonus < 1:
        return False
    drafted = width - bonus
    slack = HALF_OF_TWO_DECIMALS * (1.0 + 1.0 / drafted) + EDGE
    return all(abs((length - bonus) / drafted - rate) <= slack for length, rate in pairs)


def _possible_widths(pairs: Iterable[Pair], definition: RateDefinition) -> tuple[int, float]:
    """Smallest and largest num_draft_tokens (inf: no bound) that fit all pairs; first > last when none does."""
    bonus = 1 if definition is RateDefinition.STRICT else 0
    low, high = 2.0, math.inf
    for length, rate in pairs:
        if not (0 <= rate <= 1 and 1 <= length < math.inf):
            return 2, 1
        counted = length - bonus
        low = max(low, bonus + (counted - HALF_OF_TWO_DECIMALS) / (rate + HALF_OF_TWO_DECIMALS))
        if rate > HALF_OF_TWO_DECIMALS:
            high = min(high, bonus + (counted + HALF_OF_TWO_DECIMALS) / (rate - HALF_OF_TWO_DECIMALS))
    return math.ceil(low - EDGE), high if math.isinf(high) else math.floor(high + EDGE)
