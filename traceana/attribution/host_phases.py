"""What the host did in each phase, from traces without GPU work: CPU backends trace their collectives there."""

from __future__ import annotations

import polars as pl

from traceana.attribution.model import PROCESS


def host_phases(scopes: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Per phase of one process: number of ranges and their median span, and the host-side collectives inside them.

    Args:
        scopes: see scopes.number_cycles. collectives: the table; those without a device count.

    Returns:
        file_id, rank, pid, phase, ranges, host_span_ns, collectives (text: "17 all_reduce"), collective_ns (medians).
    """
    phases = scopes.filter((pl.col("phase") != "cycle") & pl.col("cycle").is_not_null())
    phases = phases.with_row_index("range")
    host = collectives.filter(pl.col("device").is_null()).sort("start_ns")
    inside = phases.sort("host_start_ns").select("range", "host_start_ns", "host_end_ns")
    joined = host.join_asof(
        inside,
        left_on="start_ns",
        right_on="host_start_ns",
        strategy="backward",
        check_sortedness=False,
    ).filter(pl.col("end_ns") <= pl.col("host_end_ns"))
    per_range = joined.group_by("range", "collective").agg(
        pl.len().alias("n"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    )
    keys = [*PROCESS, "phase"]
    spans = phases.group_by(keys).agg(
        pl.len().alias("ranges"), (pl.col("host_end_ns") - pl.col("host_start_ns")).median().alias("host_span_ns")
    )
    counts = (
        per_range.join(phases.select("range", *keys), on="range")
        .group_by(*keys, "collective")
        .agg(pl.col("n").median().alias("per_range"), pl.col("ns").median().alias("ns"))
        .sort("per_range", descending=True)
        .with_columns(pl.format("{} {}", pl.col("per_range").cast(pl.Int64), "collective").alias("text"))
        .group_by(keys, maintain_order=True)
        .agg(pl.col("text").str.join(", ").alias("collectives"), pl.col("ns").sum().alias("collective_ns"))
    )
    return spans.join(counts, on=keys, how="left", nulls_equal=True).sort(keys)
