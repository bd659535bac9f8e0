"""Events of one block to rows of the trace tables: times to integer nanoseconds, names to ids, arguments to columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traceana_parsers.schema import polars_schema
from traceana_parsers.traces.kineto_events import (
    NONE,
    AnyEvent,
    KernelArgs,
    LaunchArgs,
    MemopArgs,
    decode_args,
    integer,
    plain,
)

if TYPE_CHECKING:
    import polars as pl

Ints = npt.NDArray[np.int64]

NAME_LIMIT = 4000
_UTC_FROM_NS = 10**18  # later times count from 1970 (this one lies in 2001)
_LAST_NS = 1 << 62


def to_ns(values: Sequence[int | float | Decimal]) -> Ints:
    """Microseconds to whole nanoseconds, nearest; NONE for what is no time.

    Exact for floats below 2**43 us, whose error is less than half a nanosecond, and for integers and decimals.
    """
    if Decimal in set(map(type, values)):
        return np.array([_decimal_ns(v) for v in values], dtype=np.int64)
    try:
        us = np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond any float
        return np.array([_decimal_ns(v) for v in values], dtype=np.int64)
    with np.errstate(invalid="ignore", over="ignore"):
        good = np.abs(us) < _LAST_NS / 1000
        whole = np.floor(np.where(good, us, 0.0))
        ns = whole.astype(np.int64) * 1000 + np.rint((np.where(good, us, 0.0) - whole) * 1000).astype(np.int64)
    return np.where(good, ns, NONE)


def _decimal_ns(value: int | float | Decimal) -> int:
    number = Decimal(value)
    return int((number * 1000).to_integral_value()) if number.is_finite() and abs(number) < _LAST_NS // 1000 else NONE


@dataclass(slots=True)
class Clock:
    """Where times of a file lie. `kind` is utc (absolute times, or relative ones with a base) or relative."""

    base_ns: int | None
    kind: str = ""

    def decide(self, us: int | float | Decimal) -> None:
        """Let a file's first event time decide the kind, where it is not known yet."""
        if not self.kind and (ns := int(to_ns([us])[0])) != NONE:
            self.kind = "utc" if self.base_ns is not None or ns >= _UTC_FROM_NS else "relative"

    def place(self, ns: Ints) -> Ints:
        """Times on the file's axis; NONE where a time does not belong to it."""
        valid = ns != NONE
        absolute = ns >= _UTC_FROM_NS
        if self.base_ns is not None:
            return np.where(valid, np.where(absolute, ns, ns + self.base_ns), NONE)
        return np.where(valid & (absolute == (self.kind == "utc")), ns, NONE)


def _stored(name: str) -> str:
    return plain(name[:NAME_LIMIT]) or ""


@dataclass(slots=True)
class Names:
    """Names of one file as ids, in order of appearance."""

    ids: dict[str, int] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)

    def of(self, events: Sequence[AnyEvent]) -> Ints:
        """Ids of the events' names; new names get the next ids."""
        ids = self.ids
        try:
            return np.array([ids[e.name] for e in events], dtype=np.int64)
        except KeyError:
            return np.array([ids.setdefault(_stored(e.name), len(ids)) for e in events], dtype=np.int64)

    def text(self, name_id: int) -> str:
        """The name behind an id."""
        if len(self._texts) < len(self.ids):
            self._texts = list(self.ids)
        return self._texts[name_id]

    def frame(self, file_id: int) -> pl.DataFrame:
        """Rows of the `names` table."""
        return make_frame("names", {"file_id": file_id, "name_id": np.arange(len(self.ids)), "name": list(self.ids)})


@dataclass(slots=True)
class Spans:
    """Start, end and name of events whose time could be placed, with what was odd about them."""

    events: list[AnyEvent]
    start: Ints
    end: Ints
    names: Ints
    unplaced: int = 0
    negative: int = 0
    zero: int = 0
    fractions: bool = False

    @classmethod
    def of(cls, events: Sequence[AnyEvent], clock: Clock, names: Names) -> Spans:
        """Spans of events; an end is never before its start."""
        raw = to_ns([e.ts for e in events])
        start = clock.place(raw)
        good = start != NONE
        kept = list(events)
        if not good.all():
            kept = [e for e, ok in zip(events, good, strict=True) if ok]
            start, raw = start[good], raw[good]
        duration = to_ns([e.dur for e in kept])
        duration = np.where(duration == NONE, 0, duration)
        return cls(
            events=kept,
            start=start,
            end=start + np.maximum(duration, 0),
            names=names.of(kept),
            unplaced=len(events) - len(kept),
            negative=int((duration < 0).sum()),
            zero=int((duration == 0).sum()),
            fractions=bool((raw % 1000).any() or (duration % 1000).any()),
        )

    def columns(self, file_id: int, rank: int | None, pid: int | Ints | None) -> dict[str, Any]:
        """The columns that all span tables share."""
        return {
            "file_id": file_id,
            "rank": rank,
            "pid": pid,
            "start_ns": self.start,
            "end_ns": self.end,
            "name_id": self.names,
        }


