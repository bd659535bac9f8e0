"""The form of a JSON object that a benchmark writes: which keys tell it, and where each value goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from traceana_parsers.bench.rows import Point, Rows, Value, number

Object = Mapping[str, Any]
#: line and byte offset of each of several things
Places = Sequence[tuple[int, int]]

#: what no report may show: never copied into `attrs`
_SECRET = ("key", "token", "secret", "password", "passwd", "auth", "header", "credential", "cookie")
_COUNTS = re.compile(r"tokens|per_token|tokenizer|token_throughput|token_latency")  # these name no secret


class Form(Protocol):
    """Reads one kind of JSON object."""

    @property
    def tool(self) -> str:
        """Name of what wrote it."""

    @property
    def needs(self) -> Sequence[str]:
        """Keys that an object of this form has, dotted below the top."""

    @property
    def hints(self) -> Sequence[str]:
        """Keys near the start of a file of this form; `needs` when empty."""

    def read(self, obj: Object, rows: Rows, line: int, offset: int) -> int:
        """Adds the object's rows; how many measurements it held. `line`, `offset`: where it begins."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a value stands and the column it goes to: the first of `paths` (dotted, `|` between them) that is there.

    `factor` brings the value to the column's unit.
    """

    paths: str
    column: str
    factor: float = 1.0


def statistics(path: str, what: str, names: Mapping[str, str], factor: float = 1.0) -> tuple[Field, ...]:
    """Fields of one time: `path` with each name for `{}`, to the columns `WHAT_mean_ms` and so on."""
    return tuple(Field(path.replace("{}", name), f"{what}_{which}_ms", factor) for name, which in names.items())


def _whole(obj: Object) -> Iterable[Object | None]:
    return (obj,)


def _nothing(obj: Object, point: Point) -> None:
    return None


def _none(obj: Object, rows: Rows, line: int, offset: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class JsonForm:
    """An object that holds one measurement, or several that `parts` takes out of it.

    An object is of the form when it has all keys of `needs`. `more` reads what a list of fields cannot say.
    `example` is an object as text and `gives` what columns its first point must have: the form's test.
    """

    tool: str
    needs: tuple[str, ...]
    fields: tuple[Field, ...]
    source: str
    example: str
    gives: Mapping[str, Any]
    hints: tuple[str, ...] = ()
    listed: str = ""  # the key whose list `parts` goes through; it yields None for an element to leave out
    parts: Callable[[Object], Iterable[Object | None]] = _whole
    more: Callable[[Object, Point], None] = _nothing
    beside: Callable[[Object, Rows, int, int], None] = _none  # adds rows of other tables
    silent: frozenset[str] = field(default_factory=frozenset)  # keys that go nowhere

    def read(self, obj: Object, rows: Rows, line: int, offset: int, places: Places = ()) -> int:
        """One point per part; `places`: line and offset of each element of the list."""
        self.beside(obj, rows, line, offset)
        made = 0
        for index, part in enumerate(self.parts(obj)):
            if part is not None:
                at = places[index] if index < len(places) else (line, offset)
                rows.point(self.point(part, *at))
                made += 1
        return made

    def point(self, part: Object, line: int, offset: int) -> Point:
        """The measurement that a part of an object holds."""
        point = Point(self.tool, line, offset)
        used: set[str] = set()
        for wanted in self.fields:
            for path in wanted.paths.split("|"):
                value = get(part, path)
                used.add(path.partition(".")[0])
                if value is not None and wanted.column not in point.values:
                    scaled = number(value)
                    if wanted.factor != 1.0 and scaled is None:
                        continue
                    point.put(
                        wanted.column, value if wanted.factor == 1.0 or scaled is None else scaled * wanted.factor
                    )
        self.more(part, point)
        for name, value in part.items():
            if name not in used and name not in self.silent and _plain(name, value):
                point.attrs.setdefault(name, value)
        return point


def get(obj: Value, path: str) -> Value:
    """The value at a dotted path; None when something on the way is missing or no object."""
    for name in path.split("."):
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def _plain(name: str, value: Value) -> bool:
    """True for a single value that may be shown."""
    if not isinstance(value, str | int | float | bool) or value == "":
        return False
    rest = _COUNTS.sub("", name.casefold())
    return not any(word in rest for word in _SECRET)


def has(obj: Object, needs: Sequence[str]) -> bool:
    """True when all keys are there, whatever their values."""
    for path in needs:
        *above, last = path.split(".")
        inner = get(obj, ".".join(above)) if above else obj
        if not isinstance(inner, Mapping) or last not in inner:
            return False
    return True
