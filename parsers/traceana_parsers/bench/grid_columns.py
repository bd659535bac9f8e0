"""The columns of a table of results: what each is. What is not written is asked, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from traceana_parsers.bench.cells import MISSING, measured
from traceana_parsers.bench.grid import Grid
from traceana_parsers.bench.grid_titles import given, measure_of
from traceana_parsers.bench.headings import BESIDE, LOADS, MEASURE, UNKNOWN, WHOLE, Heading, read
from traceana_parsers.bench.numbers import plain, quantity, tokens
from traceana_parsers.bench.turned import repeats_apart, turned
from traceana_parsers.bench.words import loads, speculates

#: numbers of rows, no measurements
COUNTERS = frozenset({"run", "#", "trial", "iteration", "iter", "seed", "no", "no.", "id", "index"})


#: words of numbers that are no throughput
_COUNTED = re.compile(
    r"\b(?:rounds?|steps?|iters?|count|n|samples?|time|power|watts?|w|temp|mem(?:ory)?|vram|util|size|layers?|tokens?"
    r"|year|line|score|accuracy|requests?|calls?)\b"
)
_LONGEST_DRAFT = 9.0  # tokens per cycle; acceptance of less than 9 % is rarer than longer drafts are
_PREFILL = re.compile(r"pp ?\d")
_LIKE = 5.0  # numbers of a size: within this factor of it


class Columns:
    """The columns of a table: `headings` as understood, `texts` those of words, `percent` rates in percent."""

    def __init__(self, grid: Grid, answers: Mapping[str, str], one_batch: bool) -> None:
        above = ""
        if _spans(grid):
            above = " ".join(cell for cell in grid.header if cell)
            grid = replace(grid, header=grid.rows[0].cells, rows=grid.rows[1:])
        upright = repeats_apart(grid)
        grid = turned(upright)
        self._turned = grid is not upright
        self.grid = grid
        self.headings = [read(cell) for cell in grid.header]
        self._context = measure_of(above, grid.caption, grid.heading, grid.paragraph)
        self.titles = tuple(t for t in (grid.caption, grid.heading, grid.above) if t)
        self._corner()
        self._bare()
        self._asked_rates()
        self._answered(answers)
        columns = {h.column for h in self.headings}
        if {"num_steps", "topk"} & columns:
            self._rename("k", "num_draft_tokens", only=r"draft")
        elif "num_draft_tokens" in columns:
            self._rename("num_draft_tokens", "k", only=r"^draft tokens$")
        if "chunk" in columns or one_batch:
            self._rename("itl", "tpot")
        if one_batch:
            self.headings = [
                replace(h, role=LOADS, column="duration_s") if h.text.casefold().startswith("latency") else h
                for h in self.headings
            ]
        #: sizes of the server that differ from row to row: a set-up each
        self.varied = {
            h.column for i, h in enumerate(self.headings) if h.column in BESIDE and len(set(self._column(i))) > 1
        }
        self.given = given(self.titles, self.headings)
        self.headings = [
            replace(h, column="accept_length_printed") if self._length(i) else h for i, h in enumerate(self.headings)
        ]
        self.texts = {i for i, h in enumerate(self.headings) if h.role == UNKNOWN and not self._numeric(i)}
        self.percent = {
            i for i, h in enumerate(self.headings) if h.column == "accept_rate_printed" and self._above_one(i)
        }

    def _corner(self) -> None:
        """`ctx \\ conc` in the corner: what the rows and what the numbers in the heading row are."""
        if len(self.headings) < 2:
            return
        rows, slash, columns = self.grid.header[0].casefold().partition("\\")
        if not slash:
            rows, slash, columns = self.grid.header[0].casefold().partition("/")
        down, across = WHOLE.get(rows.strip()), WHOLE.get(columns.strip())
        if not slash or down is None or across is None:
            return
        made = [replace(self.headings[0], role=LOADS, column=down)]
        for heading, text in zip(self.headings[1:], self.grid.header[1:], strict=True):
            number = tokens(plain(text))
            made.append(heading if number is None else Heading(text, UNKNOWN, load=((across, number),)))
        self.headings = made

    def _bare(self) -> None:
        """A first column of `tokens` is how many were generated; `TG` beside `S_TG t/s` is a number of tokens too."""
        if self.headings and self.headings[0].text.casefold() == "tokens":
            self.headings[0] = replace(self.headings[0], role=LOADS, column="output_length")
        if any(h.role == MEASURE and h.column == "output_tps" and h.unit for h in self.headings):
            self.headings = [
                replace(h, role=UNKNOWN, column=None) if h.text.casefold() in ("tg", "pp") else h for h in self.headings
            ]

    def _asked_rates(self) -> None:
        """`QPS` beside a request throughput, or all whole numbers, is the rate that was asked for."""
        rates = [i for i, h in enumerate(self.headings) if h.column == "requests_per_s"]
        for index in rates:
            heading = self.headings[index]
            values = self._numbers(index)
            whole = bool(values) and all(value == int(value) for value in values) and len(set(values)) == len(values)
            if heading.text.casefold() in ("qps", "rps") and (len(rates) > 1 or whole):
                self.headings[index] = replace(heading, role=LOADS, column="request_rate")

    def _answered(self, answers: Mapping[str, str]) -> None:
        for index, heading in enumerate(self.headings):
            said = answers.get(heading.text.casefold()) or answers.get(self.grid.header[index].casefold())
            if said is None:
                continue
            known = read(said.replace("_printed", ""))
            role = LOADS if said in WHOLE.values() else MEASURE
            self.headings[index] = replace(
                heading, role=role, column=said if known.column is None else known.column, statistic=known.statistic,
                unit=heading.unit or known.unit, series=heading.series if role == MEASURE else None,
            )  # fmt: skip

    def _rename(self, old: str, new: str, only: str = "") -> None:
        self.headings = [
            replace(h, column=new) if h.column == old and re.search(only, h.text.casefold()) else h
            for h in self.headings
        ]

    def _column(self, index: int) -> list[str]:
        cells = (row.cells[index] if index < len(row.cells) else "" for row in self.grid.rows)
        return [text for cell in cells if (text := plain(cell)).casefold() not in MISSING]

    def _numeric(self, index: int) -> bool:
        cells = self._column(index)
        heading = self.headings[index]
        found = [
            c
            for c in cells
            if measured(c, replace(heading, column="output_tps", unit=None), False).values or quantity(c)
        ]
        return bool(cells) and 2 * len(found) > len(cells)

    def _length(self, index: int) -> bool:
        """True for an acceptance without a unit above 1: a rate in per cent is larger, one of 0 to 1 smaller."""
        heading = self.headings[index]
        numbers = [quantity(c) for c in self._column(index)]
        values = [q.value for q in numbers if q is not None and q.kind is None]
        alone = heading.column == "accept_rate_printed" and heading.unit is None and len(values) == len(numbers)
        return alone and bool(values) and all(1 < value < _LONGEST_DRAFT for value in values)

    def _above_one(self, index: int) -> bool:
        numbers = [q.value for c in self._column(index) if (q := quantity(c)) is not None and q.kind is None]
        return 2 * sum(n > 1 for n in numbers) > len(numbers)

    def value_columns(self) -> tuple[list[int], list[int], tuple[str, ...]]:
        """Columns of measured values; numeric columns of something unknown; headings to ask about."""
        known = [i for i, h in enumerate(self.headings) if h.role == MEASURE and h.column != "total_tps"]
        totals = [i for i, h in enumerate(self.headings) if h.column == "total_tps"]
        if totals and any(self.headings[i].column == "user_tps" for i in known):
            self._rename("total_tps", "output_tps")  # of all users, as the other column is of one
            known, totals = sorted(known + totals), []
        others = [
            i
            for i, h in enumerate(self.headings)
            if h.role == UNKNOWN and i not in self.texts and h.text and h.text.casefold() not in COUNTERS
            if self._column(i)
        ]
        context = self._context if self._relevant(others) else None
        measured_already = bool(known) or any("concurrency" in dict(self.headings[i].load) for i in others)
        for index in list(others):
            heading, kinds = self.headings[index], self._kinds(index)
            measure = context
            if kinds == {"rate"}:
                measure = measure if measure and measure.column in ("output_tps", "user_tps") else read("tok/s")
            elif measure is None or (measured_already and not heading.load):
                continue
            unit = heading.unit or (measure.unit if not kinds - {None} else None)
            self.headings[index] = replace(
                heading,
                role=MEASURE,
                column=measure.column,
                statistic=heading.statistic or measure.statistic,
                unit=unit,
            )
            others.remove(index)
            known.append(index)
        if known:
            return sorted(known), others, ()
        if self.by_load(others):
            return [], others, ()
        loaded = any(h.column == "concurrency" for h in self.headings)
        named = [i for i in others if speculates(self.headings[i].text) is not None]
        asked = totals or (others if (loaded and others) or len(named) > 1 or (named and loaded) else [])
        return [], others, tuple(self.headings[i].text for i in asked)

    def _relevant(self, columns: list[int]) -> bool:
        """True when the table has a load or names set-ups, so that a title may say what its numbers are."""
        if any(h.role == LOADS or h.load for h in self.headings) or any(
            speculates(self.headings[i].text) for i in columns
        ):
            return True
        return any(loads(text)[0] for i in self.texts for text in self._column(i)[:3])

    def unread(self, known: list[int], others: list[int]) -> tuple[str, ...]:
        """Headings beside a throughput below which numbers of its size stand: perhaps the same for other prompts."""
        speeds = [v for i in known if self.headings[i].column == "output_tps" for v in self._numbers(i)]
        if not speeds:
            return ()
        low, high = min(speeds) / _LIKE, max(speeds) * _LIKE
        return tuple(
            self.headings[i].text
            for i in others
            if i
            and not _COUNTED.search(self.headings[i].text.casefold())
            and not self.headings[i].load
            and self.headings[i].unit is None
            and read(self.headings[i].text).series
            if len(found := self._numbers(i)) == len(self.grid.rows) and all(low < v < high for v in found)
        )

    def prefill(self, cells: list[str]) -> bool:
        """True for a row of llama-bench that times the prompt: `pp512` below `test`."""
        tests = (i for i, h in enumerate(self.headings) if h.text.casefold() == "test" and i < len(cells))
        return any(_PREFILL.match(plain(cells[i]).casefold()) for i in tests)

    def _numbers(self, index: int) -> list[float]:
        return [q.value for c in self._column(index) if (q := quantity(c)) is not None]

    def by_load(self, columns: list[int]) -> bool:
        """True when every one of several columns is for a concurrency of its own."""
        return len(columns) > 1 and all(dict(self.headings[i].load).get("concurrency") for i in columns)

    def _kinds(self, index: int) -> set[str | None]:
        return {q.kind for c in self._column(index) if (q := quantity(re.split(r",\s", c)[0])) is not None}

    def series_of(self, index: int, columns: list[int]) -> str | None:
        """Whose value a column holds: its left-over words, where another column holds the same value of another."""
        heading = self.headings[index]
        names = self._names(columns)
        if not names:
            return None
        alike = [i for i in columns if self.headings[i].column == heading.column]
        if self._turned and len(alike) == 1 and speculates(heading.series or "") is None:
            return None  # words of the row, whose set-up is the column's
        if heading.series in names:
            return heading.series
        inside = [n for n in names if n and heading.series and n.casefold() in heading.series.casefold()]
        if inside:
            return inside[0]
        if heading.column in ("accept_length_printed", "accept_rate_printed", "tokens_per_cycle_printed"):
            speculative = [n for n in names if speculates(n)]
            return speculative[0] if len(speculative) == 1 else heading.series
        return heading.series

    def _names(self, columns: list[int]) -> list[str]:
        seen: dict[tuple[object, ...], list[str | None]] = {}
        for i in columns:
            h = self.headings[i]
            seen.setdefault((h.column, h.statistic, h.load), []).append(h.series)
        several = {name for names in seen.values() if len(names) > 1 for name in names if name}
        return sorted(
            several | {h.series for i in columns if (h := self.headings[i]).series and speculates(h.series) is not None}
        )


def _spans(grid: Grid) -> bool:
    """True when the heading row only spans columns, and the row below it names them."""
    empty = sum(not cell for cell in grid.header)
    below = grid.rows[0].cells if grid.rows else []
    return (
        len(grid.rows) > 1
        and 2 * empty >= len(grid.header)
        and not any(quantity(plain(c)) for c in below)
        and any(below)
    )
