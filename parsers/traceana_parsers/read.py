"""Reads all inputs of a run into a sink: the one entry of this package."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from traceana_parsers.bench.beside import Results
from traceana_parsers.bench.readers import reader_for as reader_for_results
from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.logs.scan import LogReader
from traceana_parsers.peek import Peeked
from traceana_parsers.sources import Source, SourceError, expand, open_stream
from traceana_parsers.traces.gather import Batch, gathered
from traceana_parsers.traces.readers import HEAD, Opened, is_stats, reader_for

if TYPE_CHECKING:
    from traceana_parsers.traces.nsight_environment import OnText


def read_run(paths: Iterable[str], sink: Sink, columns: Mapping[str, str] | None = None) -> list[FileReport]:
    """Reads files, folders, globs and `-` into `sink` and reports on each file, in reading order.

    A folder of tables that is one export counts as one file. Output of the server that a trace has kept is read as a
    log; its report comes after those of the files, with `inside` set. `columns` says what headings of tables mean that
    do not say it themselves: heading -> column of `bench_points` (upper and lower case alike); FileReport.questions
    asks for them. Adds one row per report to the `inputs` table.
    Raises sources.SourceError when a path names nothing; whatever is wrong inside a file is in its report.
    """
    import polars as pl

    from traceana_parsers.schema import polars_schema

    answers = {heading.casefold(): column for heading, column in (columns or {}).items()}
    run = _Run(gathered(expand(paths)), sink, answers)
    reports = run.read()
    if all(report.scrapes or report.format == "server_info" for report in reports):
        # with a log or a benchmark beside them, these say what was measured, and the scrapes' times are not of one load
        from traceana_parsers.metrics.differences import add_differences

        add_differences((scrape for report in reports for scrape in report.scrapes), sink)
    rows = [
        {
            "file_id": r.file_id,
            "path": Source(r.path).shown,
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


class _Run:
    """Reads one run; numbers its files in reading order."""

    def __init__(self, batches: Sequence[Batch], sink: Sink, answers: Mapping[str, str]) -> None:
        self._batches = batches
        self._sink = sink
        self._answers = answers
        self._logs = LogReader(sink)
        self._files = sum(len(batch.sources) for batch in batches)
        self._kept: list[FileReport] = []  # of texts inside traces

    def read(self) -> list[FileReport]:
        """The reports in order of file_id."""
        reports: list[FileReport] = []
        for batch in self._batches:
            reports += self._batch(batch, len(reports))
        return reports + self._kept

    def _batch(self, batch: Batch, first: int) -> list[FileReport]:
        numbered = list(enumerate(batch.sources, first))
        if batch.instead is not None:
            return [_left_out(source, file_id, batch.instead) for file_id, source in numbered]
        opened = [Opened(source, file_id, _stream(source)) for file_id, source in numbered]
        capture = [o for o in opened if is_stats(o, named=batch.form == "stats")]
        found = {o.file_id: self._single(o) for o in opened if o not in capture}
        if capture:
            from traceana_parsers.traces.nsight_stats import read_capture

            found |= {report.file_id: report for report in read_capture(capture, self._sink)}
        return [found[file_id] for file_id, _ in numbered]

    def _single(self, opened: Opened) -> FileReport:
        read = reader_for(opened)
        if read is None:
            return self._text(opened)
        return read(opened, self._sink, self._take_text(opened.source))

    def _text(self, opened: Opened) -> FileReport:
        """Reads results of benchmarks and servers; anything else as text: a log, and results printed in it."""
        source, file_id = opened.source, opened.file_id
        try:
            stream = opened.stream or Peeked(open_stream(source), HEAD)
        except SourceError:
            return self._logs.read(source, file_id)  # says why it cannot be opened
        result = reader_for_results(stream.head)
        if result is None:
            return self._logs.read(source, file_id, stream, Results(self._sink, file_id, self._answers))
        report = FileReport(file_id, source.path, modified=source.modified)
        result(stream, report, self._sink, self._answers)
        return report

    def _take_text(self, source: Source) -> OnText:
        """Reads what was kept in a trace as a log, as an input of its own; texts of no known program are left out."""

        def take(name: str, content: bytes) -> None:
            path = f"{source.path}:{PurePath(name).name}"
            report = FileReport(self._files + len(self._kept), path, modified=source.modified, inside=source.path)
            self._logs.read_stream(io.BytesIO(content), report)
            if report.recognised or report.unread:
                self._kept.append(report)

        return take


def _stream(source: Source) -> Peeked | None:
    """The opened source; None for what cannot be looked at beforehand: folders, standard input, what does not open."""
    if source.is_folder or not os.path.isfile(source.path):  # noqa: PTH113
        return None
    try:
        return Peeked(open_stream(source), HEAD)
    except SourceError:  # said by the reader
        return None


def _left_out(source: Source, file_id: int, instead: Source) -> FileReport:
    report = FileReport(file_id, source.path, format="nsight")
    report.problem = f"the same capture as {PurePath(instead.shown).name}, which was read instead"
    return report
