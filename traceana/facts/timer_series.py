"""Timer lines of a run as series: their spread tells the noise of a phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceana.store.dataset import Tables

_MOST = 400
_PARTS = ("draft_ms", "verify_ms", "re_extend_ms", "other_ms")


@dataclass(frozen=True, slots=True)
class TimerSeries:
    """EAGLE3_PROFILE lines at the most common batch, in reading order, ranks averaged, evenly thinned to 400.

    `verify_mean_ms` is weighted by the cycles behind each line; `total_ms` is as printed or the sum of parts.
    """

    batch: int | None
    verify_mean_ms: float
    verify_ms: tuple[float, ...]
    total_ms: tuple[float, ...]


def timer_series(tables: Tables) -> TimerSeries | None:
    """The verify times of a run; None without timer lines that name one."""
    import polars as pl

    rows = (
        tables.frame("cycles", ["file_id", "source", "rank", "batch", "cycles", "total_ms", *_PARTS])
        .filter((pl.col("source") == "eagle3_profile") & pl.col("verify_ms").is_finite() & (pl.col("verify_ms") > 0))
        .with_columns(pl.coalesce("total_ms", pl.sum_horizontal(_PARTS)).alias("total_ms"))
    )
    if not rows.height:
        return None
    batches = rows["batch"].drop_nulls().mode()
    batch = int(batches.max()) if len(batches) else None  # type: ignore[arg-type]
    at = rows.filter(pl.col("batch") == batch) if batch is not None else rows
    weight = at["cycles"].fill_null(1)
    # the same cycles printed by several ranks are no further measurements
    numbered = at.with_columns(pl.int_range(pl.len()).over("file_id", "rank").alias("number"))
    series = (
        numbered.group_by("file_id", "number").agg(pl.col("verify_ms", "total_ms").mean()).sort("file_id", "number")
    )
    thinned = series.gather_every(-(-series.height // _MOST))
    mean = float((at["verify_ms"] * weight).sum()) / float(weight.sum())
    return TimerSeries(batch, mean, tuple(thinned["verify_ms"].to_list()), tuple(thinned["total_ms"].to_list()))
