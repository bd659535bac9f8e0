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

    `freedom` is rounded down to whole degrees of freedom, which widens intervals. ValueError below 1 degree.
    """
    if not freedom >= 1 or not 0 < probability < 1:
        raise ValueError(f"no t quantile for probability {probability!r} and {freedom!r} degrees of freedom")
    if freedom >= _ALMOST_NORMAL:
        return NormalDist().inv_cdf(probability)
    if probability < 0.5:
        return -t_quantile(1.0 - probability, freedom)
    whole = math.floor(freedom)
    low, high = 0.0, 1.0
    while _cdf(high, whole) < probability:
        high *= 2.0
    while high - low > _TOLERANCE * max(1.0, high):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _cdf(middle, whole) < probability else (low, middle)
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
