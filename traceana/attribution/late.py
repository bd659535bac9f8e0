"""Which rank the others wait for, and what it was doing before it arrived."""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana.attribution.codes import column
from traceana.attribution.intervals import LOWEST, IntArray
from traceana.attribution.model import BACK_TO_BACK_NS, TIMELINE
from traceana.attribution.ops import recorded
from traceana.attribution.sweep import Slab, sweep

_INSTANCE = ("group", "collective", "ordinal")
LATE: dict[str, pl.DataType] = {
    "group": pl.String(),
    "collective": pl.String(),
    "ordinal": pl.Int64(),
    "file_id": pl.Int32(),
    "rank": pl.Int32(),
    "pid": pl.Int64(),
    "device": pl.Int32(),
    "wait_caused_ns": pl.Int64(),
    "before": pl.String(),
    "before_name_id": pl.Int32(),
    "gap_ns": pl.Int64(),
}


def last_to_arrive(members: pl.DataFrame) -> pl.DataFrame:
    """The last rank of each matched instance: group, collective, ordinal, its timeline, start_ns and the wait of all
    others for it (wait_caused_ns). `members`: RankMatch.members.
    """
    caused = members.group_by(_INSTANCE).agg(pl.col("wait_ns").sum().alias("wait_caused_ns"))
    last = members.filter(pl.col("late").fill_null(False)).select(*_INSTANCE, *TIMELINE, "start_ns")
    return last.join(caused, on=_INSTANCE, maintain_order="left")


def late_arrivals(rows: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """What the device of each late rank did before it arrived; `rows`: see last_to_arrive.

    `before`: `busy` (an operation, before_name_id, ran up to the collective), `launch_gap` (the device was idle and
    the collective not launched for most of it), `idle` (launched and held back: a dependency, a stream, a graph),
    `start` (the trace begins there). Null where no device work was traced. `gap_ns` is the idle time before it.
    Columns: LATE.
    """
    arrivals = Arrivals(rows)
    for slab in sweep([recorded(ops)]):
        arrivals.add(slab)
    return arrivals.found()


class Arrivals:
    """`late_arrivals` in the making."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows
        self._at = column(rows, "start_ns")
        self._before = np.full(rows.height, "", dtype="U10")
        self._names, self._gap = np.full(rows.height, -1, np.int64), np.zeros(rows.height, np.int64)

    def add(self, slab: Slab) -> None:
        """Take the next operations, all of them recorded."""
        low, high = slab.stretch(self._rows)
        due = (low < self._at) & (self._at <= high)
        start, end, name = (column(slab.around, n) for n in ("start_ns", "end_ns", "name_id"))
        launched = column(slab.around, "launch_end_ns", LOWEST)
        for of_lane, order in slab.by_timeline(self._rows):
            at = of_lane[due[of_lane]]
            arrival = self._at[at]
            last = _ended_last(end[order])
            here = np.searchsorted(start[order], arrival, side="left")
            some = here > 0
            prior = order[last[np.maximum(here - 1, 0)]]
            idle = np.where(some, np.maximum(arrival - end[prior], 0), 0)
            own = order[np.minimum(here, len(order) - 1)]  # the collective itself, or what starts with it
            late_call = np.clip(launched[own], end[prior], arrival) - end[prior]
            kind = np.where(idle <= BACK_TO_BACK_NS, "busy", np.where(2 * late_call > idle, "launch_gap", "idle"))
            self._before[at] = np.where(some, kind, "start")
            self._names[at] = np.where(some & (kind == "busy"), name[prior], -1)
            self._gap[at] = idle

    def found(self) -> pl.DataFrame:
        """Columns LATE, a row per arrival."""
        known, how = pl.col("before_name_id"), pl.col("before")
        return (
            self._rows.with_columns(
                pl.Series("before", self._before.tolist(), pl.String),
                pl.Series("before_name_id", self._names),
                pl.Series("gap_ns", self._gap),
            )
            .with_columns(
                pl.when(known >= 0).then(known).alias("before_name_id"), pl.when(how != "").then(how).alias("before")
            )
            .select(pl.col(n).cast(kind) for n, kind in LATE.items())
        )


def _ended_last(ends: IntArray) -> IntArray:
    """For each row the row, up to it, that ends last (the first such)."""
    before = np.concatenate(([LOWEST], np.maximum.accumulate(ends)[:-1]))
    return np.maximum.accumulate(np.where(ends > before, np.arange(len(ends)), 0))


def late_ranks(arrivals: pl.DataFrame) -> pl.DataFrame:
    """Per group and rank, most waited for first: times_last, share_last (of the group's instances), wait_caused_ns, and
    its commonest `before` with its share of the wait caused (before_share), its commonest operation and median gap_ns.
    """
    who = ["group", *TIMELINE]
    total = arrivals.group_by("group").agg(pl.len().alias("instances"))
    per_kind = arrivals.group_by(*who, "before").agg(pl.col("wait_caused_ns").sum()).sort("wait_caused_ns", "before")
    main = per_kind.group_by(who).agg(
        pl.col("before").last(),
        pl.when(pl.col("wait_caused_ns").sum() > 0)
        .then(pl.col("wait_caused_ns").last() / pl.col("wait_caused_ns").sum())
        .alias("before_share"),
    )
    names = arrivals.filter(pl.col("before_name_id").is_not_null()).group_by(*who, "before_name_id").agg(
        pl.col("wait_caused_ns").sum()
    ).sort("wait_caused_ns", "before_name_id").group_by(who).agg(pl.col("before_name_id").last())  # fmt: skip
    rows = arrivals.group_by(who).agg(
        pl.len().cast(pl.Int64).alias("times_last"), pl.col("wait_caused_ns").sum(), pl.col("gap_ns").median()
    )
    rows = rows.join(total, on="group").with_columns((pl.col("times_last") / pl.col("instances")).alias("share_last"))
    for extra in (main, names):
        rows = rows.join(extra, on=who, how="left", nulls_equal=True)
    return rows.drop("instances").sort("wait_caused_ns", descending=True)
