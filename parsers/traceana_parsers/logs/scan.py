"""Reads a log: blocks to lines, lines to families by their anchors, families to rows. Knows no engine.

Every line is classified once, by one automaton over all anchors; a family's lines are then read together. What cannot
be read is counted, and the first such line is kept to be shown.
"""

from __future__ import annotations

import re
import time
from calendar import isleap
from collections import Counter
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from traceana_parsers.interface import Beside, FileReport, Sink
from traceana_parsers.logs import lines as line_tools
from traceana_parsers.logs.catalog import grammars
from traceana_parsers.logs.families import Family, Result, Where, family_for
from traceana_parsers.logs.grammar import Grammar, PatternGrammar
from traceana_parsers.logs.not_logs import not_a_log
from traceana_parsers.logs.prefixes import HEAD_START, RECORD_START, strip_ansi, unwrap_json
from traceana_parsers.sources import Source, SourceError, Stream, StreamState, blocks, open_stream

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

_RECORD_START = re.compile(RECORD_START)
_RETURN = re.compile("\r")
_LEAP_DAY = re.compile(rb"(?:[^0-9-]02-29|Feb 29) [0-9]{2}:[0-9]{2}:[0-9]{2}")  # not in a full date
_SHAPE_LINES = 4000
_NO_SERVER = ("unknown", "nccl")  # formats that other lines may tell better
_GLUED_HEADS = 3  # records that name their time on one line; fewer may quote another line
_MAX_GLUED = 20_000  # glued lines taken apart per block; beyond that only the first record of each is read


