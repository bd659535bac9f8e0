"""Reads files of JSON that benchmarks and servers write, object by object."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from traceana_parsers.bench.catalog import form_of, forms
from traceana_parsers.bench.form import JsonForm
from traceana_parsers.bench.objects import Broken, Objects
from traceana_parsers.bench.rows import Rows
from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Stream, StreamState

_KEY = re.compile(rb'"([A-Za-z_][A-Za-z0-9_]{1,60})"\s*:')
_MOST_KEYS = 4000  # keys looked at to tell a file


def sniff(head: bytes) -> bool:
    """True when a file that begins with `head` holds objects of a known form, judged by the keys it names."""
    keys = {match[1].decode() for match, _ in zip(_KEY.finditer(head), range(_MOST_KEYS), strict=False)}
    return any(all(hint.rpartition(".")[2] in keys for hint in (form.hints or form.needs)) for form in forms())


def read(stream: Stream, report: FileReport, sink: Sink, answers: Mapping[str, str]) -> None:
    """Adds the rows of every object and closes the stream. Objects that cannot be read are counted as unread lines."""
    rows = Rows(sink, report.file_id)
    state, known = StreamState(), forms()
    tools: Counter[str] = Counter()
    broken: list[Broken] = []
    found_objects = Objects(stream, state)
    with stream:
        for found in found_objects:
            if isinstance(found, Broken):
                _unread(report, found.line, found.why)
                broken.append(found)
                del broken[1:]
                continue
            form = form_of(found.value, known) if isinstance(found.value, Mapping) else None
            if form is None:
                _unread(report, found.line, "an object of no known form")
                continue
            if isinstance(form, JsonForm):
                made = form.read(found.value, rows, found.line, found.offset, found.places(form.listed))
            else:
                made = form.read(found.value, rows, found.line, found.offset)
            tools[form.tool] += 1
            report.recognised += 1
            if not made:
                report.partial += 1
    rows.flush()
    report.bytes, report.lines = state.size, found_objects.lines
    report.format = tools.most_common(1)[0][0] if tools else "unknown"
    report.problem = _problem(state, report, broken)


def _unread(report: FileReport, line: int, text: str) -> None:
    report.unread += 1
    if report.unread_line is None:
        report.unread_line, report.unread_text = line, text


def _problem(state: StreamState, report: FileReport, broken: list[Broken]) -> str | None:
    if state.problem:
        return f"{state.problem}; what came before was read" if report.recognised else state.problem
    if broken:
        first = broken[0]
        rest = f"; {report.recognised:,} objects were read" if report.recognised else ""
        return f"line {first.line}, byte {first.offset}: {first.why}{rest}"
    return None
