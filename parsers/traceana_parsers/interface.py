"""What a reader takes and gives: sources in, frames out through a sink."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl


class Sink(Protocol):
    """Takes the rows of a table as they are read. Frames have exactly the columns of `schema.TABLES[table]`."""

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take more rows of one table."""


@dataclass(slots=True)
class FileReport:
    """What became of one input file; one row of the `inputs` table."""

    file_id: int
    path: str
    format: str = "unknown"
    lines: int = 0
    bytes: int = 0
    recognised: int = 0
    unread: int = 0
    partial: int = 0
    unread_line: int | None = None
    unread_text: str | None = None
    unknown_keys: set[str] = field(default_factory=set)
    problem: str | None = None
    modified: float | None = None  # seconds since the epoch
    inside: str | None = None  # path of the file that a text was kept in, e.g. output captured in a trace
    shapes: list[tuple[str, int]] = field(default_factory=list)  # most common line shapes when nothing was recognised


class MemorySink:
    """Keeps the frames in memory: `tables[name]` is a list of frames."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pl.DataFrame]] = {}

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take more rows of one table."""
        if frame.height:
            self.tables.setdefault(table, []).append(frame)
