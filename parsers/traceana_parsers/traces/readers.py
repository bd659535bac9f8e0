"""Which reader takes a file: traces are recognised by content, everything else is read as a log."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Source, SourceError, StreamState, blocks, open_stream

_HEAD = 1 << 16


class TraceReader(Protocol):
    """Reads one trace file into the trace tables."""

    def sniff(self, head: bytes, name: str) -> bool:
        """True when a file that begins with `head` (decompressed) is of this reader's kind."""

    def read(self, source: Source, file_id: int, sink: Sink) -> FileReport:
        """Adds the file's rows to `sink`; what is wrong with it is in the report."""


def _kineto() -> TraceReader:
    from traceana_parsers.traces.kineto import KinetoReader

    return KinetoReader()


def _nsight_sqlite() -> TraceReader:
    from traceana_parsers.traces import nsight_sqlite

    return nsight_sqlite


#: how a file begins that a reader may take: spares logs, which may begin with `[` too, the import of the reader
_READERS: tuple[tuple[re.Pattern[bytes], Callable[[], TraceReader]], ...] = (
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\[\s*(?:[{\]]|$)|\{)"), _kineto),
    (re.compile(rb"SQLite format 3\0"), _nsight_sqlite),
)


def reader_for(source: Source) -> TraceReader | None:
    """The trace reader of a file, or None: then it is a log, or cannot be opened.

    Standard input and pipes are always logs: what is looked at there cannot be read again.
    """
    if not Path(source.path).is_file():
        return None
    head = _head(source)
    for begins, load in _READERS:
        if begins.match(head):
            reader = load()
            if reader.sniff(head, source.path):
                return reader
    return None


def _head(source: Source) -> bytes:
    """The first bytes of a file, decompressed; fewer when it is short, damaged or cannot be opened."""
    state = StreamState()
    try:
        stream = open_stream(source)
        with stream:
            block = next(blocks(stream, state, _HEAD), None)
    except (SourceError, OSError):
        return b""
    return b"" if block is None else bytes(block.data[:_HEAD])
