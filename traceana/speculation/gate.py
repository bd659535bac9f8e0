"""Pass, regression or inconclusive: a three-way test of a change against a tolerance.

`confidence` is one-sided: the chance, at the edge of the tolerance, that the answer is not the wrong one.
"""

from __future__ import annotations

from enum import Enum

from traceana.speculation.noise import RatioInterval

CONFIDENCE = 0.95


class Result(str, Enum):
    """What a check says of one figure, and of all of them."""

    PASS = "pass"
    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


def better_range(interval: RatioInterval, higher_is_better: bool, confidence: float) -> tuple[float, float] | None:
    """The interval turned so that above 1 is better; each end holds with `confidence`. None: no spread known."""
    ends = interval.at(2.0 * confidence - 1.0)
    if ends is None:
        return None
    low, high = ends
    return (low, high) if higher_is_better else (1.0 / high, 1.0 / low)


def gate(
    interval: RatioInterval, tolerance: float, higher_is_better: bool, lines: int = 1, confidence: float = CONFIDENCE
) -> Result:
    """Regression when the whole interval is worse than the tolerance allows, pass when none of it is.

    With `lines` figures looked at in one check each is held to 1 - (1 - confidence) / lines before it counts as a
    regression, so that the check as a whole raises a false alarm no more often (Bonferroni); all of them must pass, so
    passing needs no such correction (intersection-union test, Berger 1982).
    """
    limit = 1.0 - tolerance if higher_is_better else 1.0 / (1.0 + tolerance)
    strict = better_range(interval, higher_is_better, 1.0 - (1.0 - confidence) / max(lines, 1))
    plain = better_range(interval, higher_is_better, confidence)
    if strict is None or plain is None:
        return Result.INCONCLUSIVE
    if strict[1] < limit:
        return Result.REGRESSION
    return Result.PASS if plain[0] >= limit else Result.INCONCLUSIVE


def overall(results: list[Result]) -> Result:
    """The worst: one regression fails the check, and nothing passes while something is open. Nothing at all is open."""
    if Result.REGRESSION in results:
        return Result.REGRESSION
    return Result.PASS if results and set(results) == {Result.PASS} else Result.INCONCLUSIVE
