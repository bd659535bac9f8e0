"""One table of what ran on the devices, each operation tied to the call that launched it.

A kernel, a memory operation and a graph replay that was traced as a whole are all operations. A graph launch of which
nothing was recorded becomes a `hidden_graph` operation: the device was doing something, nobody knows what.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, densify, rows_by_code, small_range
from traceana.attribution.intervals import HIGHEST, IntArray, expand, is_new
from traceana.attribution.model import PROCESS, TIMELINE

THREAD = (*PROCESS, "tid")
#: kinds of operation that the profiler recorded; `hidden_graph` is inferred
RECORDED = ("kernel", "memop", "graph")
HIDDEN = "hidden_graph"

#: columns of operations; see device_ops
OPS: dict[str, pl.DataType] = {
    "file_id": pl.Int32(),
    "rank": pl.Int32(),
    "pid": pl.Int64(),
    "device": pl.Int32(),
    "stream": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "name_id": pl.Int32(),
    "correlation": pl.Int64(),
    "kind": pl.Enum([*RECORDED, HIDDEN]),
    "family": pl.Enum(["compute", "communication", "copy", "unknown"]),
    "collective": pl.String(),
    "launch_start_ns": pl.Int64(),
    "launch_end_ns": pl.Int64(),
    "in_graph": pl.Boolean(),
}


def recorded(ops: pl.DataFrame) -> pl.DataFrame:
    """Operations that the profiler recorded."""
    known = pl.col("kind") != HIDDEN
    return ops if ops.select(known.all()).item() else ops.filter(known)


def link(ops: pl.DataFrame, launches: pl.DataFrame) -> tuple[IntArray, IntArray]:
    """Pairs (row of ops, row of launches) of the same process and correlation, ascending by op.

    Correlation ids are unique per process only. An operation without an id or without a call has no pair; one whose id
    two calls share has two.
    """
    frames = (ops, launches)
    codes, processes = dense_codes(frames, PROCESS)
    rows = [np.flatnonzero(frame.get_column("correlation").is_not_null().to_numpy()) for frame in frames]
    if not len(rows[0]) or not len(rows[1]):
        return rows[0][:0], rows[0][:0]
    ids = [column(frame, "correlation")[at] for frame, at in zip(frames, rows, strict=True)]  # copies
    low = min(int(own.min()) for own in ids)
    span = max(int(own.max()) for own in ids) - low + 1
    if span * processes >= 1 << 62:
        both, span = densify(np.concatenate(ids))
        low, ids = 0, [both[: len(ids[0])], both[len(ids[0]) :]]
    for side, at in enumerate(rows):
        ids[side] -= low
        if processes > 1:
            ids[side] += codes[side][at] * span
    mine, theirs = _same(ids[0], ids[1], span * processes)
    return rows[0][mine], rows[1][theirs]


def _same(wanted: IntArray, keys: IntArray, span: int) -> tuple[IntArray, IntArray]:
    """Places in `wanted` and in `keys` (0 ... span-1) of equal values, ascending by the first."""
    if small_range(len(wanted) + len(keys), span):
        at = np.full(span, -1, np.int64)
        at[keys] = np.arange(len(keys))
        if np.count_nonzero(at >= 0) == len(keys):  # no value occurs twice
            found = at[wanted]
            hit = np.flatnonzero(found >= 0)
            return hit, found[hit]
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.searchsorted(ordered, wanted, side="left")
    row, place = expand(first, np.searchsorted(ordered, wanted, side="right") - first)
    return row, order[place]


def device_ops(
    kernels: pl.DataFrame,
    memops: pl.DataFrame,
    graphs: pl.DataFrame,
    launches: pl.DataFrame,
    kinds: pl.DataFrame,
    collectives: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """All operations of the devices.

    Args:
        kernels, memops, graphs, launches: tables of traceana_parsers.schema.
        kinds: file_id, name_id, family (compute, communication or copy), collective, one row per kernel name.
        collectives: the table; says which collective a kernel is whose name does not tell (RCCL has one for all).

    Returns:
        file_id, rank, pid, device, stream, start_ns, end_ns, name_id, correlation, kind (kernel, memop, graph or
        hidden_graph), family (compute, communication, copy or unknown), collective, launch_start_ns, launch_end_ns
        (null without a launch record), in_graph (replayed by a graph launch).
    """
    inside = pl.concat([_with_keys_of(part, timed(graphs)) for part in (kernels, memops)])
    replays = timed(graphs).join(inside, on=[*PROCESS, "correlation"], how="anti", nulls_equal=True)
    found = recorded_ops(kernels, memops, replays, launches, kinds, collectives)
    hidden = hidden_graphs(hidden_launches(found, launches), [found])
    return pl.concat([found, hidden]) if hidden.height else found


def timed(graphs: pl.DataFrame) -> pl.DataFrame:
    """Graph replays whose time was recorded: the others start and end at once."""
    return graphs.filter(pl.col("end_ns") > pl.col("start_ns"))


def recorded_ops(
    kernels: pl.DataFrame,
    memops: pl.DataFrame,
    replays: pl.DataFrame,
    launches: pl.DataFrame,
    kinds: pl.DataFrame,
    collectives: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """As `device_ops`, without the replays that left no trace; `replays`: timed rows of `graphs` without any kernel."""
    kernel_ops = kernels.with_columns(pl.lit("kernel").alias("kind"), *_meaning(kernels, kinds))
    kernel_ops = _told_by_trace(kernel_ops, collectives)
    memory_ops = memops.with_columns(
        pl.lit("memop").alias("kind"), pl.lit("copy").alias("family"), pl.lit(None, pl.String).alias("collective")
    )
    graph_ops = replays.with_columns(
        pl.lit("graph").alias("kind"), pl.lit("unknown").alias("family"), pl.lit(None, pl.String).alias("collective")
    )
    wanted = [name for name in OPS if name not in ("launch_start_ns", "launch_end_ns", "in_graph")]
    parts = [
        part.select(pl.col(name).cast(OPS[name]) for name in wanted) for part in (kernel_ops, memory_ops, graph_ops)
    ]
    return _with_launch(pl.concat(parts, rechunk=True), launches)


def _meaning(kernels: pl.DataFrame, kinds: pl.DataFrame) -> list[pl.Series]:
    """Family (compute where the name is not known) and collective of each kernel; a join would cost far more memory."""
    (mine, theirs), count = dense_codes([kernels, kinds], ("file_id", "name_id"))
    place = np.full(count, kinds.height, np.int64)
    place[theirs] = np.arange(kinds.height)
    unknown = pl.DataFrame(
        {"family": ["compute"], "collective": [None]}, {"family": pl.String, "collective": pl.String}
    )
    known = pl.concat([kinds.select("family", "collective"), unknown])
    return [known["family"].cast(OPS["family"]).gather(place[mine]), known["collective"].gather(place[mine])]


def _told_by_trace(ops: pl.DataFrame, collectives: pl.DataFrame | None) -> pl.DataFrame:
    """`ops` with the collective of kernels whose name does not tell, from the trace's own record."""
    silent = (pl.col("family") == "communication") & pl.col("collective").fill_null("unknown").eq("unknown")
    if collectives is None or not ops.filter(silent).height:
        return ops
    key = [*TIMELINE, "stream", "start_ns"]
    told = collectives.filter(pl.col("collective") != "unknown").select(*key, pl.col("collective").alias("told"))
    joined = ops.join(told.unique(key, keep="first"), on=key, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(
        pl.when(silent).then(pl.coalesce("told", "collective")).otherwise("collective").alias("collective")
    )


def _with_launch(ops: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """`ops` with the times of the call that launched each (the first where several share its id)."""
    op, call = link(ops, launches)
    first = is_new(op)
    row = np.full(ops.height, -1, np.int64)
    row[op[first]] = call[first]
    found = row >= 0

    def taken(name: str) -> pl.Series:
        if not launches.height:
            return pl.Series(name, [None] * ops.height, pl.Int64)
        values = launches.get_column(name).cast(pl.Int64).to_numpy()[np.maximum(row, 0)]
        return pl.select(pl.when(pl.Series(found)).then(pl.Series(values)).alias(name)).to_series()

    replayed = taken("is_graph").fill_null(0) == 1
    return ops.with_columns(
        taken("start_ns").alias("launch_start_ns"), taken("end_ns").alias("launch_end_ns"), replayed.alias("in_graph")
    ).select(pl.col(name).cast(kind) for name, kind in OPS.items())


def hidden_launches(ops: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Graph launches with an id of which neither a kernel nor a graph row was recorded."""
    calls = launches.filter(pl.col("is_graph") & pl.col("correlation").is_not_null())
    return calls.join(_with_keys_of(ops, calls), on=[*PROCESS, "correlation"], how="anti", nulls_equal=True)


def _with_keys_of(rows: pl.DataFrame, few: pl.DataFrame) -> pl.DataFrame:
    """Process and correlation of the rows that share both with one of `few`; rows without an id share none."""
    key = [*PROCESS, "correlation"]
    rows = rows.select(key).filter(pl.col("correlation").is_not_null()) if few.height else rows.select(key).clear()
    return rows.join(few.select(key).unique(), on=key, how="semi", nulls_equal=True).unique()


def hidden_graphs(calls: pl.DataFrame, slabs: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """A `hidden_graph` operation per hidden launch (`calls`) and device of its process, in the shape of `ops`.

    It lasts from the launch to the start of the first operation that was launched later: the stream runs in order, so
    the replay is over by then. After the last one the end of the trace's own operations bounds it. `slabs`: all
    recorded operations, each in one of them.
    """
    if not calls.height:
        return pl.DataFrame(schema=OPS)
    calls = calls.with_row_index("call")
    following = pl.concat([_following(calls, ops) for ops in slabs]).group_by("call", "device").agg(
        pl.col("visible").any(), pl.col("next_ns").min(), pl.col("last_ns").max()
    )  # fmt: skip
    # where nothing is visible at all, one device of each process is a guess nobody needs
    spread = calls.join(following.filter("visible"), on="call").sort("device", "call")
    start, until = pl.col("start_ns"), pl.coalesce("next_ns", pl.max_horizontal("last_ns", "ends_ns"))
    return spread.with_columns(pl.col("end_ns").max().over(TIMELINE).alias("ends_ns")).with_columns(
        pl.lit(HIDDEN).alias("kind"), pl.lit("unknown").alias("family"), pl.lit(None, pl.String).alias("collective"),
        pl.lit(None, pl.Int64).alias("stream"), start.alias("launch_start_ns"),
        pl.col("end_ns").alias("launch_end_ns"), pl.lit(value=True).alias("in_graph"),
        pl.when(until >= start).then(until).otherwise("end_ns").alias("end_ns"),
    ).select(pl.col(n).cast(kind) for n, kind in OPS.items())  # fmt: skip


def _following(calls: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Per call and device of its process: the first start among operations launched later (next_ns), the last end, and
    whether any has a launch (visible).
    """
    devices = ops.group_by(TIMELINE).agg(
        pl.col("end_ns").max().alias("last_ns"), pl.col("launch_start_ns").is_not_null().any().alias("visible")
    )
    spread = calls.select("call", *PROCESS, "start_ns").join(devices, on=PROCESS, nulls_equal=True)
    (mine, theirs), count = dense_codes([ops, spread], TIMELINE)
    launched, starts = column(ops, "launch_start_ns", HIGHEST), column(ops, "start_ns")
    calls_start, found = column(spread, "start_ns"), np.full(spread.height, HIGHEST, np.int64)
    for rows, wanted in zip(rows_by_code(mine, count), rows_by_code(theirs, count), strict=True):
        known = rows[launched[rows] < HIGHEST]
        order = known[np.argsort(launched[known], kind="stable")]
        next_start = np.concatenate((np.minimum.accumulate(starts[order][::-1])[::-1], [HIGHEST]))
        found[wanted] = next_start[np.searchsorted(launched[order], calls_start[wanted], side="right")]
    following = pl.Series("next_ns", found)
    return spread.select("call", "device", "visible", "last_ns").with_columns(
        pl.when(following < HIGHEST).then(following).alias("next_ns")
    )
