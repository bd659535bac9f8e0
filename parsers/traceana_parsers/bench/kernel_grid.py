"""Tables of GPU time by kernel, as people and tools print them: `| Kernel | GPU time | Share | Launches |`.

They become rows of `summaries`, as those of `nsys stats`: sums, without the time of any event.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from traceana_parsers.bench.grid import Grid
from traceana_parsers.bench.numbers import UNITS, quantity

if TYPE_CHECKING:
    from traceana_parsers.interface import Sink

_NAME_LIMIT = 4000
_MOST = 20_000
LARGEST_NS = 1 << 53
#: column -> its headings, without emphasis and unit
_COLUMNS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (column, re.compile(pattern))
    for column, pattern in (
        ("name", r"(?:gpu |cuda )?(?:kernel|operation|op|kernel name|name)"),
        ("share", r"%.{0,20}|.{0,20}%|(?:gpu |time )?share"),
        ("count", r"count|launches|calls|instances|invocations|(?:#|num(?:ber)?|no\.?) ?(?:of )?(?:calls|launches)"),
        ("avg", r"(?:avg|mean|average)\b.*"),
        ("median", r"(?:med|median|p50)\b.*"),
        ("least", r"(?:min)\b.*"),
        ("most", r"(?:max)\b.*"),
        ("total", r"(?:total|sum|(?:total |self )?(?:gpu |cuda |kernel )?(?:time|duration)(?: total)?|self cuda)"),
    )
)
_UNIT = re.compile(r"[(\[]\s*([^()\[\]]{1,12})\s*[)\]]")
_NOTE = (
    "from a printed table of kernels: sums over what its maker chose, no event with its time: nothing of cycles, "
    "launch gaps, overlap or ranks; give the trace it was made from"
)


class KernelTables:
    """Collects the rows of one text's kernel tables; `end` hands them to the sink."""

    def __init__(self, sink: Sink, file_id: int) -> None:
        self._sink = sink
        self._file_id = file_id
        self._rows: list[dict[str, Any]] = []

    @property
    def count(self) -> int:
        """Rows taken."""
        return len(self._rows)

    def add(self, grid: Grid) -> bool:
        """Takes a table of kernels; False for any other table."""
        columns = _columns(grid.header)
        if (
            "name" not in columns
            or not ({"total", "avg"} & columns.keys())
            or not ({"count", "share"} & columns.keys())
        ):
            return False
        units = {column: _unit(grid.header[index]) for column, index in columns.items()}
        rows = [made for row in grid.rows if (made := _row(row.cells, columns, units)) is not None]
        if not rows or not _known([row["name"] for row in rows]):
            return False
        self.take(rows)
        return True

    def take(self, rows: list[dict[str, Any]]) -> None:
        """Takes rows: name, instances, total_ns, and avg_ns, med_ns, min_ns, max_ns, share where known."""
        self._rows += rows[: max(_MOST - len(self._rows), 0)]

    def end(self) -> None:
        """Adds the rows of `summaries`, and the one of `traces` that stands for the capture."""
        if not self._rows:
            return
        import polars as pl

        from traceana_parsers.schema import polars_schema

        common = {"file_id": self._file_id, "kind": "kernel"}
        rows = [common | row for row in self._rows]
        self._sink.add("summaries", pl.DataFrame(rows, schema=polars_schema("summaries"), orient="row", strict=False))
        trace = {
            "file_id": self._file_id,
            "tool": "kernel_table",
            "clock": "relative",
            "graph_mode": "unknown",
            "devices": "{}",
            "notes": json.dumps([_NOTE]),
        }
        self._sink.add("traces", pl.DataFrame([trace], schema=polars_schema("traces"), orient="row"))
        self._rows = []


def _bare(heading: str) -> str:
    return re.sub(r"[*`]", "", heading).strip().casefold()


def _columns(header: list[str]) -> dict[str, int]:
    """Which column of the table is what; the first of a kind counts."""
    found: dict[str, int] = {}
    for index, heading in enumerate(header):
        words = " ".join(_UNIT.sub(lambda m: "%" if m[1].strip() == "%" else " ", _bare(heading)).split())
        for column, pattern in _COLUMNS:
            if column not in found and pattern.fullmatch(words):
                found[column] = index
                break
    return found


def _unit(heading: str) -> float | None:
    """Nanoseconds per unit that the heading names, None where it names none."""
    match = _UNIT.search(_bare(heading))
    return _ns(match[1].strip()) if match else None


def _ns(unit: str | None) -> float | None:
    kind, factor = UNITS.get(unit or "", ("", 0.0))
    return factor * 1e6 if kind == "time" else None


def _row(cells: list[str], columns: dict[str, int], units: dict[str, float | None]) -> dict[str, Any] | None:
    """One kernel; None for a row without a name or a time."""
    texts = {column: _text(cells[index]) if index < len(cells) else "" for column, index in columns.items()}
    name = texts["name"].replace("<br>", " ").strip()
    times = {c: time_ns(texts.get(c, ""), units.get(c)) for c in ("total", "avg", "median", "least", "most")}
    counted = quantity(texts.get("count", ""))
    n = round(counted.value) if counted is not None and counted.kind is None and counted.value >= 1 else None
    total, avg = times["total"], times["avg"]
    if total is None and avg is not None and n:
        total = avg * n
    known = [value for value in times.values() if value is not None]
    if not name or total is None or total <= 0 or any(v >= LARGEST_NS for v in (total, n or 0, *known)):
        return None
    return {
        "name": name[:_NAME_LIMIT],
        "instances": n or 1,
        "total_ns": round(total),
        "avg_ns": avg if avg is not None else total / n if n else None,
        "med_ns": times["median"],
        "min_ns": None if times["least"] is None else round(times["least"]),
        "max_ns": None if times["most"] is None else round(times["most"]),
        "share": share_of(texts.get("share", "")),
    }


def _text(cell: str) -> str:
    """A cell without emphasis; underscores stay, as they are part of names."""
    return re.sub(r"[*`]", "", cell).replace("\u00a0", " ").strip()


def time_ns(cell: str, unit: float | None = None) -> float | None:
    """Nanoseconds of a cell; None where neither it nor `unit` (nanoseconds per unit of the heading) says what it is."""
    found = quantity(cell)
    if found is None:
        return None
    if found.kind == "time":
        return found.value * 1e6
    return found.value * unit if found.kind is None and unit is not None else None


def share_of(cell: str) -> float | None:
    """A share of 0 ... 1 from a cell in per cent; None for anything else."""
    found = quantity(cell)
    if found is None or found.kind not in (None, "ratio"):
        return None
    share = found.value if found.kind == "ratio" else found.value / 100
    return share if 0 < share <= 1 else None


def _known(names: list[str]) -> bool:
    """True when at least one name is that of a GPU kernel: other tables have names and times too."""
    import polars as pl

    from traceana_parsers.kernels import OTHER, classify

    return bool((classify(pl.Series(names))["category"] != OTHER).any())
