"""Is a difference real: intervals of a ratio from repeated runs or from parts of single runs, and what would settle it.

Everything is done on logarithms: throughputs and times vary in proportion, and a ratio is a difference there.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from traceana.speculation.bootstrap import PartsError, parts_error
from traceana.speculation.student import t_quantile

CONFIDENCE = 0.95
POWER = 0.8  # chance to see a difference that is there: the usual choice (NIST e-Handbook 7.2.2.2)
#: two figures whose whole interval lies this close to each other are the same for a user
SAME_WITHIN = 0.03
_MOST_RUNS = 1000  # a difference that needs more runs than this is not worth looking for


class Basis(str, Enum):
    """Whose spread an interval rests on."""

    RUNS = "runs"  # repeated runs: all noise there is between them is in it
    PARTS = "parts"  # windows or requests of single runs: what differs from run to run is not in it
    ASSUMED = "assumed"  # single runs, and a run-to-run spread that was given or assumed
    NONE = "none"


class Answer(str, Enum):
    """What the data say of after / before."""

    HIGHER = "higher"
    LOWER = "lower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of one set-up: its value in each repeated run, and its parts where it was measured once.

    `parts` are per window or per request, in time order; their mean need not be the value (which may be a total over
    all requests): only their spread is used.
    """

    runs: tuple[float, ...]
    parts: tuple[float, ...] = ()

    @property
    def value(self) -> float:
        """The mean of the runs' logarithms, as a figure: equal ratios up and down weigh the same."""
        return math.exp(statistics.fmean(map(math.log, self.runs)))


@dataclass(frozen=True, slots=True)
class RatioInterval:
    """after / before with its confidence interval; `low` and `high` are None where no spread is known.

    `sd_runs` is the standard deviation of the logarithm from run to run, measured or assumed; None where unknown.
    `se` is the standard error of the logarithm of the ratio, with `freedom` degrees of freedom.
    """

    ratio: float
    low: float | None
    high: float | None
    basis: Basis
    runs: tuple[int, int]
    se: float | None = None
    freedom: float | None = None
    sd_runs: float | None = None
    confidence: float = CONFIDENCE

    @property
    def unrepeated(self) -> bool:
        """One side was measured once while the other was repeated: it is only taken to vary like the other."""
        return min(self.runs) == 1 < max(self.runs)

    def at(self, confidence: float) -> tuple[float, float] | None:
        """The interval at another confidence."""
        if self.se is None or self.freedom is None:
            return None
        half = t_quantile(0.5 + confidence / 2.0, self.freedom) * self.se
        centre = math.log(self.ratio)
        return _exp(centre - half), _exp(centre + half)


def _exp(value: float) -> float:
    """exp, with the ends of very wide intervals kept finite."""
    return math.exp(max(-700.0, min(700.0, value)))


def ratio_interval(
    before: Measured,
    after: Measured,
    *,
    assumed_sd: float | None = None,
    paired: bool = False,
    least_freedom: int = 1,
    confidence: float = CONFIDENCE,
) -> RatioInterval:
    """The ratio after / before and the range the noise allows.

    - Repeats on a side: Student's t on logarithms with one standard deviation for both set-ups, pooled over the sides
      that have repeats; a side measured once is taken to vary like the other one. Only with `least_freedom` degrees of
      freedom (runs of both - 2).
    - Else windows or requests of both: a block bootstrap of each mean, with the degrees of freedom of Welch and
      Satterthwaite. `assumed_sd`, of the logarithm from run to run, is added; it alone does where there are no parts.
      `paired`: the parts of both are the same requests in the same order, so their ratios are drawn: what makes one
      request slower than another on both sides is no noise then.
    - Else no interval.

    ValueError when a run's figure is not positive and finite, or a side has none.
    """
    for side in (before, after):
        if not side.runs or not all(math.isfinite(value) and value > 0 for value in side.runs):
            raise ValueError(f"a run's figure must be a finite number above zero, not {side.runs!r}")
    ratio = math.exp(math.log(after.value) - math.log(before.value))
    counts = (len(before.runs), len(after.runs))
    per_run = 1.0 / counts[0] + 1.0 / counts[1]
    freedom: float = sum(counts) - 2
    if freedom >= max(least_freedom, 1):
        sd = _pooled_sd(before.runs, after.runs)
        return _interval(ratio, sd * math.sqrt(per_run), freedom, Basis.RUNS, counts, sd, confidence)
    if paired and len(before.parts) == len(after.parts):
        wanted, known = 1, _known(_ratios(before.parts, after.parts))
    else:
        wanted, known = 2, _known(before.parts, after.parts)
    if assumed_sd is None and len(known) < wanted:
        return RatioInterval(ratio, None, None, Basis.NONE, counts, confidence=confidence)
    between = (assumed_sd or 0.0) ** 2 * per_run
    variance = math.fsum([*(error.se**2 for error in known), between])
    freedom = _welch(known, variance)
    basis = Basis.PARTS if assumed_sd is None else Basis.ASSUMED
    return _interval(ratio, math.sqrt(variance), freedom, basis, counts, assumed_sd, confidence)


