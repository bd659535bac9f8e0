"""A trace's JSON in blocks: events as they come, top-level keys before and after them, memory bounded.

A block is cut at the last place that looks like the gap between two events, and decoding proves the cut: what starts at
an event and decodes as an array ends at one. Where two guesses fail (texts that hold `},{`, lists of objects inside an
event, the end of the list, broken events) brackets are counted. Nothing depends on how the file is laid out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from traceana_parsers.inflate import TrailingBytes
from traceana_parsers.sources import MAX_BYTES, Stream
from traceana_parsers.traces.json_nesting import Nesting, event_ends
from traceana_parsers.traces.kineto_events import AnyEvent, EventDecoder

BLOCK = 4 << 20
MAX_EVENT = 64 << 20  # longest single event kept in one piece
MAX_VALUE = 16 << 20  # longest top-level value kept
EVENTS = "traceEvents"

_GAP = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*\{")
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_START = re.compile(rb"[ \t\r\n\xef\xbb\xbf]*")  # blanks and a byte order mark
_KEY = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"[ \t\r\n]*:', re.DOTALL)
_SCALAR = re.compile(rb'[^"\[\]{},\s]+(?=[\s,}\]])')
_BLANK = b" \t\r\n,"


class TraceJson:
    """Reads one trace from a stream of bytes.

    `keys`: the top-level values read so far, events left out. `size`: bytes read. `problem`: why reading ended early,
    in one line. `decoder.unread`: events that could not be decoded.
    """

    def __init__(self, stream: Stream, block: int = BLOCK) -> None:
        self.keys: dict[str, Any] = {}
        self.size = 0
        self.problem: str | None = None
        self.decoder = EventDecoder()
        self.found_events = False
        self._stream = stream
        self._block = block
        self._buffer = bytearray()
        self._done = False

    def events(self) -> Iterator[Sequence[AnyEvent]]:
        """Blocks of events in file order. Never raises for what is wrong in the file; `problem` tells."""
        start = self._next()
        if start == b"[":
            yield from self._list()
            return
        if start != b"{":
            self.problem = self.problem or "not a JSON trace"
            return
        del self._buffer[:1]
        while (name := self._key()) is not None:
            if self._next() == b"[" and name == EVENTS:
                yield from self._list()
            elif not self._value(name):
                break
        if not self.found_events:
            self.problem = self.problem or f"no list {EVENTS} in the file"

    # ---- the stream ----

    def _more(self, least: int = 0) -> bool:
        """Read another block; False at the end of the stream."""
        if self._done:
            return False
        want = max(self._block, least)
        got = 0
        try:
            while got < want:
                piece = self._stream.read1(min(want - got, 1 << 18))
                if not piece:
                    self._done = True
                    break
                self._buffer += piece
                got += len(piece)
        except EOFError:
            self._stop("the compressed stream ends early (truncated file)")
        except TrailingBytes:
            self._stop("bytes that are not compressed follow the compressed data and were not read")
        except OSError as error:
            self._stop(f"reading stopped: {error.strerror or error}")
        except Exception as error:
            # the decompressors raise their own types (IsalError, lzma.LZMAError, zstd.ZstdError) on damaged data
            self._stop(f"the compressed data is damaged ({error or type(error).__name__})")
        self.size += got
        if self.size > MAX_BYTES:
            self._stop(f"stopped after {MAX_BYTES >> 30} GiB of decompressed text")
        return got > 0

    def _stop(self, problem: str) -> None:
        self._done = True
        self.problem = self.problem or problem

    def _truncated(self, where: str) -> None:
        self.problem = self.problem or f"the file ends {where} (truncated)"

    # ---- top level ----

    def _next(self, skip: re.Pattern[bytes] = _START) -> bytes:
        """Drop what `skip` matches; the next byte, still in the buffer, or b"" at the end of the stream."""
        while True:
            match = skip.match(self._buffer)
            del self._buffer[: match.end() if match else 0]
            if self._buffer or not self._more():
                return bytes(self._buffer[:1])

    def _key(self) -> str | None:
        """The next top-level key, taken off the buffer with its colon; None behind the last one."""
        first = self._next(_BETWEEN)
        if first in (b"}", b"]"):
            return None
        while first == b'"':
            match = _KEY.match(self._buffer)
            if match:
                name = match[1].decode("utf-8", "replace")
                del self._buffer[: match.end()]
                return name
            if len(self._buffer) > MAX_VALUE or not self._more():
                break
        if self._done:
            self._truncated("outside the list of events")
        else:
            self._stop("the file stops being JSON outside the list of events")
        return None

    def _value(self, name: str) -> bool:
        """Read one top-level value into `keys`; a longer one than MAX_VALUE is passed over. False at the end."""
        first = self._next()
        if first in (b"{", b"[", b'"'):
            return self._long(name, _closing_quote() if first == b'"' else _closing_bracket())
        while (match := _SCALAR.match(self._buffer)) is None:
            if len(self._buffer) > MAX_VALUE or not self._more():
                self._truncated(f"inside the value of {name[:60]}")
                return False
        self._keep(name, match[0])
        del self._buffer[: match.end()]
        return True

    def _long(self, name: str, end_in: Callable[[bytearray], int | None]) -> bool:
        kept = bytearray()
        while True:
            end = end_in(self._buffer)
            piece = self._buffer[:end]
            del self._buffer[:end]
            if len(kept) <= MAX_VALUE:
                kept += piece
            if end is not None:
                if len(kept) <= MAX_VALUE:
                    self._keep(name, bytes(kept))
                return True
            if not self._more():
                self._truncated(f"inside the value of {name[:60]}")
                return False

    def _keep(self, name: str, text: bytes) -> None:
        try:
            self.keys[name] = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            self.keys.setdefault(name, None)

    # ---- the list of events ----

    def _list(self) -> Iterator[Sequence[AnyEvent]]:
        """Events of the list that starts at the buffer's first byte; leaves the buffer behind its `]`."""
        self.found_events = True
        del self._buffer[:1]
        while True:
            if len(self._buffer) < self._block:
                self._more()
            first = self._next(_BETWEEN)
            if first == b"]":
                del self._buffer[:1]
                return
            if not first:
                self._truncated("inside the list of events")
                return
            events, used = self._take()
            if used:
                del self._buffer[:used]
                yield events
            elif self._done or len(self._buffer) > MAX_EVENT:
                if self._done:
                    self._truncated("inside the list of events")
                else:
                    self._stop(f"an event is longer than {MAX_EVENT >> 20} MiB")
                self._buffer.clear()
                return
            else:
                self._more(len(self._buffer))

    def _take(self) -> tuple[Sequence[AnyEvent], int]:
        """Whole events from the front of the buffer, and how many bytes they took; 0 when there is no whole one."""
        buffer = self._buffer
        for attempt in ("as it is", "without nan and inf"):
            for end in _guesses(buffer, self._done):
                try:
                    return self.decoder.array(b"[" + buffer[:end] + b"]"), end
                except (msgspec.DecodeError, UnicodeError, RecursionError):
                    continue
            if attempt == "as it is" and not _blank_non_numbers(buffer):
                break
        ends, close = event_ends(buffer)
        if not ends:
            # nothing but rubbish before the list's end
            return [], close if close is not None else 0
        starts = [0, *ends[:-1]]
        pieces = (bytes(buffer[a:b].lstrip(_BLANK)) for a, b in zip(starts, ends, strict=True))
        return self.decoder.pieces(pieces), ends[-1]


