"""Paths to byte blocks: what to read, in which order, decompressed, in bounded memory.

A block ends at a line end, so that lines are never split; a line longer than `MAX_LINE` is cut there. Offsets count in
the decompressed stream.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, cast

from traceana_parsers.inflate import MAGIC, Inflated, TrailingBytes

BLOCK = 4 << 20
MAX_LINE = 64 << 20  # longest line kept in one piece
MAX_BYTES = 1 << 38  # stop a decompression bomb: 256 GiB of text from one file

#: rotated logs: `.2`, `.2.gz` (counted: 1 is the newest), `-20260203`, `.2026-02-03_00` (dated), before the current one
_ROTATED = re.compile(
    r"^(?P<stem>.+?)(?:\.(?P<n>\d{1,4})|[.-](?P<date>\d{4}-?\d\d-?\d\d(?:[-_T]?\d\d(?:[-:]?\d\d){0,2})?))?"
    r"(?:\.(?:gz|zst|zstd|xz|bz2))?$",
    re.DOTALL,
)
_SKIP_DIRS = {".git", "__pycache__", "node_modules"}
_YEARS = (0.0, 253_370_764_800.0)  # seconds since the epoch: 1970 to 9999, what a date can hold


class SourceError(Exception):
    """A path that cannot be read at all; `str()` is the line for the user."""


class Stream(Protocol):
    """What `blocks` reads from."""

    def read1(self, size: int, /) -> bytes:
        """Some bytes, at most about `size`; empty at the end."""

    def __enter__(self) -> Stream:
        """The stream itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Closes the file."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file to read, or standard input when `path` is `-`; `is_folder`: a folder of tables that is read as one."""

    path: str
    is_folder: bool = False

    @property
    def shown(self) -> str:
        """The path as text that every encoder takes: bytes of the name that are no UTF-8 become `\\xNN`."""
        return os.fsencode(self.path).decode("utf-8", "backslashreplace")

    @property
    def size(self) -> int:
        """Bytes on disk; of a folder those of its files. Raises OSError."""
        path = Path(self.path)
        return sum(p.stat().st_size for p in (path.iterdir() if self.is_folder else [path]) if p.is_file())

    @property
    def modified(self) -> float | None:
        """Modification time in seconds since the epoch; None for standard input and for times outside 1970 to 9999."""
        when = None if self.path == "-" else Path(self.path).stat().st_mtime
        return when if when is not None and _YEARS[0] < when < _YEARS[1] else None


@dataclass(slots=True)
class Block:
    """Whole lines of a file: bytes, the offset of the first byte and the number of the first line (from 1)."""

    data: bytearray
    offset: int
    first_line: int


def expand(paths: Iterable[str]) -> list[Source]:
    """Files behind the given paths, folders (with all their sub-folders) and globs, in reading order, each once.

    Rotated files of one log come oldest first (`server.log.2.gz`, `server.log.1`, `server.log`).
    Raises SourceError when a path names nothing.
    """
    found: list[str] = []
    for path in paths:
        mode = 0 if path == "-" else _mode(path)
        if mode is None:
            files = [m for m in _matches(path) if _is_file(m)]
            if not files:
                raise SourceError(f"{path}: no such file or folder")
            found.extend(files)
        elif stat.S_ISDIR(mode):
            inside = _inside(path)
            if not inside:
                raise SourceError(f"{path}: the folder holds no files; give a log file or a folder with logs")
            found.extend(inside)
        else:
            found.append(path)
    return [Source(path) for path in _rotation_order(_each_once(found))]


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 - keeps the path as the user wrote it


def _mode(path: str) -> int | None:
    """The file mode behind a path; None when nothing is there. Raises SourceError when that cannot be told."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116 - Path cannot tell a loop of links from nothing
    except ValueError:  # a NUL in the name
        return None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        reason = "the links go round in a circle" if error.errno == errno.ELOOP else error.strerror
        raise SourceError(f"{path}: {reason}") from error


def _is_file(path: str) -> bool:
    """True for a regular file, and for one that may not be looked at: opening it says so."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)  # noqa: PTH116
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _inside(folder: str) -> list[str]:
    """Regular files below a folder, sorted; a sub-folder that cannot be listed stands for itself, to be reported."""
    found: list[str] = []
    closed: list[str] = []
    for root, folders, names in os.walk(folder, onerror=lambda error: closed.append(str(error.filename))):
        folders[:] = [name for name in folders if name not in _SKIP_DIRS and not name.startswith(".")]
        for name in names:
            path = os.path.join(root, name)  # noqa: PTH118 - keeps the folder as the user wrote it
            if not name.startswith(".") and _is_file(path):
                found.append(path)
    return sorted(found + closed)


