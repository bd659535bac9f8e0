"""Measured times of collectives: by message size (nccl-tests, tables), or of one collective by rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.facts.model import Evidence

if TYPE_CHECKING:
    import polars as pl

    from traceana.facts.locate import Locator
    from traceana.store.dataset import Tables

_MOST_CURVES = 16
_SMALL = 1 << 20  # bytes: a decode step exchanges no more
_APART = 1.2  # longest against shortest time of the ranks, before one is said to wait
_MOST_SIZES = 64
_RANK = "rank "


@dataclass(frozen=True, slots=True)
class CollectiveCurve:
    """One set-up: `times_us` of one call by message size (`sizes_bytes`, ascending; mean where a size repeats)."""

    name: str | None  # untrusted
    collective: str | None
    library: str | None
    sizes_bytes: tuple[int, ...]
    times_us: tuple[float, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class RankTimes:
    """How long each rank spent in one collective. All leave together: what exceeds the shortest is waiting.

    `wait_share`: of all that time what exceeds the shortest; `waits_longest` came first, `last` came last.
    """

    collective: str | None
    times_us: dict[int, float]
    shortest_us: float
    longest_us: float
    wait_share: float
    waits_longest: int
    last: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class CollectiveTimes:
    """All of it; `verdict` in a sentence."""

    verdict: str
    curves: tuple[CollectiveCurve, ...] = ()
    by_rank: tuple[RankTimes, ...] = ()


def collective_times(tables: Tables, where: Locator) -> CollectiveTimes | None:
    """What was measured; None where the inputs hold no such times."""
    import polars as pl

    if not tables.height("collective_points"):
        return None
    rows = tables.frame("collective_points").filter(
        (pl.col("time_us") > 0) & pl.col("time_us").is_finite() & ~pl.col("in_place").fill_null(False)
    )
    curves, by_rank = [], []
    sized, key = rows.filter(pl.col("bytes") > 0), ["file_id", "collective", "library", "series"]
    for (_, collective, library, series), group in sized.group_by(key, maintain_order=True):
        found = group.group_by("bytes").agg(pl.col("time_us").mean()).sort("bytes").head(_MOST_SIZES)
        sizes, times = tuple(found["bytes"]), tuple(found["time_us"])
        curves.append(CollectiveCurve(series, collective, library, sizes, times, _places(group, where)))
    ranked = rows.filter(pl.col("bytes").is_null() & pl.col("series").str.starts_with(_RANK))
    for (_, collective), group in ranked.group_by(["file_id", "collective"], maintain_order=True):
        made = _ranks(collective, group, _places(group, where))
        if made is not None:
            by_rank.append(made)
    if not curves and not by_rank:
        return None
    return CollectiveTimes(_verdict(curves, by_rank), tuple(curves[:_MOST_CURVES]), tuple(by_rank[:_MOST_CURVES]))


def _places(group: pl.DataFrame, where: Locator) -> tuple[Evidence, ...]:
    return tuple(where.at(row) for row in group.head(2).iter_rows(named=True))


def _ranks(collective: str | None, group: pl.DataFrame, evidence: tuple[Evidence, ...]) -> RankTimes | None:
    """None where a rank is named twice: that is not one collective."""
    times = {int(str(name).removeprefix(_RANK)): us for name, us in group.select("series", "time_us").iter_rows()}
    if len(times) < group.height or len(times) < 2:
        return None
    total, shortest = sum(times.values()), min(times.values())
    return RankTimes(
        collective,
        dict(sorted(times.items())),
        shortest,
        max(times.values()),
        (total - shortest * len(times)) / total,
        max(times, key=lambda rank: times[rank]),
        min(times, key=lambda rank: times[rank]),
        evidence,
    )


def _verdict(curves: list[CollectiveCurve], by_rank: list[RankTimes]) -> str:
    if by_rank:
        one = by_rank[0]
        if one.longest_us < _APART * one.shortest_us:
            return (
                f"In one {_kind(one.collective)} over {len(one.times_us)} ranks each rank spends {one.shortest_us:.1f} "
                f"to {one.longest_us:.1f} us: no rank waits for another."
            )
        return (
            f"In one {_kind(one.collective)} over {len(one.times_us)} ranks a rank spends {one.shortest_us:.1f} to "
            f"{one.longest_us:.1f} us: at most {one.shortest_us:.1f} us is transfer, {100 * one.wait_share:.0f} % of "
            f"all ranks' time is waiting. Rank {one.waits_longest} comes first and waits longest; rank {one.last} "
            "comes last."
        )
    first = curves[0]
    small = first.sizes_bytes[0] <= _SMALL
    forward = f", 100 such calls in a row {first.times_us[0] / 10:.1f} ms" if small else ""
    return (
        f"{_kind(first.collective).capitalize()} times alone: {size(first.sizes_bytes[0])} takes "
        f"{first.times_us[0]:.1f} us{forward}{_compared(curves)}."
    )


def _compared(curves: list[CollectiveCurve]) -> str:
    """The set-up that gains most against the first at the smallest size both were measured at."""
    found = []
    for one in (c for c in curves[1:] if c.collective == curves[0].collective):
        common = [n for n in curves[0].sizes_bytes if n in one.sizes_bytes]
        ratios = [_at(one, n) / _at(curves[0], n) for n in common]
        if ratios:
            found.append((ratios[0], min(ratios), max(ratios), one.name))
    if not found:
        return ""
    _, low, high, name = min(found, key=lambda entry: entry[0])
    names = (name or "the other")[:40], (curves[0].name or "the first")[:40]
    return f"; '{names[0]}' takes {low:.2f}-{high:.2f}x the time of '{names[1]}'"


def _at(curve: CollectiveCurve, size_bytes: int) -> float:
    return curve.times_us[curve.sizes_bytes.index(size_bytes)]


def _kind(collective: str | None) -> str:
    return (collective or "collective").replace("_", "-")


def size(n: int) -> str:
    """A message size: `8 B`, `32 KB`, `1 MB`."""
    for factor, unit in ((1 << 20, "MB"), (1 << 10, "KB")):
        if n >= factor:
            return f"{n / factor:g} {unit}"
    return f"{n} B"
