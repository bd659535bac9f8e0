"""Reads all inputs of a run into a sink: the one entry of this package."""

from __future__ import annotations

from collections.abc import Iterable

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.logs.scan import LogReader
from traceana_parsers.sources import expand


def read_run(paths: Iterable[str], sink: Sink) -> list[FileReport]:
    """Reads files, folders, globs and `-` into `sink` and reports on each file, in reading order.

    Adds one row per file to the `inputs` table. Raises sources.SourceError when a path names nothing; whatever is wrong
    inside a file is in its report.
    """
    import polars as pl

    from traceana_parsers.schema import polars_schema

    reader = LogReader(sink)
    reports = [reader.read(source, index) for index, source in enumerate(expand(paths))]
    rows = [
        {
            "file_id": r.file_id,
            "path": r.path,
            "format": r.format,
            "lines": r.lines,
            "bytes": r.bytes,
            "recognised": r.recognised,
            "unread": r.unread,
            "partial": r.partial,
            "unread_line": r.unread_line,
            "unread_text": r.unread_text,
            "unknown_keys": ", ".join(sorted(r.unknown_keys)) or None,
            "problem": r.problem,
            "modified": None if r.modified is None else int(r.modified * 1000),
        }
        for r in reports
    ]
    sink.add("inputs", pl.DataFrame(rows, schema=polars_schema("inputs"), orient="row"))
    return reports
