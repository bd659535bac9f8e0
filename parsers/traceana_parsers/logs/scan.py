"""Reads a log: blocks to lines, lines to families by their anchors, families to rows. Knows no engine.

Every line is classified once, by one automaton over all anchors; a family's lines are then read together. What cannot
be read is counted, and the first such line is kept to be shown.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.logs import lines as line_tools
from traceana_parsers.logs.catalog import grammars
from traceana_parsers.logs.families import Family, Result, Where, family_for
from traceana_parsers.logs.grammar import Grammar, PatternGrammar
from traceana_parsers.logs.prefixes import RECORD_START, strip_ansi, unwrap_json
from traceana_parsers.sources import Source, SourceError, StreamState, blocks, open_stream

if TYPE_CHECKING:
    import polars as pl

_RECORD_START = re.compile(RECORD_START)
_SHAPE_LINES = 4000
_MAX_GLUED = 20_000  # glued lines taken apart per block; beyond that only the first record of each is read

_NOT_LOGS = (
    (b"SQLite format 3", "an SQLite file (an Nsight Systems export?); this version reads logs only"),
    (b"PAR1", "a Parquet file; give the store's folder instead"),
    (b"ARROW1", "an Arrow file; this version reads logs only"),
    (b"PK\x03\x04", "a zip archive; unpack it and give the files inside"),
    (b"\x7fELF", "a program, not a log"),
    (b"%PDF", "a PDF, not a log"),
    (b"\x89PNG", "a picture, not a log"),
)


class LogReader:
    """Reads files one after the other into a sink; derived patterns are kept from file to file."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._catalog = grammars()
        self._families: dict[str, Family] = {}
        self._engines: Counter[str] = Counter()

    def read(self, source: Source, file_id: int) -> FileReport:
        """Reads one file. Never raises for what is in it; `problem` of the report says what went wrong."""
        report = FileReport(file_id, source.path)
        try:
            report.modified = source.modified
            stream, _ = open_stream(source)
        except (SourceError, OSError) as error:
            report.problem = str(error).removeprefix(f"{source.path}: ")
            return report
        state = StreamState()
        self._engines.clear()
        where = Where(file_id, *_year_of(report.modified))
        with stream:
            for index, block in enumerate(blocks(stream, state)):
                if index == 0 and (found := _not_a_log(bytes(block.data[:4096]))):
                    report.format, report.problem = "not a log", found
                    return report
                lines = line_tools.split(block)
                report.lines += len(lines.text)
                recognised = self._block(lines, where, report)
                if index == 0 and not recognised:
                    report.shapes = _shapes(lines.text.head(_SHAPE_LINES))
        report.bytes = state.size
        report.problem = state.problem
        report.format = _format(self._engines)
        if report.lines == 0 and not report.problem:
            report.problem = "the file is empty"
        if report.recognised:
            report.shapes = []
        for family in self._families.values():
            report.unknown_keys |= family.unknown_keys
        return report

    def _block(self, lines: line_tools.Lines, where: Where, report: FileReport) -> int:
        hits = _classify(lines.text, self._catalog)
        if not hits.height:
            return 0
        if (hits["n"] > 1).any():
            lines, hits = _take_apart(lines, hits, self._catalog)
        import polars as pl

        hits = hits.with_columns((pl.col("row").rank("dense") - 1).alias("at"))
        text = lines.text.gather(hits["row"].unique(maintain_order=True))
        text = strip_ansi(unwrap_json(text.str.strip_chars_end("\r") if lines.crlf else text))
        recognised: list[pl.Series] = []
        for (anchor,), group in hits.group_by("anchor", maintain_order=True):
            grammar = self._catalog[str(anchor)]
            family = self._families.setdefault(str(anchor), family_for(grammar))
            rows = group["row"].to_numpy()
            own = text if group.height == len(text) else text.gather(group["at"])
            result = family.read(own, lines.number[rows], lines.offset[rows], where, _Following(lines.text, rows))
            if result.frame is not None and result.frame.height:
                self._sink.add(grammar.table, result.frame)
            known = result.known
            recognised.append(group["row"].filter(known))
            self._engines[_engine_of(grammar.engine, result)] += int(known.sum())
            report.partial += result.partial
            _note_unread(report, result.unread, own, lines.number[rows])
        count = pl.concat(recognised).n_unique() if recognised else 0
        report.recognised += count
        return count


class _Following:
    """The lines after given ones, for records of several lines."""

    def __init__(self, text: pl.Series, rows: object) -> None:
        self._text = text
        self._rows = rows

    def __call__(self, index: int, count: int) -> list[str]:
        start = int(self._rows[index]) + 1  # type: ignore[index]
        return [line for line in self._text.slice(start, count).to_list() if line is not None]


