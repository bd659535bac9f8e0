"""Per phase, what the host and the GPU did: CPU span, launches, graph nodes, GPU span, busy time, summed kernel time.

The table that tells a launch-bound phase (CPU span longer than busy time, many launches) from a GPU-bound one (as in
sgl-project/sglang issue 29960). A launch belongs to the innermost phase around it, so no kernel counts twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, densify, first_rows
from traceana.attribution.intervals import BoolArray, IntArray, is_new, union_by_group
from traceana.attribution.model import PROCESS, TIMELINE
from traceana.attribution.nesting import innermost, nest
from traceana.attribution.ops import THREAD, link, recorded

_KEY = (*TIMELINE, "cycle", "phase")
_FIGURES = (
    "host_span_ns",
    "launches",
    "graph_launches",
    "graph_call_ns",
    "graph_nodes",
    "kernels",
    "gpu_span_ns",
    "busy_ns",
    "kernel_sum_ns",
)


def phase_spans(cycles: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """One row per cycle, phase and device.

    host_span_ns: CPU time of its ranges; launches: calls that put work on the device, graph launches included;
    graph_launches, and graph_call_ns, the host time in these; graph_nodes: operations of replays; kernels: all
    operations; gpu_span_ns: first start to last end; busy_ns: their union; kernel_sum_ns: their summed durations, above
    busy_ns where operations overlap. A replay that was traced as a whole is one operation and no node.
    """
    phases = cycles.filter((pl.col("phase") != "cycle") & pl.col("device").is_not_null())
    ops = recorded(ops)
    rows, groups = _rows_and_ranges(phases)
    owner = _owners(groups, launches)
    op, call = link(ops, launches)
    slot = _slots(rows, groups, owner[call], column(ops, "device")[op])
    kept = slot >= 0
    op, call, slot = op[kept], call[kept], slot[kept]
    order = np.argsort(slot, kind="stable")
    work = _Work(slot[order], call[order], column(ops, "start_ns")[op[order]], column(ops, "end_ns")[op[order]])
    replayed = launches.get_column("is_graph").fill_null(False).to_numpy()[work.call]
    whole = (ops.get_column("kind") == "graph").to_numpy()[op[order]]
    took = (column(launches, "end_ns") - column(launches, "start_ns"))[work.call]
    figures = _figures(work, replayed, replayed & ~whole, took, rows.height)
    found = rows.select(*_KEY, "host_span_ns").with_columns(
        pl.Series(n, v.astype(np.int64)) for n, v in figures.items()
    )
    return found.select(*_KEY, *_FIGURES)


def with_idle_phases(cycles: pl.DataFrame, spans: list[pl.DataFrame]) -> pl.DataFrame:
    """`phase_spans` of all cycles, from what it gave of some at a time: there devices that were idle may miss."""
    rows, _ = _rows_and_ranges(cycles.filter((pl.col("phase") != "cycle") & pl.col("device").is_not_null()))
    known = pl.concat(spans).drop("host_span_ns")
    found = rows.select(*_KEY, "host_span_ns").join(known, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    return found.with_columns(pl.col(_FIGURES[1:]).fill_null(0)).select(*_KEY, *_FIGURES)


@dataclass(frozen=True, slots=True)
class _Work:
    """Operations by row of the result: the row, the call, start and end."""

    slot: IntArray
    call: IntArray
    start: IntArray
    end: IntArray


def _figures(work: _Work, replayed: BoolArray, node: BoolArray, took: IntArray, count: int) -> dict[str, IntArray]:
    """Figures of each row of the result; `took`: length of each operation's call."""
    first = np.flatnonzero(is_new(work.slot))
    rows = work.slot[first]
    calls, distinct = densify(work.call)
    pair, pairs = densify(work.slot * max(distinct, 1) + calls)
    once = first_rows(pair, pairs)
    span, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
    if len(first):
        span[rows] = np.maximum.reduceat(work.end, first) - np.minimum.reduceat(work.start, first)
        length[rows] = np.add.reduceat(work.end - work.start, first)
    in_calls = np.zeros(count, np.int64)
    np.add.at(in_calls, work.slot[once & replayed], took[once & replayed])
    return {
        "launches": np.bincount(work.slot[once], minlength=count),
        "graph_launches": np.bincount(work.slot[once & replayed], minlength=count),
        "graph_call_ns": in_calls,
        "graph_nodes": np.bincount(work.slot[node], minlength=count),
        "kernels": np.bincount(work.slot, minlength=count),
        "gpu_span_ns": span,
        "busy_ns": union_by_group(work.slot, work.start, work.end, count),
        "kernel_sum_ns": length,
    }


def phase_table(spans: pl.DataFrame) -> pl.DataFrame:
    """Medians over cycles of `phase_spans`, per rank, device and phase, with the number of cycles behind them."""
    key = [*TIMELINE, "phase"]
    return spans.group_by(key).agg(pl.len().alias("cycles"), pl.col(*_FIGURES).median()).sort(key)


def _rows_and_ranges(phases: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of the result (cycle, phase and device, with host_span_ns), and the host ranges, both with their `group`."""
    key = [*PROCESS, "cycle", "phase"]
    ranges = phases.unique([*THREAD, "host_start_ns", "host_end_ns", "cycle", "phase"], maintain_order=True)
    groups = ranges.group_by(key, maintain_order=True).agg(
        (pl.col("host_end_ns") - pl.col("host_start_ns")).sum().alias("host_span_ns")
    )
    groups = groups.with_row_index("group")
    rows = phases.select(_KEY).unique().join(groups, on=key, nulls_equal=True)
    named = ranges.join(groups.select(*key, "group"), on=key, nulls_equal=True, maintain_order="left")
    return rows.sort(_KEY), named


def _owners(ranges: pl.DataFrame, launches: pl.DataFrame) -> IntArray:
    """Row of `ranges` around each launch, -1 for none."""
    (mine, theirs), _ = dense_codes([ranges, launches], THREAD)
    nesting = nest(mine, column(ranges, "host_start_ns"), column(ranges, "host_end_ns"))
    return innermost(nesting, theirs, column(launches, "start_ns"), column(launches, "end_ns"))


def _slots(rows: pl.DataFrame, ranges: pl.DataFrame, owner: IntArray, device: IntArray) -> IntArray:
    """Row of the result that each operation adds to, given the range around its call; -1 for none."""
    if not rows.height or not len(owner):
        return np.full(len(owner), -1, np.int64)
    devices, place = np.unique(np.concatenate((column(rows, "device"), device)), return_inverse=True)
    mine, theirs = place.reshape(-1)[: rows.height], place.reshape(-1)[rows.height :]
    table = np.full((int(column(rows, "group").max()) + 1, len(devices)), -1, np.int64)
    table[column(rows, "group"), mine] = np.arange(rows.height)
    found: IntArray = np.where(owner < 0, -1, table[column(ranges, "group")[owner], theirs])
    return found
