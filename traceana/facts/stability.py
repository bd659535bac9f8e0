"""Spread, trend and step changes of steady throughput at the most common load."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traceana.facts.events import of_kind, rows
from traceana.facts.locate import Locator
from traceana.facts.model import CachedPrefixes, Evidence, Flush, Stability, Trend

if TYPE_CHECKING:
    import polars as pl

_MIN_SEGMENT = 5  # windows on each side of a step change
_MIN_T = 6.0  # Welch's t of the two sides; chosen so that pure noise of 200 windows stays below it
_MIN_STEP = 0.15  # relative change of the mean
_AROUND = 10
_FEW = 3  # windows on each side of a flush
_COLD, _CACHED = 0.1, 0.5  # share of a prompt that the prefix cache gave
_ENOUGH = 10  # windows behind either


def stability(windows: pl.DataFrame, events: pl.DataFrame, prefill: pl.DataFrame, where: Locator) -> Stability:
    """How even the run was, at the load level with the most steady windows."""
    import polars as pl

    jit = of_kind(events, "jit_stall")
    base = Stability(
        jit_stalls=jit.height,
        jit_evidence=tuple(where.at(r) for r in rows(jit.head(3))),
        eplb_then_drop=_eplb(windows, events, where),
        flushes=_flushes(windows, events, where),
        cached=_cached(windows, prefill, where),
        draft_not_kept=tuple(where.at(r) for r in rows(of_kind(events, "hicache_draft_skipped").head(3))),
        accept_trend=_accept_trend(windows),
    )
    steady = windows.filter(pl.col("steady") & (pl.col("gen_tps") > 0))
    if steady.height < 2:
        return base
    level = steady["level"].mode().max()
    at = steady.filter(pl.col("level") == level).sort("seq")
    mean, deviation = at["gen_tps"].mean(), at["gen_tps"].std()
    cv = deviation / mean if isinstance(deviation, float) and isinstance(mean, float) and mean else None
    trend = _trend(at, "gen_tps")
    return replace(
        base,
        running=int(level) if isinstance(level, int) else None,
        n=at.height,
        cv=cv,
        trend_per_hour=trend.per_hour if trend is not None else None,
        step_change=_step(at, where),
    )


def _accept_trend(windows: pl.DataFrame) -> Trend | None:
    import polars as pl

    counted = windows.filter(pl.col("drafts_only") & (pl.col("running") > 0))
    if not counted.height:
        return None
    return _trend(counted.filter(pl.col("level") == counted["level"].mode().max()), "accept_length")


def _trend(at: pl.DataFrame, column: str) -> Trend | None:
    """Relative change per hour by least squares; None under 10 windows or an hour's tenth."""
    import polars as pl

    timed = at.filter(pl.col("ts").is_not_null() & pl.col(column).is_not_null())
    if timed.height < 10:
        return None
    frame = timed.select(
        ((pl.col("ts") - pl.col("ts").min()).dt.total_milliseconds() / 3.6e6).alias("hours"),
        pl.col(column).alias("value"),
    )
    hours, mean = frame["hours"], frame["value"].mean()
    if not isinstance(mean, float) or mean == 0 or (hours.max() or 0) < 0.1:  # type: ignore[operator]
        return None
    n, slope = frame.height, frame.select(pl.cov("hours", "value") / pl.col("hours").var()).item()
    if slope is None or not math.isfinite(slope):
        return None
    rest = frame.select((pl.col("value") - slope * pl.col("hours")).var() * (n - 1) / (n - 2)).item()
    error = math.sqrt(rest / frame.select(pl.col("hours").var() * (n - 1)).item())
    return Trend(float(slope) / mean, error / mean, n)


