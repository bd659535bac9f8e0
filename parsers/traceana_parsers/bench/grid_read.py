"""The rows of a table of results to measurements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from traceana_parsers.bench.cells import MISSING, measured
from traceana_parsers.bench.grid import Grid, Row
from traceana_parsers.bench.grid_columns import COUNTERS, Columns
from traceana_parsers.bench.headings import BESIDE, LOADS, MEASURE, UNKNOWN, Heading
from traceana_parsers.bench.numbers import plain, quantity, tokens
from traceana_parsers.bench.words import loads, speculates

_YES = dict.fromkeys(("yes", "on", "true", "✓", "✅"), True) | dict.fromkeys(("no", "off", "false", "✗", "❌"), False)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_HOTTEST = 2.0  # of sampling; more is a GPU's
#: `Input/Output Length` above `1024/200`
_LENGTHS = re.compile(r"\b(?:input|in|isl|prompt)\s*/\s*(?:output|out|osl)\b")
_PAIR = re.compile(r"(\d{1,7}k?)\s*/\s*(\d{1,7}k?)")
_NUMBER_FIRST = re.compile(r"(\d{1,7}k?)\s*\(")
_AMOUNT = re.compile(r"[~≈<>]?\s*\d[\d.,]*\s?(?:[kMGT]?B/s|[a-zµ%]{1,3}\b)", re.IGNORECASE)
_EXTRA = frozenset({"requests_per_s", "input_tps"})  # measured, without a column of their own
#: what drafting earns; has no load of its own beside columns that do
_EARNED = frozenset({"accept_rate_printed", "accept_length_printed", "tokens_per_cycle_printed", "accepted", "drafted"})
_SUMMARIES = frozenset({"avg", "average", "mean", "median", "total", "sum", "max", "min", "geomean", "std", ""})
_COLUMN_OF_TEXT = {
    "model": "model",
    "backend": "backend",
    "framework": "backend",
    "engine": "backend",
    **dict.fromkeys(
        ("dataset", "workload", "phase", "category", "task", "benchmark", "prompt", "prompts", "domain", "subset"),
        "dataset",
    ),
}


@dataclass(slots=True)
class Fact:
    """One cell's measurement: whose (series, label, loads), what, and where."""

    line: int
    offset: int
    series: str | None
    label: str | None
    loads: dict[str, int]
    values: dict[str, float]
    speculative: bool | None = None
    workload: str | None = None  # what was sent, in the row's words
    more: dict[str, Any] = field(default_factory=dict)  # model, backend, dataset, itl_of
    attrs: dict[str, Any] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Read:
    """What a table gives; `asks`: headings of numbers of which nothing says what they measure."""

    facts: list[Fact] = field(default_factory=list)
    asks: tuple[str, ...] = ()
    refused: list[tuple[int, str]] = field(default_factory=list)  # rows that were not read, by line, and why
    matrix: list[Fact] = field(default_factory=list)  # by load, of something that is not written: value `?`


def read_grid(grid: Grid, answers: Mapping[str, str], one_batch: bool = False) -> Read:
    """The measurements of a table.

    `answers` says what headings mean (heading in lower case -> column of bench_points); `one_batch`: the table of
    SGLang's bench_one_batch_server, whose ITL is per token.
    """
    return _Reader(Columns(grid, answers, one_batch)).read()


#: series, loads and columns of the values that make up one measurement
_Group = tuple[str | None, dict[str, int], list[int]]