#: resampling is seeded: the same parts give the same error, and commands ask for it several times
_error = lru_cache(maxsize=256)(parts_error)


def _known(*series: Sequence[float]) -> list[PartsError]:
    return [error for values in series if (error := _error(tuple(values))) is not None]


def _ratios(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [b / a if a > 0 else math.nan for a, b in zip(before, after, strict=True)]


def _pooled_sd(*sides: Sequence[float]) -> float:
    logs = [[math.log(value) for value in side] for side in sides]
    squares = math.fsum((x - statistics.fmean(side)) ** 2 for side in logs for x in side)
    return math.sqrt(squares / (sum(map(len, logs)) - len(logs)))


def _welch(errors: Sequence[PartsError], variance: float) -> float:
    """Degrees of freedom of a sum of variances (Welch and Satterthwaite); what was assumed has infinitely many."""
    lost = math.fsum(error.se**4 / max(error.effective - 1.0, 1.0) for error in errors)
    return math.inf if lost == 0 else max(1.0, variance**2 / lost)


def _interval(
    ratio: float,
    se: float,
    freedom: float,
    basis: Basis,
    counts: tuple[int, int],
    sd: float | None,
    confidence: float,
) -> RatioInterval:
    half = t_quantile(0.5 + confidence / 2.0, freedom) * se
    centre = math.log(ratio)
    low, high = _exp(centre - half), _exp(centre + half)
    return RatioInterval(ratio, low, high, basis, counts, se, freedom, sd, confidence)


def judge(interval: RatioInterval, same_within: float = SAME_WITHIN) -> Answer:
    """Higher or lower when the whole interval lies on one side of 1, same when it lies within `same_within` of 1.

    A difference that is sure and smaller than `same_within` is called the same. Inconclusive otherwise.
    """
    low, high = interval.low, interval.high
    if low is None or high is None:
        return Answer.INCONCLUSIVE
    if 1.0 / (1.0 + same_within) <= low and high <= 1.0 + same_within:
        return Answer.SAME
    return Answer.HIGHER if low > 1.0 else Answer.LOWER if high < 1.0 else Answer.INCONCLUSIVE


def smallest_difference(sd: float, runs: tuple[int, int], confidence: float = CONFIDENCE) -> float | None:
    """The smallest ratio - 1 that so many runs would show with a chance of `POWER`; None with fewer than 3 in all.

    `sd` is the standard deviation of the logarithm from run to run. ln(1 + d) = (t(1 - alpha/2) + t(power)) sd
    sqrt(1/n0 + 1/n1), each t with n0 + n1 - 2 degrees of freedom. Source: NIST/SEMATECH e-Handbook of Statistical
    Methods, 7.2.2.2, for two samples.
    """
    freedom = sum(runs) - 2
    if freedom < 1 or min(runs) < 1:
        return None
    quantiles = t_quantile(0.5 + confidence / 2.0, freedom) + t_quantile(POWER, freedom)
    return math.expm1(min(700.0, quantiles * sd * math.sqrt(1.0 / runs[0] + 1.0 / runs[1])))


def runs_needed(ratio: float, sd: float, confidence: float = CONFIDENCE) -> int | None:
    """Runs of each set-up that show a difference of `ratio` with a chance of `POWER`: `smallest_difference` solved.

    At least 2; None where more than a thousand would be needed. `sd` as there. ValueError for a ratio that is not
    positive.
    """
    wanted = abs(math.log(ratio))
    for n in range(2, 100):
        if _shows(wanted, sd, n, confidence):
            return n
    low, high = 99, _MOST_RUNS
    if not _shows(wanted, sd, high, confidence):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _shows(wanted, sd, middle, confidence) else (middle, high)
    return high


def _shows(wanted: float, sd: float, n: int, confidence: float) -> bool:
    smallest = smallest_difference(sd, (n, n), confidence)
    return smallest is not None and math.log1p(smallest) <= wanted
