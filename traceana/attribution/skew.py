"""Transfer or skew: verdicts over matched collectives, over one rank's, and over kernel summaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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

_SIZE = (*TIMELINE, "group", "collective", "name_id", "bytes", "grid_x", "block_x")


def split_one_rank(collectives: pl.DataFrame, kernels: pl.DataFrame | None = None) -> pl.DataFrame:
    """Transfer and wait with one rank in hand, in the shape of RankMatch.members; always `derived`.

    Transfer is a low quantile of the durations of one size: a rank that once arrived last saw little more than it. A
    rank that never does makes this an upper bound. Size is `bytes`, else the launch shape (`kernels` gives grid_x and
    block_x); sizes with fewer than MIN_ONE_RANK instances, or without either, are left out.
    """
    return OneRank([(collectives, kernels)]).split(collectives, kernels)


class OneRank:
    """`split_one_rank`, slab by slab: kept are the durations, a number each."""

    def __init__(self, slabs: Iterable[tuple[pl.DataFrame, pl.DataFrame | None]]) -> None:
        """`slabs`: all collectives, with the kernels that may be theirs (see split_one_rank)."""
        sizes = [_sized(*slab).group_by(_SIZE).agg(pl.col("duration_ns")) for slab in slabs]
        every = pl.col("duration_ns").list.explode(keep_nulls=False, empty_as_null=False)
        floors = pl.concat(sizes).group_by(_SIZE).agg(
            every.len().alias("instances"), every.quantile(ONE_RANK_QUANTILE, "lower").cast(pl.Int64).alias("floor_ns")
        )  # fmt: skip
        self._floors = floors.filter(pl.col("instances") >= MIN_ONE_RANK).drop("instances")
        self._begun: dict[tuple[object, ...], int] = {}  # instances of a timeline, group and collective so far

    def split(self, collectives: pl.DataFrame, kernels: pl.DataFrame | None) -> pl.DataFrame:
        """The next slab split, in order of start."""
        rows = _sized(collectives, kernels).join(self._floors, on=_SIZE, nulls_equal=True, maintain_order="left")
        who = [*TIMELINE, "group", "collective"]
        rows = rows.sort("start_ns", maintain_order=True).with_columns(
            pl.min_horizontal("duration_ns", "floor_ns").alias("transfer_ns"),
            pl.int_range(pl.len()).over(who).alias("ordinal"),
            pl.col("start_ns").alias("arrival_ns"),
        )
        counts = rows.group_by(who, maintain_order=True).agg(pl.len().alias("n"))
        begun = counts.select(who).with_columns(
            pl.Series("begun", [self._begun.get(row[:-1], 0) for row in counts.iter_rows()], pl.Int64)
        )
        for *key, more in counts.iter_rows():
            self._begun[tuple(key)] = self._begun.get(tuple(key), 0) + more
        rows = rows.join(begun, on=who, nulls_equal=True, maintain_order="left")
        return rows.with_columns(
            (pl.col("ordinal") + pl.col("begun")).alias("ordinal"),
            (pl.col("duration_ns") - pl.col("transfer_ns")).alias("wait_ns"), pl.lit(None, pl.Boolean).alias("late"),
            pl.lit(value=False).alias("complete"), pl.lit("derived").alias("provenance"),
        ).select(pl.col(name).cast(kind) for name, kind in MEMBERS.items())  # fmt: skip


def _sized(collectives: pl.DataFrame, kernels: pl.DataFrame | None) -> pl.DataFrame:
    """Synchronising collectives whose size can be told, with duration_ns, group, grid_x and block_x."""
    rows = collectives.filter(pl.col("collective").is_in(SYNCHRONISING)).with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"), pl.col("group_name").fill_null("").alias("group")
    )
    key = [*TIMELINE, "stream", "start_ns"]
    if kernels is not None:
        shapes = kernels.select(*key, "grid_x", "block_x").unique(key, keep="first")
        rows = rows.join(shapes, on=key, how="left", nulls_equal=True, maintain_order="left")
    else:
        rows = rows.with_columns(pl.lit(None, pl.Int32).alias("grid_x"), pl.lit(None, pl.Int32).alias("block_x"))
    unsized = pl.col("bytes").is_null()
    return rows.with_columns(
        pl.when(unsized).then("grid_x").alias("grid_x"), pl.when(unsized).then("block_x").alias("block_x")
    ).filter(~unsized | pl.all_horizontal(pl.col("grid_x", "block_x").is_not_null()))


@dataclass(slots=True)
class Tally:
    """What the verdict follows from: number of instances by group and collective, timelines, and sums."""

    instances: dict[tuple[str, str], int] = field(default_factory=dict)
    ranks: set[tuple[object, ...]] = field(default_factory=set)
    measured: bool = True
    transfer_ns: int = 0
    wait_ns: int = 0

    def add_one_rank(self, members: pl.DataFrame) -> None:
        """Take what OneRank.split gave: there ordinals count up from 0."""
        of = ["group", "collective"]
        for group, collective, n in members.group_by(of).agg(pl.col("ordinal").max() + 1).iter_rows():
            self.instances[group, collective] = max(n, self.instances.get((group, collective), 0))
        self.add_sums(members)

    def add_sums(self, members: pl.DataFrame) -> None:
        """Take all of some members but their number."""
        self.ranks.update(members.select(TIMELINE).unique().iter_rows())
        self.measured &= bool((members.get_column("provenance") == "measured").all())
        self.transfer_ns += int(members.get_column("transfer_ns").sum())
        self.wait_ns += int(members.get_column("wait_ns").sum())

    def verdict(self) -> SkewVerdict:
        """See judge."""
        instances, ranks = sum(self.instances.values()), len(self.ranks)
        provenance = "measured" if self.measured and instances else "derived"
        needed = MIN_MATCHED if ranks > 1 else MIN_ONE_RANK
        if instances < needed:
            why = f"{instances} instances, fewer than {needed}"
            return SkewVerdict("inconclusive", instances, ranks, provenance, reason=why)
        if self.transfer_ns + self.wait_ns == 0:
            return SkewVerdict("inconclusive", instances, ranks, provenance, reason="all instances last 0 ns")
        share = self.wait_ns / (self.transfer_ns + self.wait_ns)
        kind = "skew-dominated" if share >= SKEW_SHARE else "transfer-dominated" if share <= TRANSFER_SHARE else "mixed"
        return SkewVerdict(kind, instances, ranks, provenance, self.transfer_ns, self.wait_ns)


def judge(members: pl.DataFrame) -> SkewVerdict:
    """Whether these collectives are transfer-dominated, skew-dominated or mixed, by the share of waiting in their time.

    `members`: RankMatch.members, or what split_one_rank gave, filtered as one likes (a phase, a collective, a size).
    """
    tally = Tally()
    distinct = members.select("group", "collective", "ordinal").unique().group_by("group", "collective").len()
    tally.instances = {(group, collective): n for group, collective, n in distinct.iter_rows()}
    tally.add_sums(members)
    return tally.verdict()


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
