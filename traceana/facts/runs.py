"""Inputs that are more than one run: two engines in one file, or a run and its baseline given together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.facts.locate import Locator

if TYPE_CHECKING:
    import polars as pl

_START_NAMES = ("model_path", "model", "model_tag")
_MIN_LINES = 3  # stats lines of a file before it counts as a run without speculation


def one_engine(known: str | None, decode: pl.DataFrame, spec_rows: pl.DataFrame) -> tuple[str, str | None]:
    """The engine whose lines are read as one run, and what is left out when two engines' lines are mixed."""
    counts = dict(decode["engine"].drop_nulls().value_counts(sort=True).iter_rows())
    engine = known or (next(iter(counts)) if counts else "vllm" if spec_rows.height else "sglang")
    others = [f"{count:,} stats lines of {name}" for name, count in counts.items() if name != engine]
    if engine not in counts or not others:
        return engine, None
    return engine, f"two engines are mixed in these inputs; left out: {', '.join(others)}"


def with_starts(rows: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Adds `start`: the line of the server start above each row in its file, 0 where there is none.

    A start is a line that says the model among the arguments (SGLang's server_args, vLLM's configuration).
    """
    import polars as pl

    begins = (
        settings.filter(pl.col("name").is_in(_START_NAMES) & pl.col("line").is_not_null())
        .select("file_id", pl.col("line"), pl.col("line").alias("start"))
        .unique()
        .sort("line")
    )
    ordered = rows.sort("line")
    joined = ordered.join_asof(begins, on="line", by="file_id", strategy="backward", check_sortedness=False)
    return joined.with_columns(pl.col("start").fill_null(0)).sort("file_id", "line")


def without_plain_starts(
    decode: pl.DataFrame, spec_rows: pl.DataFrame, settings: pl.DataFrame, where: Locator
) -> tuple[pl.DataFrame, pl.DataFrame, str | None]:
    """Stats lines and settings of the server starts that speculate, where one file holds others that do not.

    Servers started one after the other often append to one log. Returns decode, settings, and words for what was left
    out; both unchanged where all starts of each file speculate, or none.
    """
    import polars as pl

    keys = ["file_id", "start"]
    if settings.filter(pl.col("name").is_in(_START_NAMES)).select("file_id", "line").n_unique() < 2:
        return decode, settings, None
    marked = with_starts(decode, settings)
    per_start = marked.group_by(keys, maintain_order=True).agg(
        pl.col("accept_length_printed").is_not_null().any().alias("prints"),
        pl.len().alias("lines"),
        pl.col("line").min().alias("first"),
        pl.col("line").max().alias("last"),
    )
    spec_starts = with_starts(spec_rows.filter(pl.col("drafted") > 0), settings).select(keys).unique()
    drafts = per_start.join(spec_starts.with_columns(pl.lit(True).alias("counts")), on=keys, how="left").with_columns(
        (pl.col("prints") | pl.col("counts").fill_null(False)).alias("drafts")
    )
    mixed = drafts.filter(pl.col("drafts").any().over("file_id"))
    plain = mixed.filter(~pl.col("drafts") & (pl.col("start") > 0) & (pl.col("lines") >= _MIN_LINES))
    if not plain.height:
        return decode, settings, None
    names = ", ".join(
        f"lines {row['first']:,} to {row['last']:,} of {where.paths[row['file_id']]}"
        for row in plain.head(3).iter_rows(named=True)
    )
    more = f" and {plain.height - 3} more" if plain.height > 3 else ""
    words = f"left out, because that start of the server does not speculate while another does: {names}{more}"
    kept = marked.join(plain, on=keys, how="anti").drop("start")
    own = with_starts(settings.filter(pl.col("line").is_not_null()), settings).join(plain, on=keys, how="anti")
    rest = settings.filter(pl.col("line").is_null())
    return kept, pl.concat([own.drop("start"), rest]), words


def one_run(decode: pl.DataFrame, spec_rows: pl.DataFrame, where: Locator) -> tuple[pl.DataFrame, str | None]:
    """Stats lines of the files that speculate, when others do not, and words for what was left out.

    A run with speculation and one without are two runs: averaging them would give a step that never was. Files of one
    server (rotated logs) speculate alike.
    """
    import polars as pl

    per_file = decode.group_by("file_id", maintain_order=True).agg(
        pl.col("accept_length_printed").is_not_null().any().alias("drafts"), pl.len().alias("lines")
    )
    drafting = set(per_file.filter("drafts")["file_id"]) | set(spec_rows.filter(pl.col("drafted") > 0)["file_id"])
    plain = per_file.filter(~pl.col("file_id").is_in(drafting) & (pl.col("lines") >= _MIN_LINES))["file_id"].to_list()
    if not drafting or not plain:
        return decode, None
    names = ", ".join(where.paths[file_id] for file_id in plain)
    words = f"left out, because it does not speculate while the others do: {names} (give it as --baseline to compare)"
    return decode.filter(~pl.col("file_id").is_in(plain)), words