class _Reader:
    """Reads the rows of a table whose columns are understood."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def read(self) -> Read:
        made = Read()
        values, beside, made.asks = self._columns.value_columns()
        matrix = not values and not made.asks and bool(beside) and self._columns.by_load(beside)
        if made.asks or not (values or matrix):
            return made
        if unread := self._columns.unread(values, beside):
            names = ", ".join(map(repr, unread[:4]))
            why = f"{names} not read: say HEADING=COLUMN (--columns) where they hold throughput too"
            made.refused.append((self._columns.grid.line, why))
        groups = self._groups(beside if matrix else values)
        for row in self._columns.grid.rows:
            self._row(row, groups, made.matrix if matrix else made.facts, made.refused)
        return made

    def _groups(self, columns: list[int]) -> list[_Group]:
        """Columns that belong to one measurement: of one series and load."""
        whose = {index: self._columns.series_of(index, columns) for index in columns}
        measures = [(h.column, h.statistic, h.load) for h in map(self._columns.headings.__getitem__, columns)]
        names = {name for name in whose.values() if name}
        if len(names) == 1 and len(set(measures)) == len(measures):
            whose = dict.fromkeys(columns, names.pop())  # one set-up, named in one of its columns
        found: dict[tuple[str | None, tuple[tuple[str, int], ...]], list[int]] = {}
        for index in columns:
            found.setdefault((whose[index], self._columns.headings[index].load), []).append(index)
        return [(series, dict(load), members) for (series, load), members in found.items()]

    def _row(self, row: Row, groups: list[_Group], into: list[Fact], refused: list[tuple[int, str]]) -> None:
        width = len(self._columns.headings)
        if any(row.cells[width:]):
            refused.append((row.line, f"{len(row.cells)} cells below {width} headings; the row was not read"))
            return
        if self._columns.prefill(row.cells):
            return
        whose = self._whose(row)
        if isinstance(whose, str):
            if whose.casefold() not in _SUMMARIES:
                refused.append((row.line, f"{whose[:40]!r} is no concurrency; the row was not read"))
            return
        if len(row.cells) < width:
            refused.append((row.line, f"{len(row.cells)} cells below {width} headings"))
        loaded = [
            fact for series, load, members in groups if load for fact in self._facts(row, whose, series, load, members)
        ]
        into.extend(loaded)
        for series, load, members in groups:
            earned = loaded and {self._columns.headings[i].column for i in members} <= _EARNED
            if not load and not (earned and self._earned(row, members, loaded)):
                into.extend(self._facts(row, whose, series, load, members))

    def _earned(self, row: Row, members: list[int], loaded: list[Fact]) -> bool:
        """Gives acceptance beside throughputs of several loads to the load that it is of: the only one measured, or the
        one the cell names (`0.70 C1, 0.49 C32`). False where nothing says which."""
        given = False
        for index in members:
            heading, percent = self._columns.headings[index], index in self._columns.percent
            for piece in re.split(r"[,;]\s", plain(row.cells[index])):
                found, rest = loads(piece)
                of = [f for f in loaded if found.items() <= f.loads.items()] if found else loaded
                if len(of) == 1:
                    of[0].values |= {name: v[0] for name, v in measured(rest, heading, percent).values.items()}
                    given = True
        return given

    def _whose(self, row: Row) -> Fact | str:
        """What the row says of all its values; what stands for the concurrency where that is no number."""
        fact = Fact(row.line, row.offset, None, None, {}, {})
        names: list[str] = []
        texts: list[str] = []
        for index, heading in enumerate(self._columns.headings):
            text = plain(row.cells[index]) if index < len(row.cells) else ""
            if index in self._columns.texts:
                self._text(fact, heading, text, names, texts)
            elif heading.role == LOADS:
                if text.casefold() not in MISSING:
                    self._load(fact, heading, text, names, texts)
                if heading.column == "concurrency" and "concurrency" not in fact.loads:
                    return text
            elif (
                heading.role == UNKNOWN
                and text
                and heading.text
                and (heading.text.casefold() in COUNTERS or index == 0)
            ):
                # a number of the row, or what the table begins with, tells rows apart
                texts.append(f"{heading.text} {text}")
                degree = quantity(text) if heading.text.casefold() in ("temperature", "temp") else None
                if degree is not None and degree.kind is None and degree.value <= _HOTTEST:
                    fact.more["temperature"] = degree.value
        fact.series = " / ".join(names) or None
        fact.label = ", ".join(texts) or None
        return fact

    def _text(self, fact: Fact, heading: Heading, text: str, names: list[str], texts: list[str]) -> None:
        for column, load in heading.load:
            fact.loads.setdefault(column, load)
        if text.casefold() in MISSING:
            return
        if (said := _YES.get(text.casefold())) is not None and speculates(heading.text) is not None:
            fact.speculative = said
            names.append(("" if said else "no ") + (heading.series or heading.text).strip(" ()"))
            return
        if _LENGTHS.search(heading.text.casefold()) and (pair := _PAIR.fullmatch(text)):
            for column, length in zip(("context_tokens", "output_length"), pair.groups(), strict=True):
                if (number := tokens(length)) is not None:
                    fact.loads.setdefault(column, number)
            return
        if _AMOUNT.match(text):  # a measurement with words around it
            fact.attrs.setdefault(heading.text, text)
            return
        texts.append(text)
        found, rest = loads(text)
        for column, load in found.items():
            fact.loads.setdefault(column, load)
        named = _COLUMN_OF_TEXT.get(heading.text.casefold())
        if named is not None:
            fact.more.setdefault(named, text)
        if named == "dataset":
            fact.workload = rest or None
            return
        variable = _VARIABLE.fullmatch(heading.text)
        if rest and rest.casefold() not in MISSING:
            names.append(f"{variable[0]}={rest}" if variable else rest)

    def _load(self, fact: Fact, heading: Heading, text: str, names: list[str], texts: list[str]) -> None:
        column = str(heading.column)
        number = tokens(text)
        if number is None:
            found, _ = loads(text)
            number = found.get(column)
        if number is None and (said := _NUMBER_FIRST.match(text)):  # `4 (the default)`
            number = tokens(said[1])
        if column in ("duration_s", "request_rate"):
            spoken = quantity(text)
            if spoken is not None:
                seconds = spoken.value / 1000 if spoken.kind == "time" else spoken.value
                fact.values[column] = seconds
        elif number is not None and column in BESIDE:
            fact.attrs[column] = number
            if heading.column in self._columns.varied:
                names.append(f"{column.upper()}{number}")
        elif number is not None:
            fact.loads.setdefault(column, number)
        else:
            texts.append(text)

    def _facts(
        self, row: Row, whose: Fact, series: str | None, load: dict[str, int], members: list[int]
    ) -> Iterator[Fact]:
        made: list[Fact] = []
        given = {**self._columns.given, **whose.loads, **load}
        # without a concurrency the workload is the load, by which the row's words tell it; else it is a set-up's name
        workload = whose.workload if "concurrency" in given else None
        name = " / ".join(part for part in (workload, whose.series, series) if part) or None
        base = replace(
            whose, series=name, loads=given, values=dict(whose.values),
            more=dict(whose.more), attrs=dict(whose.attrs), doubts=[],
        )  # fmt: skip
        if base.speculative is None:
            base.speculative = speculates(*(t for t in (whose.label, series) if t))
        if base.speculative is None:
            base.speculative = speculates(*self._columns.titles)
        for values in self._repeats(row, base, members):
            fact = replace(
                base, loads=dict(base.loads), values={**base.values, **values}, attrs=dict(base.attrs),
                doubts=list(base.doubts),
            )  # fmt: skip
            for extra in _EXTRA & fact.values.keys():
                fact.attrs[extra] = fact.values.pop(extra)
            made.append(fact)
        if not made and base.doubts:
            made.append(base)
        if made:
            self._leftovers(row, made[0], members)
        yield from made

    def _repeats(self, row: Row, base: Fact, members: list[int]) -> list[dict[str, float]]:
        """Values by column, once per repeat in the row's cells; what is to be said of them goes to `base`."""
        repeats: list[dict[str, float]] = []
        for index in members:
            text = row.cells[index] if index < len(row.cells) else ""
            heading = self._columns.headings[index]
            shown = heading if heading.role == MEASURE else replace(heading, column="output_tps", unit="tok/s")
            cell = measured(text, shown, index in self._columns.percent)
            if cell.doubt:
                base.doubts.append(cell.doubt)
            if cell.assumed:
                base.attrs.setdefault("assumed", cell.assumed)
            if heading.column == "chunk":
                base.more["itl_of"] = "chunk"
            for column, values in cell.values.items():
                repeats += [{} for _ in range(len(values) - len(repeats))]
                for at, value in enumerate(values):
                    repeats[at].setdefault(column, value)  # of two columns that seem the same, the first
        return repeats

    def _leftovers(self, row: Row, fact: Fact, members: list[int]) -> None:
        """Cells that no column takes, beside the measurement."""
        for index, heading in enumerate(self._columns.headings):
            text = plain(row.cells[index]) if index < len(row.cells) else ""
            free = heading.role == UNKNOWN and index not in self._columns.texts and index not in members
            if free and heading.text and text.casefold() not in MISSING and not heading.load:
                found = quantity(text)
                fact.attrs.setdefault(heading.text, text if found is None or found.kind else found.value)