def _step(at: pl.DataFrame, where: Locator) -> tuple[float, float, Evidence] | None:
    """The best split of the series into two levels, when the levels differ clearly (Welch's t on both sides)."""
    import numpy as np

    values = at["gen_tps"].to_numpy()
    n = len(values)
    if n < 2 * _MIN_SEGMENT:
        return None
    sums, squares = np.cumsum(values), np.cumsum(values**2)
    cut = np.arange(_MIN_SEGMENT, n - _MIN_SEGMENT + 1)
    left, right = sums[cut - 1] / cut, (sums[-1] - sums[cut - 1]) / (n - cut)
    var_left = np.maximum(squares[cut - 1] / cut - left**2, 0)
    var_right = np.maximum((squares[-1] - squares[cut - 1]) / (n - cut) - right**2, 0)
    error = np.sqrt(var_left / cut + var_right / (n - cut)) + 1e-9
    t = np.abs(left - right) / error
    best = int(np.argmax(t))
    before, after = float(left[best]), float(right[best])
    if t[best] < _MIN_T or abs(after - before) < _MIN_STEP * max(before, after):
        return None
    return before, after, where.at(at.row(int(cut[best]), named=True))


def _eplb(windows: pl.DataFrame, events: pl.DataFrame, where: Locator) -> tuple[Evidence, float, float] | None:
    """An EPLB weight move with the mean accept length of the windows before and after it, when it fell by a fifth."""
    import polars as pl

    with_length = windows.filter(pl.col("accept_length").is_not_null())
    for row in rows(of_kind(events, "eplb").unique(["file_id", "ts"], keep="first", maintain_order=True)):
        same = pl.col("file_id") == row["file_id"]
        before = with_length.filter(same & (pl.col("line") < row["line"])).tail(_AROUND)["accept_length"].mean()
        after = with_length.filter(same & (pl.col("line") > row["line"])).head(_AROUND)["accept_length"].mean()
        fell: Any = isinstance(before, float) and isinstance(after, float) and (after - 1) < 0.8 * (before - 1)
        if fell:
            return where.at(row), before, after  # type: ignore[return-value]
    return None


def _flushes(windows: pl.DataFrame, events: pl.DataFrame, where: Locator) -> tuple[Flush, ...]:
    """Flushes of the prefix cache with at least three windows since the flush before and until the next one.

    All ranks write the line; the first of a file and time counts.
    """
    import polars as pl

    lines = of_kind(events, "cache_flushed").unique(["file_id", "ts"], keep="first", maintain_order=True)
    with_length = windows.filter(pl.col("accept_length").is_not_null())
    found = []
    for row in rows(lines):
        own = with_length.filter(pl.col("file_id") == row["file_id"])
        others = lines.filter(pl.col("file_id") == row["file_id"])["line"]
        since = others.filter(others < row["line"]).max() or 0
        until = others.filter(others > row["line"]).min() or (1 << 62)
        before = own.filter(pl.col("line").is_between(since, row["line"])).tail(_AROUND)["accept_length"]
        after = own.filter(pl.col("line").is_between(row["line"], until)).head(_AROUND)["accept_length"]
        means = before.mean(), after.mean()
        if min(len(before), len(after)) >= _FEW and isinstance(means[0], float) and isinstance(means[1], float):
            found.append(Flush(means[0], means[1], where.at(row)))
    return tuple(found)


def _cached(windows: pl.DataFrame, prefill: pl.DataFrame, where: Locator) -> CachedPrefixes | None:
    """Accept length by the share of the prompt that came from the prefix cache, one request at a time.

    With one running request the last prefill line before a window is that request's.
    """
    import polars as pl

    prompts = prefill.filter(pl.col("cached_tokens").is_not_null() & pl.col("new_tokens").is_not_null())
    alone = windows.filter(pl.col("steady") & (pl.col("running") == 1) & pl.col("accept_length").is_not_null())
    if not prompts.height or not alone.height:
        return None
    total = pl.col("cached_tokens") + pl.col("new_tokens")
    shares = prompts.select("file_id", "line", (pl.col("cached_tokens") / total).alias("share")).sort("line")
    known = alone.sort("line").join_asof(shares, on="line", by="file_id", strategy="backward", check_sortedness=False)
    cold, cached = known.filter(pl.col("share") <= _COLD), known.filter(pl.col("share") >= _CACHED)
    means = cold["accept_length"].mean(), cached["accept_length"].mean()
    if min(cold.height, cached.height) < _ENOUGH or not isinstance(means[0], float) or not isinstance(means[1], float):
        return None
    return CachedPrefixes(means[0], means[1], (cold.height, cached.height), (*where.spans(cached), *where.spans(cold)))
