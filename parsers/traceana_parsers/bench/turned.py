"""Tables that lie on their side: what is measured stands in the rows, set-ups or statistics in the columns."""

from __future__ import annotations

import re
from dataclasses import replace

from traceana_parsers.bench.grid import Grid, Row
from traceana_parsers.bench.headings import DERIVED, LOADS, MEASURE, WHOLE, Heading, read
from traceana_parsers.bench.numbers import plain, quantity
from traceana_parsers.bench.words import loads, speculates

#: headings of columns that are statistics of one run (genai-perf, aiperf) -> their word in a heading; "" is left out
_STATISTICS = {
    "avg": "avg", "mean": "avg", "average": "avg", "p50": "p50", "median": "p50", "p90": "p90", "p95": "p95",
    "p99": "p99", "min": "", "max": "", "std": "", "stddev": "", "p1": "", "p5": "", "p10": "", "p25": "", "p75": "",
}  # fmt: skip
#: rows that only a client has that calls the time per token an inter token latency
_PER_TOKEN = re.compile(r"time to second token|output token throughput per user|output sequence length")
_SETTINGS = ("k", "num_draft_tokens", "num_steps", "topk")
_MOST_TOKENS = 1024  # a number of draft tokens beyond that counts those of a run
#: runs that a heading says its cells hold: `(round 1 / 2)`, `[run 1/2/3]`
_RUNS = re.compile(r"[(\[](?:round|run|rep|repeat|trial|pass)s? ?\d(?: ?/ ?\d){1,7}[)\]]", re.IGNORECASE)
_MOST_MEASURES = 200  # rows that become columns
_FEWEST = 2  # different measures, before rows are taken for them


def turned(grid: Grid) -> Grid:
    """The table with a measured value per column, where its rows name measured values; else the table itself."""
    if len(grid.rows) > _MOST_MEASURES:
        return grid
    labels = [plain(row.cells[0]) if row.cells else "" for row in grid.rows]
    heads = [plain(cell) for cell in grid.header[1:]]
    rows = [read(label) for label in labels]
    if not heads or not _measures(rows, heads) or len(grid.header) > len(_STATISTICS) + 20:
        return grid
    per_token = any(_PER_TOKEN.search(label.casefold()) for label in labels)
    names = [
        _named(label, row, heading, per_token) for label, row, heading in zip(labels, grid.rows, rows, strict=True)
    ]
    words = [_STATISTICS.get(head.casefold()) for head in heads]
    if all(word is not None for word in words):
        return _one_run(grid, names, words)
    kept = [i for i, head in enumerate(heads, 1) if read(head).role != DERIVED and any(_cell(r, i) for r in grid.rows)]
    first = "" if kept and heads[0].casefold() in ("value", "result", "values", "results") else "set-up"
    made = [
        Row(["" if not first else grid.header[i], *(_cell(row, i) for row in grid.rows)], grid.line, grid.offset)
        for i in kept
    ]
    return replace(grid, header=[first, *names], rows=made)


def repeats_apart(grid: Grid) -> Grid:
    """The table with commas between the runs that its cells hold, where a heading says so: `tok/s (round 1 / 2)`."""
    if not any(_RUNS.search(cell) for cell in grid.header):
        return grid
    header = [_RUNS.sub(" ", cell).strip() for cell in grid.header]
    return replace(grid, header=header, rows=[replace(r, cells=[_commas(c) for c in r.cells]) for r in grid.rows])


def _commas(cell: str) -> str:
    """`58.8 / 54.3 %` as `58.8 %, 54.3 %`; other cells as they are."""
    parts = [plain(part) for part in re.split(r"\s/\s", cell)]
    if len(parts) < _FEWEST or not all(quantity(part) for part in parts):
        return cell
    unit = parts[-1].lstrip("~≈+-0123456789., ")
    return ", ".join(part if part.endswith(unit) else f"{part} {unit}" for part in parts)


def _measures(rows: list[Heading], heads: list[str]) -> bool:
    """True when the rows name measured values and the headings do not."""
    above = [read(head) for head in heads]
    if any(h.role == MEASURE or (h.role == LOADS and h.text.casefold() in WHOLE) for h in above):
        return False
    kinds = {(h.column, h.statistic) for h in rows if h.role == MEASURE}
    known = sum(h.role in (MEASURE, LOADS) for h in rows)
    if len(kinds) >= _FEWEST:
        return 3 * known >= len(rows)
    apart = any(speculates(head) is not None or loads(head)[0] for head in heads)
    return bool(kinds) and apart and all(h.role == MEASURE and h.unit is not None for h in rows)


def _named(label: str, row: Row, heading: Heading, per_token: bool) -> str:
    """The row's label as the heading of a column, changed where its meaning depends on the rows beside it."""
    if heading.column in _SETTINGS and heading.role == LOADS:
        values = [q.value for cell in row.cells[1:] if (q := quantity(plain(cell))) is not None]
        if any(value > _MOST_TOKENS for value in values):
            return "drafted tokens"
    if per_token and heading.column == "itl":
        return re.sub(r"(?i)inter[- ]token latency|\bitl\b", "time per output token", label)
    return label


def _one_run(grid: Grid, names: list[str], words: list[str | None]) -> Grid:
    """One row: each measured value by each statistic that has a column."""
    header, cells = [""], [""]
    for name, row in zip(names, grid.rows, strict=True):
        for index, word in enumerate(words, 1):
            if word and _cell(row, index):
                header.append(f"{word} {name}" if index > 1 or word != "avg" else name)
                cells.append(_cell(row, index))
    return replace(grid, header=header, rows=[Row(cells, grid.line, grid.offset)])


def _cell(row: Row, index: int) -> str:
    return row.cells[index] if index < len(row.cells) else ""