def _each_once(paths: list[str]) -> list[str]:
    """The paths without those that lead to the same file, given twice or through links; the shortest name is kept."""
    kept: dict[object, str] = {}
    for path in paths:
        key: object = path
        if path != "-":
            try:
                status = os.stat(path)  # noqa: PTH116
                key = (status.st_dev, status.st_ino)
            except OSError:
                pass
        known = kept.setdefault(key, path)
        if len(path) < len(known):
            kept[key] = path
    return list(kept.values())


def _rotation_order(paths: list[str]) -> list[str]:
    place: dict[str, int] = {}
    keys: dict[str, tuple[int, int, int, str]] = {}
    for index, path in enumerate(paths):
        match = _ROTATED.match(path)
        stem, number, date = (match["stem"], match["n"], match["date"]) if match else (path, None, None)
        first = place.setdefault(stem, index)
        keys[path] = (first, 0 if date else 1 if number else 2, -int(number or 0), re.sub(r"\D", "", date or ""))
    return sorted(paths, key=keys.__getitem__)


def open_stream(source: Source) -> Stream:
    """The decompressed byte stream of a source.

    Compression is recognised by content, whatever the name. Raises SourceError when the file cannot be opened.
    """
    buffered: io.BufferedReader | None = None
    try:
        buffered = io.BufferedReader(cast(io.RawIOBase, _open(source.path)), 1 << 16)
        head = buffered.peek(16)[:16]
    except (OSError, ValueError) as error:
        if buffered is not None:
            buffered.close()
        raise SourceError(f"{source.path}: {getattr(error, 'strerror', None) or error}") from error
    kind = next((name for magic, name in MAGIC if head.startswith(magic)), None)
    return buffered if kind is None else Inflated(buffered, kind)


def _open(path: str) -> IO[bytes]:
    if path == "-":
        if sys.stdin is None or sys.stdin.closed or sys.stdin.buffer.closed:
            raise SourceError("-: standard input is closed or was read already; it can be given once")
        if hasattr(signal, "siginterrupt"):
            signal.siginterrupt(signal.SIGINT, True)  # polars lets a read go on after Ctrl-C
        return sys.stdin.buffer
    mode = os.stat(path).st_mode  # noqa: PTH116
    if stat.S_ISDIR(mode):
        raise SourceError(f"{path}: a folder that cannot be listed")
    if not stat.S_ISREG(mode) and path != os.devnull:
        # opening a pipe waits for its writer, a device may never end
        raise SourceError(f"{path}: not a regular file; for a pipe give - and redirect: traceana diagnose - < PIPE")
    return Path(path).open("rb")


@dataclass(slots=True)
class StreamState:
    """How reading ended: `problem` says why the stream broke off, `size` how many bytes came before that."""

    size: int = 0
    problem: str | None = None


def blocks(stream: Stream, state: StreamState, size: int | None = None) -> Iterator[Block]:
    """Blocks of whole lines. A stream that breaks off (truncated gzip, read error) ends early; `state` says so.

    Args:
        stream: what to read.
        state: told how it ended.
        size: bytes per block, about; `BLOCK` unless said.
    """
    size = size or BLOCK
    carry = bytearray()
    offset, line = 0, 1
    while True:
        chunk = bytearray() if state.problem else _read(stream, size, state)
        if not chunk:
            if carry:
                state.size = offset + len(carry)
                yield Block(carry, offset, line)
            return
        cut = chunk.rfind(b"\n") + 1
        rest = chunk[cut:]
        if cut == 0:
            carry += chunk
            if len(carry) < MAX_LINE:
                continue
            rest = bytearray()
        else:
            del chunk[cut:]
            carry = carry + chunk if carry else chunk
        yield Block(carry, offset, line)
        offset += len(carry)
        line += carry.count(b"\n")
        carry = rest
        state.size = offset
        if offset > MAX_BYTES:
            state.problem = f"stopped after {MAX_BYTES >> 30} GiB of decompressed text"
            return


def _read(stream: Stream, size: int, state: StreamState) -> bytearray:
    """Up to `size` bytes, in small steps: what was decompressed before damage is kept."""
    got = bytearray()
    try:
        while len(got) < size:
            piece = stream.read1(min(size, 1 << 18))
            if not piece:
                break
            got += piece
    except EOFError:
        state.problem = "the compressed stream ends early (truncated file)"
    except TrailingBytes:
        state.problem = "bytes that are not compressed follow the compressed data and were not read"
    except OSError as error:
        state.problem = f"reading stopped: {error.strerror or error}"
    except Exception as error:
        # the decompressors raise their own types (IsalError, lzma.LZMAError, zstd.ZstdError) on damaged data
        state.problem = f"the compressed data is damaged ({error or type(error).__name__})"
    return got
