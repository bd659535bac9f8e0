"""Transfer or skew: verdicts over matched collectives, over one rank's, and over kernel summaries."""

from __future__ import annotations

import polars as pl

from traceana.attribution.model import (
    MIN_MATCHED,
    MIN_ONE_RANK,
    MIN_SUMMED,
    ONE_RANK_QUANTILE,
    SKEW_SHARE,
    SUMMARY_AVG_RATIO,
    SUMMARY_MAX_RATIO,
    TIMELINE,
    TRANSFER_SHARE,
    SkewVerdict,
)
from traceana.attribution.ranks import MEMBERS, SYNCHRONISING


def split_one_rank(collectives: pl.DataFrame, kernels: pl.DataFrame | None = None) -> pl.DataFrame:
    """Transfer and wait with one rank in hand, in the shape of RankMatch.members; always `derived`.

    Transfer is a low quantile of the durations of one size: a rank that once arrived last saw little more than it. A
    rank that never does makes this an upper bound. Size is `bytes`, else the launch shape (`kernels` gives grid_x and
    block_x); sizes with fewer than MIN_ONE_RANK instances, or without either, are left out.
    """
    rows = collectives.filter(pl.col("collective").is_in(SYNCHRONISING)).with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"), pl.col("group_name").fill_null("").alias("group")
    )
    key = [*TIMELINE, "stream", "start_ns"]
    if kernels is not None:
        shapes = kernels.select(*key, "grid_x", "block_x").unique(key, keep="first")
        rows = rows.join(shapes, on=key, how="left", nulls_equal=True)
    else:
        rows = rows.with_columns(pl.lit(None, pl.Int32).alias("grid_x"), pl.lit(None, pl.Int32).alias("block_x"))
    unsized = pl.col("bytes").is_null()
    rows = rows.with_columns(
        pl.when(unsized).then("grid_x").alias("grid_x"), pl.when(unsized).then("block_x").alias("block_x")
    ).filter(~unsized | pl.all_horizontal(pl.col("grid_x", "block_x").is_not_null()))
    size = [*TIMELINE, "group", "collective", "name_id", "bytes", "grid_x", "block_x"]
    rows = rows.filter(pl.len().over(size) >= MIN_ONE_RANK)
    floor = pl.col("duration_ns").quantile(ONE_RANK_QUANTILE, "lower").over(size).cast(pl.Int64)
    rows = rows.sort("start_ns").with_columns(
        pl.min_horizontal("duration_ns", floor).alias("transfer_ns"),
        (pl.int_range(pl.len()).over(*TIMELINE, "group", "collective")).alias("ordinal"),
        pl.col("start_ns").alias("arrival_ns"),
    )
    return rows.with_columns(
        (pl.col("duration_ns") - pl.col("transfer_ns")).alias("wait_ns"), pl.lit(None, pl.Boolean).alias("late"),
        pl.lit(False).alias("complete"), pl.lit("derived").alias("provenance"),
    ).select(pl.col(name).cast(kind) for name, kind in MEMBERS.items())  # fmt: skip


def judge(members: pl.DataFrame) -> SkewVerdict:
    """Whether these collectives are transfer-dominated, skew-dominated or mixed, by the share of waiting in their time.

    `members`: RankMatch.members, or what split_one_rank gave, filtered as one likes (a phase, a collective, a size).
    """
    instances = members.select("group", "collective", "ordinal").n_unique() if members.height else 0
    ranks = members.select(TIMELINE).n_unique() if members.height else 0
    measured = bool(members.height) and bool((members.get_column("provenance") == "measured").all())
    provenance = "measured" if measured else "derived"
    needed = MIN_MATCHED if ranks > 1 else MIN_ONE_RANK
    if instances < needed:
        why = f"{instances} instances, fewer than {needed}"
        return SkewVerdict("inconclusive", instances, ranks, provenance, reason=why)
    transfer, wait = int(members.get_column("transfer_ns").sum()), int(members.get_column("wait_ns").sum())
    if transfer + wait == 0:
        return SkewVerdict("inconclusive", instances, ranks, provenance, reason="all instances last 0 ns")
    share = wait / (transfer + wait)
    kind = "skew-dominated" if share >= SKEW_SHARE else "transfer-dominated" if share <= TRANSFER_SHARE else "mixed"
    return SkewVerdict(kind, instances, ranks, provenance, transfer, wait)


def judge_summaries(summary: pl.DataFrame) -> pl.DataFrame:
    """Kernel summaries (nsys stats) judged row by row, where single events are not known.

    Args:
        summary: name, instances, avg_ns, median_ns, max_ns of communication kernels.

    Returns:
        The rows with `kind`: `wait-inclusive` when the average is above SUMMARY_AVG_RATIO medians or the maximum
        above SUMMARY_MAX_RATIO, `even` when not, `inconclusive` below MIN_ONE_RANK instances or without a median. An
        even row may still wait: the same wait every time does not show. A maximum that far above the median shows from
        MIN_SUMMED instances on.
    """
    known = (pl.col("median_ns") > 0) & pl.col("avg_ns").is_not_null()
    usable = known & (pl.col("instances") >= MIN_ONE_RANK)
    outlier = known & (pl.col("instances") >= MIN_SUMMED) & (pl.col("max_ns") > SUMMARY_MAX_RATIO * pl.col("median_ns"))
    skewed = (pl.col("avg_ns") > SUMMARY_AVG_RATIO * pl.col("median_ns")) | (
        pl.col("max_ns") > SUMMARY_MAX_RATIO * pl.col("median_ns")
    )
    kind = (
        pl.when(outlier.fill_null(False)).then(pl.lit("wait-inclusive"))
        .when(~usable.fill_null(False)).then(pl.lit("inconclusive"))
        .when(skewed.fill_null(False)).then(pl.lit("wait-inclusive"))
        .otherwise(pl.lit("even"))
    )  # fmt: skip
    return summary.with_columns(kind.alias("kind"))
