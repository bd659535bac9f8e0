"""Plain lists of runs, one a line: `Run 1/5: 2048 tokens in 33.59s = 61.0 tok/s`; warm-up runs are marked."""

from __future__ import annotations

import re

from traceana_parsers.bench.rows import Point, Rows
from traceana_parsers.bench.words import speculates

_RUN = re.compile(
    r"^(?P<label>.{0,120}?)[\s:\-\]|]*\b(?P<tokens>\d{1,9}) (?:(?:output|completion|generated|new) )?tok(?:en)?s?"
    r" (?:in|over|@) (?P<time>\d+(?:\.\d+)?) ?(?P<unit>ms|s|sec|secs|seconds)\b"
    r"[\s=:,;(\u2192>|-]+(?P<tps>\d+(?:\.\d+)?) ?(?:tok(?:en)?s?/s(?:ec)?|tps|t/s)\b(?P<rest>.{0,200})$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(\d{1,5})\s*(?:/|of)\s*\d{1,5}|#?(\d{1,5})\s*$")
_PROMPT = re.compile(r"prompt\D{0,20}(\d{1,7})|(\d{1,7})\s*(?:prompt|input) tok", re.IGNORECASE)
_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s+(?P<a>.+?)|[=*\-]{2,}\s*(?P<b>[^=*\-].*?)\s*[=*\-]{2,}|(?P<c>[^:|=]{2,80}):)\s*$"
)
_TOKENS = re.compile(r"tok(?:en)?s? (?:in|over|@) ", re.IGNORECASE)
_BEGINS = ("#", "=", "*", "-")  # of a heading
_MS = {"ms": 0.001}


class RunList:
    """Reads run lines; a heading before them, or a count that starts again, begins another list."""

    marks = ("tokens in", "token in", "tok in", "toks in", "tokens over", "tokens @")
    open = False

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._title: str | None = None
        self._last = 0
        self._lists = 1

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line is a run."""
        match = _RUN.match(text) if len(text) < 600 and _TOKENS.search(text) else None
        if match is None:
            if len(text) < 200 and (text.lstrip()[:1] in _BEGINS or text.rstrip()[-1:] == ":"):
                self._heading(text)
            return False
        label = match["label"].strip(" \t:-|[]*")
        warmup = "warm" in label.casefold()
        if not warmup:
            self._count(label)
        tokens, seconds = int(match["tokens"]), float(match["time"]) * _MS.get(match["unit"].casefold(), 1.0)
        point = Point("run_list", number, offset)
        series = self._title if self._lists == 1 else f"{self._title or 'list'} {self._lists}"
        point.values = {
            "series": series,
            "label": label or None,
            "warmup": warmup,
            "speculative": speculates(self._title or "", label),
            "output_tokens": tokens,
            "duration_s": seconds,
            "output_tps": float(match["tps"]),
            "requests": 1,
        }
        prompt = _PROMPT.search(match["rest"])
        if prompt:
            point.values["input_tokens"] = point.values["context_tokens"] = int(prompt[1] or prompt[2])
        self._rows.point(point)
        return True

    def end(self) -> None:
        """Nothing is kept from line to line."""

    def _count(self, label: str) -> None:
        found = _NUMBER.search(label)
        index = int(found[1] or found[2]) if found else self._last + 1
        self._lists += index <= self._last  # a list without a heading of its own
        self._last = index

    def _heading(self, text: str) -> None:
        match = _HEADING.match(text)
        if match:
            words = (match["a"] or match["b"] or match["c"]).strip()
            if re.search(r"[A-Za-z]", words) and "tok/s" not in words:
                self._title, self._last, self._lists = words, 0, 1
