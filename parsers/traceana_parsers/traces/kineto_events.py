"""One event of a Kineto trace, decoded: the typed fast way, and a forgiving one for what does not fit.

Arguments stay undecoded (`Event.args`) until a category asks for them, so the arguments of operators, which make up
most of a trace, cost nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct, field

#: stands for an absent integer; arrays cannot hold None
NONE = -(1 << 63)
#: microseconds as float64 resolve a nanosecond below this; larger values with a fraction are read as decimals
EXACT_BELOW_US = float(1 << 43)

_NO_ARGS = Raw(b"{}")


class Event(Struct, gc=False):
    """Fields every event may have. Times are microseconds as written."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: int | float = float("nan")
    dur: int | float = 0
    args: Raw = _NO_ARGS


class ExactEvent(Struct, gc=False):
    """As `Event`, for files with absolute times to the nanosecond, which no float holds."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Decimal = Decimal("nan")
    dur: Decimal = Decimal(0)
    args: Raw = _NO_ARGS


class KernelArgs(Struct, gc=False):
    """Arguments of a kernel; the last five are on communication kernels since torch 2.2."""

    device: int = NONE
    stream: int = NONE
    correlation: int = NONE
    grid: list[int] = []
    block: list[int] = []
    graph_node: int = field(default=NONE, name="graph node id")
    collective: str | None = field(default=None, name="Collective name")
    nelems: int = field(default=NONE, name="In msg nelems")
    dtype: str | None = None
    group: str | None = field(default=None, name="Process Group Name")
    group_size: int = field(default=NONE, name="Group size")


class MemopArgs(Struct, gc=False):
    """Arguments of a copy or fill; peer copies name the device `inDevice`."""

    device: int = NONE
    in_device: int = field(default=NONE, name="inDevice")
    stream: int = NONE
    correlation: int = NONE
    bytes: int = NONE
    kind: str | None = None


class LaunchArgs(Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: int = NONE


class HostCollectiveArgs(Struct, gc=False):
    """Arguments of a collective call on the host; dimensions only where shapes were recorded."""

    collective: str | None = field(default=None, name="Collective name")
    nelems: int = field(default=NONE, name="In msg nelems")
    dtype: str | None = None
    group: str | None = field(default=None, name="Process Group Name")
    group_size: int = field(default=NONE, name="Group size")
    dims: Any = field(default=None, name="Input Dims")
    types: Any = field(default=None, name="Input type")


Args = TypeVar("Args", KernelArgs, MemopArgs, LaunchArgs, HostCollectiveArgs)
AnyEvent = Event | ExactEvent

_RAWS = msgspec.json.Decoder(list[Raw])
_ONE = msgspec.json.Decoder(Event)
_EVENTS = msgspec.json.Decoder(list[Event])
_EXACT = msgspec.json.Decoder(list[ExactEvent])
_ARGS: dict[type, tuple[Any, Any]] = {}


class EventDecoder:
    """Decodes events. `unread` counts those that no way of decoding could read."""

    def __init__(self) -> None:
        self.unread = 0
        self.exact = False

    def array(self, data: bytes) -> Sequence[AnyEvent]:
        """The events of a JSON array. Raises msgspec.DecodeError when `data` is not one."""
        try:
            if not self.exact:
                events = _EVENTS.decode(data)
                if not _any_needs_decimals(events):
                    return events
                self.exact = True
            return _EXACT.decode(data)
        except msgspec.ValidationError:
            # a value of an unexpected type, unless this raises: then the data is no array at all
            return self.pieces(bytes(raw) for raw in _RAWS.decode(data))

    def pieces(self, pieces: Iterable[bytes]) -> list[AnyEvent]:
        """The events of single JSON objects, each on its own; broken ones are counted and left out."""
        found: list[AnyEvent] = []
        for piece in pieces:
            try:
                event: AnyEvent = _ONE.decode(piece)
                found.append(event if not _needs_decimals(event) else _forgiving(piece))
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                try:
                    found.append(_forgiving(piece))
                except (ValueError, TypeError, ArithmeticError, RecursionError):
                    self.unread += 1
        return found


def _any_needs_decimals(events: Sequence[Event]) -> bool:
    try:
        times = np.array([e.ts for e in events], dtype=np.float64)
    except OverflowError:  # an integer beyond any float
        return True
    far = np.flatnonzero(np.abs(times) >= EXACT_BELOW_US)
    return any(_needs_decimals(events[i]) for i in far.tolist())


def _needs_decimals(event: AnyEvent) -> bool:
    ts = event.ts
    return type(ts) is float and abs(ts) >= EXACT_BELOW_US  # False for nan


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![\w.])-?(?:nan|inf|infinity)\b', re.IGNORECASE | re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})|\\')


def _repair(text: str) -> str:
    """Text with what is not JSON made so: bare nan and inf become null, backslashes that escape nothing are doubled."""

    def fix(match: re.Match[str]) -> str:
        token = match[0]
        if not token.startswith('"'):
            return "null"
        return _ESCAPE.sub(lambda m: m[0] if m[1] else "\\\\", token) if "\\" in token else token

    return _TOKEN.sub(fix, text)


def _forgiving(piece: bytes) -> AnyEvent:
    text = piece.decode("utf-8", "replace")
    try:
        raw = json.loads(text, strict=False, parse_float=Decimal)
    except ValueError:
        raw = json.loads(_repair(text), strict=False, parse_float=Decimal)
    if not isinstance(raw, dict):
        raise TypeError("an event is not an object")
    args = raw.get("args")
    name, cat = raw.get("name"), raw.get("cat")
    return ExactEvent(
        ph=str(raw.get("ph") or ""),
        cat=None if cat is None else str(cat),
        name="" if name is None else name if isinstance(name, str) else str(name),
        pid=_id(raw.get("pid")),
        tid=_id(raw.get("tid")),
        ts=_decimal(raw.get("ts"), Decimal("nan")),
        dur=_decimal(raw.get("dur"), Decimal(0)),
        args=Raw(json.dumps(args, default=float).encode()) if isinstance(args, dict) else _NO_ARGS,
    )


def _decimal(value: object, default: Decimal) -> Decimal:
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    try:
        return Decimal(str(value)) if isinstance(value, (str, float)) else default
    except ArithmeticError:
        return default


def _id(value: object) -> int | str | None:
    if isinstance(value, (int, str)):
        return value
    return int(value) if isinstance(value, Decimal) and abs(value) < 1 << 63 else None


def elapsed(begin: AnyEvent, end: AnyEvent) -> int | float | Decimal:
    """Time between two events in microseconds, exact where both were read exactly."""
    try:
        if isinstance(begin, ExactEvent) and isinstance(end, ExactEvent):
            return end.ts - begin.ts
        return float(end.ts) - float(begin.ts)
    except ArithmeticError:  # beyond what the type holds
        return float("nan")


def plain(text: str | None) -> str | None:
    """Text that every encoder takes: halves of surrogate pairs, which JSON can escape, become question marks."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()


