"""Tables in text: Markdown with and without outer bars, box drawings, `+---+` frames. Lines in, grids out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

_MARKDOWN = re.compile(r"\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_RULE = re.compile(r"\s*[+|╭╰├┌└╞┡┢╠╔╚┏┗┣][-=─━═+|┬┼┴╪╤╧╇┳╋┻╦╩╬┤┐┘╮╯╡┩┪╣╗╝┓┛┫\s]*$")
#: the rule below the headings of aligned columns without bars
_DASHES = re.compile(r"\s*-{2,}(?:\s+-{2,})+\s*$")
_GROUP = re.compile(r"-+")
_LAST = tuple("╰└╚┗╭┌╔┏")  # a frame's last line, or the first of another
_BARS = str.maketrans("│┃║", "|||")
_HEADING = re.compile(r"\s*(#{1,6})\s+(.*?)\s*#*\s*$")
_WIDEST = 4000  # characters of a table line
_CELLS = 200
_ROWS = 20_000
_CAPTION = 600  # characters of the paragraph before a table


@dataclass(slots=True)
class Row:
    """Cells of one row and where they stand."""

    cells: list[str]
    line: int
    offset: int


@dataclass(slots=True)
class Grid:
    """A table: its heading row, its rows, the caption (the line just before it) and the heading above that.

    `paragraph`: the caption with the lines before it, when it is the end of a longer text.
    """

    header: list[str]
    line: int
    offset: int
    caption: str = ""
    heading: str = ""
    paragraph: str = ""
    above: str = ""  # the heading that the heading belongs to
    rows: list[Row] = field(default_factory=list)
    cut: int = 0  # rows beyond the limit
    boxed: bool = False


class Grids:
    """Collects the tables of a text line by line; each is handed on when it has ended."""

    marks = ("| --", "|--", "-- |", "--|", "|:-", "| :-", "|-|", "| - |", "│", "+--", "┃", "-- --", "--  --")

    def __init__(self, take: Callable[[Grid], None]) -> None:
        self._take = take
        self._grid: Grid | None = None
        self._before: Row | None = None  # a line with bars that may be a heading row
        self._bars = False  # the table's lines begin with a bar
        self._ruled = False  # a rule of the frame came just before
        self._caption = self._heading = self._paragraph = ""
        self._titles: dict[int, str] = {}  # by level
        self._goes_on = False  # the paragraph may have more lines
        self._last: Row | None = None  # the line before, which may be the headings of aligned columns
        self._spans: list[tuple[int, int]] = []  # of aligned columns; empty for a table with bars

    @property
    def open(self) -> bool:
        """True inside a table, and after a line that may be its heading row."""
        return self._grid is not None or self._before is not None

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line belongs to a table."""
        if len(text) > _WIDEST:
            self.end()
            return False
        if self._grid is not None and self._spans:
            if text.strip() and not text.lstrip().startswith("```"):
                if text.strip("- \t"):
                    self._row(text, number, offset)
                return True
            self.end()
        if self._grid is not None:
            if self._rule(text):
                if text.lstrip()[:1] in _LAST:
                    self.end()
                return True
            if "|" in text or "│" in text or "┃" in text:
                self._row(text, number, offset)
                return True
            self.end()
        if (
            self._before is not None
            and (_MARKDOWN.match(text) or _RULE.match(text))
            and ("-" in text or "─" in text or "=" in text or "━" in text or "═" in text)
        ):
            return self._begin(text)
        if self._aligned(text):
            return True
        self._last = Row([text], number, offset) if text.strip() else None
        if _RULE.match(text) and text.strip():
            return False
        if "|" in text or "│" in text or "┃" in text:
            self._before = Row([text], number, offset)
            return False
        self._before = None
        self._text(text)
        return False

    def end(self) -> None:
        """Hands on the table that has ended, if there is one."""
        grid, self._grid, self._before = self._grid, None, None
        self._spans, self._last = [], None
        if grid is not None and grid.rows:
            self._take(grid)
        if grid is not None:
            self._caption = self._paragraph = ""

    def _begin(self, rule: str) -> bool:
        before = self._before
        assert before is not None
        boxed = not _MARKDOWN.match(rule)
        self._bars = boxed or rule.strip().startswith("|")
        header = self._split(before.cells[0])
        if not boxed and len(header) != len(self._split(rule)):
            self._before = None
            return False
        self._grid = Grid(header, before.line, before.offset, self._caption, self._heading, boxed=boxed)
        self._grid.above = list(self._titles.values())[-2] if len(self._titles) > 1 else ""
        if self._paragraph != self._caption:
            self._grid.paragraph = self._paragraph
        self._before = None
        return True

    def _aligned(self, text: str) -> bool:
        """Begins a table without bars: groups of dashes below a line of headings, of several columns."""
        last = self._last
        if last is None or not _DASHES.match(text):
            return False
        starts = [match.start() for match in _GROUP.finditer(text)]
        self._spans = list(pairwise([0, *starts[1:], _WIDEST]))
        header = self._split(last.cells[0])
        apart = all(last.cells[0][start - 1 : start].isspace() for start in starts[1:])
        if not (apart and all(header)):  # a line of text above a rule
            self._spans = []
            return False
        self._grid = Grid(header, last.line, last.offset, self._caption, self._heading)
        self._before = None
        return True

    def _rule(self, text: str) -> bool:
        return bool(_MARKDOWN.match(text) and "-" in text) or (
            bool(_RULE.match(text)) and "|" not in text.replace("|-", "").replace("-|", "")
        )

    def _row(self, text: str, number: int, offset: int) -> None:
        grid = self._grid
        assert grid is not None
        if len(grid.rows) >= _ROWS:
            grid.cut += 1
            return
        grid.rows.append(Row(self._split(text), number, offset))

    def _split(self, text: str) -> list[str]:
        if self._spans:
            return [text[a:b].strip() for a, b in self._spans]
        text = text.translate(_BARS)
        if self._bars:
            text = text.strip().removeprefix("|").removesuffix("|")
        return [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[:_CELLS]]

    def _text(self, text: str) -> None:
        words = text.strip()
        heading = _HEADING.match(text[:300]) if words.startswith("#") else None
        if heading:
            self._heading, self._caption, self._paragraph = heading[2], "", ""
            level = len(heading[1])
            self._titles = {n: title for n, title in self._titles.items() if n < level} | {level: heading[2]}
        elif not words:
            self._goes_on = False
        elif not words.startswith(("```", "<!--", "---", "===")):
            self._caption = words[:_CAPTION]
            self._paragraph = f"{self._paragraph} {words}"[-_CAPTION:] if self._goes_on else self._caption
            self._goes_on = True
