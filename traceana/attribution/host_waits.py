"""Calls in which the host waits for the device, inside cycles, and the idle time of the device that follows them.

A wait costs nothing while the device has work queued. It costs when the host entered it with the device still busy (it
was ahead) and left it with the device idle: nothing could be queued meanwhile, and the device stands still until the
next launch arrives. That idle time is counted, once per gap; a host that was late anyway is not.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import IntArray, pieces
from traceana.attribution.model import PROCESS, TIMELINE
from traceana.attribution.ops import THREAD
from traceana.attribution.sweep import Slab, sweep
from traceana.store.tables import STORED
from traceana_parsers.schema import polars_schema

#: calls that return only when the device is done, whatever they are given
_WAITS = r"^(?:cuda|cu|hip)(?:Stream|Event|Device|Ctx)Synchronize|^(?:cuda|cu|hip)Memcpy(?:DtoH|HtoD|DtoD)?(?:_v\d+)?$"
#: copies that wait where the host memory is pageable
_COPIES = r"^(?:cuda|cu|hip)Memcpy\w*(?:Async|WithStream)"

HOST_WAITS = polars_schema("host_waits", STORED)


def host_waits(cycles: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Waiting calls of the threads that run the cycles, summed per timeline and name of the call.

    Args:
        cycles: see cycles.CYCLES. launches, names: the tables. ops: see ops.device_ops.

    Returns:
        Columns HOST_WAITS, most idle time first: `calls` inside cycles, `cycles` of the timeline, `cycles_waiting` (in
        which such a call left the device idle), `call_ns` in the calls, `idle_ns` of the device after them.
    """
    waits = Waits(cycles, waiting_calls(launches, ops.filter(pl.col("kind") == "memop"), names))
    for slab in sweep([ops]):
        waits.add(slab)
    return waits.found()


class Waits:
    """`host_waits` in the making."""

    def __init__(self, cycles: pl.DataFrame, calls: pl.DataFrame) -> None:
        """`calls`: see waiting_calls."""
        whole = cycles.filter((pl.col("phase") == "cycle") & pl.col("window_start_ns").is_not_null())
        self._whole = whole.sort("window_start_ns", maintain_order=True)
        self._calls = calls.join(whole.select(*THREAD, "device").unique(), on=THREAD, nulls_equal=True)
        self._begin, self._end = column(self._calls, "start_ns"), column(self._calls, "end_ns")
        self._cycle, self._until = self._places()
        self._idle = np.zeros(self._calls.height, np.int64)

    def _places(self) -> tuple[IntArray, IntArray]:
        """The cycle in which each call ends (-1: none), and how far idle time after it may reach."""
        cycle, until = np.full(self._calls.height, -1, np.int64), np.zeros(self._calls.height, np.int64)
        low, high = column(self._whole, "window_start_ns"), column(self._whole, "window_end_ns")
        (mine, theirs), count = dense_codes([self._whole, self._calls], TIMELINE)
        for windows, at in zip(rows_by_code(mine, count), rows_by_code(theirs, count), strict=True):
            if not len(windows) or not len(at):
                continue
            place = np.searchsorted(low[windows], self._end[at], side="right") - 1
            inside = (place >= 0) & (self._end[at] <= high[windows[np.maximum(place, 0)]])
            rows, place = at[inside], place[inside]
            cycle[rows], until[rows] = windows[place], _reach(low[windows], high[windows])[place]
        return cycle, until

    def add(self, slab: Slab) -> None:
        """Take the next operations."""
        low, high = slab.stretch(self._calls)
        due = (self._cycle >= 0) & (low <= self._end) & (self._end < high)
        busy_from, busy_to = column(slab.around, "start_ns"), column(slab.around, "end_ns")
        for of_lane, order in slab.by_timeline(self._calls):
            at = of_lane[due[of_lane]]
            begin, end, until = self._begin[at], self._end[at], self._until[at]
            self._idle[at] = _idle_after(begin, end, until, busy_from[order], busy_to[order])

    def found(self) -> pl.DataFrame:
        """Columns HOST_WAITS."""
        key = list(TIMELINE)
        calls = self._calls.with_columns(pl.Series("cycle", self._cycle), pl.Series("idle_ns", self._idle))
        sums = calls.filter(pl.col("cycle") >= 0).group_by(*key, "call").agg(
            pl.len().alias("calls"),
            pl.col("cycle").filter(pl.col("idle_ns") > 0).n_unique().alias("cycles_waiting"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("call_ns"),
            pl.col("idle_ns").sum(),
        )  # fmt: skip
        totals = self._whole.group_by(key).agg(pl.len().alias("cycles"))
        sums = sums.join(totals, on=key, nulls_equal=True)
        return sums.select(pl.col(n).cast(kind) for n, kind in HOST_WAITS.items()).sort(
            pl.col("idle_ns"), pl.col("call_ns"), descending=True
        )


def _reach(low: IntArray, high: IntArray) -> IntArray:
    """How far idle time that begins in each window may reach: into the next one, where that follows without a pause."""
    following = np.concatenate((low[1:] == high[:-1], [False]))
    reach: IntArray = np.where(following, np.concatenate((high[1:], high[-1:])), high)
    return reach


def waiting(names: pl.DataFrame) -> pl.DataFrame:
    """Those of `names` that are of calls which may wait."""
    return names.filter(pl.col("name").str.contains(f"{_WAITS}|{_COPIES}"))


def waiting_calls(launches: pl.DataFrame, memops: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Calls that waited: file_id, rank, pid, tid, start_ns, end_ns, call. A copy waited if the call outlasted it."""
    key = ["file_id", "name_id"]
    calls = launches.join(waiting(names).select(*key, pl.col("name").alias("call")), on=key)
    always = pl.col("call").str.contains(_WAITS)
    copies = calls.filter(~always)
    if copies.height:
        same = [*PROCESS, "correlation"]
        moved = memops.filter(pl.col("correlation").is_not_null()).select(*same, pl.col("end_ns").alias("moved"))
        moved = moved.unique(same, keep="last")
        copies = copies.join(moved, on=same, nulls_equal=True).filter(pl.col("end_ns") >= pl.col("moved"))
    columns = [*THREAD, "start_ns", "end_ns", "call"]
    return pl.concat([calls.filter(always).select(columns), copies.select(columns)])


def _idle_after(begin: IntArray, end: IntArray, until: IntArray, starts: IntArray, ends: IntArray) -> IntArray:
    """Idle ns of one device that each wait brought about: the gap it returned in, if it began before that gap did."""
    low, high = pieces(starts, ends)
    if not len(low):
        return np.zeros(len(begin), np.int64)
    after = np.searchsorted(low, end, side="right")  # the first piece that begins after the wait returned
    before = np.maximum(after - 1, 0)
    drained = high[before]
    following = np.where(after < len(low), low[np.minimum(after, len(low) - 1)], until)
    caused = (after > 0) & (drained <= end) & (begin < drained)
    found: IntArray = np.where(caused, np.maximum(np.minimum(following, until) - drained, 0), 0)
    return found
