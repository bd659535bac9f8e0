"""A walk along the operations of devices in order of start, slab after slab, that answers as if all were at hand.

What a slab cannot tell of what came before it is in few operations: those that still run, and the one that ended last.
They go along. What it cannot tell of what follows is put off: of each timeline only the stretch up to the start of its
last operation is settled; the rest belongs to the next slab.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import HIGHEST, LOWEST, BoolArray, IntArray, is_new
from traceana.attribution.model import TIMELINE


@dataclass(frozen=True, slots=True)
class Slab:
    """Some operations of some timelines.

    `around`: those that start here, after those that were taken along. `lanes`: one row per timeline, low_ns and
    high_ns of the stretch that is settled here. Stretches follow each other without a gap; the first begins at LOWEST,
    the last ends at HIGHEST. `last`: nothing follows, so that timelines without operations are settled, too.
    """

    around: pl.DataFrame
    lanes: pl.DataFrame
    last: bool

    def stretch(self, rows: pl.DataFrame) -> tuple[IntArray, IntArray]:
        """Begin and end of what is settled here of each row's timeline; from LOWEST to LOWEST: nothing."""
        (mine, theirs), count = dense_codes([rows, self.lanes], TIMELINE)
        low, high = np.full(count, LOWEST), np.full(count, HIGHEST if self.last else LOWEST)
        low[theirs], high[theirs] = column(self.lanes, "low_ns"), column(self.lanes, "high_ns")
        return low[mine], high[mine]

    def by_timeline(self, rows: pl.DataFrame) -> Iterator[tuple[IntArray, IntArray]]:
        """For each timeline of both: `rows` of it, and rows of `around` of it in order of start."""
        (mine, theirs), count = dense_codes([rows, self.around], TIMELINE)
        starts = column(self.around, "start_ns")
        for at, on in zip(rows_by_code(mine, count), rows_by_code(theirs, count), strict=True):
            if len(at) and len(on):
                yield at, on[np.argsort(starts[on], kind="stable")]


class Sweep:
    """Makes slabs of `count` pieces of operations: what starts in a piece starts later than all in the one before."""

    def __init__(self, count: int) -> None:
        self._left = count
        self._before: pl.DataFrame | None = None
        self._lanes = pl.DataFrame()

    def take(self, ops: pl.DataFrame) -> Slab:
        """The slab of the next piece. Columns of TIMELINE, start_ns and end_ns, and any others."""
        self._left -= 1
        around = ops if self._before is None else pl.concat([self._before, ops])
        settled, kept = _settled(around)
        low = pl.lit(LOWEST).alias("low_ns")
        if self._before is not None:
            known = self._lanes.select(*TIMELINE, pl.col("high_ns").alias("low_ns"))
            settled = settled.join(known, on=TIMELINE, how="left", nulls_equal=True)
            low = pl.col("low_ns").fill_null(LOWEST)
        high = pl.max_horizontal(low, "high_ns") if self._left else pl.lit(HIGHEST)
        self._lanes = settled.select(*TIMELINE, low, high.alias("high_ns"))
        self._before = around.filter(pl.Series(kept))
        return Slab(around, self._lanes, not self._left)


def sweep(pieces: Sequence[pl.DataFrame]) -> Iterator[Slab]:
    """The slabs of pieces that are at hand."""
    return map(Sweep(len(pieces)).take, pieces)


def _settled(around: pl.DataFrame) -> tuple[pl.DataFrame, BoolArray]:
    """The timelines with high_ns, the start of the last operation that takes time, and which operations must go along.

    These run beyond it, or start beyond it, or are the first of those that end last.
    """
    (lane,), _ = dense_codes([around], TIMELINE)
    start, end = column(around, "start_ns"), column(around, "end_ns")
    order = np.lexsort((start, lane))
    if not len(order):
        return around.select(TIMELINE).with_columns(pl.lit(LOWEST).alias("high_ns")), np.zeros(0, np.bool_)
    lane, start, end = lane[order], start[order], end[order]
    first = np.flatnonzero(is_new(lane))
    high = np.maximum.reduceat(np.where(end > start, start, LOWEST), first)
    place = np.cumsum(is_new(lane)) - 1
    latest = np.flatnonzero(end == np.maximum.reduceat(end, first)[place])
    keep = (end > high[place]) | (start > high[place])
    keep[latest[is_new(lane[latest])]] = True
    kept = np.zeros(len(order), np.bool_)
    kept[order] = keep
    return around[order[first]].select(TIMELINE).with_columns(pl.Series("high_ns", high)), kept
