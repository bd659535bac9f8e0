"""Reads all inputs of a run into a sink: the one entry of this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from traceana_parsers.bench.beside import Results
from traceana_parsers.bench.readers import reader_for as reader_for_results
from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.logs.scan import LogReader
from traceana_parsers.peek import Peeked
from traceana_parsers.sources import Source, SourceError, expand, open_stream
from traceana_parsers.traces.readers import reader_for

_HEAD = 1 << 16  # bytes that a file is told by


def read_run(paths: Iterable[str], sink: Sink, columns: Mapping[str, str] | None = None) -> list[FileReport]:
    """Reads files, folders, globs and `-` into `sink` and reports on each file, in reading order.

    `columns` says what headings of tables mean that do not say it themselves: heading -> column of `bench_points`
    (upper and lower case alike); FileReport.questions asks for them. Adds one row per file to the `inputs` table.
    Raises sources.SourceError when a path names nothing; whatever is wrong inside a file is in its report.
    """
    import polars as pl

    from traceana_parsers.schema import polars_schema

    logs = LogReader(sink)
    sources = expand(paths)
    reports = []
    answers = {heading.casefold(): column for heading, column in (columns or {}).items()}
    for index, source in enumerate(sources):
        trace = reader_for(source)
        if trace is not None:
            reports.append(trace.read(source, index, sink))
        else:
            reports.append(_read(source, index, sink, logs, answers))
    if all(report.scrapes or report.format == "server_info" for report in reports):
        # with a log or a benchmark beside them, these say what was measured, and the scrapes' times are not of one load
        from traceana_parsers.metrics.differences import add_differences

        add_differences((scrape for report in reports for scrape in report.scrapes), sink)
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


def _read(source: Source, file_id: int, sink: Sink, logs: LogReader, answers: Mapping[str, str]) -> FileReport:
    """Reads results of benchmarks and servers; anything else as text: a log, and results printed in it."""
    try:
        stream = Peeked(open_stream(source), _HEAD)
    except SourceError:
        return logs.read(source, file_id)  # says why it cannot be opened
    result = reader_for_results(stream.head)
    if result is None:
        return logs.read(source, file_id, stream, Results(sink, file_id, answers))
    report = FileReport(file_id, source.path, modified=source.modified)
    result(stream, report, sink, answers)
    return report
