"""Student's t distribution: its quantile, which no library among the dependencies has."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_ALMOST_NORMAL = 200  # from here on the quantiles differ from the normal ones by less than 1 %
_TOLERANCE = 1e-12


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: float) -> float:
    """The value that a t variable stays below with `probability`, which must lie within 0 ... 1.

    Between whole degrees of freedom the logarithm is interpolated in 1 / freedom. ValueError below 1 degree.
    """
    if not freedom >= 1 or not 0 < probability < 1:
        raise ValueError(f"no t quantile for probability {probability!r} and {freedom!r} degrees of freedom")
    if freedom >= _ALMOST_NORMAL:
        return NormalDist().inv_cdf(probability)
    if probability <= 0.5:
        return 0.0 if probability == 0.5 else -t_quantile(1.0 - probability, freedom)
    whole = math.floor(freedom)
    if whole == freedom:
        return _whole_quantile(probability, whole)
    left, right = _whole_quantile(probability, whole), _whole_quantile(probability, whole + 1)
    share = (1.0 / whole - 1.0 / freedom) * whole * (whole + 1)
    return math.exp((1.0 - share) * math.log(left) + share * math.log(right))


def _whole_quantile(probability: float, freedom: int) -> float:
    """By halving an interval; probability above 0.5."""
    low, high = 0.0, 1.0
    while _cdf(high, freedom) < probability:
        high *= 2.0
    while high - low > _TOLERANCE * max(1.0, high):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2.0


def _cdf(t: float, freedom: int) -> float:
    """P(T <= t) for t >= 0. Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4."""
    angle = math.atan2(t, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for i in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * i / (i + 1)
    within = 2.0 / math.pi * (angle + sine * total) if odd else sine * total
    return 0.5 + within / 2.0