def _classify(text: pl.Series, catalog: dict[str, Grammar]) -> pl.DataFrame:
    """(row, anchor, n): which families each line belongs to and how often the anchor occurs. Lines of none are absent."""
    import polars as pl

    found = text.str.extract_many(list(catalog), leftmost=True)
    counts = found.list.len().fill_null(0)
    some = counts > 0
    rows = some.arg_true()
    if counts.max() in (None, 0, 1):
        return pl.DataFrame(
            {
                "row": rows,
                "anchor": found.list.first().drop_nulls(),
                "n": pl.repeat(1, len(rows), dtype=pl.UInt32, eager=True),
            }
        )
    frame = pl.DataFrame({"row": rows, "anchor": found.filter(some)})
    return frame.explode("anchor").group_by("row", "anchor", maintain_order=True).agg(pl.len().alias("n")).sort("row")


def _take_apart(
    lines: line_tools.Lines, hits: pl.DataFrame, catalog: dict[str, Grammar]
) -> tuple[line_tools.Lines, pl.DataFrame]:
    """Splits physical lines that hold several records of one family; progress bars count once, by their last state."""
    import numpy as np
    import polars as pl

    def bar(anchor: str) -> bool:
        grammar = catalog[anchor]
        return isinstance(grammar, PatternGrammar) and grammar.last

    several = hits.filter(pl.col("n") > 1)
    rows = [
        row
        for row, anchor in zip(several["row"].to_list(), several["anchor"].to_list(), strict=True)
        if not bar(anchor)
    ]
    rows = list(dict.fromkeys(rows))[:_MAX_GLUED]
    if not rows:
        return lines, hits
    pieces: list[str] = []
    numbers: list[int] = []
    offsets: list[int] = []
    for row in rows:
        line = lines.text[row] or ""
        cuts = [0, *(m.start() for m in _RECORD_START.finditer(line) if m.start() > 0), len(line)]
        for start, end in pairwise(cuts):
            if end > start:
                pieces.append(line[start:end].lstrip("\r"))
                numbers.append(int(lines.number[row]))
                offsets.append(int(lines.offset[row]) + len(line[:start].encode()))
    base = len(lines.text)
    joined = line_tools.Lines(
        pl.concat([lines.text, pl.Series(pieces, dtype=pl.String)]),
        lines.crlf,
        np.concatenate([lines.number, np.array(numbers, np.int64)]),
        np.concatenate([lines.offset, np.array(offsets, np.int64)]),
    )
    kept = hits.filter(~pl.col("row").is_in(rows))
    more = _classify(joined.text.slice(base), catalog).with_columns(pl.col("row") + base)
    return joined, pl.concat([kept, more.select(kept.columns).cast(kept.schema)])


def _note_unread(report: FileReport, unread: pl.Series, text: pl.Series, numbers: object) -> None:
    count = int(unread.sum())
    if not count:
        return
    report.unread += count
    index = int(unread.arg_true()[0])
    line = int(numbers[index])  # type: ignore[index]
    if report.unread_line is None or line < report.unread_line:
        report.unread_line, report.unread_text = line, (text[index] or "")[:300]


def _not_a_log(head: bytes) -> str | None:
    for magic, what in _NOT_LOGS:
        if head.startswith(magic):
            return what
    start = head.lstrip()[:4096]
    if start[:1] == b"{" and (b'"traceEvents"' in start or b'"schemaVersion"' in start):
        return "a PyTorch-profiler trace; this version reads logs only"
    if start.startswith(b"# HELP "):
        return "a /metrics scrape; this version reads logs only"
    if head.count(b"\0") > len(head) // 50 + 8:
        return "binary data, not a log"
    return None


def _shapes(text: pl.Series) -> list[tuple[str, int]]:
    """The most common line shapes (numbers folded), to say what an unknown log looks like."""
    import polars as pl

    shaped = text.drop_nulls().str.slice(0, 100).str.replace_all(r"[0-9]+", "0").str.strip_chars()
    counts = shaped.filter(shaped != "").rename("shape").value_counts(sort=True).head(3)
    return [(str(shape), int(count)) for shape, count in counts.select("shape", pl.col("count")).iter_rows()]


def _engine_of(engine: str, result: Result) -> str:
    """The engine of lines that both print is told by their head: SGLang has no level and no process."""
    if engine != "any" or result.frame is None or "level" not in result.frame.columns or not result.frame.height:
        return engine
    row = result.frame.select("level", "proc", "ts").row(0)
    return "vllm" if row[0] and row[2] else "sglang" if row[2] and not row[1] else "any"


def _format(engines: Counter[str]) -> str:
    ranked = [name for name, _ in engines.most_common() if name != "any"]
    if not ranked:
        return "unknown"
    servers = [name for name in ranked if name in ("sglang", "vllm", "trtllm", "llamacpp")]
    if len(servers) > 1 and engines[servers[1]] * 10 > engines[servers[0]]:
        return "mixed"
    return servers[0] if servers else ranked[0]


def _year_of(modified: float | None) -> tuple[int, tuple[int, int]]:
    """The year for times printed without one, and the last (month, day) that belongs to it."""
    when = time.localtime(modified if modified is not None else time.time())
    after = time.localtime(time.mktime(when) + 86400)
    return (when.tm_year, (12, 31)) if after.tm_year != when.tm_year else (when.tm_year, (after.tm_mon, after.tm_mday))
