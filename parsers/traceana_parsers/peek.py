"""Looks at the beginning of a stream without taking it away from who reads the stream."""

from __future__ import annotations

from traceana_parsers.sources import Stream


class Peeked:
    """A stream whose first bytes (`head`) have been looked at; reading it begins with them all the same."""

    def __init__(self, stream: Stream, size: int) -> None:
        self._stream = stream
        self._error: Exception | None = None
        head = bytearray()
        try:
            while len(head) < size and (piece := stream.read1(size - len(head))):
                head += piece
        except Exception as error:  # the decompressors' own types: raised when reading gets there
            self._error = error
        self.head = bytes(head)
        self._at = 0

    def read1(self, size: int, /) -> bytes:
        """Some bytes, at most about `size`; empty at the end."""
        if self._at < len(self.head):
            piece = self.head[self._at : self._at + size]
            self._at += len(piece)
            return piece
        if self._error is not None:
            raise self._error
        return self._stream.read1(size)

    def __enter__(self) -> Peeked:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.__exit__(None, None, None)
