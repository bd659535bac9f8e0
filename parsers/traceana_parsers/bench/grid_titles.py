"""What the titles above a table say of all its rows: what was measured, and at which load."""

from __future__ import annotations

import re

from traceana_parsers.bench.headings import LOADS, MEASURE, Heading, read
from traceana_parsers.bench.words import loads

_GIVEN = frozenset({"concurrency", "context_tokens", "k"})
_RANGE = re.compile(r"\d\s*(?:-|–|\.\.|/|,|to)\s*\d|\bsweep\b")
#: `throughput vs concurrency`, `acceptance by context`: what the columns or rows are
_AGAINST = re.compile(
    r"\b(?:vs\.?|versus|by|across|against)\s+(?:concurrency|batch(?: size)?|context(?: length)?|load|users|k)\b",
    re.IGNORECASE,
)


def given(titles: tuple[str, ...], headings: list[Heading]) -> dict[str, int]:
    """Loads that a title gives for all rows: `GSM8K, concurrency 64`. A title with a range gives none."""
    known = {h.column for h in headings if h.role == LOADS} | {name for h in headings for name, _ in h.load}
    found = {c: n for c, n in headings[0].load if c in _GIVEN} if headings and len(headings[0].load) == 1 else {}
    for title in titles:
        if not _RANGE.search(title):
            for column, value in loads(title)[0].items():
                if column in _GIVEN and column not in known:
                    found.setdefault(column, value)
    return found


def measure_of(*texts: str) -> Heading | None:
    """The measured value that the texts name, e.g. `Throughput (tok/s)`: the first with its unit, else the first of a
    short text."""
    found: Heading | None = None
    for text in texts:
        pieces = re.split(r"\s\+\s|[;,]\s|[.:]\s|[.:]$", _AGAINST.sub(" ", text))
        for piece in pieces:
            heading = read(piece.strip(" :"))
            if heading.role != MEASURE or heading.column in ("total_tps", "requests_per_s", "input_tps"):
                continue
            if heading.unit is not None:
                return heading
            if found is None and len(pieces) < 3:
                found = heading
    return found
