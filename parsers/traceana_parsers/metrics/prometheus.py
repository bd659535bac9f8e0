"""Prometheus text from /metrics: one scrape or several in one file, with or without times."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from traceana_parsers.bench.rows import Rows
from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.metrics.differences import Scrape, wanted
from traceana_parsers.sources import Stream, StreamState, blocks

_SAMPLE = re.compile(
    r'(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?[ \t]+'
    r"(?P<value>[+-]?(?:[0-9.][0-9.eE+-]*|Inf|NaN))(?:[ \t]+(?P<ts>-?[0-9.eE+]+))?(?:[ \t]+#.*)?\s*$"
)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')
_TYPE = re.compile(r"# TYPE (?P<name>\S+) (?P<kind>counter|gauge|histogram|summary|untyped|unknown|info|stateset)\b")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)(Z|[+-]\d\d:?\d\d)?")
_EPOCH = re.compile(r"\D{0,20}(1[0-9]{9})(?:\.(\d{1,6}))?\D{0,5}$")
_UNESCAPE = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_SUFFIXES = ("_bucket", "_count", "_sum", "_total", "_info")
_ENGINES = ("vllm", "sglang", "trtllm", "llamacpp")
_LONGEST = 100_000  # characters of a line
_MOST_LABELS = 50_000  # label sets remembered


def sniff(head: bytes) -> bool:
    """True when most lines of the head are metrics."""
    lines = [
        line
        for line in head.decode("utf-8", "replace").split("\n")[:-1] or [head.decode("utf-8", "replace")]
        if line.strip()
    ]
    known = sum(line.startswith(("# HELP ", "# TYPE ")) or bool(_SAMPLE.match(line[:4000])) for line in lines)
    return known >= 2 * len(lines) / 3 and any(line.startswith("# TYPE ") or "{" in line for line in lines)


def read(stream: Stream, report: FileReport, sink: Sink, answers: Mapping[str, str]) -> None:
    """Adds a row per sample and closes the stream; a sample that comes again begins the next scrape."""
    reader = _Reader(Rows(sink, report.file_id), report.file_id)
    state = StreamState()
    with stream:
        for block in blocks(stream, state):
            offset = block.offset
            for number, raw in enumerate(block.data.removesuffix(b"\n").split(b"\n"), block.first_line):
                reader.line(raw.decode("utf-8", "replace")[:_LONGEST], number, offset)
                report.lines = number
                offset += len(raw) + 1
    reader.end(report.modified)
    report.bytes = state.size
    report.recognised, report.unread = reader.known, reader.unread
    report.unread_line, report.unread_text = reader.first_unread or (None, None)
    report.format, report.scrapes = reader.format, reader.scrapes
    if state.problem:
        report.problem = f"{state.problem}; what came before was read"
    elif not reader.known:
        report.problem = "a scrape of /metrics without values"


class _Reader:
    def __init__(self, rows: Rows, file_id: int) -> None:
        self._rows = rows
        self._file_id = file_id
        self.scrapes: list[Scrape] = []
        self._written = False  # the time of the scrape being read is in the file
        self._kinds: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._scrape: list[tuple[dict[str, Any], int, int]] = []
        self._number = 0
        self._ts: datetime | None = None  # of the scrape being read
        self._next: datetime | None = None  # written before the next one
        self._engines = dict.fromkeys(_ENGINES, 0)
        self.known = self.unread = 0
        self.first_unread: tuple[int, str] | None = None

    @property
    def format(self) -> str:
        """Whose metrics these mostly are."""
        engine = max(self._engines, key=lambda name: self._engines[name])
        return f"{engine}_metrics" if self._engines[engine] else "metrics"

    def line(self, text: str, number: int, offset: int) -> None:
        """Takes one line."""
        if not text.strip():
            return
        if text.startswith("#"):
            self._comment(text)
            return
        match = _SAMPLE.match(text)
        if match is None:
            self._other(text, number)
            return
        self.known += 1
        name, labels = match["name"], self._labelled(match["labels"] or "")
        if name.endswith("_created"):
            return
        if (name, labels) in self._seen:
            self._end_scrape()
        self._seen.add((name, labels))
        if self._ts is None:
            self._ts, self._next = self._next, None
        if match["ts"] and (own := _moment(match["ts"])):
            self._ts = own
        self._written = self._ts is not None
        engine = name.partition(":")[0].partition("_")[0]
        if engine in self._engines:
            self._engines[engine] += 1
        try:
            value = float(match["value"])
        except ValueError:
            self._other(text, number)
            return
        row = {"name": name, "labels": labels, "kind": self._kind(name), "value": value}
        self._scrape.append((row, number, offset))

    def end(self, modified: float | None) -> None:
        """Hands on the last scrape; the file's own time is its time, when none is written."""
        if self._ts is None and modified is not None:
            self._ts = datetime.fromtimestamp(modified, timezone.utc).replace(tzinfo=None)
        self._end_scrape()
        self._rows.flush()

    def _end_scrape(self) -> None:
        for row, number, offset in self._scrape:
            self._rows.add("metrics", {**row, "scrape": self._number, "ts": self._ts}, number, offset)
        if self._scrape:
            self._number += 1
            _, line, offset = self._scrape[0]
            scrape = Scrape(self._file_id, line, offset, self._ts, self._written)
            for row, _, _ in self._scrape:
                if wanted(row["name"]):
                    scrape.take(row["name"], json.loads(row["labels"]), row["value"])
            self.scrapes.append(scrape)
        self._written = False
        self._scrape, self._ts = [], None
        self._seen.clear()

    def _comment(self, text: str) -> None:
        if kind := _TYPE.match(text):
            self._kinds[kind["name"]] = kind["kind"]
        elif text.startswith("# EOF"):
            self._end_scrape()
        elif not text.startswith("# HELP "):
            self._date(text)

    def _other(self, text: str, number: int) -> None:
        if self._date(text):
            return
        self.unread += 1
        self.first_unread = self.first_unread or (number, text[:300])

    def _date(self, text: str) -> bool:
        """A line that says when the next scrape was made: an ISO time, seconds since 1970, or an HTTP date."""
        found = _date_in(text[:200])
        if found is None:
            return False
        self._end_scrape()
        self._next = found
        return True

    def _kind(self, name: str) -> str:
        if name in self._kinds:
            return self._kinds[name]
        base = next(
            (name.removesuffix(s) for s in _SUFFIXES if name.endswith(s) and name.removesuffix(s) in self._kinds), None
        )
        return self._kinds[base] if base is not None else "untyped"

    def _labelled(self, text: str) -> str:
        known = self._labels.get(text)
        if known is None:
            pairs = {m[1]: re.sub(r"\\.", lambda e: _UNESCAPE.get(e[0], e[0]), m[2]) for m in _LABEL.finditer(text)}
            known = json.dumps(pairs, sort_keys=True, ensure_ascii=False)
            if len(self._labels) < _MOST_LABELS:
                self._labels[text] = known
        return known


def _moment(text: str) -> datetime | None:
    """A sample's time: milliseconds in Prometheus' own form, seconds in OpenMetrics."""
    try:
        value = float(text)
        return datetime.fromtimestamp(value / 1000 if abs(value) > 1e11 else value, timezone.utc).replace(tzinfo=None)
    except (ValueError, OverflowError, OSError):
        return None


def _date_in(text: str) -> datetime | None:
    iso = _ISO.search(text)
    try:
        if iso:
            found = datetime.fromisoformat(f"{iso[1]}T{iso[2]}{(iso[3] or '').replace('Z', '+00:00')}")
        elif epoch := _EPOCH.match(text):
            found = datetime.fromtimestamp(float(f"{epoch[1]}.{epoch[2] or 0}"), timezone.utc)
        elif text.casefold().startswith("date:"):
            found = parsedate_to_datetime(text[5:].strip())
        else:
            found = datetime.strptime(
                " ".join(w for w in text.split() if w not in ("UTC", "GMT")), "%a %b %d %H:%M:%S %Y"
            )
    except (ValueError, TypeError, OverflowError):
        return None
    return found.astimezone(timezone.utc).replace(tzinfo=None) if found.tzinfo else found
