"""Tables of collective times by message size: `| Size | PCIe oneshot (us) | NCCL (us) |`."""

from __future__ import annotations

import re
from dataclasses import replace

from traceana_parsers.bench.grid import Grid
from traceana_parsers.bench.headings import Heading, read, unit_kind
from traceana_parsers.bench.numbers import UNITS, plain, quantity
from traceana_parsers.bench.rows import Rows

_SIZE = re.compile(r"\b(?:size|message|msg|bytes)\b")
_IN_BYTES = re.compile(r"[(\[]\s*(?:b|bytes)\s*[)\]]|\bbytes\b")
_TIME_UNIT = re.compile(r"[(\[,]\s*(us|µs|μs|ms)\s*[)\],]|\bin (us|µs|μs|ms)\b")
_DURATION = re.compile(r"\b(?:kernel|time|duration|latency)\b")
_COLLECTIVES = (
    ("all_reduce", re.compile(r"all[-_ ]?reduce|\bar\b", re.IGNORECASE)),
    ("all_gather", re.compile(r"all[-_ ]?gather", re.IGNORECASE)),
    ("reduce_scatter", re.compile(r"reduce[-_ ]?scatter", re.IGNORECASE)),
    ("all_to_all", re.compile(r"all[-_ ]?to[-_ ]?all", re.IGNORECASE)),
)


def collectives(grid: Grid, rows: Rows) -> bool:
    """Adds the points of such a table; False when it is another kind."""
    return _by_size(grid, rows) or _by_rank(grid, rows)


def _by_size(grid: Grid, rows: Rows) -> bool:
    plainly = _IN_BYTES.search(grid.header[0].casefold()) is not None
    sizes = [_bytes(row.cells[0], plainly) if row.cells else None for row in grid.rows]
    known = sum(size is not None for size in sizes)
    if 2 * known <= len(sizes) or not _SIZE.search(grid.header[0].casefold()):
        return False
    headings = [read(cell) for cell in grid.header]
    titles = " ".join((grid.caption, grid.heading, *grid.header))
    collective = next((name for name, pattern in _COLLECTIVES if pattern.search(titles)), None)
    told = _TIME_UNIT.search(f"{grid.caption} {grid.heading}".casefold())  # `latency (us)` above the table
    headings = [
        replace(h, unit=told[1] or told[2]) if told and h.unit is None and h.role != "derived" else h for h in headings
    ]
    made = 0
    for row, size in zip(grid.rows, sizes, strict=True):
        for heading, cell in zip(headings[1:], row.cells[1:], strict=False):
            time = _time(heading, cell)
            if size is None or time is None:
                continue
            series = heading.series or heading.text
            values = {
                "collective": collective,
                "library": "nccl" if "nccl" in series.casefold() else None,
                "bytes": size,
                "time_us": time,
                "series": series,
            }
            rows.add("collective_points", values, row.line, row.offset)
            made += 1
    if made:
        rows.tools["collective_table"] += made
    return made > 0


def _by_rank(grid: Grid, rows: Rows) -> bool:
    """Time of one collective on each rank: `| Rank | AR kernel (us) |`."""
    ranks = [plain(row.cells[0]) if row.cells else "" for row in grid.rows]
    if (
        plain(grid.header[0]).casefold() != "rank"
        or sorted(ranks) != sorted(map(str, range(len(ranks))))
        or len(ranks) < 2
    ):
        return False
    found = [(i, name) for i, cell in enumerate(grid.header) for name, words in _COLLECTIVES if words.search(cell)]
    columns = [(i, name) for i, name in found if _DURATION.search(grid.header[i].casefold())]
    if len(columns) != 1:
        return False
    index, name = columns[0]
    heading = read(grid.header[index])
    for row, rank in zip(grid.rows, ranks, strict=True):
        time = _time(heading, row.cells[index]) if index < len(row.cells) else None
        if time is not None:
            values = {"collective": name, "ranks": len(ranks), "time_us": time, "series": f"rank {rank}"}
            rows.add("collective_points", values, row.line, row.offset)
            rows.tools["collective_table"] += 1
    return True


def _bytes(cell: str, plainly: bool) -> float | None:
    """Bytes of a cell with a unit, or where the heading says so of one without."""
    found = quantity(plain(cell))
    known = found is not None and (found.kind == "bytes" or (plainly and found.kind is None))
    return found.value if found is not None and known else None


def _time(heading: Heading, cell: str) -> float | None:
    """Microseconds; None when neither heading nor cell says that it is a time."""
    found = quantity(plain(cell))
    if found is None or heading.role == "derived":
        return None
    if found.kind == "time":
        return round(1000 * found.value, 9)
    if found.kind is None and heading.unit is not None and unit_kind(heading.unit) == "time":
        return round(1000 * found.value * UNITS[heading.unit][1], 9)
    return None
