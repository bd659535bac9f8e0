"""What trtllm-bench prints: the performance overview, the breakdowns and the acceptance details."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from traceana_parsers.bench.matrix import TRTLLM
from traceana_parsers.bench.printed import LABEL, value_of
from traceana_parsers.bench.rows import Point, Rows


class TrtllmBlock:
    """trtllm-bench: PERFORMANCE OVERVIEW, the breakdowns, and acceptance details, also alone below a batch size."""

    marks = ("= PERFORMANCE OVERVIEW", "Acceptance Length Details", "[AL]")
    _LABELS: ClassVar = {
        "number of requests": "requests",
        "number of concurrent requests": "concurrency_seen",
        "average input length (tokens)": "context_tokens",
        "average output length (tokens)": "output_length",
        "total output throughput (tokens/sec)": "output_tps",
        "total latency (ms)": "total_latency_ms",
        "average request latency (ms)": "e2e_mean_ms",
        "average time-to-first-token [ttft] (ms)": "ttft_mean_ms",
        "average time-per-output-token [tpot] (ms)": "tpot_mean_ms",
        "max runtime batch size": "concurrency",
        "batch size": "concurrency",
        "model": "model",
    }
    _USER = re.compile(r"per user output throughput.*")
    _TABLE = re.compile(r"\s*\[(TPOT|TTFT|Latency|AL|AR|DT|ADT)\] (AVERAGE|MINIMUM|MAXIMUM|P\d\d)\s*:\s*([0-9.]+)\s*$")
    _COLUMNS: ClassVar = {"AVERAGE": "mean", "P50": "median", "P90": "p90", "P95": "p95", "P99": "p99"}

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._values: dict[str, Any] = {}
        self._attrs: dict[str, Any] = {}
        self._at = (0, 0)

    @property
    def open(self) -> bool:
        """True after the first line of a result."""
        return bool(self._values)

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line belongs to a result."""
        if table := self._TABLE.match(text):
            self._put(table[1], table[2], float(table[3]), number, offset)
            return True
        match = LABEL.match(text[:200])
        if match is None:
            return False
        label = match["label"].casefold()
        key = "user_tps" if self._USER.fullmatch(label) else self._LABELS.get(label)
        if key is None or (key == "model" and not self.open):
            return False
        if key == "concurrency" and "accept_length_printed" in self._values:
            self.end()  # the next batch size
        if not self._values:
            self._at = (number, offset)
        value = value_of(match["value"])
        if key == "total_latency_ms" and isinstance(value, float):
            key, value = "duration_s", value / 1000
        self._values.setdefault(key, value)
        return True

    def _put(self, what: str, which: str, value: float, number: int, offset: int) -> None:
        if not self._values:
            self._at = (number, offset)
        column = {"TPOT": "tpot", "TTFT": "ttft", "Latency": "e2e"}.get(what)
        if column and which in self._COLUMNS:
            self._values.setdefault(f"{column}_{self._COLUMNS[which]}_ms", value)
        elif what == "AL" and which == "AVERAGE":
            self._values["accept_length_printed"] = value
        elif what == "AR" and which == "AVERAGE":
            self._values["accept_rate_printed"] = value
        elif column is None:
            self._attrs[f"{what.casefold()}_{which.casefold()}"] = value

    def end(self) -> None:
        """Adds the result, if it measured something."""
        values, self._values = self._values, {}
        attrs, self._attrs = self._attrs, {}
        if not ({"output_tps", "accept_length_printed", "tpot_mean_ms"} & values.keys()):
            return
        point = Point(TRTLLM.tool, *self._at, values=values, attrs=attrs)
        if "accept_length_printed" in values:
            point.values |= {"speculative": True, "accept_scope": "run"}
        self._rows.point(point)
