"""Cycles and their phases, on the host and on each device.

A phase's window on a device runs from its first operation to its last, plus the idle time around them that it owns:
from its host range's begin, once the device had nothing left to do, and to its host range's end, until the device had
something again. A cycle's window runs to the start of the next one, so that the scheduler between two cycles counts;
pauses and prefills end it early.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import HIGHEST, LOWEST, IntArray, is_new
from traceana.attribution.model import REGULAR_GAP_RATIO, REGULAR_GAP_SHARE, TIMELINE
from traceana.attribution.ops import THREAD
from traceana.attribution.periods import scopes_of_replays
from traceana.attribution.projection import project
from traceana.attribution.scopes import PREFILL, SCOPES, number_cycles

CYCLES: dict[str, pl.DataType] = {
    **SCOPES,
    "device": pl.Int32(),
    "gpu_start_ns": pl.Int64(),
    "gpu_end_ns": pl.Int64(),
    "window_start_ns": pl.Int64(),
    "window_end_ns": pl.Int64(),
}


def cycles_of_scopes(scopes: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Cycles from named host ranges (our own, or an engine's annotations).

    Args:
        scopes: see scopes.scopes_of_ranges and scopes.scopes_by_name. launches: the table. ops: see ops.device_ops.

    Returns:
        One row per cycle (phase `cycle`) and per range of a phase, and device: the columns of CYCLES. gpu_start_ns and
        gpu_end_ns are null for a phase that launched nothing; device and windows are null where its thread never
        launched anything.
    """
    return _on_devices(number_cycles(scopes), launches, ops)


def cycles_of_replays(launches: pl.DataFrame, ops: pl.DataFrame, graphs: pl.DataFrame) -> pl.DataFrame:
    """Cycles read off the periodic pattern of graph launches, for captures without ranges. Always `derived`.

    Empty where the replays cannot be told apart or do not repeat (see periods.scopes_of_replays).
    """
    return _on_devices(scopes_of_replays(launches, ops, graphs), launches, ops)


def _on_devices(scopes: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Scopes with their device spans and windows."""
    if not scopes.height:
        return pl.DataFrame(schema=CYCLES)
    scopes = scopes.with_row_index("row")
    host = {"host_start_ns": "start_ns", "host_end_ns": "end_ns"}
    spans = project(scopes.select(*THREAD, *host).rename(host), launches, ops)
    spans = spans.select(
        pl.col("range").cast(scopes.schema["row"]).alias("row"), "device",
        pl.col("proj_start_ns").alias("gpu_start_ns"), pl.col("proj_end_ns").alias("gpu_end_ns"),
    )  # fmt: skip
    devices = (
        scopes.select("row", *THREAD).join(spans.select("row", "device"), on="row").select(*THREAD, "device").unique()
    )
    rows = scopes.join(devices, on=THREAD, how="left", nulls_equal=True).join(
        spans, on=["row", "device"], how="left", nulls_equal=True
    )
    rows = _windows(rows, ops)
    kept = rows.filter(pl.col("phase") != PREFILL)
    return kept.select(pl.col(name).cast(kind) for name, kind in CYCLES.items()).sort(
        *TIMELINE, "cycle", pl.col("phase") != "cycle", "host_start_ns"
    )


def _windows(rows: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Rows with window_start_ns and window_end_ns, timeline by timeline."""
    (mine, theirs), count = dense_codes([rows, ops], TIMELINE)
    starts, ends = column(ops, "start_ns"), column(ops, "end_ns")
    window_start, window_end = np.zeros(rows.height, np.int64), np.full(rows.height, -1, np.int64)
    known = rows.get_column("device").is_not_null().to_numpy()
    host_start, host_end = column(rows, "host_start_ns"), column(rows, "host_end_ns")
    gpu_start, gpu_end = column(rows, "gpu_start_ns"), column(rows, "gpu_end_ns")
    works = rows.get_column("gpu_start_ns").is_not_null().to_numpy()
    cycle = column(rows, "cycle")
    phase = rows.get_column("phase").to_numpy()
    for at, on in zip(rows_by_code(mine, count), rows_by_code(theirs, count), strict=True):
        at = at[known[at]]  # noqa: PLW2901
        if not len(at) or not len(on):
            continue
        order = on[np.argsort(starts[on], kind="stable")]
        timeline = starts[order], np.maximum.accumulate(ends[order])
        low, high = _owned(host_start[at], host_end[at], gpu_start[at], gpu_end[at], works[at], *timeline)
        whole, breaks = at[phase[at] == "cycle"], phase[at] == PREFILL
        window_start[at], window_end[at] = low, high
        window_start[whole], window_end[whole] = _tile(
            cycle[whole], cycle[at][~breaks], low[~breaks], high[~breaks], np.sort(low[breaks])
        )
    return rows.with_columns(
        pl.Series("window_start_ns", window_start), pl.Series("window_end_ns", window_end), pl.Series("placed", known)
    ).with_columns(pl.when(pl.col("placed")).then(name).alias(name) for name in ("window_start_ns", "window_end_ns"))


def _owned(
    host_start: IntArray,
    host_end: IntArray,
    gpu_start: IntArray,
    gpu_end: IntArray,
    works: IntArray,
    starts: IntArray,
    reach: IntArray,
) -> tuple[IntArray, IntArray]:
    """Window of each row: its operations and the idle time around them that its host range owns.

    `starts` are those of all operations of the timeline, ascending; `reach` the running maximum of their ends.
    """
    reached = np.concatenate(([LOWEST], reach))
    next_start = np.concatenate((starts, [HIGHEST]))
    first = np.where(works, gpu_start, host_start)
    last = np.where(works, gpu_end, host_start)
    before = np.searchsorted(starts, first, side="left")
    low = np.minimum(np.where(works, first, HIGHEST), np.maximum(host_start, reached[before]))
    begun = np.searchsorted(starts, last, side="left")
    free = reached[begun] <= np.where(works, last, HIGHEST)
    high = np.where(free, np.maximum(np.where(works, last, LOWEST), np.minimum(host_end, next_start[begun])), last)
    return low, np.maximum(high, low)


def _tile(
    cycle: IntArray, of: IntArray, low: IntArray, high: IntArray, prefills: IntArray
) -> tuple[IntArray, IntArray]:
    """Windows of the cycles of one timeline, from the windows of their rows (`of`: the cycle of each)."""
    if not len(of):
        return low[:0], high[:0]
    order = np.argsort(of, kind="stable")
    sorted_of = of[order]
    first = np.flatnonzero(is_new(sorted_of))
    start, end = np.minimum.reduceat(low[order], first), np.maximum.reduceat(high[order], first)
    by_time = np.argsort(start, kind="stable")
    start, end, number = start[by_time], end[by_time], sorted_of[first][by_time]
    following = start[1:]
    gap = following - end[:-1]
    limit = _regular_gap(gap, end - start)
    blocked = np.concatenate((prefills, [HIGHEST]))[np.searchsorted(prefills, end[:-1], side="left")]
    tiled = np.where(gap <= 0, following, np.where(gap <= limit, np.minimum(following, blocked), end[:-1]))
    end = np.concatenate((tiled, end[-1:]))
    place = np.argsort(number)[np.searchsorted(np.sort(number), cycle)]
    return start[place], end[place]


def _regular_gap(gaps: IntArray, lengths: IntArray) -> int:
    """Longest gap between cycles that still belongs to the loop, ns."""
    apart = gaps[gaps > 0]
    if not len(apart):
        return 0
    return max(int(REGULAR_GAP_RATIO * np.median(apart)), int(REGULAR_GAP_SHARE * np.median(lengths)))
