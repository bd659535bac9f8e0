"""Every cycle to a file per rank: whole lines, rotated, bounded in number, each complete before it has its name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


class CycleFile:
    """`cycles-rank0-pid123-0001.log` and so on in a folder; the one being written ends in `.part`."""

    def __init__(self, directory: str, rank: int, limit_mb: float, keep: int) -> None:
        self._stem = Path(directory) / f"cycles-rank{rank}-pid{os.getpid()}"
        self._limit = int(limit_mb * 1e6)
        self._keep = keep
        self._number = 1
        self._size = 0
        self._fd = -1
        self.error = ""  # why nothing is written any more

    def write(self, lines: Iterable[str]) -> None:
        """Append lines. A disk that is full or gone ends the writing, never the server."""
        if self.error:
            return
        data = "".join(text + "\n" for text in lines).encode()
        if not data:
            return
        try:
            if self._fd < 0:
                self._stem.parent.mkdir(parents=True, exist_ok=True)
                self._fd = os.open(self._part(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                self._size = 0
            while data:
                written = os.write(self._fd, data)
                self._size += written
                data = data[written:]
            if self._size >= self._limit:
                self._rotate()
        except OSError as error:
            self.error = f"{type(error).__name__}: {error.strerror or error}"
            self._shut()

    def close(self) -> None:
        """Give the last file its name."""
        if self._fd >= 0 and not self.error:
            try:
                self._rotate()
            except OSError as error:
                self.error = f"{type(error).__name__}: {error.strerror or error}"
        self._shut()

    def _rotate(self) -> None:
        self._shut()
        self._part().replace(self._name(self._number))
        old = self._number - self._keep
        if old >= 1:
            with contextlib.suppress(OSError):
                self._name(old).unlink()
        self._number += 1

    def _shut(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._fd = -1

    def _name(self, number: int) -> Path:
        return Path(f"{self._stem}-{number:04d}.log")

    def _part(self) -> Path:
        return Path(f"{self._stem}-{self._number:04d}.log.part")
