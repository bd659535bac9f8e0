"""Benchmark outputs in text, whatever else is in it: beside the reader of logs, block by block."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from traceana_parsers.bench.eagle_lines import EagleLines
from traceana_parsers.bench.grid import Grids
from traceana_parsers.bench.html_tables import HtmlTables
from traceana_parsers.bench.json_lines import JsonLines
from traceana_parsers.bench.kernel_grid import KernelTables
from traceana_parsers.bench.nccl_tests import NcclTests
from traceana_parsers.bench.page import Page
from traceana_parsers.bench.printed import OneBatch, ServingBlock, SpeculativeLines
from traceana_parsers.bench.rows import Rows
from traceana_parsers.bench.run_list import RunList
from traceana_parsers.bench.torch_table import TorchTable
from traceana_parsers.bench.trtllm import TrtllmBlock
from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Block

_DECODE_BENCH = b"llm-decode-bench v"
_LONGEST = 8000  # characters of a line that may belong to a result


class Lines(Protocol):
    """Reads one kind of result, a line at a time."""

    @property
    def marks(self) -> tuple[str, ...]:
        """A block of text that holds none of these has no such result."""

    @property
    def open(self) -> bool:
        """True inside a result that may go on."""

    def line(self, text: str, number: int, offset: int) -> bool:
        """Takes a line; True when it belongs to a result."""

    def end(self) -> None:
        """The text has ended."""


class TextBench:
    """Looks for results in the blocks of a text; `finish` says in the report what was found."""

    def __init__(self, sink: Sink, file_id: int, answers: Mapping[str, str]) -> None:
        self._rows = Rows(sink, file_id)
        self._kernels = KernelTables(sink, file_id)
        self._page = Page(self._rows, answers, self._kernels)
        self._grids = Grids(self._page.add)
        readers = (ServingBlock, OneBatch, SpeculativeLines, EagleLines, TrtllmBlock, RunList, NcclTests, JsonLines)
        #: asked in this order: rules of a printed profile look like those of other tables, whose lines are no results
        self._readers: tuple[Lines, ...] = (
            TorchTable(self._kernels),
            self._grids,
            *(make(self._rows) for make in readers),
            HtmlTables(self._page.add),
        )
        self._taken = 0

    @property
    def marks(self) -> frozenset[str]:
        """The marks of all its readers."""
        return frozenset(mark for reader in self._readers for mark in reader.marks)

    @property
    def open(self) -> bool:
        """True inside a result that may go on in the next block."""
        return any(reader.open for reader in self._readers)

    def block(self, block: Block, marks: Collection[str]) -> None:
        """Reads a block in which there may be results."""
        data = block.data
        wanted = [r for r in self._readers if r.open or not set(r.marks).isdisjoint(marks)]
        if self._grids in wanted and _DECODE_BENCH in data:
            self._page.tool = "llm_decode_bench"
        offset = block.offset
        for number, raw in enumerate(data.removesuffix(b"\n").split(b"\n"), block.first_line):
            if len(raw) <= _LONGEST or b"Namespace(" in raw or raw.startswith(b'{"'):
                text = raw.decode("utf-8", "replace").rstrip("\r")
                self._taken += any(reader.line(text, number, offset) for reader in wanted)
            offset += len(raw) + 1

    def finish(self, report: FileReport) -> None:
        """Adds what is left and says in the report what was read."""
        for reader in self._readers:
            reader.end()
        self._page.end()
        self._rows.flush()
        tools = self._rows.tools
        if self._kernels.count:
            tools["kernel_table"] += self._kernels.count
        self._kernels.end()
        if tools:
            tool = tools.most_common(1)[0][0]
            report.format = tool if report.format == "unknown" else f"{report.format} + {tool}"
            report.recognised = min(report.lines, report.recognised + self._taken)  # a line may be both
            report.shapes = []
        self._page.tell(report)
        first = self._page.first
        if not tools and first is not None and report.problem is None and report.format == "unknown":
            names = ", ".join(repr(cell[:30]) for cell in [c for c in first.header if c][:4])
            report.problem = (
                f"line {first.line}: nothing in the table below {names} says that it holds results of a benchmark, "
                "kernels or collectives: say what its columns are as HEADING=COLUMN (--columns), or give the tool's "
                "own output"
            )
