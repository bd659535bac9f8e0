"""What lies inside cycles, counted: communication kernels by library and size, copies by direction."""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.model import TIMELINE
from traceana.store.tables import STORED
from traceana_parsers.schema import polars_schema

_PHASE = (*TIMELINE, "phase")
COMM_KERNELS = polars_schema("comm_kernels", STORED)
COPIES = polars_schema("cycle_copies", STORED)
_KERNEL = (*TIMELINE, "stream", "start_ns")


def phase_of(cycles: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` (TIMELINE, start_ns) that start inside a cycle, with the `phase` they start in (`other` between those)."""
    placed = cycles.filter(pl.col("window_end_ns") > pl.col("window_start_ns"))
    whole, phases = placed.filter(pl.col("phase") == "cycle"), placed.filter(pl.col("phase") != "cycle")
    in_cycle, in_phase = _window_around(whole, rows), _window_around(phases, rows)
    names = pl.concat([phases.get_column("phase"), pl.Series("phase", ["other"])])
    found = rows.with_columns(names.gather(np.where(in_phase < 0, phases.height, in_phase)).alias("phase"))
    return found.filter(pl.Series(in_cycle >= 0))


def _window_around(windows: pl.DataFrame, rows: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Row of the window that began last before each row and has not ended; -1 for none."""
    found = np.full(rows.height, -1, np.int64)
    if not windows.height or not rows.height:
        return found
    (mine, theirs), count = dense_codes([windows, rows], TIMELINE)
    low, high, start = column(windows, "window_start_ns"), column(windows, "window_end_ns"), column(rows, "start_ns")
    for at, on in zip(rows_by_code(mine, count), rows_by_code(theirs, count), strict=True):
        if not len(at) or not len(on):
            continue
        order = at[np.argsort(low[at], kind="stable")]
        place = np.searchsorted(low[order], start[on], side="right") - 1
        owner = order[np.maximum(place, 0)]
        found[on] = np.where((place >= 0) & (start[on] < high[owner]), owner, -1)
    return found


def comm_kernels(
    cycles: pl.DataFrame, ops: pl.DataFrame, kernels: pl.DataFrame, collectives: pl.DataFrame, libraries: pl.DataFrame
) -> pl.DataFrame:
    """Communication kernels inside cycles, counted by what tells how they were done; columns COMM_KERNELS.

    Args:
        cycles: see cycles.CYCLES. ops: see ops.device_ops. kernels, collectives: the tables (launch shape; bytes and
            group, where the trace says so). libraries: file_id, name_id, library.
    """
    talking = ops.filter((pl.col("kind") == "kernel") & (pl.col("family") == "communication"))
    found = phase_of(cycles, talking)
    if not found.height:
        return pl.DataFrame(schema=COMM_KERNELS)
    key = list(_KERNEL)
    shapes = kernels.select(*key, "grid_x", "block_x").join(found.select(key), on=key, how="semi", nulls_equal=True)
    sizes = collectives.filter(pl.col("device").is_not_null()).select(*key, "bytes", "group_size")
    for extra in (shapes, sizes):
        found = found.join(extra.unique(key, keep="first"), on=key, how="left", nulls_equal=True)
    named = libraries.unique(["file_id", "name_id"], keep="first")
    found = found.join(named, on=["file_id", "name_id"], how="left")
    length = pl.col("end_ns") - pl.col("start_ns")
    by = [*_PHASE, "collective", "library", "bytes", "group_size", "grid_x", "block_x"]
    sums = found.group_by(by).agg(
        pl.len().alias("instances"), length.sum().alias("total_ns"), length.min().alias("shortest_ns")
    )
    return added_comm_kernels([sums.select(pl.col(n).cast(kind) for n, kind in COMM_KERNELS.items())])


def added_comm_kernels(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """What `comm_kernels` gives of all kernels, from what it gives of some of them at a time."""
    by = [name for name in COMM_KERNELS if name not in ("instances", "total_ns", "shortest_ns")]
    sums = pl.concat(parts).group_by(by).agg(pl.col("instances", "total_ns").sum(), pl.col("shortest_ns").min())
    return sums.select(*COMM_KERNELS).sort(pl.col("total_ns"), *by, descending=[True, *[False] * len(by)])


def copies(cycles: pl.DataFrame, memops: pl.DataFrame) -> pl.DataFrame:
    """Memory operations inside cycles by direction; columns COPIES."""
    found = phase_of(cycles, memops)
    if not found.height:
        return pl.DataFrame(schema=COPIES)
    by = [*_PHASE, "kind"]
    sums = found.group_by(by).agg(
        pl.len().alias("copies"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"),
        pl.col("bytes").sum(),
    )
    return added_copies([sums.select(pl.col(n).cast(kind) for n, kind in COPIES.items())])


def added_copies(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """What `copies` gives of all memory operations, from what it gives of some of them at a time."""
    by = [*_PHASE, "kind"]
    return pl.concat(parts).group_by(by).agg(pl.col("copies", "total_ns", "bytes").sum()).select(*COPIES).sort(by)
