"""Windows to load levels, streams, a sample for the report, and what moves the throughput."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from traceana.facts.locate import Locator, seconds_between, spread
from traceana.facts.model import Drivers, Evidence, Regime, StreamFacts, Window, WindowsFacts
from traceana.facts.windows import MIXED
from traceana.speculation.decompose import variance_shares

if TYPE_CHECKING:
    import polars as pl

_MIN_BOUND = 10  # windows behind an upper bound of the cycle
_MOST_LEVELS = 14  # above that, loads are binned
_SAMPLE = 200
_DRIVER_ROWS = 20_000


def with_levels(windows: pl.DataFrame) -> pl.DataFrame:
    """Adds `level`: running requests of each window, binned by powers of the square root of two when many differ."""
    import polars as pl

    busy = windows.filter((pl.col("running") > 0) & (pl.col("gen_tps") > 0))
    steady = busy.filter("steady")
    seen = (steady if steady.height else busy)["running"].n_unique()
    if seen <= _MOST_LEVELS:
        return windows.with_columns(pl.col("running").cast(pl.Int64).alias("level"))
    exponent = (2.0 * pl.col("running").log(2)).round(0)
    binned = (2.0 ** (exponent / 2.0)).round(0).cast(pl.Int64)
    return windows.with_columns(pl.when(pl.col("running") > 0).then(binned).otherwise(0).alias("level"))


def regimes(windows: pl.DataFrame, k: int | None, where: Locator) -> tuple[Regime, ...]:
    """One Regime per load level with at least one window that generates, ascending."""
    import polars as pl

    busy = windows.filter((pl.col("level") > 0) & (pl.col("gen_tps") > 0))
    found = []
    for (level,), group in busy.group_by("level"):
        made = _regime(int(str(level)), group, k, where)
        if made is not None:
            found.append(made)
    return tuple(sorted(found, key=lambda r: r.running))


def _regime(level: int, group: pl.DataFrame, k: int | None, where: Locator) -> Regime | None:
    import polars as pl

    steady = group.filter("steady")
    used = steady if steady.height else group
    throughput = spread(used["gen_tps"])
    if throughput is None:
        return None
    graph = used["cuda_graph"].drop_nulls()
    context = used.filter(pl.col("tokens") > 0).select((pl.col("tokens") / pl.col("running")).alias("c"))["c"]
    bound = None if steady.height else spread(group.filter(pl.col("reason").is_in(MIXED))["cycle_ms"])
    queued = group["queued"].max()
    usage = group["token_usage"].max()
    return Regime(
        running=level,
        n_windows=group.height,
        n_steady=steady.height,
        gen_tps=throughput,
        accept_length=spread(used["accept_length"]),
        tokens_per_cycle=spread(used["tokens_per_cycle"]),
        cycle_ms=spread(steady["cycle_ms"]),
        tokens_per_forward=level * ((k or 0) + 1) if k is not None else None,
        context_tokens=spread(context),
        queued_max=int(queued) if isinstance(queued, int) else None,
        token_usage_max=float(usage) if isinstance(usage, float) else None,
        graph_share=float(graph.cast(float).mean()) if len(graph) else None,  # type: ignore[arg-type]
        cycle_bound_ms=bound.low if bound is not None and bound.n >= _MIN_BOUND else None,
        evidence=where.spans(used),
    )


def context_regimes(windows: pl.DataFrame, k: int | None, where: Locator) -> tuple[Regime, ...]:
    """Regimes by KV tokens per request (powers of two) at the load with most steady windows; () below two bins.

    Their accept length is that of all windows in which it counts drafts alone, steady or not.
    """
    import polars as pl

    told = windows.filter(
        (pl.col("steady") | pl.col("drafts_only"))
        & (pl.col("tokens") > 0)
        & (pl.col("running") > 0)
        & (pl.col("gen_tps") > 0)
    )
    if not told.height:
        return ()
    steady = told.filter("steady")
    level = (steady if steady.height else told)["level"].mode().max()
    at = told.filter(pl.col("level") == level).with_columns((pl.col("tokens") / pl.col("running")).alias("context"))
    bins = at.with_columns(pl.col("context").clip(lower_bound=1024).log(2).floor().alias("bin"))
    found = []
    for _, group in bins.group_by("bin"):
        made = _regime(int(str(level)), group, k, where) if group.height >= 3 else None
        if made is not None:
            length = spread(group.filter("drafts_only")["accept_length"])
            context = spread(group["context"])
            found.append(
                replace(
                    made,
                    accept_length=length,
                    tokens_per_cycle=length or made.tokens_per_cycle,
                    context_tokens=context if length is not None else made.context_tokens,
                )
            )
    found.sort(key=lambda r: r.context_tokens.median if r.context_tokens else 0.0)
    return tuple(found) if len(found) > 1 else ()


def stream_facts(windows: pl.DataFrame, where: Locator) -> tuple[StreamFacts, ...]:
    """One entry per DP rank or engine, when there is more than one; first windows are left out where others exist."""
    import polars as pl

    if windows["stream"].n_unique() < 2:
        return ()
    found = []
    for (name,), group in windows.filter(pl.col("gen_tps") > 0).group_by("stream"):
        used = group.filter("steady") if group["steady"].any() else group
        running, throughput = spread(used["running"]), spread(used["gen_tps"])
        if running is not None and throughput is not None:
            found.append(
                StreamFacts(
                    str(name), group.height, running, throughput, spread(used["accept_length"]), where.spans(used)
                )
            )
    return tuple(sorted(found, key=lambda s: (len(s.name), s.name)))


def window_facts(windows: pl.DataFrame, newest_first: bool, where: Locator) -> WindowsFacts:
    """Counts, reasons for unsteadiness, and an evenly spaced sample of at most 200 windows."""
    import polars as pl

    if not windows.height:
        return WindowsFacts()
    reasons = windows.filter(~pl.col("steady"))["reason"].drop_nulls().value_counts(sort=True)
    step = math.ceil(windows.height / _SAMPLE)
    sample = windows.sort("seq").gather_every(step)
    span = seconds_between(windows["ts"].min(), windows["ts"].max())
    return WindowsFacts(
        n=windows.height,
        n_steady=int(windows["steady"].sum()),
        sample=tuple(
            Window(
                ts=row["ts"],
                stream=row["stream"],
                running=row["running"],
                queued=row["queued"],
                gen_tps=row["gen_tps"],
                accept_length=row["accept_length"],
                tokens_per_cycle=row["tokens_per_cycle"],
                cycle_ms=row["cycle_ms"],
                steady=row["steady"],
                reason=row["reason"],
                evidence=Evidence(where.paths[row["file_id"]], row["line"], byte_offset=row["byte_offset"]),
            )
            for row in sample.iter_rows(named=True)
        ),
        unsteady_reasons=tuple((str(a), int(b)) for a, b in reasons.iter_rows()),
        newest_first=newest_first,
        span_s=span,
    )


def drivers(windows: pl.DataFrame) -> Drivers | None:
    """Shares of the variance of ln(gen_tps) within load levels; None with fewer than three steady windows."""
    import polars as pl

    steady = windows.filter(
        pl.col("steady") & (pl.col("gen_tps") > 0) & (pl.col("cycle_ms") > 0) & (pl.col("tokens_per_cycle") > 0)
    )
    if steady.height < 3:
        return None
    used = steady.gather_every(math.ceil(steady.height / _DRIVER_ROWS))
    logs = used.select(pl.col("gen_tps", "tokens_per_cycle", "cycle_ms").log(), "level")
    shares = variance_shares(
        logs["gen_tps"].to_list(),
        logs["tokens_per_cycle"].to_list(),
        logs["cycle_ms"].to_list(),
        logs["level"].to_list(),
    )
    if shares is None:
        return None
    return Drivers(shares.n, shares.sd_ln_tps, shares.acceptance, shares.cycle)
