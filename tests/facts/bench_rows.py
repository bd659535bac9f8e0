"""Benchmark rows for tests: frames of the tables' columns from the few values a test cares about."""

from __future__ import annotations

from typing import Any

import polars as pl

from traceana.facts import bench
from traceana.facts.bench_model import LoadPoint
from traceana.facts.locate import Locator
from traceana_parsers.schema import polars_schema


def frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """A frame of the table; columns a row leaves out are null, `file_id`, `line`, `byte_offset` and `point` counted."""
    filled = [{"file_id": 0, "line": i + 1, "byte_offset": 0, "point": i, **row} for i, row in enumerate(rows)]
    return pl.DataFrame(
        [{name: row.get(name) for name in polars_schema(table)} for row in filled],
        schema=polars_schema(table),
        orient="row",
    )


def points(rows: list[dict[str, Any]], requests: list[dict[str, Any]] | None = None) -> tuple[LoadPoint, ...]:
    """Load points of rows, from files a.json, b.json, c.json."""
    where = Locator(("a.json", "b.json", "c.json"))
    return bench.points(frame("bench_points", rows), frame("bench_requests", requests or []), where)


def table(series: str, speculative: bool | None, pairs: dict[int, float], **more: Any) -> list[dict[str, Any]]:
    """Rows of a table of throughput by concurrency."""
    return [
        {"tool": "table", "series": series, "speculative": speculative, "concurrency": c, "output_tps": tps, **more}
        for c, tps in pairs.items()
    ]
