"""Which reader takes a batch of files: traces are recognised by content, everything else is read as a log."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.peek import Peeked
from traceana_parsers.sources import Source

if TYPE_CHECKING:
    from traceana_parsers.traces.nsight_environment import OnText

HEAD = 1 << 16  # bytes that a file is told by


@dataclass(frozen=True, slots=True)
class Opened:
    """A source with its id and, unless it is a folder or cannot be opened, its stream."""

    source: Source
    file_id: int
    stream: Peeked | None = None

    @property
    def head(self) -> bytes:
        """The first bytes, decompressed; none of a folder."""
        return b"" if self.stream is None else self.stream.head

    def close(self) -> None:
        """To be called by readers that do not read the stream."""
        if self.stream is not None:
            self.stream.__exit__()


#: reads one file; the last argument takes text that was kept in it
ReadOne = Callable[[Opened, Sink, "OnText"], FileReport]


def _kineto(opened: Opened) -> ReadOne | None:
    from traceana_parsers.traces.kineto import KinetoReader

    reader = KinetoReader()
    if not reader.sniff(opened.head, opened.source.path):
        return None
    return lambda o, sink, _: reader.read(o.source, o.file_id, sink, o.stream)


def _sqlite(opened: Opened) -> ReadOne:
    from traceana_parsers.traces import nsight_sqlite

    opened.close()
    return lambda o, sink, on_text: nsight_sqlite.read(o.source, o.file_id, sink, on_text)


def _report(opened: Opened) -> ReadOne | None:
    from traceana_parsers.traces import nsys_export

    if not nsys_export.sniff(opened.head, opened.source.path):
        return None
    opened.close()
    return lambda o, sink, on_text: nsys_export.read(o.source, o.file_id, sink, on_text)


def _folder() -> ReadOne:
    from traceana_parsers.traces import nsight_columns

    return lambda o, sink, on_text: nsight_columns.read(o.source, o.file_id, sink, on_text)


#: how a file begins, and how its path ends, that a reader may take: spares logs the import of the reader
_READERS: tuple[tuple[re.Pattern[bytes], re.Pattern[str], Callable[[Opened], ReadOne | None]], ...] = (
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*(?:[{\]]|$)|\{)"), re.compile(""), _kineto),
    (re.compile(rb"SQLite format 3\0"), re.compile(""), _sqlite),
    (re.compile(b""), re.compile(r"\.(?:nsys-rep|qdrep)$"), _report),
)
#: what `nsys stats` prints before a report, or a first line of several names with units as it writes them
_STATS = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:Processing \[|SKIPPED: |NOTICE: |Generating SQLite|\*\* |"
    rb"(?:\"?[A-Z][A-Za-z]+(?: [A-Za-z]+){0,3}(?: ?\([%A-Za-z]+\))?\"?(?:[,;\t|]|  +)){2})"
)


def reader_for(opened: Opened) -> ReadOne | None:
    """The reader of a single file or folder; None for a log, and for a file that could not be opened."""
    if opened.source.is_folder:
        return _folder()
    if opened.stream is None:
        return None
    for begins, named, find in _READERS:
        if begins.match(opened.head) and named.search(opened.source.path):
            reader = find(opened)
            if reader is not None:
                return reader
    return None


def is_stats(opened: Opened, *, named: bool) -> bool:
    """True for output of `nsys stats` and for tables of an nsys recipe; `named`: the file name says that it is."""
    if opened.stream is None:
        return False
    if not opened.head:  # nsys stats writes an empty file for a report without data
        return named
    if opened.head.startswith(b"PAR1"):
        from traceana_parsers.traces import nsight_recipe

        return nsight_recipe.sniff(opened.source.path)
    if not _STATS.match(opened.head):
        return False
    from traceana_parsers.traces import nsight_csv

    return nsight_csv.sniff(opened.head, opened.source.path)
