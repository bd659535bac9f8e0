"""The ledger: where each nanosecond of each cycle went, by phase, on each device. Integer arithmetic, exact sums.

One sweep per timeline. A nanosecond belongs to the first class in the order of claims that has work then, so each
class gets what its union adds to the union of those before it. What is left is idle: `launch_gap` until the call that
launched the next operation returned, `other_idle` (dependency, queue) from then on. Idle time is added up on its own,
not taken as the remainder, so that `Ledger.self_check` proves something.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import (
    HIGHEST,
    LOWEST,
    IntArray,
    Intervals,
    coverage,
    is_new,
    owned_pieces,
    pieces,
)
from traceana.attribution.model import BESIDE, BUCKETS, TIMELINE, Ledger
from traceana.attribution.nesting import Nesting, innermost, nest
from traceana.attribution.ops import HIDDEN
from traceana.attribution.sweep import Slab, sweep

#: classes of work in the order in which they claim a nanosecond, and the bucket of each. Visible compute first; then a
#: graph replay whose kernels are not known (it may be compute: nothing under it is proven exposed); then communication,
#: waiting last; then copies; then the time in which an unrecorded replay may have run.
_CLAIMS = (
    ("compute", "compute"),
    ("graph", "unknown"),
    ("transfer", "allreduce_transfer"),
    ("unsplit", "allreduce_unsplit"),
    ("other_comm", "other_comm_exposed"),
    ("wait", "allreduce_wait"),
    ("copy", "copies"),
    ("hidden", "unknown"),
)
_CLASS = {name: at for at, (name, _) in enumerate(_CLAIMS)}
_ALLREDUCE = ("transfer", "unsplit", "wait")
#: what names one kernel for the join with its split
_KERNEL = (*TIMELINE, "stream", "start_ns")
_REDUCES = ((pl.col("family") == "communication") & (pl.col("collective") == "all_reduce")).fill_null(False)


@dataclass(frozen=True, slots=True)
class _Work:
    """Operations: start, end, place of their class in the order of claims, end of the launching call (LOWEST: none)."""

    start: IntArray
    end: IntArray
    kind: IntArray
    launched: IntArray

    def taken(self, rows: IntArray) -> _Work:
        """Some of them, in the order of `rows`."""
        return _Work(self.start[rows], self.end[rows], self.kind[rows], self.launched[rows])


def build_ledger(cycles: pl.DataFrame, ops: pl.DataFrame, splits: pl.DataFrame | None = None) -> Ledger:
    """The ledger of all cycles with a window, and of the whole capture.

    Args:
        cycles: see cycles.CYCLES. ops: see ops.device_ops.
        splits: file_id, rank, pid, device, stream, start_ns, transfer_ns of allreduce kernels (ranks.splits). An
            allreduce without one is `allreduce_unsplit`.

    Raises LedgerError if it does not add up.
    """
    entries = Entries(cycles, captures([recorded_spans(ops)]))
    for slab in sweep([with_transfer(ops, splits)]):
        entries.add(slab)
    return entries.ledger()


class Entries:
    """The ledger in the making: sums of each stretch of time that belongs to one phase or to the whole capture."""

    def __init__(self, cycles: pl.DataFrame, spans: pl.DataFrame) -> None:
        """`spans`: see captures."""
        segments, self._windows = _segments(cycles)
        self._rows = pl.concat([segments, spans.select(segments.columns)])
        self._start, self._end = column(self._rows, "start_ns"), column(self._rows, "end_ns")
        self._values = {name: np.zeros(self._rows.height, np.int64) for name in (*BUCKETS, *BESIDE)}

    def add(self, slab: Slab) -> None:
        """Take the next operations, with their transfer_ns (see with_transfer)."""
        low, high = slab.stretch(self._rows)
        start, end = np.maximum(self._start, low), np.minimum(self._end, high)
        some = np.flatnonzero(end > start)
        start, end = start[some], end[some]
        work, row = _classified(slab.around)
        (mine, theirs), count = dense_codes([self._rows[some], slab.around], TIMELINE)
        for at, on in zip(rows_by_code(mine, count), rows_by_code(theirs[row], count), strict=True):
            if not len(at):
                continue
            own = work.taken(on[np.argsort(work.start[on], kind="stable")])
            for name, found in _buckets(own, start[at], end[at]).items():
                self._values[name][some[at]] += found

    def ledger(self) -> Ledger:
        """All sums. Raises LedgerError if they do not add up."""
        rows = self._rows.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("window_ns")).with_columns(
            pl.Series(name, found) for name, found in self._values.items()
        )
        key = [*TIMELINE, "cycle", "phase"]
        whole = pl.col("phase").is_null()
        sums = rows.filter(~whole).group_by(key).agg(pl.col("window_ns", *BUCKETS, *BESIDE).sum()).sort(key)
        devices = rows.filter(whole).select(*TIMELINE, "start_ns", "window_ns", *BUCKETS, *BESIDE)
        ledger = Ledger(sums, self._windows, devices)
        ledger.self_check()
        return ledger


def _buckets(work: _Work, start: IntArray, end: IntArray) -> dict[str, IntArray]:
    """ns of each bucket in each window of one timeline."""
    found = {name: np.zeros(len(start), np.int64) for name in (*BUCKETS, *BESIDE)}
    claimed = np.zeros(len(start), np.int64)
    exposed: dict[str, IntArray] = {}
    present = set(np.unique(work.kind).tolist())
    for at, (name, bucket) in enumerate(_CLAIMS):
        if at not in present:
            continue
        until_here = coverage(*pieces(work.start, work.end, work.kind <= at), start, end)
        exposed[name] = until_here - claimed
        found[bucket] += exposed[name]
        claimed = until_here
    for beside, names in (("allreduce_overlapped", _ALLREDUCE), ("other_comm_overlapped", ("other_comm",))):
        member = np.isin(work.kind, [_CLASS[name] for name in names])
        all_of_it = coverage(*pieces(work.start, work.end, member), start, end)
        found[beside] = all_of_it - sum((exposed[name] for name in names if name in exposed), np.zeros_like(start))
    if len(start):
        gap, other, unexplained = _idle(work, int(start.min()), int(end.max()))
        found["launch_gap"] = coverage(*gap, start, end)
        found["other_idle"] = coverage(*other, start, end)
        found["idle_without_launch"] = coverage(*unexplained, start, end)
    return found


def _idle(work: _Work, low: int, high: int) -> tuple[Intervals, Intervals, Intervals]:
    """Idle time of one timeline between two instants: launch gaps, other idle, the part of other without a launch."""
    busy_start, busy_end, owner = owned_pieces(work.start, work.end)
    gap_start = np.concatenate(([low], busy_end))
    gap_end = np.concatenate((busy_start, [high]))
    returned = np.concatenate((_first_launched(work)[owner], [LOWEST]))
    real = gap_end > gap_start
    gap_start, gap_end, returned = gap_start[real], gap_end[real], returned[real]
    border = np.clip(returned, gap_start, gap_end)
    recorded = returned > LOWEST
    return (
        _non_empty(gap_start, border),
        _non_empty(border, gap_end),
        _non_empty(gap_start[~recorded], gap_end[~recorded]),
    )


def _first_launched(work: _Work) -> IntArray:
    """End of the earliest call among those of the operations that start with each; LOWEST where none is recorded."""
    if not len(work.start):
        return work.launched
    new = is_new(work.start)
    known = np.where(work.launched > LOWEST, work.launched, HIGHEST)
    earliest = np.minimum.reduceat(known, np.flatnonzero(new))[np.cumsum(new) - 1]
    return np.where(earliest < HIGHEST, earliest, LOWEST)


def _non_empty(start: IntArray, end: IntArray) -> Intervals:
    keep = end > start
    return start[keep], end[keep]


def with_transfer(ops: pl.DataFrame, splits: pl.DataFrame | None) -> pl.DataFrame:
    """`ops` with transfer_ns; null for all but the allreduces whose split is known."""
    if splits is None or not splits.height:
        return ops.with_columns(pl.lit(None, pl.Int64).alias("transfer_ns"))
    times = ops.select(pl.col("start_ns").min().alias("low"), pl.col("start_ns").max().alias("high")).row(0)
    own = splits.filter(pl.col("start_ns").is_between(*times)).unique(_KERNEL, keep="first")
    own = own.select(*(pl.col(n).cast(ops.schema[n]) for n in _KERNEL), "transfer_ns")
    reduces = np.flatnonzero(ops.select(_REDUCES.alias("reduces"))["reduces"].to_numpy())
    joined = ops.select(_KERNEL)[reduces].join(own, on=_KERNEL, how="left", nulls_equal=True, maintain_order="left")
    known = joined["transfer_ns"].is_not_null().to_numpy()
    found = np.full(ops.height, -1, np.int64)
    found[reduces[known]] = np.maximum(column(joined, "transfer_ns")[known], 0)
    transfer = pl.Series("transfer_ns", found)
    return ops.with_columns(pl.when(transfer >= 0).then(transfer).alias("transfer_ns"))


def _classified(ops: pl.DataFrame) -> tuple[_Work, IntArray]:
    """Operations with their class, and the row of `ops` of each.

    An allreduce whose split is known becomes a wait and, after it, a transfer.
    """
    family, kind = pl.col("family"), pl.col("kind")
    code = (
        pl.when(kind == HIDDEN).then(_CLASS["hidden"])
        .when(kind == "graph").then(_CLASS["graph"])
        .when(family == "copy").then(_CLASS["copy"])
        .when(_REDUCES).then(_CLASS["unsplit"])
        .when(family == "communication").then(_CLASS["other_comm"])
        .otherwise(_CLASS["compute"])
    )  # fmt: skip
    kinds = ops.select(code.cast(pl.Int64).alias("class"))["class"].to_numpy()
    start, end, launched = column(ops, "start_ns"), column(ops, "end_ns"), column(ops, "launch_end_ns", LOWEST)
    every = np.arange(ops.height)
    split = np.flatnonzero(ops.get_column("transfer_ns").is_not_null().to_numpy())
    if not len(split):
        return _Work(start, end, kinds, launched), every
    turn = np.clip(end[split] - column(ops, "transfer_ns")[split], start[split], end[split])
    kinds, starts = kinds.copy(), start.copy()
    kinds[split], starts[split] = _CLASS["transfer"], turn
    both = _Work(
        np.concatenate((starts, start[split])),
        np.concatenate((end, turn)),
        np.concatenate((kinds, np.full(len(split), _CLASS["wait"], np.int64))),
        np.concatenate((launched, launched[split])),
    )
    return both, np.concatenate((every, split))


def _segments(cycles: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stretches of cycles that belong to one phase each, and the windows of the cycles."""
    placed = cycles.filter(pl.col("window_start_ns").is_not_null())
    whole = placed.filter(pl.col("phase") == "cycle")
    phases = placed.filter((pl.col("phase") != "cycle") & (pl.col("window_end_ns") > pl.col("window_start_ns")))
    (cycle_lane, phase_lane), _ = dense_codes([whole, phases], TIMELINE)
    lane, start, end = _cut_at_borders(whole, phases, cycle_lane, phase_lane)
    of_cycle = innermost(_nest(whole, cycle_lane), lane, start, end)
    inside = of_cycle >= 0
    lane, start, end, of_cycle = lane[inside], start[inside], end[inside], of_cycle[inside]
    of_phase = innermost(_nest(phases, phase_lane), lane, start, end)
    names = pl.concat([phases.get_column("phase"), pl.Series("phase", ["other"])])
    segments = whole[of_cycle].select(*TIMELINE, "cycle").with_columns(
        names.gather(np.where(of_phase < 0, phases.height, of_phase)).alias("phase"),
        pl.Series("start_ns", start), pl.Series("end_ns", end),
    )  # fmt: skip
    length = (pl.col("window_end_ns") - pl.col("window_start_ns")).alias("window_ns")
    return segments, whole.select(*TIMELINE, "cycle", length)


