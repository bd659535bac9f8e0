"""Reads what `nsys stats` printed, and the tables of nsys recipes: all files of one capture together.

GPU traces, calls and ranges go to the trace tables, sums to the table `summaries`. A summary has no time axis and a
trace no ranks: the .sqlite export says more, and is to be preferred.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.schema import polars_schema
from traceana_parsers.sources import SourceError, StreamState
from traceana_parsers.traces import nsight_recipe
from traceana_parsers.traces.nsight_common import Session
from traceana_parsers.traces.nsight_counts import Counts, Places
from traceana_parsers.traces.nsight_csv import kinds_in, sections, why_empty
from traceana_parsers.traces.nsight_names import Names
from traceana_parsers.traces.nsight_ranks import Ranks
from traceana_parsers.traces.nsight_rows import Rows
from traceana_parsers.traces.rank_names import rank_of
from traceana_parsers.traces.readers import Opened
from traceana_parsers.traces.stats_events import ORDER, Events
from traceana_parsers.traces.stats_notes import notes_of
from traceana_parsers.traces.stats_summaries import Summaries

_PARQUET = b"PAR1"
_DESCRIPTION = "a table that describes the capture of an nsys recipe; give the folder, with the recipe's own table"


def read_capture(batch: Sequence[Opened], sink: Sink) -> list[FileReport]:
    """Adds what the files of one capture hold; their rows carry the file_id of the first.

    Returns a report per file, in order. Never raises for what is in them; `problem` says what is wrong with a file.
    """
    capture = _Capture(batch, sink)
    reports = {opened.file_id: capture.read(opened) for opened in capture.in_order()}
    if not capture.finish():
        for report in reports.values():
            if report.recognised:
                report.recognised, report.problem = 0, _DESCRIPTION
    return [reports[opened.file_id] for opened in batch]


@dataclass(slots=True)
class _Told:
    """What the files of a capture say beside rows."""

    seen: dict[str, None] = field(default_factory=dict)  # reports, in words
    gpus: dict[int, str] = field(default_factory=dict)
    host: str | None = None


class _Capture:
    """State of reading one capture."""

    def __init__(self, batch: Sequence[Opened], sink: Sink) -> None:
        self._sink = sink
        self._batch = batch
        self._file_id = batch[0].file_id
        self._told = _Told()
        self._from: dict[str, int] = {}  # trace report -> the file it was read from
        self._tables = {o.file_id: _table_kind(o) for o in batch if o.head.startswith(_PARQUET)}
        self._kinds = {o.file_id: kinds_in(o.head) or [self._tables.get(o.file_id) or ""] for o in batch}
        self._rank, self._world = self._ranks()
        self._counts = Counts()
        places = Places(ranks=Ranks(every=self._rank, world_size=self._world))
        rows = Rows(self._file_id, Session(), places, Names(self._file_id, None, sink), self._counts, sink)
        self._summaries = Summaries()
        self._events = Events(rows, self._summaries, {kind for kinds in self._kinds.values() for kind in kinds})

    def _ranks(self) -> tuple[int | None, int | None]:
        """Rank and number of ranks: from the devices of JAX, else from the file names."""
        for opened in self._batch:
            if self._tables.get(opened.file_id) == "devices":
                opened.close()
                self._told.gpus, rank = nsight_recipe.devices(opened.source.path)
                if rank is not None:
                    return rank, None
        return rank_of(self._batch[0].source.path)

    def in_order(self) -> list[Opened]:
        """The files in the order in which they complete one another."""

        def place(opened: Opened) -> int:
            return min((ORDER.index(k) for k in self._kinds[opened.file_id] if k in ORDER), default=len(ORDER))

        return sorted(self._batch, key=place)

    def read(self, opened: Opened) -> FileReport:
        """Adds the rows of one file."""
        report = FileReport(opened.file_id, opened.source.path, format="nsight_stats")
        before = self._counts.odd.impossible
        try:
            report.modified = opened.source.modified
            if opened.head.startswith(_PARQUET):
                opened.close()
                self._table(opened, report)
            else:
                self._text(opened, report)
        except (SourceError, OSError) as error:
            report.problem = str(error).removeprefix(f"{opened.source.path}: ")
        report.unread += self._counts.odd.impossible - before
        return report

    def _text(self, opened: Opened, report: FileReport) -> None:
        state = StreamState()
        assert opened.stream is not None
        for section in sections(opened.stream, state):
            self._told.seen[section.report.what] = None
            kind = section.report.kind
            if kind in ORDER and self._from.setdefault(kind, opened.file_id) != opened.file_id:
                report.problem = f"a second {section.report.what} of one capture: it was not read"
                continue
            used = self._events.add(section)
            if used is None:
                unread = self._summaries.add(section, opened.source.path)
                used = section.frame.height - (unread or 0)
                report.unread += unread or 0
            report.recognised += used
            report.lines += section.frame.height
        report.bytes = state.size
        if state.problem:
            report.problem = state.problem
        elif not report.recognised and report.problem is None:
            report.problem = why_empty(opened.head, list(self._told.seen) if report.lines else [])

    def _table(self, opened: Opened, report: FileReport) -> None:
        path, kind = opened.source.path, self._tables[opened.file_id]
        report.bytes = opened.source.size
        if kind == "projection":
            self._told.seen["NVTX projection of a recipe"] = None
            for frame in nsight_recipe.projections(path):
                report.recognised += self._events.projection(frame)
                report.lines += frame.height
            return
        if kind == "system":
            self._told.host = nsight_recipe.host(path)
        report.recognised = report.lines = nsight_recipe.height(path)

    def finish(self) -> bool:
        """Adds the summaries and the rows of `traces`; False when the files held no report."""
        import polars as pl

        summaries = self._summaries.frame(self._file_id, self._rank)
        if summaries.height:
            self._sink.add("summaries", summaries)
        if not self._told.seen:
            return False
        notes = notes_of(list(self._told.seen), self._counts, self._summaries)
        processes = self._counts.processes or {None: self._counts.of(None)}
        gpus = self._told.gpus | self._events.gpus
        rows = [
            {
                "file_id": self._file_id,
                "rank": self._rank,
                "pid": pid,
                "world_size": self._world,
                "host": self._told.host,
                "tool": "nsight_stats",
                "clock": "relative",
                "start_ns": process.first_ns,
                "end_ns": process.last_ns,
                "graph_mode": "unknown",
                "devices": json.dumps({str(d): gpus.get(d) for d in sorted(process.devices or set(gpus))}),
                "notes": json.dumps(notes),
            }
            for pid, process in sorted(processes.items(), key=lambda item: -1 if item[0] is None else item[0])
        ]
        self._sink.add("traces", pl.DataFrame(rows, schema=polars_schema("traces"), orient="row"))
        return True


def _table_kind(opened: Opened) -> str | None:
    try:
        return nsight_recipe.kind_of(opened.source.path)
    except SourceError:  # said when it is read
        return None
