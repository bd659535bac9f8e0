"""Which reader takes a file: traces are recognised by content, everything else is read as a log."""

from __future__ import annotations

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


def _readers() -> tuple[TraceReader, ...]:
    from traceana_parsers.traces import nsight_sqlite
    from traceana_parsers.traces.kineto import KinetoReader

    return (KinetoReader(), nsight_sqlite)


def reader_for(source: Source) -> TraceReader | None:
    """The trace reader of a file, or None: then it is a log, or cannot be opened.

    Standard input and pipes are always logs: what is looked at there cannot be read again.
    """
    if not Path(source.path).is_file():
        return None
    head = _head(source)
    if head.lstrip()[:1] not in (b"{", b"[", b"S"):
        return None  # the first byte spares most logs the import of the readers
    return next((reader for reader in _readers() if reader.sniff(head, source.path)), None)


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