def integer(value: object) -> int:
    """A value as int64: numbers, decimal and hexadecimal texts; NONE for anything else."""
    try:
        if isinstance(value, str):
            number = int(value, 0)
        elif isinstance(value, (int, float, Decimal)):
            number = int(value)
        else:
            return NONE
    except (ValueError, OverflowError):
        return NONE
    return number if NONE < number < 1 << 63 else NONE


def decode_args(kind: type[Args], events: Sequence[AnyEvent]) -> list[Args]:
    """The arguments of events, as `kind`; a value of a wrong type is converted where possible, else absent."""
    strict, loose = _ARGS.get(kind) or _ARGS.setdefault(kind, _decoders(kind))
    data = b"[" + b",".join([e.args for e in events]) + b"]"
    try:
        found: list[Args] = strict.decode(data)
        return found
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        return [_converted(kind, made) for made in loose.decode(data)]
    except (msgspec.DecodeError, UnicodeError):
        return [_one_by_one(kind, loose, e.args) for e in events]


def _decoders(kind: type[Struct]) -> tuple[Any, Any]:
    """A decoder for lists of `kind`, and one that takes any value in its fields."""
    fields = [(f.name, Any, field(default=None, name=f.encode_name)) for f in msgspec.structs.fields(kind)]
    loose = msgspec.defstruct(f"Loose{kind.__name__}", fields)
    return msgspec.json.Decoder(list[kind]), msgspec.json.Decoder(list[loose])  # type: ignore[valid-type]


def _converted(kind: type[Args], loose: Struct) -> Args:
    made = kind()
    for name, wanted in kind.__annotations__.items():
        value = getattr(loose, name)
        if value is None:
            continue
        if wanted == "int":
            setattr(made, name, integer(value))
        elif wanted == "list[int]":
            setattr(made, name, [integer(v) for v in value] if isinstance(value, list) else [])
        else:
            setattr(made, name, value if wanted == "Any" else str(value))
    return made


def _one_by_one(kind: type[Args], loose: msgspec.json.Decoder[Any], raw: Raw) -> Args:
    try:
        return _converted(kind, loose.decode(b"[" + raw + b"]")[0])
    except (msgspec.DecodeError, UnicodeError):
        return kind()
