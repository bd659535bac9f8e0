"""Where along the load one set-up stops being faster than another, and how well the measured loads tell it.

Between two measured loads the logarithm of the ratio is taken to move in proportion to the logarithm of the load. That
is an interpolation and no law: a cost cliff may put the true crossing anywhere between the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traceana.speculation.common import positive


@dataclass(frozen=True, slots=True)
class RatioAt:
    """Throughput of one set-up / the other at a load, and the range its noise allows; None where no range is known."""

    load: float
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """Ratio 1 is crossed at `at`, between the measured loads `after` and `before`.

    `low` ... `high` is where it may lie by the noise of the ratios, None on a side that the measured loads leave open;
    `known` is False where no noise is known, and both are None then. `rises`: the ratio is above 1 beyond it.
    """

    at: float
    after: float
    before: float
    rises: bool
    low: float | None
    high: float | None
    known: bool


def crossings(ratios: Sequence[RatioAt]) -> tuple[Crossing, ...]:
    """Every crossing of 1, by load; loads must be distinct. ValueError for a load or ratio that is not positive."""
    points = sorted(ratios, key=lambda point: positive("load", point.load))
    logs = [math.log(positive("ratio", point.ratio)) for point in points]
    found = []
    last = next((i for i, y in enumerate(logs) if y != 0), None)
    for i in range(len(points)):
        if last is None or i <= last or logs[i] == 0:
            continue
        if logs[last] * logs[i] < 0:
            found.append(_crossing(points, logs, last, i))
        last = i
    return tuple(found)


def _zero(points: Sequence[RatioAt], ys: Sequence[float], i: int, j: int) -> float:
    """Load at which the line from (ln load i, y i) to (ln load j, y j) is 0."""
    share = ys[i] / (ys[i] - ys[j])
    first, last = math.log(points[i].load), math.log(points[j].load)
    return math.exp(first + share * (last - first))


def _crossing(points: Sequence[RatioAt], logs: Sequence[float], before: int, after: int) -> Crossing:
    """The crossing between two loads with different winners, and the loads around it at which neither is sure.

    Where loads with equal figures lie in between, the first of them is the crossing.
    """
    left, right = (before, after) if after == before + 1 else (before + 1, before + 1)
    at = _zero(points, logs, left, right) if left < right else points[left].load
    known = all(point.low is not None and point.high is not None for point in points[before : after + 1])
    low = _decided(points[left::-1], at, points[left + 1]) if known else None
    high = _decided(points[right:], at, points[right - 1]) if known else None
    return Crossing(at, points[before].load, points[after].load, logs[after] > 0, low, high, known)


def _decided(outwards: Sequence[RatioAt], at: float, across: RatioAt) -> float | None:
    """Going outwards from a crossing, the load from which the winner is sure; None when no measured load is sure.

    `across` is the measured load on the other side of the crossing; a load whose noise is not known ends the search.
    """
    inner = across
    for point in outwards:
        if point.low is None or point.high is None or inner.low is None or inner.high is None:
            return None
        for edge in ("low", "high"):
            here, there = math.log(getattr(point, edge)), math.log(getattr(inner, edge))
            sure = here > 0 if edge == "low" else here < 0
            if sure:
                return _zero((point, inner), (here, there), 0, 1) if here * there < 0 else at
        inner = point
    return None
