"""Reads Nsight exports in tests: a path to the tables, with what every reading must hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.peek import Peeked
from traceana_parsers.schema import TABLES, empty, polars_schema
from traceana_parsers.sources import Source, open_stream
from traceana_parsers.traces import nsight_columns, nsight_sqlite
from traceana_parsers.traces.nsight_stats import read_capture
from traceana_parsers.traces.readers import HEAD, Opened

Tables = dict[str, pl.DataFrame]
SPANS = ("kernels", "launches", "ranges", "memops", "graphs", "collectives")


def read_export(path: Path, on_text: Callable[[str, bytes], None] | None = None) -> tuple[Tables, FileReport]:
    """All tables of one SQLite export, folder or CSV (empty tables included) and its report. The input stays as it is."""
    before = state(path)
    sink = MemorySink()
    source = Source(str(path))
    if path.is_dir():
        report = nsight_columns.read(source, 3, sink, on_text)
    elif {".csv", ".parquet", ".tsv", ".txt"} & set(path.suffixes):
        (report,) = read_capture([Opened(source, 3, Peeked(open_stream(source), HEAD))], sink)
    else:
        report = nsight_sqlite.read(source, 3, sink, on_text)
    assert state(path) == before, "the input or its folder changed"
    tables = {name: pl.concat(sink.tables[name]) if name in sink.tables else empty(name) for name in TABLES}
    check(tables)
    return tables, report


def state(path: Path) -> tuple[list[tuple[str, int]], str]:
    """Names and times of what lies in the folder, and a hash of the input."""
    listing = sorted((p.name, p.stat().st_mtime_ns) for p in path.parent.iterdir())
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    return listing, hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()


def check(tables: Tables) -> None:
    """What holds for every reading, whatever the input."""
    for name, frame in tables.items():
        assert dict(frame.schema) == polars_schema(name), name
        if "file_id" in frame.columns:
            assert frame.filter(pl.col("file_id") != 3).height == 0, name
    ids = tables["names"]["name_id"]
    assert ids.n_unique() == len(ids), "a name id is given twice"
    assert tables["names"]["name"].n_unique() == len(ids), "a name has two ids"
    assert (tables["names"]["name"].str.len_chars() <= 4000).all()
    for name in SPANS:
        frame = tables[name]
        assert frame.filter(pl.col("end_ns") < pl.col("start_ns")).height == 0, name
        assert frame.select("start_ns", "end_ns", "name_id").null_count().sum_horizontal().item() == 0, name
        assert frame["name_id"].is_in(ids.implode()).all(), name


def capture(*paths: Path) -> tuple[Tables, list[FileReport]]:
    """All tables of the reports of one capture, and a report per file."""
    sink = MemorySink()
    batch = [Opened(s, 3 + i, Peeked(open_stream(s), HEAD)) for i, s in enumerate(Source(str(p)) for p in paths)]
    reports = read_capture(batch, sink)
    tables = {name: pl.concat(sink.tables[name]) if name in sink.tables else empty(name) for name in TABLES}
    check(tables)
    return tables, reports


def kernel_summary(path: Path) -> pl.DataFrame:
    """The kernel summary in a file, without the columns that say which it is."""
    rows = capture(path)[0]["summaries"].filter((pl.col("kind") == "kernel") & pl.col("within").is_null())
    return rows.select("name", "instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "std_ns")


def named(tables: Tables, table: str) -> pl.DataFrame:
    """Rows of a table with their names."""
    return tables[table].join(
        tables["names"].select("name_id", "name"), on="name_id", how="left", maintain_order="left"
    )


def notes(tables: Tables) -> list[str]:
    """The notes of the file."""
    return json.loads(tables["traces"]["notes"][0])


def everything(tables: Tables) -> str:
    """All cells of all tables as one text."""
    return "\n".join(frame.write_json() for frame in tables.values())
