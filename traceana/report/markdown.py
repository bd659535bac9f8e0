"""The report as Markdown for a GitHub issue: nothing from an input is markup, a link, a mention or a reference.

The report fits into one comment. When it would not, log excerpts go first, then details, and it says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from traceana.report.compose import compose, compose_trace
from traceana.report.diagnosis import Diagnosis
from traceana.report.escape import cell, clip, code, fence, markdown, one_line
from traceana.report.page import Item, Labelled, Page, Section, Table
from traceana.report.text import place

#: GitHub refuses a comment above 65,536 characters; the rest is room for the author's own words
LIMIT = 65_536 - 1_536


@dataclass(frozen=True, slots=True)
class _Budget:
    """How much is drawn: excerpts per finding, characters per text, findings, rows of a list."""

    excerpts: int
    characters: int
    items: int
    rows: int


#: tried in this order until the report fits
_BUDGETS = (
    _Budget(8, 2000, 200, 200),
    _Budget(3, 800, 200, 200),
    _Budget(1, 400, 100, 100),
    _Budget(0, 400, 60, 40),
    _Budget(0, 200, 30, 20),
    _Budget(0, 100, 15, 10),
    _Budget(0, 40, 8, 6),
)


def render(diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """The report as GitHub Markdown, ending with a newline, at most `LIMIT` characters (as UTF-16 counts them).

    `width` and `color` change nothing.
    """
    return render_page(compose(diagnosis), redacted=redacted)


def render_trace(diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """What the traces say alone, as `render` writes it; empty when the run has no trace."""
    return "" if diagnosis.trace is None else render_page(compose_trace(diagnosis), redacted=redacted)


def render_page(page: Page, *, redacted: bool = False) -> str:
    """Any page as GitHub Markdown, ending with a newline, at most `LIMIT` characters: the first budget that fits."""
    text = ""
    for budget in _BUDGETS:
        text = _Writer(budget).page(page, redacted)
        if _size(text) <= LIMIT:
            break
    return text


def _size(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class _Writer:
    """Writes a page within a budget and counts what it leaves out."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self._excerpts_left_out = 0
        self._items_left_out = 0
        self._rows_left_out = 0

    def page(self, page: Page, redacted: bool) -> str:
        """The whole report."""
        blocks = [f"### {self._prose(page.verdict)}", self._joined(page.header)]
        figures = self._joined(page.verdict_figures)
        below = [*([f"- **verdict** {figures}"] if figures else []), *self._bullets(page.below_header)]
        blocks += ["\n".join(below)] if below else []
        for section in page.sections:
            blocks += self._section(section)
        blocks.append(self._footer(redacted))
        return "\n\n".join(block for block in blocks if block) + "\n"

    def _prose(self, text: str) -> str:
        """Never empty: a bullet without text would turn the line above into a heading."""
        return markdown(text, self._budget.characters) or "(empty)"

    def _joined(self, pieces: Iterable[str]) -> str:
        return " · ".join(self._prose(piece) for piece in pieces)

    def _section(self, section: Section) -> list[str]:
        blocks = [f"#### {self._prose(section.title)}"]
        blocks += [self._prose(section.aside)] if section.aside and not section.items else []
        blocks += [self._prose(lead) for lead in section.lead]
        blocks += [fence(section.code)] if section.code else []
        for table in section.tables:
            blocks += self._table(table)
        items = section.items[: self._budget.items]
        self._items_left_out += len(section.items) - len(items)
        for item in items:
            blocks += self._item(item)
        rows = section.texts[: self._budget.rows]
        self._rows_left_out += len(section.texts) - len(rows)
        blocks.append("\n".join(self._bullets(rows)))
        return blocks

    def _bullets(self, rows: Iterable[Labelled]) -> list[str]:
        """One bullet per row; several texts of a row are bullets below it."""
        lines = []
        for row in rows:
            first, rest = row.texts[0], row.texts[1:]
            if row.label and not rest:
                lines.append(f"- **{self._prose(row.label)}** {self._prose(first)}")
                continue
            lines.append(f"- **{self._prose(row.label)}**" if row.label else f"- {self._prose(first)}")
            lines += [f"  - {self._prose(text)}" for text in (row.texts if row.label else rest)]
        return lines

    def _table(self, table: Table) -> list[str]:
        letters = any(row.letter for row in table.rows)
        head = [table.corner, *table.columns, *([""] if letters else [])]
        lines = [_table_line(head), "|---|" + "---:|" * len(table.columns) + ("---|" if letters else "")]
        for row in table.rows:
            lines.append(_table_line([row.label, *row.cells, *([row.letter] if letters else [])]))
        blocks = ["\n".join(lines)]
        if table.arrows:
            blocks.append(
                "\n".join(f"- at {self._prose(column)} ← {self._prose(note)}" for column, note in table.arrows)
            )
        blocks += [self._prose(remark) for remark in table.remarks if remark]
        return blocks

    def _item(self, item: Item) -> list[str]:
        sure = f"{self._prose(item.severity)}, {self._prose(item.confidence)} confidence"
        title = f"**{item.number}. {code(one_line(item.code, 40))}** {self._prose(item.title)} ({sure})"
        return [title, "\n".join(self._bullets(item.texts)), self._details(item)]

    def _details(self, item: Item) -> str:
        """The log excerpts of a finding, folded."""
        having = [evidence for evidence in item.evidence if evidence.text and evidence.text.strip()]
        shown = having[: self._budget.excerpts]
        self._excerpts_left_out += len(having) - len(shown)
        if not shown:
            return ""
        limit = self._budget.characters
        lines = [
            f"{one_line(place(evidence), limit)}  {clip(evidence.text or '', limit).strip()}" for evidence in shown
        ]
        return "\n\n".join(["<details><summary>Evidence</summary>", fence("\n".join(lines)), "</details>"])

    def _footer(self, redacted: bool) -> str:
        left_out = [
            f"{n:,} {what}"
            for n, what in (
                (self._excerpts_left_out, "log excerpts"),
                (self._items_left_out, "findings"),
                (self._rows_left_out, "rows"),
            )
            if n
        ]
        lines = [f"Left out to fit into one comment: {', '.join(left_out)}."] if left_out else []
        if redacted:
            lines.append(
                "Redacted by traceana: addresses, host and user names, paths, keys and prompts it could recognise. "
                "Read it once more before you post it."
            )
        return "\n\n".join(lines)


def _table_line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell(text) for text in cells) + " |"
