"""KV pool, queue, running cap, retractions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceana.facts.events import of_kind, rows
from traceana.facts.graphs import kv_tokens
from traceana.facts.locate import Locator
from traceana.facts.model import Capacity, Fact, Provenance, Retraction, Settings

if TYPE_CHECKING:
    import polars as pl

FULL = 0.95  # share of the KV pool from which a window counts as full
_AROUND = 20  # windows looked at before and after a retraction
_RECOVERY = 100  # windows after it in which throughput may come back
_HELD = 3  # windows that it must hold to have come back
_DRIP_SEQS = 5  # a prefill of so few requests while many queue
_DRIP_QUEUE = 10
_MOST_RETRACTIONS = 50


def capacity(
    windows: pl.DataFrame,
    prefill: pl.DataFrame,
    events: pl.DataFrame,
    metrics: pl.DataFrame,
    settings: Settings,
    where: Locator,
) -> Capacity:
    """What limits the number of requests that run. `metrics` has the columns file_id, scrape, name and value."""
    import polars as pl

    usage = windows["token_usage"].max()
    full = windows.filter(pl.col("token_usage") >= FULL)
    queued = windows.filter((pl.col("queued") > 0) & (pl.col("running") > 0))
    pinned = _pinned(windows)
    retractions = _retractions(windows, of_kind(events, "retraction"), where)
    drip = prefill.filter((pl.col("new_seqs") <= _DRIP_SEQS) & (pl.col("queued") >= _DRIP_QUEUE))
    preempted = _preempted(events, metrics)
    return Capacity(
        kv_tokens=kv_tokens(events, where),
        max_running=_max_running(events, settings, where),
        usage_max=Fact(
            float(usage), Provenance.MEASURED, where.spans(windows.filter(pl.col("token_usage") == usage).head(1))
        )
        if isinstance(usage, float)
        else Fact(reason="the log prints no KV usage"),
        windows_full=full.height,
        windows_queued=queued.height,
        windows=windows.height,
        pinned_running=pinned[0],
        pinned_windows=pinned[1].height,
        queue_growth=pinned[2],
        pinned_evidence=where.spans(pinned[1]),
        full_evidence=where.spans(full),
        retractions=retractions,
        drip_prefills=drip.height,
        preemptions=preempted,
    )


def _max_running(events: pl.DataFrame, settings: Settings, where: Locator) -> Fact[int]:
    for row in rows(of_kind(events, "limits")):
        if row["attrs"].get("max_running_requests"):
            return Fact(int(row["attrs"]["max_running_requests"]), Provenance.MEASURED, (where.at(row),))
    for row in rows(of_kind(events, "max_running_reset")):
        return Fact(int(row["value"]), Provenance.MEASURED, (where.at(row),))
    for name in ("max_running_requests", "max_num_seqs"):
        found = settings.get(name)
        if found is not None and isinstance(found.parsed, int):
            return Fact(found.parsed, Provenance.MEASURED, (found.evidence,) if found.evidence else ())
    return Fact(reason="no line gives the cap on running requests")


def _pinned(windows: pl.DataFrame) -> tuple[int | None, pl.DataFrame, float | None]:
    """The longest stretch of one stream at one running count while requests queue, and how the queue grew."""
    import polars as pl

    waiting = windows.with_columns(
        ((pl.col("queued") > 0) & (pl.col("running") > 0)).fill_null(False).alias("waits")
    ).sort("stream", "seq")
    waiting = waiting.with_columns(pl.struct("stream", "waits", "running").rle_id().alias("stretch"))
    stretches = waiting.filter("waits").group_by("stretch").len().sort("len", "stretch", descending=[True, False])
    if not stretches.height:
        return None, windows.clear(), None
    best = waiting.filter(pl.col("stretch") == stretches["stretch"][0])
    growth = float(best["queued"][-1] - best["queued"][0])
    return int(best["running"][0]), best, growth


def _preempted(events: pl.DataFrame, metrics: pl.DataFrame) -> int | None:
    """Requests preempted since the server's start: vLLM V0's lines count them, and its counter in /metrics."""
    import polars as pl

    counter = (
        metrics.filter(pl.col("name") == "vllm:num_preemptions_total")
        .group_by("file_id", "scrape")
        .agg(pl.col("value").sum())
    )
    said = [v for v in (of_kind(events, "preemption")["value"].max(), counter["value"].max()) if isinstance(v, float)]
    return int(max(said)) if said else None


def _retractions(windows: pl.DataFrame, events: pl.DataFrame, where: Locator) -> tuple[Retraction, ...]:
    """Each event with the median throughput of the windows before and after it, and the best that came back."""
    import polars as pl

    found: list[Retraction] = []
    busy = windows.filter((pl.col("gen_tps") > 0) & (pl.col("running") > 0))
    kept = list(rows(events.head(_MOST_RETRACTIONS)))
    for row in kept:
        stream = busy.filter(pl.col("stream") == f"DP{row['dp']}") if row["dp"] is not None else busy
        here = (stream["file_id"] < row["file_id"]) | (
            (stream["file_id"] == row["file_id"]) & (stream["line"] < row["line"])
        )
        before, after = stream.filter(here), stream.filter(~here).slice(1)  # the first holds the event itself
        recovery = after.head(_RECOVERY)
        best: Any = recovery["gen_tps"].rolling_median(_HELD).max()
        found.append(
            Retraction(
                ts=row["ts"],
                retracted=int(row["value"]) if row["value"] is not None else None,
                before_tps=_median(before.tail(_AROUND)),
                after_tps=_median(after.head(_AROUND)),
                evidence=where.at(row),
                best_after_tps=best if isinstance(best, float) else None,
                n_after=recovery.height,
            )
        )
    return tuple(found)


def _median(frame: pl.DataFrame) -> float | None:
    value: Any = frame["gen_tps"].median()
    return float(value) if isinstance(value, (int, float)) else None
