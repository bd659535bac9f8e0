"""Text to typed columns, and columns to the frame of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from traceana_parsers.schema import polars_schema

if TYPE_CHECKING:
    import polars as pl


def cast(kind: str, text: pl.Series) -> pl.Series:
    """Text to a typed column; text that is no value of the kind becomes null. No printed figure is below zero."""
    import polars as pl

    if kind == "int":
        count = _number(text, pl.Int64(), "s.")
        return count.set(count < 0, None) if (count < 0).any() else count
    if kind in ("float", "percent"):
        number = _number(text, pl.Float64(), "ms.")
        good = number.is_finite() & (number >= 0)
        number = number if good.all() else number.set(~good, None)
        return number / 100.0 if kind == "percent" else number
    column = pl.col(text.name)
    if kind == "bool":
        truth = pl.when(column.is_in(["True", "true"])).then(True).when(column.is_in(["False", "false"])).then(False)
        return text.to_frame().select_seq(truth.alias(text.name)).to_series()
    if kind == "list":
        return text.to_frame().select_seq(figures(column).alias(text.name)).to_series()
    return text


def _number(text: pl.Series, dtype: pl.DataType, unit: str) -> pl.Series:
    """Text to numbers; the characters of `unit` are taken off the end, in a second pass that few columns need."""
    number = text.cast(dtype, strict=False)
    if number.null_count() == text.null_count():
        return number
    return text.str.strip_chars_end(unit).cast(dtype, strict=False)


def finite(text: pl.Expr) -> pl.Expr:
    """A number, or null: also for nan, inf and figures too long for a float."""
    import polars as pl

    number = text.cast(pl.Float64, strict=False)
    return pl.when(number.is_finite()).then(number)


def figures(text: pl.Expr) -> pl.Expr:
    """A list of numbers; null when one of them is none, because each stands for its position."""
    import polars as pl

    numbers = text.str.split(", ").list.eval(finite(pl.element()))
    return pl.when(numbers.list.eval(pl.element().is_null()).list.any().not_()).then(numbers)


def profile_json(texts: pl.Series) -> list[pl.Series]:
    """Columns of our own EAGLE3_PROFILE JSON line; text that is no JSON object gives nulls."""
    import polars as pl

    names = {
        "rank": "rank", "cycles": "cycles", "batch": "batch", "k": "k", "draft_ms": "draft_ms", "verify_ms": "verify_ms",
        "re_extend_ms": "re_extend_ms", "other_ms": "other_ms", "total_ms": "total_ms",
        "accept_length": "accept_length_printed", "clock": "clock", "cycle": "iteration", "between_ms": "between_ms",
        "comm_ms": "comm_ms", "coverage": "coverage", "accept_requests": "accept_requests",
        "host_cycle_ms": "host_cycle_ms", "overhead_us": "overhead_us",
    }  # fmt: skip
    schema = polars_schema("cycles")
    rows = []
    for text in texts.to_list():
        try:
            made = json.loads(text or "")
        except (ValueError, RecursionError):
            made = {}
        rows.append(made if isinstance(made, dict) else {})
    texts_of = pl.DataFrame(
        {column: pl.Series([_plain(row.get(key)) for row in rows], dtype=pl.String) for key, column in names.items()}
    )
    kinds = {column: "float" if schema[column] == pl.Float64() else "int" for column in names.values()}
    kinds["clock"] = "str"
    columns = [cast(kind, texts_of[column]) for column, kind in kinds.items()]
    bonus = [True if row.get("v") == 1 else None for row in rows]
    return [
        *columns,
        pl.Series("accept_has_bonus", bonus, dtype=pl.Boolean),
        pl.Series("source", ["eagle3_profile"] * len(rows)),
    ]


def _plain(value: object) -> str | None:
    if value is None or isinstance(value, (dict, list)):
        return None
    return str(value).encode("utf-8", "replace").decode()  # JSON may hold halves of surrogate pairs


def own(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with its texts copied out: string views would keep the whole block of the file in memory."""
    import polars as pl

    owned = pl.from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    assert isinstance(owned, pl.DataFrame)
    return owned


def conform(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The frame with exactly the table's columns, in order and type; what it lacks is null."""
    import polars as pl

    schema = polars_schema(table)
    return frame.select_seq(
        (pl.col(name).cast(kind, strict=False) if name in frame.columns else pl.lit(None, kind).alias(name))
        for name, kind in schema.items()
    )
