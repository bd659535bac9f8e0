"""JSON values out of a stream: one a line, one over many lines, several glued, cut off, or in one list.

Only one value is in memory at a time. `Broken` says where a value begins that could not be read, and why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traceana_parsers.sources import Stream, StreamState, blocks
from traceana_parsers.traces.json_nesting import Nesting

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LARGEST = 256 << 20  # bytes of one value
_FIRST = 4096  # bytes looked at for the end of a value, then twice as many

#: a line that begins an object although the line before is not one that goes on
_NEW = re.compile(rb"[^,\[:{\s][ \t\r]*\n(?=\{)")
_NEW_LINE = re.compile(rb"\n(?=\{\s*\")")
_LIST = re.compile(rb"\[\s*\{")
_BETWEEN = re.compile(rb"[\s,\]\x00]*")
_BOM = b"\xef\xbb\xbf"
_GLUED = "trailing characters"  # what msgspec says of a value that others follow
_NOT_STANDARD = re.compile(rb"NaN|Infinity|nan|inf")


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it begins: line from 1, byte offset in the decompressed stream.

    `text`: its own, when it stands over several lines, for the places of what is inside; else empty.
    """

    value: Any
    line: int
    offset: int
    text: bytes = b""

    def places(self, key: str) -> list[tuple[int, int]]:
        """Line and offset of each object in the list that is the value's `key`; none without a text."""
        if not self.text or not key:
            return []
        at, depth = Nesting().feed(self.text)
        for match in re.finditer(rb'"%b"\s*:\s*\[' % re.escape(key.encode()), self.text):
            first = int(at.searchsorted(match.end() - 1))  # the bracket of the list
            if first >= len(at) or depth[first] != 2 or at[first] != match.end() - 1:
                continue
            last = first + int((depth[first:] < 2).argmax())
            inside = at[first + 1 : last][(depth[first + 1 : last] == 3) & (_opens(self.text, at[first + 1 : last]))]
            return [(self.line + self.text.count(b"\n", 0, int(i)), self.offset + int(i)) for i in inside]
        return []


@dataclass(frozen=True, slots=True)
class Broken:
    """Where a value or a stretch of other text begins that is not JSON, and why."""

    why: str
    line: int
    offset: int


class Objects:
    """The values of a stream, elements of a list at its top one by one, in order; `lines` counts what was read."""

    def __init__(self, stream: Stream, state: StreamState) -> None:
        self._stream = stream
        self._state = state
        self.lines = 0

    def __iter__(self) -> Iterator[Found | Broken]:
        reader = _Reader()
        ended = True
        for block in blocks(self._stream, self._state):
            self.lines += block.data.count(b"\n")
            ended = block.data.endswith(b"\n")
            yield from reader.feed(bytes(block.data))
        self.lines += not ended
        yield from reader.end()


def _opens(text: bytes, at: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the brackets at these places are those of an object that begins."""
    import numpy as np

    brackets = np.frombuffer(text, np.uint8)[at]
    return np.equal(brackets, 0x7B)


class _Reader:
    """Cuts the text at top-level values; keeps what a value that is not complete yet has so far."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._line, self._offset = 1, 0
        self._nesting = Nesting()
        self._seen = 0  # bytes of `_text` that the nesting knows

    def feed(self, data: bytes) -> Iterator[Found | Broken]:
        if not self._offset and not self._text:
            self._offset = len(_BOM) if data.startswith(_BOM) else 0
            data = data.removeprefix(_BOM)
        self._text += data
        yield from self._values()
        if len(self._text) > LARGEST:
            yield Broken(f"a value of more than {LARGEST >> 20} MiB", self._line, self._offset)
            self._drop(len(self._text))

    def end(self) -> Iterator[Found | Broken]:
        while self._text.strip():
            yield self._broken("the value is cut off")
            yield from self._values()

    def _values(self) -> Iterator[Found | Broken]:
        while True:
            between = _BETWEEN.match(self._text)
            if self._seen == 0 and between and between.end():
                self._drop(between.end())
            if not self._text:
                return
            if self._text[0] not in b"{[":
                found = re.search(rb"\n(?=[{\[])|\{\s*\"", self._text)
                if found is None and len(self._text) < LARGEST // 4 and b"\n" not in self._text:
                    return
                yield Broken("text that is not JSON", self._line, self._offset)
                self._drop(found.start() if found else len(self._text))
                continue
            line = self._whole_line()
            if line is not None:
                yield line
                continue
            end, cut = self._end()
            if end is None:
                return
            value = "the value is cut off" if cut else decoded(self._text[:end])
            if isinstance(value, str):
                yield self._broken(value)
                continue
            yield from self._found(value[0], end)

    def _whole_line(self) -> Found | Broken | None:
        """What an object that takes exactly one line gives: the quick way. None when that cannot be told."""
        if self._seen:
            return None
        end = self._text.find(b"\n")
        if end < 2 or self._text[0] != 0x7B or self._text[end - 1 if self._text[end - 1] != 13 else end - 2] != 0x7D:
            return None
        value = decoded(self._text[:end])
        if isinstance(value, str):
            if _GLUED in value or self._text[end + 1 : end + 2] != b"{":
                return None
            made: Found | Broken = Broken(value, self._line, self._offset)
        else:
            made = Found(value[0], self._line, self._offset)
        self._drop(end + 1)
        return made

    def _end(self) -> tuple[int | None, bool]:
        """Where the value at the start of the text ends, None when that is not in the text; True when it is cut off
        there because another one begins."""
        begun, end = self._seen, None
        step = _FIRST if begun else self._text.find(b"\n") + 1 or _FIRST
        while end is None and self._seen < len(self._text):
            at, depth = self._nesting.feed(bytes(self._text[self._seen : self._seen + step]))
            closed = (depth <= 0).nonzero()[0]
            end = int(at[closed[0]]) + 1 + self._seen if closed.size else None
            self._seen = min(self._seen + step, len(self._text))
            step = max(_FIRST, 2 * step)
        new = _NEW.search(self._text, max(0, begun - 2), end if end is not None else len(self._text))
        return (new.end(), True) if new else (end, False)

    def _found(self, value: object, end: int) -> Iterator[Found]:
        if isinstance(value, list):
            for element in value:
                yield Found(element, self._line, self._offset)
        else:
            text = bytes(self._text[:end])
            yield Found(value, self._line, self._offset, text if b"\n" in text else b"")
        self._drop(end)

    def _broken(self, why: str) -> Broken:
        """Says so and goes on behind it: inside a list, else where the next object begins on a line of its own."""
        broken = Broken(why, self._line, self._offset)
        new = _NEW.search(self._text) or _NEW_LINE.search(self._text)
        if _LIST.match(self._text):
            self._drop(1)
        else:
            self._drop(new.end() if new else len(self._text))
        return broken

    def _drop(self, count: int) -> None:
        self._line += self._text.count(b"\n", 0, count)
        self._offset += count
        del self._text[:count]
        self._nesting, self._seen = Nesting(), 0


def decoded(text: bytes | bytearray) -> tuple[Any] | str:
    """The value of a text in a tuple, or why it has none. NaN and Infinity, which JSON does not know, are read."""
    import msgspec

    try:
        return (msgspec.json.decode(text),)
    except RecursionError:
        return "nested too deep"
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        why = str(error).removeprefix("JSON is malformed: ")
    if not _NOT_STANDARD.search(text):
        return f"not JSON: {why}"
    try:
        return (json.loads(text),)
    except RecursionError:
        return "nested too deep"
    except ValueError as error:
        return f"not JSON: {str(error).partition(';')[0]}"
