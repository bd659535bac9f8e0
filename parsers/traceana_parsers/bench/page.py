"""The tables of one text put together: what several say of one measurement is joined, what is not written is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping

from traceana_parsers.bench.collective_grid import collectives
from traceana_parsers.bench.grid import Grid
from traceana_parsers.bench.grid_read import Fact, read_grid
from traceana_parsers.bench.kernel_grid import KernelTables
from traceana_parsers.bench.rows import Point, Rows
from traceana_parsers.bench.words import speculates
from traceana_parsers.interface import FileReport, Question

_MOST = 50_000  # measurements put together; beyond that they are handed on as they come
_LATEST = 32  # repeats of one measurement looked at for what a table adds to it
_SEARCHED = 1000  # measurements searched for one with fewer loads
_RISE = 1.2  # throughput of all users together rises at least so much over a row
_FALLS = 0.9  # share of the columns in which it falls with the context
_MEASURES = ("output_tps", "user_tps", "ttft_mean_ms", "tpot_mean_ms", "itl_mean_ms", "accept_length_printed")
_LONGEST = 80  # characters of a series' title
_BY_SHAPE = "tok/s of all users: without a unit, but up with users and down with context"
#: what a matrix by load may hold that is no result of speed
_OTHER = re.compile(r"\b(?:accuracy|score|pass@|perplexity|memory|vram|power|utili[sz]ation)\b", re.IGNORECASE)
_EMITS_MORE = ("accept_length_printed", "tokens_per_cycle_printed", "accepted")
Key = tuple[object, ...]


class Page:
    """Takes the tables of a text in order; `end` adds their points."""

    def __init__(self, rows: Rows, answers: Mapping[str, str], kernels: KernelTables | None = None) -> None:
        self._rows = rows
        self._kernels = kernels
        self._answers = answers
        self._facts: dict[Key, list[Fact]] = {}
        self._count = self._tables = 0
        self._unnamed: list[tuple[Grid, list[Fact]]] = []
        self.tool = "table"
        self.questions: list[Question] = []
        self.first: Grid | None = None  # of all tables
        self.refused: list[tuple[int, str]] = []

    def add(self, grid: Grid) -> None:
        """Reads one table."""
        if (self._kernels is not None and self._kernels.add(grid)) or collectives(grid, self._rows):
            return
        self._tables += 1
        self.first = self.first or grid
        one_batch = _is_one_batch(grid)
        read = read_grid(grid, self._answers, one_batch)
        if grid.cut:
            self.refused.append((grid.line, f"{grid.cut:,} rows beyond {len(grid.rows):,} were not read"))
        self.refused += read.refused
        if read.asks:
            self.questions.append(Question(grid.line, read.asks, _MEASURES))
        if read.matrix:
            self._unnamed.append((grid, read.matrix))
        tool = "one_batch" if one_batch else self.tool
        for fact in read.facts:
            self._take(fact, grid, tool)

    def end(self) -> None:
        """Adds the points of all tables."""
        self._matrices()
        for fact in sorted((f for facts in self._facts.values() for f in facts), key=lambda f: (f.line, f.offset)):
            self._emit(fact)
        self._facts, self._count = {}, 0

    def tell(self, report: FileReport) -> None:
        """Says in the report what is asked and what was refused."""
        report.questions = self.questions
        report.partial += len(self.refused)
        said = [f"line {line}: {why}" for line, why in self.refused]
        said += [question.line_of_text() for question in self.questions]
        if said and report.problem is None:
            report.problem = said[0] + (f" (and {len(said) - 1} more)" if len(said) > 1 else "")

    def _take(self, fact: Fact, grid: Grid, tool: str) -> None:
        fact.more["tool"] = tool
        if fact.series is None and (not fact.label or speculates(fact.label) is False):
            fact.series = _title(grid)
        _settle(fact)
        key = _key(fact)
        known = self._facts.setdefault(key, [])
        for other in [*known[-_LATEST:], *self._alike(fact)]:
            if None not in (fact.speculative, other.speculative) and fact.speculative != other.speculative:
                continue
            if not (fact.values and other.values):
                continue  # a row that could not be read
            shared = fact.values.keys() & other.values.keys()
            if not shared:
                if "output_tps" in fact.values:
                    other.line, other.offset = fact.line, fact.offset
                other.values |= fact.values
                other.loads |= fact.loads
                other.attrs |= fact.attrs
                other.doubts += fact.doubts
                other.more = {**fact.more, **other.more}
                if other.speculative is None:
                    other.speculative = fact.speculative
                return
            alike = fact.more.get("temperature") == other.more.get("temperature")
            same = alike and all(fact.values[c] == other.values[c] for c in shared)
            if same and (
                grid.boxed or (fact.speculative is False and fact.line != other.line and fact.label != other.label)
            ):
                return  # a matrix printed twice; a baseline repeated beside every k
        if self._count >= _MOST:
            self._emit(fact)
            return
        known.append(fact)
        self._count += 1

    def _alike(self, fact: Fact) -> list[Fact]:
        """Measurements of another table that may be the same one: a load is written in only one of the two."""
        if self._tables < 2 or self._count > _SEARCHED:
            return []
        found = []
        for key, facts in self._facts.items():
            if key[:2] != (_folded(fact.series), _folded(fact.workload)):
                continue
            for other in facts:
                both = fact.loads.keys() & other.loads.keys()
                agree = all(fact.loads[c] == other.loads[c] for c in both)
                nested = fact.loads.keys() <= other.loads.keys() or other.loads.keys() <= fact.loads.keys()
                if agree and nested and both and not fact.values.keys() & other.values.keys():
                    found.append(other)
        return found if len(found) == 1 else []

    def _matrices(self) -> None:
        """Matrices of which nothing says what they hold: throughput, if it rises with users and falls with context."""
        if not self._unnamed:
            return
        if _is_throughput([facts for _, facts in self._unnamed]):
            for grid, facts in self._unnamed:
                for fact in facts:
                    fact.attrs["assumed"] = _BY_SHAPE
                    self._take(fact, grid, self.tool)
        else:
            for grid, _ in self._unnamed:
                if _OTHER.search(f"{grid.caption} {grid.heading}"):
                    continue
                names = tuple(h for h in grid.header[1:4] if h)
                self.questions.append(Question(grid.line, (*names, "..."), _MEASURES))
        self._unnamed = []

    def _emit(self, fact: Fact) -> None:
        values = {**fact.loads, **fact.values, **{k: v for k, v in fact.more.items() if k != "tool"}}
        values |= {"series": fact.series, "label": fact.label, "speculative": fact.speculative}
        point = Point(str(fact.more.get("tool", "table")), fact.line, fact.offset, values, fact.attrs, fact.doubts)
        for doubt in fact.doubts:
            self.refused.append((fact.line, doubt))
        self._rows.point(point)


def _settle(fact: Fact) -> None:
    """Settings of a run without speculation are none; a run with them speculates."""
    settings = [c for c in ("k", "num_steps", "topk", "num_draft_tokens") if c in fact.loads]
    lead = fact.loads.get("num_steps", fact.loads.get("k"))
    if fact.speculative is None and lead is not None:
        fact.speculative = lead > 0
    if not fact.speculative and any(fact.values.get(column, 0) > 1 for column in _EMITS_MORE):
        fact.speculative = True  # whatever it is called: the baseline of two set-ups may speculate too
    if fact.speculative is None and fact.values.get("accept_rate_printed", 0) > 0:
        fact.speculative = True
    if fact.label == fact.series:
        fact.label = None
    if fact.speculative is False:
        for column in settings:
            del fact.loads[column]


def _key(fact: Fact) -> Key:
    return (_folded(fact.series), _folded(fact.workload), tuple(sorted(fact.loads.items())))


def _folded(name: str | None) -> str:
    return " ".join((name or "").casefold().split())


def _title(grid: Grid) -> str | None:
    """The title of a table as its series: the caption, unless it only names what was measured; else the heading."""
    from traceana_parsers.bench.headings import MEASURE, read

    for text in ("" if grid.paragraph else grid.caption, grid.heading):
        title = text.strip(" :*#")
        if title and len(title) <= _LONGEST and read(title).role != MEASURE:
            return title
    return None


def _is_one_batch(grid: Grid) -> bool:
    names = {cell.casefold().strip() for cell in grid.header}
    return {"batch size", "latency (s)", "acc length", "itl (ms)"} <= names


def _is_throughput(matrices: list[list[Fact]]) -> bool:
    """True when the values can only be throughput of all users: up with users along every row, down with context."""
    rises, falls = [], []
    for facts in matrices:
        across: dict[int, list[tuple[int, float]]] = {}
        down: dict[int, list[tuple[int, float]]] = {}
        for fact in facts:
            value, users, context = (
                fact.values["output_tps"],
                fact.loads["concurrency"],
                fact.loads.get("context_tokens"),
            )
            across.setdefault(fact.line, []).append((users, value))
            if context is not None:
                down.setdefault(users, []).append((context, value))
        rises += [max(row)[1] > _RISE * min(row)[1] for row in across.values() if len(row) > 1]
        falls += [max(column)[1] < min(column)[1] for column in down.values() if len(column) > 1]
    return bool(rises) and all(rises) and len(falls) > 1 and sum(falls) >= _FALLS * len(falls)
