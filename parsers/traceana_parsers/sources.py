"""Paths to byte blocks: what to read, in which order, decompressed, in bounded memory.

A block ends at a line end, so that lines are never split; a line longer than `MAX_LINE` is cut there. Offsets count in
the decompressed stream.
"""

from __future__ import annotations

import glob
import io
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

BLOCK = 4 << 20
MAX_LINE = 64 << 20  # longest line kept in one piece
MAX_BYTES = 1 << 38  # stop a decompression bomb: 256 GiB of text from one file

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
)
_ROTATED = re.compile(r"^(?P<stem>.+?)(?:\.(?P<n>\d{1,4}))?(?:\.(?:gz|zst|zstd|xz|bz2))?$")
_SKIP_DIRS = {".git", "__pycache__", "node_modules"}


class SourceError(Exception):
    """A path that cannot be read at all; `str()` is the line for the user."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read, or standard input when `path` is `-`."""

    path: str

    @property
    def modified(self) -> float | None:
        """Modification time in seconds since the epoch, or None for standard input."""
        return None if self.path == "-" else Path(self.path).stat().st_mtime


@dataclass(slots=True)
class Block:
    """Whole lines of a file: bytes, the offset of the first byte and the number of the first line (from 1)."""

    data: bytearray
    offset: int
    first_line: int


def expand(paths: Iterable[str]) -> list[Source]:
    """Files behind the given paths, folders (one level of sub-folders and deeper) and globs, in reading order.

    Rotated files of one log come oldest first (`server.log.2.gz`, `server.log.1`, `server.log`).
    Raises SourceError when a path names nothing.
    """
    found: list[str] = []
    for path in paths:
        if path == "-":
            found.append(path)
        elif Path(path).is_dir():
            inside = sorted(
                str(p)
                for p in Path(path).rglob("*")
                if p.is_file() and not p.name.startswith(".") and not _SKIP_DIRS & set(p.parts)
            )
            if not inside:
                raise SourceError(f"{path}: the folder holds no files; give a log file or a folder with logs")
            found.extend(inside)
        elif Path(path).exists():
            found.append(path)
        else:
            matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - patterns may be absolute
            files = [m for m in matches if Path(m).is_file()]
            if not files:
                raise SourceError(f"{path}: no such file or folder")
            found.extend(files)
    return [Source(path) for path in _rotation_order(list(dict.fromkeys(found)))]


def _rotation_order(paths: list[str]) -> list[str]:
    def stem(path: str) -> str:
        match = _ROTATED.match(path)
        return match["stem"] if match else path

    def age(path: str) -> int:
        match = _ROTATED.match(path)
        return int(match["n"]) if match and match["n"] else 0

    place: dict[str, int] = {}
    for index, path in enumerate(paths):
        place.setdefault(stem(path), index)
    return sorted(paths, key=lambda p: (place[stem(p)], -age(p)))


def open_stream(source: Source) -> tuple[IO[bytes], bytes]:
    """The decompressed byte stream of a source and its first bytes (still to be read).

    Compression is recognised by content, whatever the name. Raises SourceError when the file cannot be opened.
    """
    try:
        raw: IO[bytes] = sys.stdin.buffer if source.path == "-" else Path(source.path).open("rb")  # noqa: SIM115 - the caller closes it
        buffered = io.BufferedReader(cast(io.RawIOBase, raw), 1 << 16)
        head = buffered.peek(64)[:64]
    except OSError as error:
        raise SourceError(f"{source.path}: {error.strerror or error}") from error
    kind = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    if kind == "gzip":
        from isal import igzip

        return cast(IO[bytes], igzip.open(buffered, "rb")), head  # type: ignore[no-untyped-call]
    if kind == "zstd":
        import zstandard

        return cast(IO[bytes], zstandard.ZstdDecompressor().stream_reader(buffered, read_across_frames=True)), head
    if kind == "xz":
        import lzma

        return cast(IO[bytes], lzma.LZMAFile(buffered)), head
    if kind == "bzip2":
        import bz2

        return cast(IO[bytes], bz2.BZ2File(buffered)), head
    return buffered, head


@dataclass(slots=True)
class StreamState:
    """How reading ended: `problem` is a line for the user when the stream broke off, `size` what was read."""

    size: int = 0
    problem: str | None = None


def blocks(stream: IO[bytes], state: StreamState, size: int = BLOCK) -> Iterator[Block]:
    """Blocks of whole lines. A stream that breaks off (truncated gzip, read error) ends early; `state` says so."""
    carry = bytearray()
    offset, line = 0, 1
    while True:
        chunk = bytearray() if state.problem else _read(stream, size, state)
        if not chunk:
            if carry:
                state.size = offset + len(carry)
                yield Block(carry, offset, line)
            return
        data = carry + chunk
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            if len(data) < MAX_LINE:
                carry = data
                continue
            cut = len(data)
        carry = data[cut:]
        del data[cut:]
        yield Block(data, offset, line)
        offset += cut
        line += data.count(b"\n")
        state.size = offset
        if offset > MAX_BYTES:
            state.problem = f"stopped after {MAX_BYTES >> 30} GiB of decompressed text"
            return


def _read(stream: IO[bytes], size: int, state: StreamState) -> bytearray:
    """Up to `size` bytes, in small steps: what was decompressed before damage is kept."""
    got = bytearray()
    step = getattr(stream, "read1", stream.read)
    try:
        while len(got) < size:
            piece = step(1 << 18)
            if not piece:
                break
            got += piece
    except EOFError:
        state.problem = "the compressed stream ends early (truncated file); what came before was read"
    except OSError as error:
        state.problem = f"reading stopped: {error.strerror or error}; what came before was read"
    except Exception as error:
        # the decompressors raise their own types (zlib.error, lzma.LZMAError, zstd.ZstdError) on damaged data
        state.problem = f"the compressed data is damaged ({type(error).__name__}); what came before was read"
    return got
