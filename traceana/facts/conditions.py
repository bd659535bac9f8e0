"""Under which conditions a run was measured: prompts, lengths, sampling, what else the server's counters counted.

Read from benchmark results and scrapes of /metrics; the figures themselves are in `Facts.points`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from traceana.store.dataset import Tables

#: client arguments that change what is measured, under the names benchmarks write them
_CLIENT_ARGUMENTS = (
    "ignore_eos", "top_p", "top_k", "min_p", "seed", "random_range_ratio", "burstiness", "endpoint",
    "apply_chat_template", "skip_chat_template", "return_logprob", "prompt_suffix", "prefix_len",
)  # fmt: skip
#: counters of generated tokens, by engine
_GENERATED = ("vllm:generation_tokens_total", "sglang:generation_tokens_total")
#: the counters may exceed the benchmarks' tokens by this share (rounding of warm-up requests) before it is said
_EXCESS = 0.02


@dataclass(frozen=True, slots=True)
class LoadConditions:
    """How one point of a benchmark was measured; None where the result does not say.

    `prompt_lengths` is a digest of the requests' prompt lengths in order, `texts` one of the generated texts.
    """

    concurrency: int | None
    context_tokens: int | None
    dataset: str | None = None
    temperature: float | None = None
    output_length: int | None = None
    request_rate: float | None = None
    requests: int | None = None
    failed: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_lengths: str | None = None
    texts: str | None = None
    label: str | None = None
    doubt: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server's token counters say of the time of the benchmarks.

    `counted` and `benchmarks` are generated tokens; `foreign` is what other clients must have been sent, None where it
    cannot be told.
    """

    scrapes: int = 0
    counted: float | None = None
    benchmarks: int | None = None
    foreign: float | None = None
    resets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """All conditions of one run."""

    loads: tuple[LoadConditions, ...] = ()
    counters: Counters = field(default_factory=Counters)


def conditions(tables: Tables) -> Conditions:
    """The conditions of a run, from `bench_points`, `bench_requests` and `metrics`; each may be empty."""
    import polars as pl

    points = tables.frame("bench_points").filter(pl.col("warmup").fill_null(False).not_())
    loads = _loads(points, tables.frame("bench_requests", ["file_id", "point", "request", "input_tokens"]))
    return Conditions(loads, _counters(tables.frame("metrics"), loads))


def _loads(points: pl.DataFrame, requests: pl.DataFrame) -> tuple[LoadConditions, ...]:
    """One entry per result; a result that was written twice (JSON and printed block) counts once."""
    lengths = _prompt_lengths(requests)
    made: dict[tuple[Any, ...], LoadConditions] = {}
    for row in points.iter_rows(named=True):
        found = LoadConditions(
            concurrency=row["concurrency"],
            context_tokens=row["context_tokens"],
            dataset=row["dataset"],
            temperature=row["temperature"],
            output_length=row["output_length"],
            request_rate=row["request_rate"],
            requests=row["requests"],
            failed=row["failed"],
            input_tokens=row["input_tokens"],
            output_tokens=row["output_tokens"],
            prompt_lengths=lengths.get((row["file_id"], row["point"])),
            texts=row["texts"],
            label=row["label"] if row["tool"] == "table" else None,  # elsewhere it numbers the runs
            doubt=row["doubt"],
            arguments=client_arguments(row["attrs"]),
        )
        seconds = row["duration_s"]
        key = (
            row["series"], row["label"], row["concurrency"], row["context_tokens"], row["output_tokens"],
            None if seconds is None else round(seconds, 2),
        )  # fmt: skip
        made[key] = _merged(made[key], found) if key in made else found
    return tuple(made.values())


def typical(loads: Sequence[LoadConditions]) -> LoadConditions:
    """The conditions of repeats as one: medians of token counts, and of the rest what all agree on."""
    first = loads[0]
    if len(loads) == 1:
        return first
    known: dict[str, Any] = {}
    for name in _AGREED:
        values = {getattr(load, name) for load in loads}
        known[name] = values.pop() if len(values) == 1 else None
    for name in _COUNTED:
        counts = [getattr(load, name) for load in loads if getattr(load, name) is not None]
        known[name] = int(median(counts)) if counts else None
    return replace(first, **known)


