"""Top-level keys that a trace carries behind its events, found without reading the events."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import numpy as np

from traceana_parsers.inflate import Inflated
from traceana_parsers.sources import Source, SourceError, open_stream
from traceana_parsers.traces.json_nesting import Nesting

TAIL = 1 << 20  # how much of the end is searched
_BLANK = b" \t\r\n,"


def keys_after_events(source: Source) -> dict[str, Any]:
    """Top-level values written after the events, found from the end of the file; {} on standard input or when damaged.

    A plain file is read from its end; a compressed one is decompressed once.
    """
    if source.path == "-":
        return {}
    tail = bytearray()
    try:
        with open_stream(source) as stream:
            if isinstance(stream, io.BufferedReader):
                stream.seek(0, io.SEEK_END)
                stream.seek(max(0, stream.tell() - TAIL))
                tail += stream.read()
            elif isinstance(stream, Inflated):
                while piece := stream.read1(TAIL):
                    tail += piece
                    if len(tail) > 4 * TAIL:
                        del tail[:-TAIL]
    except SourceError:
        return {}
    except Exception:  # the decoders' own errors: damaged or truncated, there is no end to read
        return {}
    return _closing_keys(bytes(tail[-TAIL:]))


def _closing_keys(tail: bytes) -> dict[str, Any]:
    """Keys of the outermost object behind its last long list, from the last bytes of a whole file."""
    nesting = Nesting()
    at, depth = nesting.feed(tail)
    if nesting.in_string:  # the piece began inside a string
        nesting = Nesting()
        nesting.in_string = True
        at, depth = nesting.feed(tail)
    if not at.size:
        return {}
    closes = at[(depth - depth[-1] == 1) & (np.frombuffer(tail, np.uint8)[at] == 0x5D)]
    if not closes.size:
        return {}
    rest = tail[int(closes[0]) + 1 :].lstrip(_BLANK)
    try:
        found = msgspec.json.decode(b"{" + rest)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
