"""Rows of the benchmark tables on their way to a sink: typed, bounded and numbered."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traceana_parsers.schema import TABLES

if TYPE_CHECKING:
    from traceana_parsers.interface import Sink

#: a value as it comes out of JSON or a table cell
Value = Any
_BATCH = 20_000  # rows kept before they go to the sink
_TEXT = 300  # characters of a text value
_LONG = 40_000  # characters of a text that is kept whole or not at all
_ATTRS = 64  # named values kept beside the columns
_LIST = 4096  # elements of a list column


@dataclass(slots=True)
class Point:
    """One measurement, being read: `values` by column, `attrs` for all else that was written about it."""

    tool: str
    line: int
    offset: int
    values: dict[str, Value] = field(default_factory=dict)
    attrs: dict[str, Value] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    requests: list[dict[str, Value]] = field(default_factory=list)

    def put(self, column: str, value: Value) -> None:
        """Sets a column unless the value is None or it is set already."""
        if value is not None:
            self.values.setdefault(column, value)


class Rows:
    """Collects rows of one file and hands them to the sink in batches."""

    def __init__(self, sink: Sink, file_id: int) -> None:
        self._sink = sink
        self._file_id = file_id
        self._rows: dict[str, list[dict[str, Value]]] = {}
        self.counts: dict[str, int] = {}
        self.tools: Counter[str] = Counter()

    def point(self, point: Point) -> None:
        """Adds a point and its requests."""
        from traceana_parsers.bench.checks import check

        check(point)
        number = self.counts.get("bench_points", 0)
        row = {**point.values, "point": number, "tool": point.tool, "attrs": packed(point.attrs)}
        row["doubt"] = "; ".join(dict.fromkeys(point.doubts)) or None
        self.add("bench_points", row, point.line, point.offset)
        for index, request in enumerate(point.requests):
            self.add("bench_requests", {"point": number, "request": index, **request}, point.line, point.offset)
        self.tools[point.tool] += 1

    def add(self, table: str, row: Mapping[str, Value], line: int, offset: int) -> None:
        """Adds one row; values that do not fit their column's type are left out."""
        kinds = _KINDS[table]
        made = {name: made for name, value in row.items() if (made := kinds[name](value)) is not None}
        made |= {"file_id": self._file_id, "line": line, "byte_offset": offset}
        rows = self._rows.setdefault(table, [])
        rows.append(made)
        self.counts[table] = self.counts.get(table, 0) + 1
        if len(rows) >= _BATCH:
            self._send(table)

    def flush(self) -> None:
        """Hands over what is left."""
        for table in list(self._rows):
            self._send(table)

    def _send(self, table: str) -> None:
        import polars as pl

        from traceana_parsers.schema import polars_schema

        rows = self._rows.pop(table, [])
        if rows:
            self._sink.add(table, pl.DataFrame(rows, schema=polars_schema(table), orient="row"))


def packed(attrs: Mapping[str, Value]) -> str | None:
    """Named values as a JSON object, sorted and bounded; None when there are none."""
    kept = {
        _text(name): _text(value) if isinstance(value, str) else value
        for name, value in sorted(attrs.items())[:_ATTRS]
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    }
    return json.dumps(kept, ensure_ascii=False) if kept else None


def number(value: Value) -> float | None:
    """A number as a float, infinite ones too; None for anything else, NaN and booleans among them."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            made = float(value)
        except OverflowError:
            return None
        return None if math.isnan(made) else made
    return None


def _text(value: Value) -> str | None:
    if not isinstance(value, str):
        return None if value is None else _text(str(value))
    return value[:_TEXT].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _long(value: Value) -> str | None:
    return value if isinstance(value, str) and len(value) <= _LONG else None


def _real(value: Value) -> float | None:
    return number(value)


def _whole(bits: int) -> Callable[[Value], int | None]:
    most = 2 ** (bits - 1)

    def make(value: Value) -> int | None:
        made = number(value)
        return round(made) if made is not None and math.isfinite(made) and -most <= made < most else None

    return make


def _flag(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def _reals(value: Value) -> list[float] | None:
    if not isinstance(value, list | tuple):
        return None
    made = [number(v) for v in value[:_LIST]]
    return None if not made or any(v is None or not math.isfinite(v) for v in made) else made  # type: ignore[return-value]


def _same(value: Value) -> Value:
    return value


_READ: dict[str, Callable[[Value], Value]] = {
    "i32": _whole(32),
    "i64": _whole(64),
    "f64": _real,
    "str": _text,
    "bool": _flag,
    "list_f64": _reals,
    "ts": _same,
}
#: columns of longer texts: JSON, which must not be cut, and values of settings
_WHOLE: dict[str, Callable[[Value], Value]] = dict.fromkeys(("attrs", "labels", "value"), _long)
_KINDS = {
    table: {
        column.name: _WHOLE.get(column.name, _READ["str"]) if column.dtype == "str" else _READ[column.dtype]
        for column in TABLES[table]
    }
    for table in ("bench_points", "bench_requests", "metrics", "collective_points", "settings")
}
