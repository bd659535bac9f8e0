"""A table's cell under its heading: the values it gives, in the units of the columns, or why it gives none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from traceana_parsers.bench.headings import KINDS, TIMES, Heading
from traceana_parsers.bench.numbers import UNITS, plain, quantities

MISSING = frozenset(
    {"", "-", "--", "—", "–", "n/a", "na", "none", "null", "skip", "skipped", "∅", "tbd", "oom", "x", "?", "—/—"}
)
_SHARE = re.compile(r"(\d{1,12})\s*/\s*(\d{1,12})\s*(?:\(\s*([0-9.]{1,12})\s*%\s*\))?$")
_TAIL = re.compile(r"\s*(?:\(\d{1,6}\s*/\s*\d{1,6}\)|\*|†|‡)\s*$")
_SPREAD = re.compile(r"(.+?)\s*(?:±|\+/-)\s*(.+)$")
_RANGE = re.compile(
    r"[~≈]?\s*\d[\d.,]*\s?%?\s*(?:-|–|—|\.\.|to)\s*[~≈]?\d[\d.,]*\s*(?:[a-zµμ%×/]{1,10})?$", re.IGNORECASE
)
#: heading columns that hold one number without a unit of their own
_BARE = frozenset({"accept_length_printed", "tokens_per_cycle_printed", "cycles", "requests_per_s"})


@dataclass(slots=True)
class Cell:
    """What a cell gives: a list per column (several when it holds repeats), and what is to be said of it."""

    values: dict[str, list[float]] = field(default_factory=dict)
    doubt: str | None = None
    assumed: str | None = None


def target(heading: Heading) -> str:
    """The table column of a measured value; a statistic that is not written counts as the mean."""
    column = "itl" if heading.column == "chunk" else str(heading.column)
    return f"{column}_{heading.statistic or 'mean'}_ms" if column in TIMES else column


def measured(text: str, heading: Heading, percent: bool) -> Cell:
    """The values of a cell below the heading of a measured value; empty when it is missing or other words.

    `percent`: a rate of acceptance without a unit is in percent.
    """
    cell = Cell()
    words = _TAIL.sub("", plain(text))
    column = target(heading)
    if words.casefold() in MISSING:
        return cell
    if words.casefold().lstrip("+-") in ("nan", "inf", "infinity"):
        cell.doubt = f"{heading.text!r} holds {words!r}, which is no number"
        return cell
    if column in ("accept_rate_printed", "accepted") and (share := _SHARE.match(words)):
        accepted, drafted = float(share[1]), float(share[2])
        rate = float(share[3]) / 100 if share[3] else accepted / drafted if drafted else None
        cell.values = {"accepted": [accepted], "drafted": [drafted]} | (
            {} if rate is None else {"accept_rate_printed": [rate]}
        )
        return cell
    spread = _SPREAD.match(words)
    found = quantities(spread[1] if spread else words)
    if not found:
        cell.doubt = f"{heading.text!r} holds {words!r}, a range, which was not read" if _RANGE.match(words) else None
        return cell
    kind = KINDS.get(str(heading.column))
    unit = re.sub(r"/(?:user|req)$", "", heading.unit) if heading.unit else None
    values = []
    for one in found:
        if one.kind is not None and one.kind != kind and not (one.kind == "times" and heading.column in _BARE):
            cell.doubt = f"{heading.text!r} holds {text.strip()[:40]!r}, another unit"
            return cell
        if one.kind is not None and unit is not None and UNITS[unit][1] != UNITS[one.unit or unit][1]:
            cell.doubt = f"{heading.text!r} holds {text.strip()[:40]!r}: heading and cell contradict each other"
            return cell
        factor = 1.0
        if one.kind is None:
            if unit is not None:
                factor = UNITS[unit][1]
            elif kind == "time":
                cell.assumed = f"{heading.text} in ms"
            elif kind == "rate":
                cell.assumed = f"{heading.text} in tok/s"
            elif kind == "ratio" and percent:
                factor = 0.01
        values.append(one.value * factor)
    cell.values = {column: [v / 1000 for v in values] if column == "duration_s" else values}
    return cell
