"""Reads all inputs of a run into a sink: the one entry of this package."""

from __future__ import annotations

from collections.abc import Iterable

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.logs.scan import LogReader
from traceana_parsers.sources import expand
from traceana_parsers.traces.readers import reader_for


def read_run(paths: Iterable[str], sink: Sink) -> list[FileReport]:
    """Reads files, folders, globs and `-` into `sink` and reports on each file, in reading order.

    Adds one row per file to the `inputs` table. Raises sources.SourceError when a path names nothing; whatever is wrong
    inside a file is in its report.
    """
    import polars as pl

    from traceana_parsers.schema import polars_schema

    logs = LogReader(sink)
    sources = expand(paths)
    reports = []
    for index, source in enumerate(sources):
        trace = reader_for(source)
        reports.append(trace.read(source, index, sink) if trace is not None else logs.read(source, index))
    rows = [
        {
            "file_id": r.file_id,
            "path": source.shown,
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
        for source, r in zip(sources, reports, strict=True)
    ]
    sink.add("inputs", pl.DataFrame(rows, schema=polars_schema("inputs"), orient="row"))
    return reports
