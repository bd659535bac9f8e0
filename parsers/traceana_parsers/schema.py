"""The tables every reader fills: column names, types, units and meanings, defined in `tables/` and nowhere else.

`polars_schema(table)` is used while reading; `arrow_schema(table)` carries unit and meaning in the field metadata, is
what Parquet files are written with; docs/tables.md is generated from the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from traceana_parsers.tables.bench import BENCH_TABLES
from traceana_parsers.tables.columns import Column
from traceana_parsers.tables.logs import LOG_TABLES
from traceana_parsers.tables.models import MODEL_TABLES
from traceana_parsers.tables.traces import TRACE_TABLES

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


__all__ = ["TABLES", "Column", "arrow_schema", "empty", "polars_schema"]

Schemas = Mapping[str, tuple[Column, ...]]
TABLES: dict[str, tuple[Column, ...]] = {**LOG_TABLES, **TRACE_TABLES, **BENCH_TABLES, **MODEL_TABLES}

_POLARS = {"i32": "Int32", "i64": "Int64", "f64": "Float64", "str": "String", "bool": "Boolean"}


def polars_schema(table: str, tables: Schemas = TABLES) -> dict[str, pl.DataType]:
    """Column name -> polars type of one of `tables`. Raises KeyError for an unknown table."""
    import polars as pl

    def kind(dtype: str) -> pl.DataType:
        if dtype == "ts":
            return pl.Datetime("ms")
        if dtype == "list_f64":
            return pl.List(pl.Float64())
        found: pl.DataType = getattr(pl, _POLARS[dtype])()
        return found

    return {column.name: kind(column.dtype) for column in tables[table]}


def arrow_schema(table: str, tables: Schemas = TABLES) -> pa.Schema:
    """Arrow schema of one of `tables`, with `unit` and `meaning` in each field's metadata."""
    import pyarrow as pa

    kinds = {
        "i32": pa.int32(),
        "i64": pa.int64(),
        "f64": pa.float64(),
        "str": pa.large_string(),
        "bool": pa.bool_(),
        "ts": pa.timestamp("ms"),
        "list_f64": pa.large_list(pa.float64()),
    }
    return pa.schema(
        [pa.field(c.name, kinds[c.dtype], metadata={"unit": c.unit, "meaning": c.meaning}) for c in tables[table]],
        metadata={"table": table, "schema": "traceana/tables/1"},
    )


def empty(table: str, tables: Schemas = TABLES) -> pl.DataFrame:
    """A frame of the columns of one of `tables`, with no rows."""
    import polars as pl

    return pl.DataFrame(schema=polars_schema(table, tables))
