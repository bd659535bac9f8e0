"""Stats lines to windows: which stream, which are steady, and how long a cycle took in each.

The columns of the windows frame are `COLUMNS`: the stats line's own values, and what follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

PREFILL, LOAD_CHANGED = "prefill in the window", "the load changed"
#: reasons that leave a window's cycle an upper bound: other work is in it, but no idle time
MIXED = (PREFILL, LOAD_CHANGED)
#: how far the load may move within a steady window
RUNNING_TOLERANCE = 0.10
#: how far tokens per drafted cycle may be from the printed acceptance length (docs/arithmetic.md)
LENGTH_TOLERANCE = 0.15
#: SGLang prints lengths with two places: a bias below half of the last one does not show
_ROUNDING = 0.005
#: stands for the sequences of a prefill that does not say how many it held
_MANY = 1 << 20
#: prompts of so many tokens in the next window may have begun in this one (a chunk is 2,048 to 8,192 tokens)
LONG_PROMPT_TOKENS = 4096
#: seconds between vLLM's stats lines unless VLLM_LOG_STATS_INTERVAL says otherwise
LOG_INTERVAL_S = 10.0
#: accepted tokens from which a printed throughput (two places) tells the interval to 1 %
_TELLING = 50


@dataclass(frozen=True, slots=True)
class Ordered:
    """Rows in time order; `newest_first` when a file was pasted upside down."""

    frame: pl.DataFrame
    newest_first: bool


def in_time_order(rows: pl.DataFrame) -> Ordered:
    """Adds `seq`, the place of each row in time: reading order, reversed for files whose times run backwards."""
    import polars as pl

    steps = (
        rows.select("file_id", (pl.col("ts").diff().over("file_id").dt.total_milliseconds()).alias("step"))
        .group_by("file_id")
        .agg((pl.col("step") < 0).sum().alias("back"), (pl.col("step") > 0).sum().alias("forth"))
    )
    backwards = steps.filter((pl.col("back") > pl.col("forth")) & (pl.col("back") >= 2))["file_id"]
    place = pl.when(pl.col("file_id").is_in(backwards.implode())).then(-pl.col("line")).otherwise(pl.col("line"))
    ordered = rows.with_columns(place.alias("_place")).sort("file_id", "_place", maintain_order=True)
    return Ordered(ordered.with_row_index("seq").drop("_place"), len(backwards) > 0)


def streams(decode: pl.DataFrame) -> pl.DataFrame:
    """Adds `stream`: the DP rank, the vLLM engine, or `server`. Ranks that repeat another rank's line are dropped.

    SGLang to 0.5.9 can print the same counts on every TP rank: the lowest one is kept.
    """
    import polars as pl

    name = (
        pl.when(pl.col("engine_index").is_not_null())
        .then(pl.format("Engine {}", pl.col("engine_index").cast(pl.String).str.zfill(3)))
        .when(pl.col("dp").is_not_null())
        .then(pl.format("DP{}", pl.col("dp")))
        .otherwise(pl.lit("server"))
    )
    named = decode.with_columns(name.alias("stream"))
    lowest = pl.col("tp").min().over("stream")
    return named.filter(pl.col("tp").is_null() | (pl.col("tp") == lowest) | pl.col("engine").eq("vllm"))


def sglang(
    decode: pl.DataFrame, prefill: pl.DataFrame, starts: pl.DataFrame, speculating: bool, interval: int | None = None
) -> pl.DataFrame:
    """Windows of SGLang's Decode batch lines.

    cycle_ms = 1000 x accept length x running / gen_tps (docs/arithmetic.md). A window is steady when it is not the
    first of its stream or after a server start (`starts`: file_id, line), no prefill ran in it and the load moved by at
    most a tenth.

    Releases to 0.5.3 count each prefilled request in `accept len`, as one forward with one token; later ones count
    decode results alone, and all of them print `accept rate`, which the older ones do not. So the line itself says
    whether its accept length holds whatever else ran in the window (`drafts_only`). An older one holds as well where
    the prefilled requests among `interval` x running decodes (--decode-log-interval) shift it by less than it is
    rounded.
    """
    import polars as pl

    marks = prefill.select("file_id", "line", "dp", "new_seqs").with_columns(
        pl.lit(True).alias("is_prefill"),
        pl.when(pl.col("dp").is_not_null())
        .then(pl.format("DP{}", pl.col("dp")))
        .otherwise(pl.lit("server"))
        .alias("stream"),
    )
    both = pl.concat(
        [
            decode.with_columns(pl.lit(False).alias("is_prefill")),
            marks.drop("dp"),
            starts.select("file_id", "line")
            .join(decode.select("stream").unique(), how="cross")
            .with_columns(pl.lit(True).alias("is_prefill")),
        ],
        how="diagonal",
    ).sort("file_id", "line")
    sequences = pl.when("is_prefill").then(pl.col("new_seqs").cast(pl.Int64).fill_null(_MANY)).otherwise(0)
    both = both.with_columns(
        pl.col("is_prefill").cum_sum().over("stream").alias("prefills"),
        sequences.cum_sum().over("stream").alias("prefilled"),
    )
    rows = in_time_order(both.filter(~pl.col("is_prefill")).drop("is_prefill")).frame
    previous = pl.col("running").shift(1).over("stream")
    prefills, prefilled = ((pl.col(c) - pl.col(c).shift(1).over("stream")).abs() for c in ("prefills", "prefilled"))
    reason = _reason(previous, prefills > 0)
    shift = (pl.col("accept_length_printed") - 1.0) * prefilled / (pl.col("running") * (interval or 0))
    drafts_only = pl.col("accept_rate_printed").is_not_null() | reason.is_null() | (shift < _ROUNDING).fill_null(False)
    length = pl.col("accept_length_printed") if speculating else pl.lit(None, pl.Float64)
    earns = pl.coalesce(length, pl.lit(1.0))
    running = pl.coalesce((pl.col("running").cast(pl.Float64) + previous) / 2, pl.col("running"))
    cycle = 1000.0 * earns * running / pl.col("gen_tps")
    return rows.with_columns(
        length.alias("accept_length"),
        earns.alias("tokens_per_cycle"),
        pl.when(pl.col("gen_tps") > 0).then(cycle).alias("cycle_ms"),
        reason.alias("reason"),
        reason.is_null().alias("steady"),
        (length.is_not_null() & drafts_only).alias("drafts_only"),
        pl.col("accept_length_printed").alias("printed_length"),
        pl.col("accept_rate_printed").alias("printed_rate"),
        pl.lit(None, pl.Int64).alias("accepted"),
        pl.lit(None, pl.Int64).alias("drafted"),
        pl.lit(None, pl.List(pl.Float64)).alias("per_position"),
    )


def _reason(previous: pl.Expr, prefill: pl.Expr) -> pl.Expr:
    """Why a window is not steady; null when it is."""
    import polars as pl

    moved = (pl.col("running") - previous).abs() > RUNNING_TOLERANCE * pl.max_horizontal(pl.col("running"), previous)
    return (
        pl.when(pl.col("gen_tps").is_null() | pl.col("running").is_null())
        .then(pl.lit("a value is missing on the line"))
        .when((pl.col("running") == 0) | (pl.col("gen_tps") <= 0))
        .then(pl.lit("idle"))
        .when(previous.is_null() | (previous == 0))
        .then(pl.lit("first after start or idle"))
        .when(prefill)
        .then(pl.lit(PREFILL))
        .when(moved)
        .then(pl.lit(LOAD_CHANGED))
        .otherwise(None)
    )


def join_vllm(decode: pl.DataFrame, spec: pl.DataFrame) -> pl.DataFrame:
    """Engine lines with the SpecDecoding line that follows each: same process, same file, at most 3 s later.

    The SpecDecoding line names no engine; it belongs to the engine line before it. Spec lines without an engine line
    stand alone.
    """
    import polars as pl

    drop = ("ts", "dp", "pp", "tp", "ep", "proc", "form")
    spec = spec.with_columns(pl.col("pid").fill_null(-1)).sort("file_id", "line")
    decode = decode.with_columns(pl.col("pid").fill_null(-1)).sort("file_id", "line")
    left = spec.rename({"ts": "spec_ts", "line": "spec_line", "byte_offset": "spec_offset"})
    key = decode.select("file_id", "pid", "line", pl.col("ts").alias("engine_ts")).with_columns(
        pl.col("line").alias("engine_line")
    )
    joined = left.join_asof(
        key, left_on="spec_line", right_on="line", by=["file_id", "pid"], strategy="backward", check_sortedness=False
    ).with_columns(
        pl.when(
            ((pl.col("spec_ts") - pl.col("engine_ts")).dt.total_seconds().abs() <= 3)
            | pl.col("spec_ts").is_null()
            | pl.col("engine_ts").is_null()
        )
        .then("engine_line")
        .alias("engine_line")
    )
    values = [c for c in spec.columns if c not in (*drop, "file_id", "line", "byte_offset", "pid")]
    renamed = {"accept_length_printed": "printed_length", "accept_rate_printed": "printed_rate"}
    attached = (
        joined.filter(pl.col("engine_line").is_not_null())
        .unique(["file_id", "engine_line"], keep="first", maintain_order=True)
        .select("file_id", pl.col("engine_line").alias("line"), *values)
        .rename(renamed)
    )
    rows = decode.drop("accept_length_printed", "accept_rate_printed").join(
        attached, on=["file_id", "line"], how="left"
    )
    alone = joined.filter(pl.col("engine_line").is_null())
    if alone.height:
        single = alone.select(
            "file_id",
            pl.col("spec_line").alias("line"),
            pl.col("spec_offset").alias("byte_offset"),
            pl.col("spec_ts").alias("ts"),
            "pid",
            *values,
        ).rename(renamed)
        rows = pl.concat([rows, single], how="diagonal").with_columns(pl.col("engine").fill_null("vllm"))
    return rows.with_columns(pl.when(pl.col("pid") >= 0).then("pid").alias("pid"))


def interval_s(rows: pl.DataFrame) -> float | None:
    """Seconds that a vLLM stats line covers; None when no two lines and no throughputs tell.

    Two witnesses: the distance of a stream's lines, and count / throughput of a SpecDecoding line. Lines left out of an
    excerpt lengthen the one, idle time before a line the other, nothing shortens either: the lower quartile counts.

    Args:
        rows: lines from `join_vllm`, in time order, with `stream`.
    """
    import polars as pl

    gaps = rows.select(pl.col("ts").diff().over("stream").dt.total_milliseconds().cast(pl.Float64).alias("ms"))["ms"]
    if "accepted_tps" in rows.columns:
        told = rows.filter((pl.col("accepted") >= _TELLING) & (pl.col("accepted_tps") > 0))
        gaps = gaps.append(told.select((pl.col("accepted") * 1000.0 / pl.col("accepted_tps")).alias("ms"))["ms"])
    usual = gaps.filter(gaps > 0).quantile(0.25, "lower")
    return usual / 1000.0 if usual is not None else None


def vllm(
    rows: pl.DataFrame, k: int | None, every_step: bool, speculating: bool, with_bonus: bool | None
) -> pl.DataFrame:
    """Windows of vLLM's engine lines (with SpecDecoding values joined).

    With a fixed k: cycle_ms = 1000 x k x running / drafted per second; n-gram and suffix: tokens per cycle are
    generated / (generated - accepted), every step giving each request one token besides the accepted ones; without
    speculation cycle_ms is the step, 1000 x running / gen_tps (docs/arithmetic.md). Lengths count the steps that had a
    draft, and a prefill has none: each printed length is `drafts_only`.

    Args:
        rows: engine lines from `join_vllm`.
        k: draft tokens per cycle, when fixed and known.
        every_step: False for drafters that skip steps.
        speculating: whether the run speculates.
        with_bonus: whether printed lengths count the bonus token; None when not known (then lengths are null).
    """
    import polars as pl

    rows = in_time_order(rows).frame
    seconds = interval_s(rows) or LOG_INTERVAL_S
    previous = pl.col("running").shift(1).over("stream")
    accepted, drafted = pl.col("accepted"), pl.col("drafted")
    printed = pl.col("printed_length")
    length = printed if with_bonus else printed + 1.0 if with_bonus is False else pl.lit(None, pl.Float64)
    generated = pl.col("gen_tps") * seconds
    per_step = pl.when(generated > accepted).then(generated / (generated - accepted))
    earns = (
        pl.lit(1.0)
        if not speculating
        else length
        if every_step
        else pl.when(accepted.is_null()).then(1.0).otherwise(per_step)
    )
    # vLLM counts a prompt when its last chunk is done: the window before may have held its first chunks
    following = {name: pl.col(name).shift(-1).over("stream") for name in ("gen_tps", "running", "prompt_tps")}
    under_way = ((following["gen_tps"] <= 0) & (following["running"] > 0)) | (
        following["prompt_tps"] * seconds > LONG_PROMPT_TOKENS
    )
    reason = _reason(previous, (pl.col("prompt_tps") > 0) | under_way.fill_null(False))
    if speculating and every_step and k:
        rate = pl.coalesce(pl.col("drafted_tps"), drafted / seconds)
        off = (pl.col("gen_tps") / (rate / k) - length).abs() > LENGTH_TOLERANCE
        cycle = 1000.0 * k * pl.col("running") / rate
        reason = (
            pl.when(reason.is_not_null())
            .then(reason)
            .when(rate.is_null())
            .then(pl.lit("no SpecDecoding line"))
            .when(off)
            .then(pl.lit("tokens per draft differ from the acceptance length"))
            .otherwise(None)
        )
    else:
        cycle = 1000.0 * earns * pl.col("running") / pl.col("gen_tps")
    return rows.with_columns(
        (length if speculating else pl.lit(None, pl.Float64)).alias("accept_length"),
        earns.alias("tokens_per_cycle"),
        pl.when(pl.col("gen_tps") > 0).then(cycle).alias("cycle_ms"),
        reason.alias("reason"),
        reason.is_null().alias("steady"),
        (length if speculating else pl.lit(None, pl.Float64)).is_not_null().alias("drafts_only"),
    )


COLUMNS = (
    "seq", "stream", "file_id", "line", "byte_offset", "ts", "running", "queued", "tokens", "token_usage", "gen_tps",
    "cuda_graph", "accept_length", "tokens_per_cycle", "cycle_ms", "steady", "reason", "drafts_only", "printed_length",
    "printed_rate", "accepted", "drafted", "per_position",
)  # fmt: skip
