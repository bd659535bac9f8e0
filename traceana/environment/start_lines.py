"""The line that an instrumented process prints at its start: what its environment is, from inside."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from traceana.errors import TraceanaError
from traceana_instrument import envreport
from traceana_parsers.sources import SourceError, StreamState, blocks, expand, open_stream

MARK = b"EAGLE3_PROFILE_START {"
_LONGEST = 64 << 10
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class StartLine:
    """One process's start line. `variables`: what may be said of each value, as envreport writes it."""

    path: str
    line: int
    pid: int
    process: str
    rank: str
    engine: str | None
    version: str | None
    variables: dict[str, str]


def read(paths: Iterable[str]) -> list[StartLine]:
    """All start lines of the files, in reading order, the last one of each pid; unreadable ones are passed over.

    Raises TraceanaError when a file cannot be opened.
    """
    found: dict[int, StartLine] = {}
    try:
        for source in expand(paths):
            with open_stream(source) as stream:
                for block in blocks(stream, StreamState()):
                    for text, line in _marked(bytes(block.data), block.first_line):
                        parsed = parse(text, source.shown, line)
                        if parsed is not None and (parsed.pid in found or len(found) < _MOST):
                            found[parsed.pid] = parsed
    except (SourceError, OSError) as error:
        raise TraceanaError(str(error)) from error
    return list(found.values())


def _marked(data: bytes, first_line: int) -> Iterable[tuple[bytes, int]]:
    """(text from the brace on, line number) of every start line in a block of whole lines."""
    at, line, counted = 0, first_line, 0
    while (at := data.find(MARK, at)) >= 0:
        line += data.count(b"\n", counted, at)
        counted = at
        begin = at + len(MARK) - 1
        end = data.find(b"\n", begin)
        at = end if end >= 0 else len(data)
        yield data[begin : min(at, begin + _LONGEST)], line


def parse(text: bytes, path: str, line: int) -> StartLine | None:
    """A start line from its JSON object; None when it is none, is cut off, or lacks a pid."""
    try:
        row, _ = json.JSONDecoder().raw_decode(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    pid = row.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return None
    given = row.get("env")
    variables = {
        name: value if value in _SAID else envreport.shown(name, value)
        for name, value in (list(given.items())[: envreport.MOST] if isinstance(given, dict) else ())
        if isinstance(value, str) and envreport.reported(name)
    }
    rank = row.get("rank")
    return StartLine(
        path=path,
        line=line,
        pid=pid,
        process=_text(row.get("process")) or "",
        rank=f"rank {rank}" if isinstance(rank, int) else "",
        engine=_text(row.get("engine")),
        version=_text(row.get("version")),
        variables=variables,
    )


_SAID = (envreport.SET, envreport.FILE_THERE, envreport.FILE_MISSING)


def _text(value: object) -> str | None:
    return value[:80] if isinstance(value, str) else None
