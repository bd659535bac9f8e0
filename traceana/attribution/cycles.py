"""Cycles and their phases, on the host and on each device.

A phase's window on a device runs from its first operation to its last, plus the idle time around them that it owns:
from its host range's begin, once the device had nothing left to do, and to its host range's end, until the device had
something again. A cycle's window runs to the start of the next one, so that the scheduler between two cycles counts;
pauses and prefills end it early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import HIGHEST, LOWEST, BoolArray, IntArray, is_new
from traceana.attribution.model import REGULAR_GAP_RATIO, REGULAR_GAP_SHARE, TIMELINE
from traceana.attribution.ops import THREAD
from traceana.attribution.periods import scopes_of_replays
from traceana.attribution.projection import project
from traceana.attribution.scopes import PREFILL, SCOPES, number_cycles
from traceana.attribution.sweep import Slab, sweep

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
    return _of_one_piece(number_cycles(scopes), launches, ops)


def cycles_of_replays(launches: pl.DataFrame, ops: pl.DataFrame, graphs: pl.DataFrame) -> pl.DataFrame:
    """Cycles read off the periodic pattern of graph launches, for captures without ranges. Always `derived`.

    Empty where the replays cannot be told apart or do not repeat (see periods.scopes_of_replays).
    """
    return _of_one_piece(scopes_of_replays(launches, lambda: [ops], graphs), launches, ops)


def _of_one_piece(scopes: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    scopes = scopes.with_row_index("row")
    return with_windows(on_devices(scopes, device_spans(scopes, launches, ops)), sweep([ops]))


def device_spans(scopes: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """What scopes.SCOPES and `row` did on each device: row, device, gpu_start_ns, gpu_end_ns.

    `launches` must hold all calls inside the scopes, `ops` all that these launched; more does no harm.
    """
    host = {"host_start_ns": "start_ns", "host_end_ns": "end_ns"}
    spans = project(scopes.select(*THREAD, *host).rename(host), launches, ops)
    return spans.select(
        scopes.get_column("row").gather(spans["range"]), "device",
        pl.col("proj_start_ns").alias("gpu_start_ns"), pl.col("proj_end_ns").alias("gpu_end_ns"),
    )  # fmt: skip


def on_devices(scopes: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Scopes on each device that their thread ever used (null: none), with what they did there (see device_spans)."""
    devices = (
        scopes.select("row", *THREAD).join(spans.select("row", "device"), on="row").select(*THREAD, "device").unique()
    )
    return scopes.join(devices, on=THREAD, how="left", nulls_equal=True).join(
        spans, on=["row", "device"], how="left", nulls_equal=True
    )


def with_windows(rows: pl.DataFrame, slabs: Iterable[Slab]) -> pl.DataFrame:
    """Cycles, from scopes on devices (see on_devices) and all operations; columns CYCLES."""
    rows = _windows(rows, slabs)
    kept = rows.filter(pl.col("phase") != PREFILL)
    return kept.select(pl.col(name).cast(kind) for name, kind in CYCLES.items()).sort(
        *TIMELINE, "cycle", pl.col("phase") != "cycle", "host_start_ns"
    )


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of each row: whether it has work on its device, the first instant and the last; and of all operations of the
    device: how far those go that began before the first and before the last instant, and the next start after it."""

    works: BoolArray
    first: IntArray
    last: IntArray
    reach_first: IntArray
    reach_last: IntArray
    next_start: IntArray


def _bounds(rows: pl.DataFrame, slabs: Iterable[Slab]) -> _Bounds:
    works = rows.get_column("gpu_start_ns").is_not_null().to_numpy()
    host_start = column(rows, "host_start_ns")
    first = np.where(works, column(rows, "gpu_start_ns"), host_start)
    last = np.where(works, column(rows, "gpu_end_ns"), host_start)
    reach_first, reach_last = np.full(rows.height, LOWEST), np.full(rows.height, LOWEST)
    next_start = np.full(rows.height, HIGHEST)
    for slab in slabs:
        low, high = slab.stretch(rows)
        starts, ends = column(slab.around, "start_ns"), column(slab.around, "end_ns")
        due_first, due_last = (low < first) & (first <= high), (low < last) & (last <= high)
        for at, on in slab.by_timeline(rows):
            begun = starts[on]
            reached = np.concatenate(([LOWEST], np.maximum.accumulate(ends[on])))
            some = at[due_first[at]]
            reach_first[some] = reached[np.searchsorted(begun, first[some], side="left")]
            some = at[due_last[at]]
            place = np.searchsorted(begun, last[some], side="left")
            reach_last[some] = reached[place]
            next_start[some] = np.concatenate((begun, [HIGHEST]))[place]
    return _Bounds(works, first, last, reach_first, reach_last, next_start)


def _windows(rows: pl.DataFrame, slabs: Iterable[Slab]) -> pl.DataFrame:
    """Rows with window_start_ns and window_end_ns, timeline by timeline."""
    bounds = _bounds(rows, slabs)
    window_start, window_end = _owned(column(rows, "host_start_ns"), column(rows, "host_end_ns"), bounds)
    known = rows.get_column("device").is_not_null().to_numpy()
    cycle, phase = column(rows, "cycle"), rows.get_column("phase").to_numpy()
    (lane,), lanes = dense_codes([rows], TIMELINE)
    for of_lane in rows_by_code(lane, lanes):
        at = of_lane[known[of_lane]]
        low, high = window_start[at], window_end[at]
        whole, breaks = at[phase[at] == "cycle"], phase[at] == PREFILL
        window_start[whole], window_end[whole] = _tile(
            cycle[whole], cycle[at][~breaks], low[~breaks], high[~breaks], np.sort(low[breaks])
        )
    return rows.with_columns(
        pl.Series("window_start_ns", window_start), pl.Series("window_end_ns", window_end), pl.Series("placed", known)
    ).with_columns(pl.when(pl.col("placed")).then(name).alias(name) for name in ("window_start_ns", "window_end_ns"))


def _owned(host_start: IntArray, host_end: IntArray, of: _Bounds) -> tuple[IntArray, IntArray]:
    """Window of each row: its operations and the idle time around them that its host range owns."""
    low = np.minimum(np.where(of.works, of.first, HIGHEST), np.maximum(host_start, of.reach_first))
    free = of.reach_last <= np.where(of.works, of.last, HIGHEST)
    beyond = np.maximum(np.where(of.works, of.last, LOWEST), np.minimum(host_end, of.next_start))
    high = np.where(free, beyond, of.last)
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
