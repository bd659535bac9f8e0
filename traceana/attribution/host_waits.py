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
    whole = cycles.filter((pl.col("phase") == "cycle") & pl.col("window_start_ns").is_not_null())
    calls = _waiting_calls(launches, ops, names)
    if not whole.height or not calls.height:
        return pl.DataFrame(schema=HOST_WAITS)
    lanes = whole.select(*THREAD, "device").unique()
    calls = calls.join(lanes, on=THREAD, nulls_equal=True)
    (mine, theirs, work), count = dense_codes([whole, calls, ops], TIMELINE)
    cycle, idle = np.full(calls.height, -1, np.int64), np.zeros(calls.height, np.int64)
    begin, end = column(calls, "start_ns"), column(calls, "end_ns")
    low, high = column(whole, "window_start_ns"), column(whole, "window_end_ns")
    busy_from, busy_to = column(ops, "start_ns"), column(ops, "end_ns")
    lists = (rows_by_code(codes, count) for codes in (mine, theirs, work))
    for windows, at, on in zip(*lists, strict=True):
        if not len(windows) or not len(at):
            continue
        windows = windows[np.argsort(low[windows], kind="stable")]  # noqa: PLW2901
        until = _reach(low[windows], high[windows])
        place = np.searchsorted(low[windows], end[at], side="right") - 1
        inside = (place >= 0) & (end[at] <= high[windows[np.maximum(place, 0)]])
        rows, owner = at[inside], windows[place[inside]]
        cycle[rows] = owner
        order = on[np.argsort(busy_from[on], kind="stable")]
        idle[rows] = _idle_after(begin[rows], end[rows], until[place[inside]], busy_from[order], busy_to[order])
    calls = calls.with_columns(pl.Series("cycle", cycle), pl.Series("idle_ns", idle)).filter(pl.col("cycle") >= 0)
    key = list(TIMELINE)
    sums = calls.group_by(*key, "call").agg(
        pl.len().alias("calls"),
        pl.col("cycle").filter(pl.col("idle_ns") > 0).n_unique().alias("cycles_waiting"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("call_ns"),
        pl.col("idle_ns").sum(),
    )
    totals = whole.group_by(key).agg(pl.len().alias("cycles"))
    sums = sums.join(totals, on=key, nulls_equal=True)
    return sums.select(pl.col(n).cast(kind) for n, kind in HOST_WAITS.items()).sort(
        pl.col("idle_ns"), pl.col("call_ns"), descending=True
    )


def _reach(low: IntArray, high: IntArray) -> IntArray:
    """How far idle time that begins in each window may reach: into the next one, where that follows without a pause."""
    following = np.concatenate((low[1:] == high[:-1], [False]))
    reach: IntArray = np.where(following, np.concatenate((high[1:], high[-1:])), high)
    return reach


def _waiting_calls(launches: pl.DataFrame, ops: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """Calls that waited: file_id, rank, pid, tid, start_ns, end_ns, call. A copy waited if the call outlasted it."""
    key = ["file_id", "name_id"]
    wanted = names.filter(pl.col("name").str.contains(f"{_WAITS}|{_COPIES}"))
    calls = launches.join(wanted.select(*key, pl.col("name").alias("call")), on=key)
    always = pl.col("call").str.contains(_WAITS)
    copies = calls.filter(~always)
    if copies.height:
        same = [*PROCESS, "correlation"]
        moved = ops.filter((pl.col("kind") == "memop") & pl.col("correlation").is_not_null())
        moved = moved.select(*same, pl.col("end_ns").alias("moved")).unique(same, keep="last")
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
