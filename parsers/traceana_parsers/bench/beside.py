"""Looks for results beside the lines of a log. What reads them is loaded when one of the marks is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Block

if TYPE_CHECKING:
    from traceana_parsers.bench.text import TextBench

#: the marks of all readers in text.py, which a text without results does not hold
MARKS = (
    "Serving Benchmark Result",
    "batch size:",
    "Finish i=",
    "#questions:",
    "= PERFORMANCE OVERVIEW",
    "Acceptance Length Details",
    "[AL]",
    "tokens in",
    "token in",
    "tok in",
    "toks in",
    "tokens over",
    "tokens @",
    "out-of-place",
    "   sum",
    "  none",
    "_perf",
    "Self CPU",
    '"output_throughput"',
    '"output_token_throughput"',
    '"step_time"',
    '"meta_info"',
    '"speculative_decoding"',
    "| --",
    "|--",
    "-- |",
    "--|",
    "|:-",
    "| :-",
    "|-|",
    "| - |",
    "│",
    "+--",
    "┃",
    "<table",
    "<TABLE",
    "-- --",
    "--  --",
)


class Results:
    """The results in one text: a reader beside the log's."""

    marks = MARKS

    def __init__(self, sink: Sink, file_id: int, answers: Mapping[str, str]) -> None:
        self._made = (sink, file_id, answers)
        self._text: TextBench | None = None

    @property
    def open(self) -> bool:
        """True inside a result that may go on in the next block."""
        return self._text is not None and self._text.open

    def block(self, block: Block, marks: Collection[str]) -> None:
        """Reads a block that holds these marks, or goes on with a result."""
        if self._text is None:
            from traceana_parsers.bench.text import TextBench

            self._text = TextBench(*self._made)
        self._text.block(block, marks)

    def finish(self, report: FileReport) -> None:
        """Adds what is left and says in the report what was read."""
        if self._text is not None:
            self._text.finish(report)
