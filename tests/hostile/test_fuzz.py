"""Random and damaged logs: reading never raises, counts add up, evidence points at the right bytes, reports are drawn."""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceana.facts.build import build
from traceana.report.build import diagnosis
from traceana.report.interface import render
from traceana.rules.registry import run_all
from traceana.store.dataset import Tables
from traceana_parsers import sources
from traceana_parsers.inflate import MAGIC
from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.logs.catalog import grammars
from traceana_parsers.logs.prefixes import _ANSI
from traceana_parsers.read import read_run
from traceana_parsers.schema import TABLES, polars_schema

LIMITS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)

LINES = sorted({e.line.encode() for g in grammars().values() for e in g.examples})
ANCHORS = sorted(a.encode() for a in grammars())
#: what a careless merge, a terminal, a crash or an attacker leaves in a log
JUNK = (
    b"",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\x1b[31m",
    b"\x1b[0m",
    b"\x1b]0;title",
    b"\xff\xfe",
    "宽".encode(),
    "\u202e".encode(),
    b" ",
    b"\t",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"(",
    b"=",
    b": ",
    b", ",
    b"nan",
    b"-1",
    b"1e999",
    b"9" * 40,
    b"0",
    b"True",
    b'{"log":"',
    b'\\n"}',
    b"[2026-02-03 09:15:20 TP0] ",
    b"[0000-13-45 25:61:61] ",
    b"(Worker_TP1 pid=7) INFO 02-30 24:00:00 [x.py:1] ",
    b"node1:1:1 [0] NCCL INFO ",
    b"a" * 300,
)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A line of a grammar's own examples, damaged a few times."""
    line = bytearray(draw(st.sampled_from(LINES)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(line)))
        to = draw(st.integers(at, min(len(line), at + 40)))
        kind = draw(st.sampled_from(("cut", "twice", "swap", "insert", "byte", "glue")))
        if kind == "cut":
            del line[at:to]
        elif kind == "twice":
            line[to:to] = line[at:to]
        elif kind == "swap":
            line[at:to] = line[at:to][::-1]
        elif kind == "insert":
            line[at:at] = draw(st.sampled_from(JUNK))
        elif kind == "byte":
            line[at:at] = draw(st.binary(max_size=3))
        else:
            line += draw(st.sampled_from(LINES))
    return bytes(line)


ENDS = st.sampled_from((b"\n", b"\n", b"\n", b"\r\n", b"\r", b""))
LOGS = st.lists(st.tuples(mutated(), ENDS), min_size=1, max_size=25).map(lambda rows: b"".join(a + b for a, b in rows))


def read(data: bytes, block: int | None = None) -> tuple[dict[str, pl.DataFrame], FileReport]:
    """Tables and the file's report, read in blocks of the given size."""
    before = sources.BLOCK
    sources.BLOCK = block or before
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "server.log"
            path.write_bytes(data)
            sink = MemorySink()
            (report,) = read_run([str(path)], sink)
    finally:
        sources.BLOCK = before
    frames = {
        name: pl.concat(sink.tables[name]) if name in sink.tables else pl.DataFrame(schema=polars_schema(name))
        for name in TABLES
    }
    return frames, report


def check_counts(data: bytes, report: FileReport) -> None:
    if report.format == "not a log" or data.startswith(tuple(magic for magic, _ in MAGIC)):
        return
    lines = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
    assert report.lines == lines
    assert report.bytes == len(data)
    assert report.recognised <= lines
    assert report.unread <= lines
    starts = re.findall(rb"\r[^\r\n]|\[\d{4}-|pid=|INFO|WARNING|ERROR|DEBUG|NCCL", data)
    glued = max(0, len(starts) - lines)
    assert report.recognised + report.unread <= lines + glued
    assert (report.unread_line is None) == (report.unread == 0)
    if report.unread_line is not None:
        assert 1 <= report.unread_line <= lines


def check_places(data: bytes, tables: dict[str, pl.DataFrame]) -> None:
    """Line and offset of every row point into the line that holds an anchor."""
    starts = [0, *(m.end() for m in re.finditer(b"\n", data))]
    for name in ("decode_samples", "prefill_samples", "spec_samples", "cycles", "events", "settings"):
        for line, offset in tables[name].select("line", "byte_offset").unique().iter_rows():
            begin = starts[line - 1]
            end = starts[line] if line < len(starts) else len(data)
            assert begin <= offset < end, (name, line, offset)
            physical = re.sub(_ANSI.encode("latin-1"), b"", data[offset:end])
            assert any(anchor in physical for anchor in ANCHORS), (name, line, offset, physical)


def check_types(tables: dict[str, pl.DataFrame]) -> None:
    for name, frame in tables.items():
        assert dict(frame.schema) == polars_schema(name), name
        for column, kind in frame.schema.items():
            if kind == pl.Float64():
                assert frame[column].drop_nulls().is_finite().all(), (name, column)
            elif kind == pl.List(pl.Float64()):
                assert frame[column].explode().drop_nulls().is_finite().all(), (name, column)


def draw_reports(tables: dict[str, pl.DataFrame]) -> None:
    facts = build(Tables({name: [frame] for name, frame in tables.items()}))
    made = diagnosis(facts, run_all(facts, None))
    against_itself = diagnosis(facts, run_all(facts, facts), facts, run_all(facts))
    for one in (made, against_itself):
        for form in ("terminal", "markdown", "json"):
            text = render(one, form)
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), form
            io.StringIO().write(text)


def same(one: dict[str, pl.DataFrame], other: dict[str, pl.DataFrame]) -> None:
    for name in TABLES:
        if name == "inputs":
            drop = ["path", "modified", "unknown_keys"]
            assert one[name].drop(drop).rows() == other[name].drop(drop).rows()
            continue
        keep = [c for c in one[name].columns if c not in ("follow", "repeats")]
        a, b = (t[name].select(keep) for t in (one, other))
        if name == "events":  # equal lines of a block become one row
            a, b = (t.unique(["kind", "subject", "attrs", "proc", "pid", "tp"], keep="first") for t in (a, b))
        order = [
            c
            for c in ("line", "byte_offset", "engine", "name", "value", "kind", "subject", "attrs", "source", "form")
            if c in keep
        ]
        assert a.sort(order).rows() == b.sort(order).rows(), name


@LIMITS
@given(st.binary(max_size=4000))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    tables, report = read(data)
    check_counts(data, report)
    check_places(data, tables)
    check_types(tables)


@LIMITS
@given(LOGS)
def test_damaged_logs_are_counted_and_every_row_is_found_again(data: bytes) -> None:
    tables, report = read(data)
    check_counts(data, report)
    check_places(data, tables)
    check_types(tables)


@settings(LIMITS, max_examples=40)
@given(LOGS)
def test_damaged_logs_give_facts_and_reports(data: bytes) -> None:
    tables, _ = read(data)
    draw_reports(tables)


@settings(LIMITS, max_examples=40)
@given(LOGS)
def test_the_size_of_the_blocks_changes_nothing(data: bytes) -> None:
    whole, _ = read(data)
    for size in (64, 1000):
        small, _ = read(data, size)
        same(whole, small)