class LogReader:
    """Reads files one after the other into a sink; derived patterns are kept from file to file."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._catalog = grammars()
        self._families: dict[str, Family] = {}
        self._engines: Counter[str] = Counter()
        self._likely: Counter[str] = Counter()  # by the heads of lines that several engines print

    def read(
        self, source: Source, file_id: int, stream: Stream | None = None, beside: Beside | None = None
    ) -> FileReport:
        """Reads one file. Never raises for what is in it; `problem` of the report says what went wrong.

        `stream`: the source, when it is open already; it is closed here. `beside` sees every block of the text too.
        """
        report = FileReport(file_id, source.path)
        try:
            report.modified = source.modified
            stream = stream or open_stream(source)
        except (SourceError, OSError) as error:
            report.problem = str(error).removeprefix(f"{source.path}: ")
            return report
        return self.read_stream(stream, report, beside)

    def read_stream(self, stream: Stream, report: FileReport, beside: Beside | None = None) -> FileReport:
        """Reads a text of which `report` says whose it is and when it was written, and closes it."""
        state = StreamState()
        self._engines.clear()
        self._likely.clear()
        where = Where(report.file_id, *_year_of(report.modified))
        counted = _Counted()
        with stream:
            for index, block in enumerate(blocks(stream, state)):
                if index == 0:
                    if found := not_a_log(bytes(block.data[:4096])):
                        report.format, report.problem = "not a log", found
                        return report
                    where = _leap(where, block.data)
                lines = line_tools.split(block)
                report.lines = int(lines.number[-1])
                marked = self._block(lines, where, report, counted, () if beside is None else beside.marks)
                if beside is not None and (marked or beside.open):
                    beside.block(block, marked)
                if index == 0 and not report.recognised:
                    report.shapes = _shapes(lines.text.head(_SHAPE_LINES))
        report.bytes = state.size
        report.format = _format(self._engines)
        if report.format in _NO_SERVER and (likely := _format(self._likely)) != "unknown":
            report.format = likely
        if state.problem:
            report.problem = f"{state.problem}; {'what came before' if report.lines else 'nothing'} was read"
        elif report.lines == 0:
            report.problem = "the file is empty"
        if report.recognised:
            report.shapes = []
        for family in self._families.values():
            report.unknown_keys |= family.unknown_keys
        if beside is not None:
            beside.finish(report)
        return report

    def _block(
        self, lines: line_tools.Lines, where: Where, report: FileReport, counted: _Counted, marks: tuple[str, ...]
    ) -> list[str]:
        """Reads the log lines of a block; which of the marks its lines hold."""
        import numpy as np
        import polars as pl

        hits = _classify(strip_ansi(lines.text) if lines.escapes else lines.text, [*self._catalog, *marks])
        marked: list[str] = []
        if marks and (of_marks := hits["anchor"].is_in(marks)).any():  # most logs hold none
            marked = hits["anchor"].filter(of_marks).unique().to_list()
            hits = hits.filter(~of_marks)
        if not hits.height:
            return marked
        lines, hits = _take_apart(lines, hits, self._catalog)
        hits = hits.with_columns((pl.col("row").rank("dense") - 1).alias("at"))
        hit = hits["row"].unique(maintain_order=True)
        text = lines.text.gather(hit)
        text = strip_ansi(unwrap_json(text.str.strip_chars_end("\r") if lines.returns else text))
        known = np.zeros(len(text), np.bool_)
        unread = np.zeros(len(text), np.bool_)
        for (anchor,), group in hits.group_by("anchor", maintain_order=True):
            grammar = self._catalog[str(anchor)]
            family = self._families.setdefault(str(anchor), family_for(grammar))
            rows = group["row"].to_numpy()
            own = text if group.height == len(text) else text.gather(group["at"])
            result = family.read(own, lines.number[rows], lines.offset[rows], where, _Following(lines.text, rows))
            if result.frame is not None and result.frame.height:
                self._sink.add(grammar.table, result.frame)
            at = group["at"].to_numpy()
            known[at[result.known.to_numpy()]] = True
            unread[at[result.unread.to_numpy()]] = True
            counts = self._likely if grammar.engine == "any" else self._engines
            counts.update(_engines_of(grammar.engine, result))
            report.partial += result.partial
        number = lines.number[hit.to_numpy()]
        unread &= ~known
        report.recognised += counted.recognised(number[known])
        report.unread += counted.unread(number[unread])
        if unread.any() and report.unread_line is None:
            first = int(np.flatnonzero(unread)[number[unread].argmin()])
            report.unread_line, report.unread_text = int(number[first]), (text[first] or "")[:300]
        return marked


class _Counted:
    """Counts lines, each once: a line may hold several records, and a very long one goes over several blocks."""

    def __init__(self) -> None:
        self._last = {"recognised": 0, "unread": 0}

    def recognised(self, numbers: npt.NDArray[np.int64]) -> int:
        """How many of these lines are newly recognised."""
        return self._new("recognised", numbers)

    def unread(self, numbers: npt.NDArray[np.int64]) -> int:
        """How many of these lines are newly unread."""
        return self._new("unread", numbers)

    def _new(self, kind: str, numbers: npt.NDArray[np.int64]) -> int:
        if not len(numbers):
            return 0
        new = int(numbers[0] != self._last[kind]) + int((numbers[1:] != numbers[:-1]).sum())  # they ascend
        self._last[kind] = int(numbers[-1])
        return new


class _Following:
    """The lines after given ones, for records of several lines."""

    def __init__(self, text: pl.Series, rows: object) -> None:
        self._text = text
        self._rows = rows

    def __call__(self, index: int, count: int) -> list[str]:
        start = int(self._rows[index]) + 1  # type: ignore[index]
        return [line for line in self._text.slice(start, count).to_list() if line is not None]


def _classify(text: pl.Series, anchors: list[str]) -> pl.DataFrame:
    """(row, anchor, n): which anchors each line holds and how often. Lines without are absent."""
    import polars as pl

    found = text.str.extract_many(anchors, leftmost=True)
    counts = found.list.len().fill_null(0)
    single, several = (counts == 1).arg_true(), (counts > 1).arg_true()
    ones = pl.DataFrame({"row": single, "anchor": found.list.first().gather(single)}).with_columns(
        pl.lit(1, pl.UInt32).alias("n")
    )
    if not len(several):
        return ones
    more = pl.DataFrame({"row": several, "anchor": found.gather(several)}).explode("anchor")
    more = more.group_by("row", "anchor", maintain_order=True).agg(pl.len().alias("n"))
    return pl.concat([ones, more]).sort("row", maintain_order=True)


def _take_apart(
    lines: line_tools.Lines, hits: pl.DataFrame, catalog: dict[str, Grammar]
) -> tuple[line_tools.Lines, pl.DataFrame]:
    """Splits physical lines that hold several records; progress bars count once, by their last state.

    Lines with several records of one family are cut where a record may begin, others only at carriage returns: one
    record may hold the anchors of several families.
    """
    import numpy as np
    import polars as pl

    glued = _glued(lines, hits, catalog)
    if not glued:
        return lines, hits
    pieces: list[str] = []
    numbers: list[int] = []
    offsets: list[int] = []
    whole = [row for row, _ in glued]
    for (row, pattern), text in zip(glued, lines.text.gather(whole).to_list(), strict=True):
        line = text or ""
        offset, number = int(lines.offset[row]), int(lines.number[row])
        cuts = [0, *(m.start() for m in pattern.finditer(line) if m.start() > 0), len(line)]
        for start, end in pairwise(cuts):
            piece = line[start:end]
            record = piece.lstrip("\r")
            if record:
                pieces.append(record)
                numbers.append(number)
                offsets.append(offset + len(piece) - len(record))
            offset += len(piece.encode())
    base = len(lines.text)
    made = pl.Series(pieces, dtype=pl.String)
    number_of = np.concatenate([lines.number, np.array(numbers, np.int64)])
    offset_of = np.concatenate([lines.offset, np.array(offsets, np.int64)])
    rest = np.delete(np.arange(len(number_of)), whole)
    order = rest[np.argsort(offset_of[rest], kind="stable")]  # the pieces at the place of their line
    place = np.zeros(len(number_of), np.uint32)
    place[order] = np.arange(len(order), dtype=np.uint32)
    joined = line_tools.Lines(
        pl.concat([lines.text, made], rechunk=True).gather(order),  # from one chunk: ten times as fast
        lines.returns,
        lines.escapes,
        number_of[order],
        offset_of[order],
    )
    kept = hits.filter(~pl.col("row").is_in(whole))
    more = _classify(strip_ansi(made), list(catalog)).with_columns(pl.col("row") + base)
    every = pl.concat([kept, more.select(kept.columns).cast(kept.schema)])
    return joined, every.with_columns(pl.Series("row", place[every["row"].to_numpy()])).sort("row", maintain_order=True)


def _glued(
    lines: line_tools.Lines, hits: pl.DataFrame, catalog: dict[str, Grammar]
) -> list[tuple[int, re.Pattern[str]]]:
    """Rows that hold several records, with what to cut them at."""
    import polars as pl

    bars = [anchor for anchor, g in catalog.items() if isinstance(g, PatternGrammar) and g.last]
    record = ~pl.col("anchor").is_in(bars)
    found: dict[int, re.Pattern[str]] = {}
    if (hits["n"] > 1).any():
        several = hits.filter(pl.col("n") > 1).filter(record)["row"].unique(maintain_order=True)
        found = dict.fromkeys(several.to_list(), _RECORD_START)
    doubled = hits["row"].is_duplicated() & hits.select(record).to_series()
    if doubled.any():  # an error pasted as one paragraph: each of its lines was another record
        rows = hits.filter(doubled)["row"].unique().sort()
        heads = lines.text.gather(rows).str.count_matches(HEAD_START)
        found |= dict.fromkeys(rows.filter(heads >= _GLUED_HEADS).to_list(), _RECORD_START)
    if lines.returns and hits["row"].is_duplicated().any():
        mixed = hits.filter(pl.col("row").is_duplicated()).filter(record)["row"].unique().sort()
        inner = lines.text.gather(mixed).str.contains("\r[^\r]")
        for row in mixed.filter(inner).to_list():
            found.setdefault(row, _RETURN)
    return list(found.items())[:_MAX_GLUED]


def _shapes(text: pl.Series) -> list[tuple[str, int]]:
    """The most common line shapes (numbers folded), to say what an unknown log looks like."""
    import polars as pl

    shaped = text.drop_nulls().str.slice(0, 100).str.replace_all(r"[0-9]+", "0").str.strip_chars()
    counts = shaped.filter(shaped != "").rename("shape").value_counts(sort=True).head(3)
    return [(str(shape), int(count)) for shape, count in counts.select("shape", pl.col("count")).iter_rows()]


def _engines_of(engine: str, result: Result) -> dict[str, int]:
    """How many lines are of which engine. Lines that both print are told by their head: SGLang has no level there and
    no process; a line without a time tells nothing."""
    import polars as pl

    if engine != "any" or result.frame is None or "level" not in result.frame.columns:
        return {engine: int(result.known.sum())}
    timed = result.frame.filter(pl.col("ts").is_not_null())
    vllm = int(timed["level"].is_not_null().sum())
    sglang = timed.filter(pl.col("level").is_null() & pl.col("proc").is_null()).height
    return {"vllm": vllm, "sglang": sglang, "any": result.frame.height - vllm - sglang}


def _format(engines: Counter[str]) -> str:
    ranked = sorted(
        (name for name, count in engines.items() if count and name != "any"), key=lambda n: (-engines[n], n)
    )
    if not ranked:
        return "unknown"
    servers = [name for name in ranked if name in ("sglang", "vllm", "trtllm", "llamacpp")]
    if len(servers) > 1 and engines[servers[1]] * 10 > engines[servers[0]]:
        return "mixed"
    return servers[0] if servers else ranked[0]


def _year_of(modified: float | None) -> tuple[int, tuple[int, int]]:
    """The year for times printed without one, and the last (month, day) that belongs to it: the day after the file was
    last written, because the server's clock may be in another time zone."""
    written = datetime.fromtimestamp(time.time() if modified is None else modified)
    last = written + timedelta(days=1)
    return last.year, (last.month, last.day)


def _leap(where: Where, data: bytearray) -> Where:
    """`where` with the last leap year when the times carry no year and name a 29th of February that its year has not."""
    if not ((b"02-29" in data or b"Feb 29" in data) and _LEAP_DAY.search(data)):
        return where
    year, limit = where.year, where.month_limit
    if limit < (2, 29):
        year, limit = year - 1, (12, 31)
    if isleap(year):
        return where
    while not isleap(year):
        year -= 1
    return Where(where.file_id, year, (12, 31))