def make_frame(table: str, columns: dict[str, Any]) -> pl.DataFrame:
    """A frame with exactly the table's columns; absent ones and NONE become null, single values fill the column."""
    import polars as pl

    schema = polars_schema(table)
    height = next(len(v) for v in columns.values() if isinstance(v, (np.ndarray, list)))
    made = []
    for name, kind in schema.items():
        value = columns.get(name)
        if isinstance(value, np.ndarray):
            series = pl.Series(name, value)
            if series.dtype == pl.Int64:
                series = series.set(series == NONE, None)
        elif isinstance(value, list):
            series = pl.Series(name, value, dtype=kind)
        else:
            series = pl.repeat(value, height, dtype=kind, eager=True).alias(name)
        made.append(series.cast(kind, strict=False))
    return pl.DataFrame(made)


def ints(values: Sequence[int]) -> Ints:
    """An array of int64; numbers that do not fit become NONE."""
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        return np.array([integer(v) for v in values], dtype=np.int64)


_FIRST_NUMBER = re.compile(r"-?\d+")


def ids(values: Sequence[int | str | None]) -> Ints:
    """Process, thread or stream numbers: numbers, or the number inside a text like `stream 7`."""
    if all(type(v) is int for v in values):
        return ints(values)  # type: ignore[arg-type]

    def one(value: int | str | None) -> int:
        match = _FIRST_NUMBER.search(value) if isinstance(value, str) else None
        return integer(match[0] if match else value)

    return np.array([one(v) for v in values], dtype=np.int64)


def _or_else(first: Ints, fallback: Callable[[], Ints]) -> Ints:
    """`first`, with its absent values from `fallback`."""
    absent = first == NONE
    return np.where(absent, fallback(), first) if absent.any() else first


def kernel_columns(spans: Spans) -> tuple[dict[str, Any], list[KernelArgs]]:
    """Columns of the `kernels` table beyond the shared ones, and the decoded arguments."""
    events = spans.events
    args = decode_args(KernelArgs, events)
    node = ints([a.graph_node for a in args])
    return {
        "device": _or_else(ints([a.device for a in args]), lambda: ids([e.pid for e in events])),
        "stream": _or_else(ints([a.stream for a in args]), lambda: ids([e.tid for e in events])),
        "correlation": ints([a.correlation for a in args]),
        "graph_node": np.where(node == 0, NONE, node),
        "grid_x": ints([a.grid[0] if a.grid else NONE for a in args]),
        "block_x": ints([a.block[0] if a.block else NONE for a in args]),
    }, args


_COPY = re.compile(r"\b(HtoD|DtoH|DtoD|PtoP|HtoH)\b")
_COPY_WORDS = re.compile(r"(Host|Device)To(Host|Device)")


def _copy_kind(name: str, stated: str | None) -> str:
    if name.lower().startswith("memset"):
        return "memset"
    match = _COPY.search(name) or _COPY.search(stated or "")
    if match:
        return match[1]
    words = _COPY_WORDS.search(name)
    return f"{words[1][0]}to{words[2][0]}" if words else "other"


def memop_columns(spans: Spans) -> dict[str, Any]:
    """Columns of the `memops` table beyond the shared ones."""
    events = spans.events
    args = decode_args(MemopArgs, events)
    device = _or_else(ints([a.device for a in args]), lambda: ints([a.in_device for a in args]))
    return {
        "device": _or_else(device, lambda: ids([e.pid for e in events])),
        "stream": _or_else(ints([a.stream for a in args]), lambda: ids([e.tid for e in events])),
        "correlation": ints([a.correlation for a in args]),
        "kind": [_copy_kind(e.name, a.kind) for e, a in zip(events, args, strict=True)],
        "bytes": ints([a.bytes for a in args]),
    }


_GRAPH_LAUNCH = re.compile(r"^(?:cuda|cu|hip)GraphLaunch")


def launch_columns(spans: Spans) -> dict[str, Any]:
    """Columns of the `launches` table beyond the shared ones."""
    events = spans.events
    graph: dict[str, bool] = {}
    for event in events:
        if event.name not in graph:
            graph[event.name] = _GRAPH_LAUNCH.match(event.name) is not None
    return {
        "tid": ids([e.tid for e in events]),
        "correlation": ints([a.correlation for a in decode_args(LaunchArgs, events)]),
        "is_graph": np.array([graph[e.name] for e in events], dtype=np.bool_),
    }
