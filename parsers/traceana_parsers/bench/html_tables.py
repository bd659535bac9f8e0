"""Tables in HTML, as spreadsheets and browsers leave them in what people paste: rows of `<tr>`, cells of `<td>`."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

from traceana_parsers.bench.grid import Grid, Row

_ROW = re.compile(r"<tr\b[^>]{0,400}>(.*?)(?=</tr>|<tr\b|\Z)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(r"<t[hd]\b[^>]{0,400}>(.*?)(?=</t[hd]>|<t[hd]\b|\Z)", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{0,400}>")
_LARGEST = 400_000  # characters of a table; a longer one is left
_CELLS = 200


class HtmlTables:
    """Collects a table from `<table` to `</table>` and hands it on as a grid."""

    marks = ("<table", "<TABLE")

    def __init__(self, take: Callable[[Grid], None]) -> None:
        self._take = take
        self._lines: list[str] = []
        self._at = (0, 0)
        self._size = 0
        self._title = ""

    @property
    def open(self) -> bool:
        """True inside a table."""
        return bool(self._lines)

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line belongs to a table."""
        low = text.casefold()
        if not self._lines:
            if "<table" not in low:
                self._title = re.sub(r"^#+\s*", "", text.strip()) or self._title
                return False
            self._at, self._size = (number, offset), 0
        self._lines.append(text)
        self._size += len(text)
        if "</table" in low or self._size > _LARGEST:
            self.end()
        return True

    def end(self) -> None:
        """Hands on the table, if it has a heading row and another."""
        text, self._lines = "\n".join(self._lines), []
        if self._size > _LARGEST:
            return
        found = [[_plain(cell) for cell in _CELL.findall(row)[:_CELLS]] for row in _ROW.findall(text)]
        rows = [row for row in found if row]
        if len(rows) > 1:
            grid = Grid(rows[0], *self._at, caption=self._title[:200])
            grid.rows = [Row(row, *self._at) for row in rows[1:]]
            self._take(grid)
        self._title = ""


def _plain(cell: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", cell)).split()).replace("|", "/")