def uneven(loads: Sequence[LoadConditions]) -> str | None:
    """Words for repeats of one measurement whose token totals differ; None where they do not."""
    totals = sorted({load.output_tokens for load in loads if load.output_tokens})
    if len(totals) < 2 or totals[-1] <= (1.0 + SAME_TOKENS) * totals[0]:
        return None
    return f"repeats of one measurement differ in output tokens: {totals[0]:,} to {totals[-1]:,}"


_AGREED = ("dataset", "temperature", "output_length", "request_rate", "prompt_lengths", "texts", "label")
_COUNTED = ("requests", "failed", "input_tokens", "output_tokens")
#: token totals that differ by more than this share are other work
SAME_TOKENS = 0.05


def _merged(one: LoadConditions, other: LoadConditions) -> LoadConditions:
    """What either of two writings of one result says; the first counts where both do."""
    known = {name: getattr(other, name) for name in one.__slots__ if getattr(one, name) is None}
    return replace(one, **known, arguments=tuple({**dict(other.arguments), **dict(one.arguments)}.items()))


def _plain(value: object) -> str:
    """An argument as text: 16, 16.0 and "16" are the same."""
    try:
        return f"{float(value):g}" if not isinstance(value, bool) else str(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)


def _prompt_lengths(requests: pl.DataFrame) -> dict[tuple[int, int], str]:
    """A digest of the prompt lengths of each point, by (file, point)."""
    import polars as pl

    known = requests.filter(pl.col("point").is_not_null() & pl.col("input_tokens").is_not_null())
    grouped = (
        known.sort("file_id", "point", "request")
        .group_by("file_id", "point", maintain_order=True)
        .agg(pl.col("input_tokens"))
    )
    return {
        (file_id, point): hashlib.sha256(json.dumps(lengths).encode()).hexdigest()[:16]
        for file_id, point, lengths in grouped.iter_rows()
    }


def client_arguments(text: str | None) -> tuple[tuple[str, str], ...]:
    """Name and value of the client's arguments that change what is measured, from a point's `attrs`."""
    attrs = _attrs(text)
    return tuple((name, _plain(attrs[name])) for name in _CLIENT_ARGUMENTS if attrs.get(name) is not None)


def _attrs(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _counters(metrics: pl.DataFrame, loads: tuple[LoadConditions, ...]) -> Counters:
    """Generated tokens between the first and the last scrape, and what the benchmarks do not account for.

    A counter that goes down was reset: only its growth after that counts. Each result may have sent one request more
    than it counts (the clients' first test request).
    """
    import polars as pl

    rows = metrics.filter(pl.col("name").is_in(_GENERATED) & pl.col("value").is_finite())
    scrapes = rows.select("file_id", "scrape").n_unique() if rows.height else 0
    if scrapes < 2:
        return Counters(scrapes)
    ordered = rows.sort("ts", "file_id", "scrape", nulls_last=True, maintain_order=True)
    steps = ordered.with_columns(pl.col("value").diff().over("name", "labels").alias("step"))
    down = steps.filter(pl.col("step") < 0)
    resets = tuple(
        f"{row['name']} went down by {-row['step']:,.0f}: the server restarted, or the scrapes are not in order"
        for row in down.unique("name", maintain_order=True).iter_rows(named=True)
    )
    counted = float(steps.filter(pl.col("step") > 0)["step"].sum())
    known = [load.output_tokens for load in loads if load.output_tokens is not None]
    if not known or len(known) < len(loads):
        return Counters(scrapes, counted, None, None, resets)
    sent = sum(known)
    spare = sum(load.output_tokens / load.requests for load in loads if load.output_tokens and load.requests)
    excess = counted - sent - spare
    return Counters(scrapes, counted, sent, excess if excess > _EXCESS * sent else 0.0, resets)
