"""What a reader takes and gives: sources in, frames out through a sink."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

    from traceana_parsers.metrics.differences import Scrape
    from traceana_parsers.sources import Block


@dataclass(frozen=True, slots=True)
class Question:
    """A table whose numbers nothing explains: which headings, and what an answer may be.

    Answers are given to `read_run(columns=...)`: heading -> one of `choices`, or another column of bench_points.
    """

    line: int
    headings: tuple[str, ...]
    choices: tuple[str, ...]

    def line_of_text(self) -> str:
        """The question as one line."""
        names = ", ".join(repr(heading[:40]) for heading in self.headings)
        return (
            f"line {self.line}: nothing says what is measured below {names}; say it as HEADING=COLUMN (--columns), "
            f"COLUMN one of {', '.join(self.choices)}"
        )


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
    scrapes: list[Scrape] = field(default_factory=list)  # of /metrics, for what changed from one to the next
    questions: list[Question] = field(default_factory=list)  # tables of which the user must say what they hold
    shapes: list[tuple[str, int]] = field(default_factory=list)  # most common line shapes when nothing was recognised


class Beside(Protocol):
    """Reads what is in a text beside the log lines."""

    @property
    def marks(self) -> tuple[str, ...]:
        """A block of lines that hold none of these is of no interest, unless `open`."""

    @property
    def open(self) -> bool:
        """True when something has begun that the next block may go on with."""

    def block(self, block: Block, marks: Collection[str]) -> None:
        """Takes the next block, which must not be changed, and the marks that are in it."""

    def finish(self, report: FileReport) -> None:
        """The text has ended: adds the rows that are left and says in the report what was found."""


class MemorySink:
    """Keeps the frames in memory: `tables[name]` is a list of frames."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pl.DataFrame]] = {}

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take more rows of one table."""
        if frame.height:
            self.tables.setdefault(table, []).append(frame)