def _closing_bracket() -> Callable[[bytearray], int | None]:
    """Tells where an object or list ends, over pieces of text of which the first begins with it."""
    nesting = Nesting()

    def end_in(piece: bytearray) -> int | None:
        at, depth = nesting.feed(piece)
        zero = np.flatnonzero(depth == 0)
        return int(at[zero[0]]) + 1 if zero.size else None

    return end_in


def _closing_quote() -> Callable[[bytearray], int | None]:
    """Tells where a string ends, as `_closing_bracket`."""
    nesting = Nesting()
    missing = 2

    def end_in(piece: bytearray) -> int | None:
        nonlocal missing
        quotes = nesting.quotes(np.frombuffer(bytes(piece), np.uint8))
        missing -= quotes.size
        return int(quotes[missing - 1]) + 1 if missing <= 0 else None

    return end_in


_NON_NUMBER = re.compile(rb"[:,\[][ \t\r\n]*(-?(?:nan|inf(?:inity)?))(?=[ \t\r\n]*[,}\]])", re.IGNORECASE)


def _blank_non_numbers(buffer: bytearray) -> bool:
    """Overwrite bare nan and inf, which are no JSON, with empty texts as long; False when there are none."""
    found = list(_NON_NUMBER.finditer(buffer))
    if not found:
        return False
    quotes = Nesting().quotes(np.frombuffer(bytes(buffer), np.uint8))
    inside = np.searchsorted(quotes, [m.start(1) for m in found]) & 1
    for match, in_string in zip(found, inside, strict=True):
        if not in_string:
            buffer[match.start(1) : match.end(1)] = b'""'.ljust(match.end(1) - match.start(1))
    return not inside.all()


def _guesses(buffer: bytearray, last: bool) -> Iterator[int]:
    """Places near the end where an event may end: two gaps between events; in the last block the list's end."""
    if last:
        close = len(buffer)
        for _ in range(3):
            close = buffer.rfind(b"]", 0, close)
            if close < 0:
                break
            yield close
    window, found = 4096, 0
    while found < 2:
        low = max(0, len(buffer) - window)
        gaps = [m.start() + 1 for m in _GAP.finditer(buffer, low)]
        yield from reversed(gaps[-(2 - found) :])
        found += len(gaps)
        if low == 0:
            return
        window *= 8
