"""The report as a page of plain blocks, in the order both the terminal and Markdown draw them.

Every text on the page may come from an input: the renderers escape all of it. What is on the page, its order and its
figures are decided here and nowhere else; the renderers only lay it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from traceana.facts.model import Evidence


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: label, cells (texts, already rounded), and the letter of their provenance."""

    label: str
    cells: tuple[str, ...]
    letter: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of figures. The first column is the label; `corner` heads it. A wide table is split by columns."""

    corner: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()  # what is not shown, what the letters mean
    arrows: tuple[tuple[str, str], ...] = ()  # (columns, note)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label with its texts, one line each: `why`, `fix`. `texts` has at least one element."""

    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A finding: what its first line says, its labelled texts, and the places with excerpts."""

    number: int
    code: str
    name: str
    title: str
    severity: str
    confidence: str
    texts: tuple[Labelled, ...]
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the page. `lead` are lines below the heading, before the tables, items and texts; `code` follows it,
    to be copied as it is."""

    title: str
    aside: str = ""  # beside the heading, e.g. what the words on the right mean
    lead: tuple[str, ...] = ()
    code: str = ""
    tables: tuple[Table, ...] = ()
    items: tuple[Item, ...] = ()
    texts: tuple[Labelled, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page. `tone` is the verdict's word: pays, loses, even, mixed, unknown."""

    header: tuple[str, ...]  # pieces of the first line
    below_header: tuple[Labelled, ...]  # baseline, notes on the settings
    verdict: str
    tone: str
    verdict_figures: tuple[str, ...]
    sections: tuple[Section, ...] = field(default=())
