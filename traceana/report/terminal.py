"""The report for a terminal: fits 80 columns, uses 160, no boxes, no control characters from inputs.

Texts become `rich.text.Text` after `escape.one_line`; no string from an input is ever parsed as rich markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING

from traceana.facts.model import Evidence
from traceana.report.compose import compose
from traceana.report.diagnosis import Diagnosis
from traceana.report.escape import one_line, short, visible
from traceana.report.names import with_short_names
from traceana.report.page import Item, Labelled, Page, Section, Table
from traceana.report.text import place
from traceana.report.trace_sections import trace_sections

if TYPE_CHECKING:
    from rich.text import Text

_DEFAULT_WIDTH = 80
_MIN_WIDTH, _MAX_WIDTH = 40, 160  # longer lines are hard to follow
_MIN_ROOM = 20  # a text beside something narrower than this goes below it
_LABEL_COLUMN = 11  # where the labels of a finding begin: below its title
_CELL_LIMIT = 24

_LABEL_WIDTH = 11  # `also fits` and two blanks
_EDGE = 120  # where the words on the right end; farther from the text they are not seen

_TONES = {"pays": "bold green", "loses": "bold red", "mixed": "bold yellow", "even": "bold yellow"}
#: time, level and source line of a log line: left out of an excerpt that is too long
_LOG_PREFIX = re.compile(
    r"^(?:\([^)]{1,40}\) ?){0,3}(?:[A-Z]{4,8} )?[\d-]{5,10} [\d:.,]{8,15} \[[^\]]{1,60}\] "
    r"|^\[[\d-]{10} [\d:.,]{8,15}\] "
)
_SEVERITIES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def render(diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """The report as text, ending with a newline; no line is wider than `width` (None: 80; between 40 and 160).

    With `color` False there is not a single escape sequence in it.
    """
    return render_page(compose(diagnosis), width=width, color=color, redacted=redacted)


def render_page(page: Page, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """Any page as text; the arguments are those of `render`."""
    canvas = _Canvas(_columns(width), color)
    _page(canvas, page)
    _say_redacted(canvas, redacted)
    return canvas.text()


def _columns(width: int | None) -> int:
    return min(max(width or _DEFAULT_WIDTH, _MIN_WIDTH), _MAX_WIDTH)


def _say_redacted(canvas: _Canvas, redacted: bool) -> None:
    if redacted:
        canvas.blank()
        canvas.hang("", "Redacted: names, addresses, paths, keys and prompts are replaced.", style="dim")


def render_trace(diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, redacted: bool = False) -> str:
    """The sections of the traces alone, as `render` draws them; empty when the run has no trace."""
    sections = trace_sections(with_short_names(diagnosis))
    return render_sections(sections, width=width, color=color, redacted=redacted) if sections else ""


def render_sections(
    sections: Sequence[Section], *, width: int | None = None, color: bool = False, redacted: bool = False
) -> str:
    """Sections without a page around them, a blank line between them; the arguments are those of `render`."""
    canvas = _Canvas(_columns(width), color)
    for number, section in enumerate(sections):
        if number:
            canvas.blank()
        _section(canvas, section)
    _say_redacted(canvas, redacted)
    return canvas.text()


class _Canvas:
    """Collects lines of styled text and knows how to wrap them with a hanging indent."""

    def __init__(self, width: int, color: bool) -> None:
        from rich.console import Console

        self.width = width
        self._out = StringIO()
        self._console = Console(
            file=self._out,
            width=width,
            color_system="standard" if color else None,
            force_terminal=color,
            no_color=not color,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ={},
        )

    def line(self, text: Text) -> None:
        """One line, as it is."""
        text.rstrip()
        self._console.print(text, no_wrap=True, overflow="ignore", crop=False)

    def blank(self) -> None:
        """An empty line."""
        self._out.write("\n")

    def hang(
        self, lead: str, body: str, *, style: str = "", lead_style: str = "", right: Text | None = None, lines: int = 0
    ) -> None:
        """`lead` (its blanks count), then the body wrapped below itself; with `lines`, at most so many lines of it.

        `right` stands at the end of the first line, or below when there is no room for it.
        """
        from rich.text import Text

        start = Text().append(visible(lead), lead_style)
        edge = min(self.width, _EDGE)
        beside = right is not None and edge - start.cell_len - right.cell_len - 2 >= (_MIN_ROOM if body else 0)
        room = edge - start.cell_len - right.cell_len - 2 if right and beside else self.width - start.cell_len
        pieces = _wrapped(one_line(body), max(room, 8), lines)
        for number, piece in enumerate(pieces):
            whole = (start if number == 0 else Text(" " * start.cell_len)).copy().append(piece, style)
            if number == 0 and right is not None and beside:
                whole.append(" " * (edge - whole.cell_len - right.cell_len)).append_text(right)
            self.line(whole)
        if right is not None and not beside:
            self.hang(" " * min(start.cell_len, _LABEL_COLUMN), right.plain)

    def text(self) -> str:
        """Everything drawn so far."""
        return self._out.getvalue()


def _wrapped(text: str, room: int, limit: int = 0) -> list[str]:
    """The text in lines of at most `room` cells. ` ·` and ` %` stay with the word before; too long words are cut."""
    from rich.cells import cell_len, chop_cells

    lines = [""]
    for word in (glued.replace("\0", " ") for glued in text.replace(" · ", "\0· ").replace(" %", "\0%").split(" ")):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= room:
            lines[-1] = joined
            continue
        parts = chop_cells(word, room) or [""]
        lines = [*lines, *parts] if lines[-1] else [*lines[:-1], *parts]
    if limit and len(lines) > limit:
        return [*lines[: limit - 1], chop_cells(lines[limit - 1], room - 1)[0] + "…"]
    return lines


def _page(canvas: _Canvas, page: Page) -> None:
    for line in _packed(page.header, canvas.width):
        canvas.hang("", line)
    for row in page.below_header:
        _labelled(canvas, row, "", 9)
    canvas.hang("Verdict  ", page.verdict, style=_TONES.get(page.tone, "bold"), lead_style="bold")
    if page.verdict_figures:
        canvas.hang(" " * 9, " · ".join(page.verdict_figures))
    before: Section | None = None
    for section in page.sections:
        if before is None or not (_is_brief(before) and _is_brief(section)):
            canvas.blank()
        _section(canvas, section)
        before = section


def _packed(pieces: tuple[str, ...], width: int) -> list[str]:
    """The pieces in lines that break between pieces; one that is too long for a line breaks where it must."""
    from rich.cells import cell_len

    lines: list[str] = []
    for piece in pieces:
        joined = f"{lines[-1]} · {piece}" if lines else piece
        if lines and cell_len(one_line(joined)) <= width - 2:  # room for the dot that follows
            lines[-1] = joined
        else:
            lines = [*lines[:-1], f"{lines[-1]} ·", piece] if lines else [piece]
    return lines


def _is_brief(section: Section) -> bool:
    """Only a few lines beside the title: such neighbours stand together."""
    return bool(section.lead) and not (section.tables or section.items or section.texts)


def _section(canvas: _Canvas, section: Section) -> None:
    from rich.text import Text

    title = visible(section.title)
    if section.lead:
        lead = title.ljust(_LABEL_COLUMN) + "  "
        canvas.hang(lead, section.lead[0], lead_style="bold")
        for text in (*section.lead[1:], *filter(None, (section.code,))):
            canvas.hang(" " * len(lead), text)
    else:
        canvas.hang(title, "", lead_style="bold", right=Text(one_line(section.aside), "dim") if section.aside else None)
    for number, table in enumerate(section.tables):
        if number:
            canvas.blank()
        _table(canvas, table)
    if len(section.tables) > 1 and section.texts:
        canvas.blank()
    for item in section.items:
        _item(canvas, item)
    for row in section.texts:
        _labelled(canvas, row, "  ", 0)


def _labelled(canvas: _Canvas, row: Labelled, indent: str, label_width: int) -> None:
    """The label once, then its texts below each other; without a label the first text heads the others."""
    mark = "- " if row.label and len(row.texts) > 1 else ""
    for number, text in enumerate(row.texts):
        if row.label:
            label = one_line(row.label) if number == 0 else ""
            canvas.hang(indent + label.ljust(label_width) + mark, text, lead_style="dim")
        else:
            canvas.hang(indent if number == 0 else indent + "    ", text, style="" if number == 0 else "dim")


def _item(canvas: _Canvas, item: Item) -> None:
    from rich.text import Text

    tag = Text(short(item.severity, 20), _SEVERITIES.get(item.severity, ""))
    tag.append(f" · {short(item.confidence, 20)}", "not bold default")
    head = f"{item.number:>2} {short(item.code, 12)}".ljust(_LABEL_COLUMN)
    canvas.hang(head, item.title, style="bold", lead_style="bold", right=tag)
    for row in item.texts:
        _labelled(canvas, row, " " * _LABEL_COLUMN, _LABEL_WIDTH)
        if row.label == "seen in":
            _excerpt(canvas, item.evidence, " " * (_LABEL_COLUMN + _LABEL_WIDTH))


def _excerpt(canvas: _Canvas, evidence: tuple[Evidence, ...], indent: str) -> None:
    """The first excerpt, on two lines at most; Markdown and JSON carry all of them."""
    first = next((item for item in evidence if item.text and item.text.strip()), None)
    if first is None or first.text is None:
        return
    text = one_line(first.text, 1000)
    if len(text) > canvas.width - len(indent):
        text = _LOG_PREFIX.sub("… ", text, count=1)
    where = "" if first is evidence[0] else f"{place(first)}  "
    canvas.hang(f"{indent}> ", where + text, style="dim", lead_style="dim", lines=2)


def _table(canvas: _Canvas, table: Table) -> None:
    """The table in as many blocks of columns as the width asks for, each with its labels."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    limit = min(_CELL_LIMIT, (canvas.width - 8) // 2)
    columns = [_short(name, limit) for name in table.columns]
    label_limit = canvas.width // 2 - 4
    rows = [
        (_short(row.label, label_limit), [_short(cell, limit) for cell in row.cells], row.letter) for row in table.rows
    ]
    label_width = max(cell_len(text) for text in (table.corner, *(label for label, _, _ in rows)))
    widths = [
        max(cell_len(text) for text in column) for column in zip(columns, *(cells for _, cells, _ in rows), strict=True)
    ]
    room = canvas.width - 2 - label_width - 3  # 3: the letter
    for number, block in enumerate(_blocks(widths, room)):
        if number:
            canvas.blank()
        gap = 2 if sum(widths[i] + 2 for i in block) <= room else 1
        for label, cells, letter in ((table.corner, columns, ""), *rows):
            line = Text("  ").append(set_cell_size(label, label_width), "dim")
            for i in block:
                style = "bold" if cells is columns else ""
                line.append(" " * (gap + widths[i] - cell_len(cells[i]))).append(cells[i], style)
            canvas.line(line.append(f"  {letter}", "dim"))
    for column, note in table.arrows:
        canvas.hang("  ", f"at {column} <- {note}")
    for remark in filter(None, table.remarks):
        canvas.hang("  ", remark, style="dim")


def _short(text: str, limit: int) -> str:
    """A cell: one line of at most `limit` columns; leading blanks (of a label) stay."""
    from rich.cells import cell_len, chop_cells

    safe = " " * (len(text) - len(text.lstrip(" "))) + one_line(text, 200)
    return safe if cell_len(safe) <= limit else chop_cells(safe, limit - 1)[0] + "…"


def _blocks(widths: list[int], room: int) -> list[list[int]]:
    """Column numbers by block: one block if they fit with one blank between them, else blocks of about one size."""
    if sum(width + 1 for width in widths) <= room:
        return [list(range(len(widths)))]
    per_block = max(room // (max(widths) + 2), 1)
    number = -(-len(widths) // per_block)
    size = -(-len(widths) // number)
    return [list(range(at, min(at + size, len(widths)))) for at in range(0, len(widths), size)]
