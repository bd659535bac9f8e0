"""Captures that hold sums and no events (nsys stats, recipes): time by category, and how even the collectives are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.facts.trace_model import CollectiveSum, TraceSums

if TYPE_CHECKING:
    import polars as pl

    from traceana.facts.locate import Locator
    from traceana.store.dataset import Tables

_MOST_CATEGORIES = 12
_MOST_COLLECTIVES = 4
_MOST_CAPTURES = 64
#: kernels whose printed shares add up to less are not all of the capture
_ALL_LISTED = 0.98


def summed(tables: Tables, where: Locator) -> tuple[TraceSums, ...]:
    """One entry per capture that has a kernel summary and no kernel of its own, in the order of the files."""
    import polars as pl

    rows = tables.frame("summaries").filter(
        (pl.col("kind") == "kernel") & pl.col("within").is_null() & (pl.col("total_ns") > 0)
    )
    if not rows.height:
        return ()
    timed = set(tables.frame("kernels", ["file_id"])["file_id"].unique().to_list())
    if timed:  # a printed table beside a trace repeats it
        tools = tables.frame("traces", ["file_id", "tool"])
        timed |= set(tools.filter(pl.col("tool") == "kernel_table")["file_id"].to_list())
    found = [
        _capture(part, where.paths[file_id])
        for (file_id,), part in rows.group_by(["file_id"], maintain_order=True)
        if file_id not in timed
    ]
    return tuple(found[:_MOST_CAPTURES])


def _capture(rows: pl.DataFrame, path: str) -> TraceSums:
    import polars as pl

    from traceana.attribution.skew import judge_summaries
    from traceana_parsers.kernels import classify

    kinds = classify(rows["name"]).select("family", "category", "collective", "library")
    rows = rows.hstack(kinds)
    total = int(rows["total_ns"].sum())
    listed = float(rows["share"].sum()) if not rows["share"].null_count() else 0.0
    whole = max(total / listed, total) if 0 < listed < _ALL_LISTED else total
    shares = rows.group_by("category").agg(pl.col("total_ns").sum()).sort("total_ns", "category", descending=True)
    talking = rows.filter((pl.col("family") == "communication") & pl.col("avg_ns").is_not_null())
    talking = talking.sort("total_ns", descending=True).head(_MOST_COLLECTIVES)
    judged = judge_summaries(talking.rename({"med_ns": "median_ns"}))
    return TraceSums(
        path=path,
        kernels=int(rows["instances"].sum()),
        total_ms=total / 1e6,
        whole_ms=whole / 1e6,
        categories={name: ns / whole for name, ns in shares.head(_MOST_CATEGORIES).iter_rows()},
        collectives=tuple(
            CollectiveSum(
                collective=row["collective"],
                name=row["name"],
                library=row["library"],
                instances=row["instances"],
                mean_ms=row["avg_ns"] / 1e6,
                median_ms=None if row["median_ns"] is None else row["median_ns"] / 1e6,
                shortest_ms=None if row["min_ns"] is None else row["min_ns"] / 1e6,
                longest_ms=None if row["max_ns"] is None else row["max_ns"] / 1e6,
                verdict=row["kind"],
            )
            for row in judged.iter_rows(named=True)
        ),
    )
