"""Benchmark rows to load points: repeats together, the twin of a printed block left out.

A point that nobody can use (no throughput, no time per token, no step, no acceptance) is left out here.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import TYPE_CHECKING, Any

from traceana.facts import bench_acceptance as acceptance
from traceana.facts import bench_figures as figures
from traceana.facts.bench_model import LoadPoint, PointSource, Samples
from traceana.facts.conditions import client_arguments
from traceana.facts.locate import Locator

if TYPE_CHECKING:
    import polars as pl

#: tools whose rows somebody wrote down, as opposed to results a program wrote
_WRITTEN = ("table", "run_list")
#: what makes two rows repeats of one measurement
_KEY = (
    "tool", "series", "speculative", "k", "num_steps", "topk", "num_draft_tokens",
    "concurrency", "request_rate", "context_tokens", "output_length", "temperature", "row",
)  # fmt: skip
#: columns in which 0 is a value
_COUNTED = (
    "file_id", "line", "byte_offset", "point", "k", "num_steps", "topk", "num_draft_tokens", "context_tokens", "failed",
    "drafts", "drafted", "accepted", "accept_rate_printed", "temperature",
)  # fmt: skip
_SMALLEST, _LARGEST = 1e-6, 1e12  # beyond these a figure is a slip of the keyboard or a broken file
_MOST_POINTS = 4000
_SAMPLES = 400
_SAME = 0.002  # a printed block rounds what the file beside it has in full


def points(rows: pl.DataFrame, requests: pl.DataFrame, where: Locator) -> tuple[LoadPoint, ...]:
    """Load points of `bench_points` rows (with their `bench_requests`), by series and load; at most 4,000."""
    usable = _usable(rows)
    if not usable.height:
        return ()
    kept = _without_twins(usable)
    samples = _samples(requests.join(kept.select("file_id", "point"), on=["file_id", "point"], how="semi"))
    groups = kept.group_by(_KEY, maintain_order=True)
    found = (_point(group.to_dicts(), samples, where) for _, group in groups)
    return tuple(sorted(islice(found, _MOST_POINTS), key=_order))


def _order(point: LoadPoint) -> tuple[object, ...]:
    return (
        point.series or "",
        point.context_tokens or 0,
        point.concurrency or 0,
        point.label or "",
        point.k or 0,
        point.tool,
    )


def _usable(rows: pl.DataFrame) -> pl.DataFrame:
    """Measurements only: no warm-up, impossible values null, and at least one figure of speed or of acceptance."""
    import polars as pl

    numbers = [name for name, kind in rows.schema.items() if kind.is_numeric() and name not in _COUNTED]
    positive = [pl.when(_possible(name)).then(pl.col(name)).alias(name) for name in numbers]
    counted = [pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name) for name in _COUNTED if name in rows.columns]
    nameless = (
        pl.col("tool").eq("table") & pl.col("concurrency").is_null()
    )  # only its words tell such a row from others
    cleaned = rows.with_columns(*positive, *counted).with_columns(
        pl.when(pl.col("speculative").eq(False).fill_null(False)).then(0).otherwise(pl.col("k")).alias("k"),
        pl.when(nameless).then(pl.col("label")).alias("row"),
    )
    written = [f"{what}_{kind}_ms" for what in ("tpot", "itl") for kind in ("mean", "median")]
    speeds = [pl.col(name).is_not_null() for name in ("output_tps", "user_tps", "step_ms", *written)]
    totals = pl.col("output_tokens").is_not_null() & pl.col("duration_s").is_not_null()
    earned = [pl.col(name).is_not_null() for name in ("accept_length_printed", "accepted")]
    earned.append(pl.col("accept_rate_printed").is_not_null() & pl.col("concurrency").is_not_null())
    return cleaned.filter(~pl.col("warmup").fill_null(False) & pl.any_horizontal(*speeds, totals, *earned))


def _possible(name: str) -> pl.Expr:
    """Whether a column's value can be what its name says; requests sent all at once have an infinite rate."""
    import polars as pl

    value = pl.col(name).cast(pl.Float64)
    within = value.is_between(_SMALLEST, _LARGEST)
    return within | value.is_infinite() if name == "request_rate" else within


