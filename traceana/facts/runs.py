"""Inputs that are more than one run: two engines in one file, or a run and its baseline given together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.facts.locate import Locator

if TYPE_CHECKING:
    import polars as pl

_MIN_LINES = 3  # stats lines of a file before it counts as a run without speculation


def one_engine(known: str | None, decode: pl.DataFrame, spec_rows: pl.DataFrame) -> tuple[str, str | None]:
    """The engine whose lines are read as one run, and what is left out when two engines' lines are mixed."""
    counts = dict(decode["engine"].drop_nulls().value_counts(sort=True).iter_rows())
    engine = known or (next(iter(counts)) if counts else "vllm" if spec_rows.height else "sglang")
    others = [f"{count:,} stats lines of {name}" for name, count in counts.items() if name != engine]
    if engine not in counts or not others:
        return engine, None
    return engine, f"two engines are mixed in these inputs; left out: {', '.join(others)}"


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
