"""Numbers as people write them: `1,024`, `9.138s`, `77.7 ms`, `85.4 %`, `2k`, `**122ms**`; value and unit."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: unit as written (casefolded) -> kind and factor to the kind's unit: ms, tok/s, ratio, bytes, GB/s, us stays time
UNITS: dict[str, tuple[str, float]] = {
    "ns": ("time", 1e-6),
    "us": ("time", 1e-3),
    "µs": ("time", 1e-3),
    "μs": ("time", 1e-3),
    "usec": ("time", 1e-3),
    "ms": ("time", 1.0),
    "msec": ("time", 1.0),
    "milliseconds": ("time", 1.0),
    "s": ("time", 1e3),
    "sec": ("time", 1e3),
    "secs": ("time", 1e3),
    "seconds": ("time", 1e3),
    "min": ("time", 6e4),
    "tok/s": ("rate", 1.0),
    "toks/s": ("rate", 1.0),
    "tok/sec": ("rate", 1.0),
    "token/s": ("rate", 1.0),
    "tokens/s": ("rate", 1.0),
    "token/sec": ("rate", 1.0),
    "tokens/sec": ("rate", 1.0),
    "tokens/second": ("rate", 1.0),
    "tokens per second": ("rate", 1.0),
    "tps": ("rate", 1.0),
    "t/s": ("rate", 1.0),
    "ktok/s": ("rate", 1e3),
    "k tok/s": ("rate", 1e3),
    "ktokens/s": ("rate", 1e3),
    "k tokens/s": ("rate", 1e3),
    "kt/s": ("rate", 1e3),
    "%": ("ratio", 1e-2),
    "percent": ("ratio", 1e-2),
    "x": ("times", 1.0),
    "×": ("times", 1.0),
    "req/s": ("requests", 1.0),
    "requests/s": ("requests", 1.0),
    "requests/sec": ("requests", 1.0),
    "b": ("bytes", 1.0),
    "bytes": ("bytes", 1.0),
    "kb": ("bytes", 1024.0),
    "kib": ("bytes", 1024.0),
    "mb": ("bytes", 1024.0**2),
    "mib": ("bytes", 1024.0**2),
    "gb": ("bytes", 1024.0**3),
    "gib": ("bytes", 1024.0**3),
    "gb/s": ("bandwidth", 1.0),
    "gbps": ("bandwidth", 1.0),
}
_UNIT = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
_DIGITS = r"[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_PER = r"(?:\s*/\s*(?:user|req|gpu))?"
_QUANTITY = re.compile(
    rf"\s*[~≈]?\s*(?P<number>{_DIGITS})\s?(?:(?P<unit>(?:{_UNIT}){_PER})|(?P<kilo>k)\s?(?P<after>(?:{_UNIT}){_PER})?)?\s*"
)
_MARKS = re.compile(r"[*`]{1,3}|(?<![A-Za-z0-9])_{1,3}|_{1,3}(?![A-Za-z0-9])|<[^<>]{1,20}>|\\(?=[|%])")
_LARGEST = 1e30  # more is no measurement in any unit
_WIDEST = 200  # characters of a cell that may hold a number


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with the kind of its unit: `value` in ms, tok/s, a ratio, bytes, GB/s; kind is None without a unit."""

    value: float
    kind: str | None = None
    unit: str | None = None


def plain(text: str) -> str:
    """A cell without emphasis, code marks and HTML tags."""
    return _MARKS.sub("", text).replace("\u00a0", " ").strip()


def quantity(text: str) -> Quantity | None:
    """What a text says when it is one number that a float holds, with or without a unit; None otherwise. `k` is a
    thousand."""
    if len(text) > _WIDEST:
        return None
    match = _QUANTITY.fullmatch(text.casefold())
    if match is None:
        return None
    value = float(match["number"].replace(",", "")) * (1000.0 if match["kilo"] else 1.0)
    if not abs(value) < _LARGEST:
        return None
    written = match["unit"] or match["after"]
    if written is None:
        return Quantity(value)
    unit, _, per = (part.strip() for part in written.rpartition("/"))
    name = unit if per in ("user", "req", "gpu") and unit else written.strip()
    kind, factor = UNITS[name]
    return Quantity(value * factor, kind, name)


def quantities(text: str) -> list[Quantity]:
    """The numbers of a cell that holds one or several, comma separated: repeats; empty when it holds other words."""
    one = quantity(text)
    if one is not None:
        return [one]
    if len(text) > _WIDEST:
        return []
    several = [quantity(part) for part in re.split(r",\s+|\s*;\s*", text)]
    return [q for q in several if q is not None] if all(several) else []


def tokens(text: str) -> int | None:
    """A length in tokens: `16k` is 16384, as context lengths are written; `8192`, `1M`."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:,\d{3})*)(?:\.0{1,6})?\s*([km])?\s*(?:tok(?:en)?s?)?\s*", text.casefold())
    if match is None:
        return None
    return int(match[1].replace(",", "")) * {"k": 1024, "m": 1 << 20}.get(match[2] or "", 1)