def _without_twins(rows: pl.DataFrame) -> pl.DataFrame:
    """One row where a result file and its printed block were both given: the one with more figures.

    Twins have the same tool, load and tokens, and throughputs that agree within rounding; two runs never do.
    """
    import polars as pl

    richness = pl.sum_horizontal(pl.all().exclude("attrs").is_not_null().cast(pl.Int32))
    unsaid = ("context_tokens", "output_length", "temperature")  # one of the two may leave them out
    key = [*(name for name in _KEY if name not in unsaid), "requests", "output_tokens"]
    ranked = (
        rows.with_row_index("_at")
        .with_columns(richness.alias("_rich"))
        .sort([*key, "output_tps", "_rich"], descending=[False] * (len(key) + 1) + [True])
    )
    close = (pl.col("output_tps") / pl.col("output_tps").shift(1).over(key) - 1.0).abs() < _SAME
    same_time = (pl.col("duration_s") / pl.col("duration_s").shift(1).over(key) - 1.0).abs() < _SAME
    other_file = pl.col("file_id") != pl.col("file_id").shift(1).over(key)
    twin = (close & same_time & other_file & pl.col("output_tokens").is_not_null()).fill_null(False)
    grouped = ranked.with_columns((~twin).cum_sum().over(key).alias("_run"))
    best = grouped.sort("_rich", descending=True).unique([*key, "_run"], keep="first", maintain_order=True)
    return best.sort("_at").drop("_at", "_rich", "_run")


def _samples(requests: pl.DataFrame) -> dict[tuple[int, int], Samples]:
    """Per (file, point): time per token, tokens per chunk and time per chunk of its requests, in their order."""
    import polars as pl

    after_first = pl.col("output_tokens") - 1
    good = requests.filter((pl.col("output_tokens") > 1) & (pl.col("decode_ms") > 0) & pl.col("error").is_null())
    ordered = good.sort("file_id", "point", "request", "start_s", nulls_last=True).with_columns(
        (pl.col("decode_ms") / after_first).alias("ms"),
        pl.when(pl.col("chunks") > 0).then(after_first / pl.col("chunks")).alias("tokens"),
        pl.when(pl.col("chunks") > 0).then(pl.col("decode_ms") / pl.col("chunks")).alias("cycle"),
        pl.int_range(pl.len()).over("file_id", "point").alias("at"),
        pl.len().over("file_id", "point").alias("n"),
    )
    thinned = ordered.filter(pl.col("at") % ((pl.col("n") + _SAMPLES - 1) // _SAMPLES) == 0)
    return {
        (file_id, point): Samples(
            "request",
            group["n"][0],
            ms_per_token=_all(group["ms"]),
            tokens_per_cycle=_all(group["tokens"]),
            cycle_ms=_all(group["cycle"]),
            prompts=_digest(_all(group["input_tokens"])),
        )
        for (file_id, point), group in thinned.group_by("file_id", "point", maintain_order=True)
    }


def _digest(lengths: tuple[float, ...]) -> str | None:
    """A short name for these prompt lengths in this order; None where they are not known, or all are the same."""
    if len(set(lengths)) < 2:
        return None
    return hashlib.sha256(",".join(map(str, lengths)).encode()).hexdigest()[:16]


def _all(column: pl.Series) -> tuple[float, ...]:
    """The column; () when a value is missing."""
    return () if column.null_count() else tuple(column.to_list())


def _point(rows: list[dict[str, Any]], samples: dict[tuple[int, int], Samples], where: Locator) -> LoadPoint:
    """One point of the rows that repeat a measurement."""
    first = rows[0]
    written = first["tool"] in _WRITTEN
    rows = figures.without_copies(rows) if written else rows
    found = figures.figures(rows, where)
    own = [samples[key] for row in rows if (key := (row["file_id"], row["point"])) in samples]
    return LoadPoint(
        source=PointSource.TABLE if written else PointSource.BENCH,
        tool=first["tool"] or "unknown",
        series=first["series"],
        speculative=acceptance.speculates(rows),
        concurrency=None if first["concurrency"] is None else float(first["concurrency"]),
        label=first["row"],
        decoding=found.decoding,
        context_tokens=first["context_tokens"],
        output_length=first["output_length"],
        request_rate=first["request_rate"] if first["concurrency"] is None else None,
        gen_tps=found.gen_tps,
        user_tps=found.user_tps,
        ttft_ms=found.ttft_ms,
        tpot_ms=found.tpot_ms,
        itl_ms=found.itl_ms,
        latency_kind=found.latency_kind,
        tokens_per_chunk=found.tokens_per_chunk,
        accept_length=found.accept_length,
        accept_rate=found.accept_rate,
        per_position=acceptance.per_position(rows, where),
        tokens_per_cycle=found.tokens_per_cycle,
        cycle_ms=found.cycle_ms,
        k=acceptance.draft_tokens(rows),
        num_steps=first["num_steps"],
        topk=first["topk"],
        num_draft_tokens=first["num_draft_tokens"],
        runs=figures.run_values(rows),
        samples=own[0] if len(own) == 1 else None,
        requests=figures.count(rows, "requests"),
        failed=figures.count(rows, "failed"),
        duration_s=figures.total(rows, "duration_s"),
        input_tokens=figures.count(rows, "input_tokens"),
        output_tokens=figures.count(rows, "output_tokens"),
        dataset=first["dataset"],
        temperature=first["temperature"],
        arguments=client_arguments(first["attrs"]),
        notes=figures.notes(rows),
        evidence=tuple(where.at(row) for row in rows[:8]),
    )