_CAPTURE = (pl.col("start_ns").min(), pl.col("end_ns").max())


def recorded_spans(ops: pl.DataFrame) -> pl.DataFrame:
    """First start and last end of what was recorded on each timeline, of some operations."""
    return ops.filter(pl.col("kind") != HIDDEN).group_by(TIMELINE).agg(_CAPTURE)


def captures(spans: list[pl.DataFrame]) -> pl.DataFrame:
    """The whole capture of each timeline as segments, phase and cycle null; `spans`: of recorded_spans."""
    return pl.concat(spans).group_by(TIMELINE).agg(_CAPTURE).sort(TIMELINE).with_columns(
        pl.lit(None, pl.Int64).alias("cycle"), pl.lit(None, pl.String).alias("phase")
    )  # fmt: skip


def _nest(rows: pl.DataFrame, lane: IntArray) -> Nesting:
    return nest(lane, column(rows, "window_start_ns"), column(rows, "window_end_ns"))


def _cut_at_borders(
    whole: pl.DataFrame, phases: pl.DataFrame, cycle_lane: IntArray, phase_lane: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Timeline, start and end of the stretches between neighbouring window borders."""
    borders = [column(rows, name) for rows in (whole, phases) for name in ("window_start_ns", "window_end_ns")]
    lane, at = np.concatenate((cycle_lane, cycle_lane, phase_lane, phase_lane)), np.concatenate(borders)
    order = np.lexsort((at, lane))
    lane, at = lane[order], at[order]
    stretch = (lane[1:] == lane[:-1]) & (at[1:] > at[:-1])
    return lane[1:][stretch], at[:-1][stretch], at[1:][stretch]
