"""How rules write numbers, loads and evidence, so that all findings read alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from traceana.facts import text
from traceana.facts.model import Evidence

#: a number with its noun: `1 window`, `1,204 windows`
count = text.count


def num(value: float) -> str:
    """Three significant digits, thousands separated: `0.84`, `5.90`, `10.9`, `131`, `1,262`."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def ms(value: float) -> str:
    """Milliseconds: `28.5 ms`."""
    return f"{num(value)} ms"


def tok(value: float) -> str:
    """Throughput: `1,262 tok/s`."""
    return f"{num(value)} tok/s"


def pct(share: float) -> str:
    """A share of 0 ... 1 in per cent; one decimal below 10 %: `5.6 %`, `27 %`."""
    percent = 100.0 * share
    return f"{percent:.0f} %" if abs(percent) >= 9.95 or percent == 0 else f"{percent:.1f} %"


def times(ratio: float) -> str:
    """A ratio: `0.80x`."""
    return f"{ratio:.2f}x"


def length(value: float) -> str:
    """An accept length or tokens per cycle, with two decimals: `2.60`."""
    return f"{value:.2f}"


def span(low: int, high: int) -> str:
    """A range of loads or positions: `36-46`, or `36` when both ends are the same."""
    return str(low) if low == high else f"{low}-{high}"


def between(values: Iterable[float], write: str = "{:.2f}", unit: str = "") -> str:
    """The range of several numbers: `0.73-0.80x`; one number when both ends print the same."""
    ordered = sorted(values)
    low, high = write.format(ordered[0]), write.format(ordered[-1])
    return f"{low}{unit}" if low == high else f"{low}-{high}{unit}"


def listing(items: Sequence[object]) -> str:
    """An enumeration: `8`, `8 and 16`, `1, 2 and 4`."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def requests(running: int) -> str:
    """A load: `1 running request`, `32 running requests`."""
    return count(running, "running request")


def hours(seconds: float) -> str:
    """A duration: `42 s`, `27 min`, `3.2 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def picked(*groups: Iterable[Evidence | None], limit: int = 6) -> tuple[Evidence, ...]:
    """Evidence of a finding: the first of every group, then the rest in order, without repeats, at most `limit`."""
    lists = [[item for item in group if item is not None] for group in groups]
    first = [items[0] for items in lists if items]
    rest = [item for items in lists for item in items[1:]]
    return tuple(dict.fromkeys((*first, *rest)))[:limit]
