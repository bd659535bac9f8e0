"""Which host range encloses which, and the innermost range around a call. Exact for ranges that overlap, too.

The parent of a range is the range of the same thread that contains it and started last. In the order (start, longest
first) that is the nearest earlier range that ends no earlier: a chain of pointers, followed for all rows at once. The
number of rounds is about the depth of nesting, not the number of ranges.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceana.attribution.intervals import IntArray, is_new

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Nesting:
    """Ranges in nesting order, by lane (thread): row in the input, start, end, place of the parent or -1."""

    order: Rows
    lane: IntArray
    start: IntArray
    end: IntArray
    parent: Rows

    def parents(self) -> Rows:
        """Parent row of each input row, -1 where a range has none."""
        found = np.full(len(self.order), -1, np.int64)
        found[self.order] = np.where(self.parent < 0, -1, self.order[self.parent])
        return found


def nest(lane: IntArray, start: IntArray, end: IntArray) -> Nesting:
    """Enclose ranges of each lane. Of equal ranges the first row encloses the later ones; ends are inclusive."""
    order = np.lexsort((-end, start, lane)).astype(np.int64)
    lanes, starts, ends = lane[order], start[order], end[order]
    parent = np.arange(-1, len(order) - 1, dtype=np.int64)
    parent[is_new(lanes)] = -1
    _climb(parent, parent, ends, ends)
    return Nesting(order, lanes, starts, ends, parent)


def innermost(nesting: Nesting, lane: IntArray, start: IntArray, end: IntArray) -> Rows:
    """For each query interval the input row of the range of its lane that contains it and started last; -1: none."""
    at = np.full(len(lane), -1, np.int64)
    order = np.argsort(lane, kind="stable")
    for one in np.unique(nesting.lane):
        low, high = np.searchsorted(nesting.lane, one, "left"), np.searchsorted(nesting.lane, one, "right")
        rows = order[np.searchsorted(lane, one, "left", order) : np.searchsorted(lane, one, "right", order)]
        begun = np.searchsorted(nesting.start[low:high], start[rows], side="right")
        at[rows] = np.where(begun > 0, low + begun - 1, -1)
    _climb(at, nesting.parent, nesting.end, end)
    return np.where(at < 0, -1, nesting.order[at]) if len(nesting.order) else at


def _climb(at: Rows, parent: Rows, ends: IntArray, until: IntArray) -> None:
    """Move each pointer in `at` up the chain, in place, until it points to a range that ends no earlier than `until`.

    Everything between a row and its parent pointer ends before the row does; so whoever is too long for a row is too
    long for what its pointer skips. That holds for pointers still moving, which is why `at` may be `parent` itself.
    """
    active = np.flatnonzero(at >= 0)
    active = active[ends[at[active]] < until[active]]
    while len(active):
        at[active] = parent[at[active]]
        active = active[at[active] >= 0]
        active = active[ends[at[active]] < until[active]]
