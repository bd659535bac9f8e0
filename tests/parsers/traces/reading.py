"""Reads traces in tests: bytes or a path to the tables, with what every reading must hold."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.schema import TABLES, empty, polars_schema
from traceana_parsers.sources import Source
from traceana_parsers.traces.kineto import KinetoReader

Tables = dict[str, pl.DataFrame]


def read_file(path: Path, block: int = 4 << 20) -> tuple[Tables, FileReport]:
    """All tables of one file (empty ones included) and its report."""
    sink = MemorySink()
    report = KinetoReader(block).read(Source(str(path)), 3, sink)
    tables = {name: pl.concat(sink.tables[name]) if name in sink.tables else empty(name) for name in TABLES}
    check(tables)
    return tables, report


def read_bytes(
    folder: Path, data: bytes, name: str = "rank0.pt.trace.json", block: int = 4 << 20
) -> tuple[Tables, FileReport]:
    """As `read_file`, of a file with the given content."""
    path = folder / name
    path.write_bytes(data)
    return read_file(path, block)


def check(tables: Tables) -> None:
    """What holds for every reading, whatever the input."""
    for name, frame in tables.items():
        assert dict(frame.schema) == polars_schema(name), name
    ids = set(tables["names"]["name_id"])
    for name in ("kernels", "launches", "ranges", "memops", "collectives"):
        frame = tables[name]
        assert frame.filter(pl.col("end_ns") < pl.col("start_ns")).height == 0, name
        assert frame.select("file_id", "start_ns", "end_ns", "name_id").null_count().sum_horizontal().item() == 0, name
        assert set(frame["name_id"]) <= ids, name


def named(tables: Tables, table: str) -> pl.DataFrame:
    """Rows of a table with their names."""
    return tables[table].join(
        tables["names"].select("name_id", "name"), on="name_id", how="left", maintain_order="left"
    )
