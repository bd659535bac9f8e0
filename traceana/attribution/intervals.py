"""Sets of half-open intervals [start, end) in integer ns: union and coverage. Pure functions of int64 arrays.

Two shapes occur. *Raw* intervals come in any order, may overlap, nest, touch or be empty. *Pieces* are ascending and
disjoint, which is what a sweep over sorted starts with a running maximum of ends leaves. Only comparisons and
differences within one span are computed, so times up to 2^62 are safe.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
Intervals = tuple[IntArray, IntArray]

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max
#: the largest value a shifted time may take
_ROOM = 1 << 62


def is_new(*sorted_keys: npt.NDArray[np.int64]) -> BoolArray:
    """Rows of sorted keys that differ from the row before; the first always does."""
    found = np.ones(len(sorted_keys[0]), np.bool_)
    if len(found):
        found[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in sorted_keys])
    return found


def reach_before(ends: IntArray) -> IntArray:
    """For each row the greatest end of the rows before it; LOWEST for the first."""
    before = np.empty(len(ends), np.int64)
    before[:1] = LOWEST
    np.maximum.accumulate(ends[:-1], out=before[1:])
    return before


def pieces(starts: IntArray, ends: IntArray, member: BoolArray | None = None) -> Intervals:
    """The union of intervals given in ascending order of start, as pieces; of the members only, where given.

    Neighbouring pieces may touch. Each piece belongs to the row that was first to cover it.
    """
    low, high, _ = owned_pieces(starts, ends, member)
    return low, high


def owned_pieces(
    starts: IntArray, ends: IntArray, member: BoolArray | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """As `pieces`, and for each piece the row it belongs to."""
    reach = ends if member is None else np.where(member, ends, LOWEST)
    low = np.maximum(starts, reach_before(reach))
    owner = np.flatnonzero(reach > low)
    return low[owner], ends[owner], owner


def expand(
    first: npt.NDArray[np.intp], count: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """For row i the indices first[i] ... first[i] + count[i] - 1, flattened: (row of each, index of each)."""
    row = np.repeat(np.arange(len(count)), count)
    step = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, first[row] + step


def measure_before(low: IntArray, high: IntArray, at: IntArray) -> IntArray:
    """Time that pieces cover before each instant, ns."""
    if not len(low):
        return np.zeros(len(at), np.int64)
    total = np.concatenate((np.zeros(1, np.int64), np.cumsum(high - low)))
    begun = np.searchsorted(low, at, side="right")
    last = np.maximum(begun - 1, 0)
    ahead = high[last] - np.clip(at, low[last], high[last])
    found: IntArray = total[begun] - np.where(begun > 0, ahead, 0)
    return found


def coverage(low: IntArray, high: IntArray, window_starts: IntArray, window_ends: IntArray) -> IntArray:
    """Time that pieces cover in each window, ns. Windows may overlap; one that ends before it starts has none."""
    found: IntArray = measure_before(low, high, window_ends) - measure_before(low, high, window_starts)
    return np.maximum(found, 0)


def union_by_group(groups: IntArray, starts: IntArray, ends: IntArray, count: int) -> IntArray:
    """Time covered by the raw intervals of each group 0 ... count-1, ns."""
    found = np.zeros(count, np.int64)
    if not len(groups):
        return found
    order = np.lexsort((starts, groups))
    group, start, end = groups[order], starts[order], ends[order]
    first = np.flatnonzero(is_new(group))
    before = _reach_before_in_group(group, end)
    before[first] = LOWEST
    found[group[first]] = np.add.reduceat(np.maximum(end - np.maximum(start, np.minimum(before, end)), 0), first)
    return found


def _reach_before_in_group(group: IntArray, ends: IntArray) -> IntArray:
    """`reach_before` for rows sorted by group; one running maximum for all, each group lifted above those before it."""
    lowest = int(ends.min())
    span = int(ends.max()) - lowest + 1
    if span * (int(group[-1]) + 1) < _ROOM:
        lift = group * span
        return reach_before(ends - lowest + lift) - lift + lowest
    ordered, place = np.unique(ends, return_inverse=True)  # the spans do not fit one above the other: their ranks do
    lift = group * len(ordered)
    at = reach_before(place.reshape(-1).astype(np.int64) + lift) - lift
    found: IntArray = ordered[np.clip(at, 0, len(ordered) - 1)]
    return found
