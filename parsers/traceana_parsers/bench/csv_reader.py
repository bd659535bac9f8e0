"""CSV tables of results (comma, semicolon or tab), and the two-part CSV of AIPerf and GenAI-Perf."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping

from traceana_parsers.bench.clients import AIPERF
from traceana_parsers.bench.grid import Grid, Row
from traceana_parsers.bench.headings import LOADS, MEASURE
from traceana_parsers.bench.headings import read as read_heading
from traceana_parsers.bench.numbers import quantity
from traceana_parsers.bench.page import Page
from traceana_parsers.bench.rows import Rows
from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Stream, StreamState, blocks

_SEPARATORS = ",;\t"
_MOST_ROWS = 20_000
_GUIDELLM = "Run Info"
#: a column's name: no value, no `key: value` of a log line
_NAME = re.compile(r"(?![-+.\d\s]+$)[^:\n]{0,80}")
_METRIC = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<unit>[^()]*)\))?$")


def sniff(head: bytes) -> bool:
    """True when the first line names the columns of a table of results."""
    first, _, rest = head.decode("utf-8-sig", "replace").partition("\n")
    separator = _separator(first)
    cells = _cells(first, separator)
    if not 2 <= len(cells) <= 400 or not all(_NAME.fullmatch(cell) for cell in cells):
        return False
    if cells[0] == "Metric" and ("avg" in cells or "Value" in cells):
        return True
    if cells[0] == _GUIDELLM:
        return True
    values = _cells(rest.partition("\n")[0], separator)
    if len(values) != len(cells) or not any(quantity(value) for value in values):
        return False
    roles = [read_heading(cell).role for cell in cells]
    loaded = any(read_heading(cell).column in ("concurrency", "k", "context_tokens") for cell in cells)
    return (MEASURE in roles and len(cells) > 1 and roles.count(MEASURE) + roles.count(LOADS) > 1) or loaded


def read(stream: Stream, report: FileReport, sink: Sink, answers: Mapping[str, str]) -> None:
    """Adds the points of the table and closes the stream."""
    rows, state = Rows(sink, report.file_id), StreamState()
    page = Page(rows, answers)
    with stream:
        lines = _Lines(stream, state)
        try:
            _read(lines, page, rows)
        except csv.Error as error:
            report.problem = f"line {lines.number}: {error}"
        if page.tool == _GUIDELLM:
            report.problem = "GuideLLM's CSV, whose columns change with its version; give its benchmarks.json instead"
    page.end()
    rows.flush()
    report.bytes, report.lines = state.size, lines.number
    made = rows.counts.get("bench_points", 0)
    report.recognised = made
    report.format = rows.tools.most_common(1)[0][0] if rows.tools else "unknown"
    if state.problem:
        report.problem = state.problem
    page.tell(report)


class _Lines:
    """Lines of a stream as text, with the number and offset of the last one."""

    def __init__(self, stream: Stream, state: StreamState) -> None:
        self._stream = stream
        self._state = state
        self.number = 0
        self.offset = 0

    def __iter__(self) -> Iterator[str]:
        for block in blocks(self._stream, self._state):
            self.offset = block.offset
            for raw in block.data.removesuffix(b"\n").split(b"\n"):
                self.number += 1
                text = raw.decode("utf-8", "replace")
                yield (text.removeprefix("\ufeff") if self.number == 1 else text).replace("\0", "").rstrip("\r") + "\n"
                self.offset += len(raw) + 1


def _read(lines: _Lines, page: Page, rows: Rows) -> None:
    source = iter(lines)
    first = next(source, "")
    separator = _separator(first)
    header = _cells(first, separator)
    if not header:
        return
    if header[0] == _GUIDELLM:
        page.tool = _GUIDELLM
        return
    if header[0] == "Metric":
        _metrics(header, csv.reader(source, delimiter=separator), rows)
        return
    grid = Grid(header, 1, 0)
    for cells in csv.reader(source, delimiter=separator):
        if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
            continue
        if len(grid.rows) >= _MOST_ROWS:
            grid.cut += 1
            continue
        grid.rows.append(Row([cell.strip() for cell in cells], lines.number, lines.offset))
    page.add(grid)


def _metrics(header: list[str], rest: Iterator[list[str]], rows: Rows) -> None:
    """AIPerf and GenAI-Perf: a metric a row, its statistics or its value in the columns; as their JSON has them."""
    found: dict[str, dict[str, float | str]] = {}
    for cells in rest:
        if len(cells) < 2:
            continue
        if cells[0] == "Metric":
            header = cells
            continue
        match = _METRIC.match(cells[0])
        if match is None or header[0] != "Metric":
            continue
        metric: dict[str, float | str] = {"unit": match["unit"]} if match["unit"] else {}
        for name, cell in zip(header[1:], cells[1:], strict=False):
            try:
                metric["avg" if name == "Value" else name] = float(cell.replace(",", ""))
            except ValueError:
                continue
        found["_".join(match["name"].casefold().split())] = metric
    for part in AIPERF.parts(found):
        point = AIPERF.point(part, 1, 0) if part is not None else None
        if point is not None and point.values:
            rows.point(point)


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=line.count)


def _cells(line: str, separator: str) -> list[str]:
    """The cells of a line; none where its quotes or carriage returns are not those of a table."""
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r\n")], delimiter=separator), [])]
    except csv.Error:
        return []
