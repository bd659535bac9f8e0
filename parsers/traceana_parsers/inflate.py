"""Decompression that gives out all there is: everything before the damage or the cut, in bounded memory.

The readers of the standard library raise before they hand over what they had decoded. Here the decoder is fed in small
slices, so that at most one slice of compressed data is lost where a file breaks off.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import IO, Any, Protocol

#: first bytes of a file, and the compression they mean
MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)
_LONGEST = max(len(magic) for magic, _ in MAGIC)
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")  # a zstd frame that carries no data
_SLICE = 256  # compressed bytes fed at a time: the most that is lost; smaller slices cost more than they save
_CHUNK = 1 << 16  # compressed bytes read at a time
_XZ_MEMORY = 512 << 20  # bytes; xz -9 needs 65 MiB, a hostile header may ask for 4 GiB


class TrailingBytes(Exception):
    """Bytes follow the compressed data that are neither another member nor padding."""


class _Decoder(Protocol):
    """The interface of bz2.BZ2Decompressor, which lzma and isal share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zstd:
    """zstandard's decoder behind the same interface; its output per slice is bounded by the block size."""

    needs_input = True

    def __init__(self) -> None:
        import zstandard

        self._decoder: Any = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return bytes(self._decoder.decompress(data))


def _gzip() -> _Decoder:
    from isal import igzip_lib

    made: _Decoder = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    return made


def _xz() -> _Decoder:
    import lzma

    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


def _bzip2() -> _Decoder:
    import bz2

    return bz2.BZ2Decompressor()


_DECODERS: dict[str, Callable[[], _Decoder]] = {"gzip": _gzip, "zstd": _Zstd, "xz": _xz, "bzip2": _bzip2}


class Inflated:
    """The decompressed bytes of a file of one or more members, read with `read1`.

    Raises EOFError where the file is cut off, TrailingBytes where something else follows the last member, and the
    decoder's own errors where it is damaged; everything decoded before was given out by then.
    """

    def __init__(self, raw: IO[bytes], kind: str) -> None:
        self._raw = raw
        self._new = _DECODERS[kind]
        self._starts = tuple(magic for magic, name in MAGIC if name == kind)
        self._decoder: _Decoder | None = self._new()
        self._chunk = b""
        self._at = 0

    def __enter__(self) -> Inflated:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()

    def read1(self, size: int) -> bytes:
        """The next decompressed bytes, about `size` at most; empty at the end."""
        while True:
            if self._decoder is None and not self._next_member():
                return b""
            piece = self._step(size)
            if piece:
                return piece

    def _step(self, size: int) -> bytes:
        decoder = self._decoder
        assert decoder is not None
        data = b""
        if decoder.needs_input:
            if self._at >= len(self._chunk) and not self._fill():
                raise EOFError
            data = self._chunk[self._at : self._at + _SLICE]
            self._at += len(data)
        piece = decoder.decompress(data, size)
        if decoder.eof:
            self._at -= len(decoder.unused_data)
            self._decoder = None
        return piece

    def _next_member(self) -> bool:
        """Starts on the member that follows, past any padding of zeros; False at the end of the file."""
        while True:
            rest = self._chunk[self._at :].lstrip(b"\0")
            if rest:
                if len(rest) < _LONGEST:
                    rest += self._raw.read(_CHUNK)
                if not rest.startswith(self._starts) and not _SKIPPABLE.match(rest):
                    raise TrailingBytes
                self._chunk, self._at, self._decoder = rest, 0, self._new()
                return True
            if not self._fill():
                return False

    def _fill(self) -> bool:
        self._chunk, self._at = self._raw.read(_CHUNK), 0
        return bool(self._chunk)
