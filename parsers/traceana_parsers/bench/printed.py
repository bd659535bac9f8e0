"""Printed results: the block of both serving benchmarks, bench_one_batch_server, bench_speculative.py.

A block's labels become the keys of the tool's JSON, so that one form reads both.
"""

from __future__ import annotations

import re
from typing import Any

from traceana_parsers.bench.form import JsonForm
from traceana_parsers.bench.numbers import quantity
from traceana_parsers.bench.rows import Point, Rows, Value
from traceana_parsers.bench.sglang import BENCH_SERVING, BENCH_SPECULATIVE, ONE_BATCH
from traceana_parsers.bench.titles import Titles
from traceana_parsers.bench.vllm import VLLM_BENCH
from traceana_parsers.bench.words import speculates

LABEL = re.compile(r"\s*(?P<label>[^:]{1,60}?)\s*:\s*(?P<value>\S.{0,80}?)\s*$")
_FRAME = re.compile(r"\s*={20,}\s*$")
_SECTION = re.compile(r"\s*-{3,}\s*[A-Za-z(][^-]*-.{0,40}-{3,}\s*$|\s*-{3,}[^-].{0,60}?-{3,}\s*$|\s*-{10,}\s*$")
_MISSES = 12  # lines of something else inside a block before it is taken to have ended

_SERVING = {
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "max reqeuest concurrency": "max_concurrency",  # as SGLang 0.4 printed it
    "request rate configured (rps)": "request_rate",
    "traffic request rate": "request_rate",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "total generated tokens (retokenized)": "total_output_tokens_retokenized",
    "request throughput (req/s)": "request_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "input token throughput (tok/s)": "input_throughput",
    "peak output token throughput (tok/s)": "max_output_tokens_per_s",
    "peak concurrent requests": "max_concurrent_requests",
    "total token throughput (tok/s)": "total_token_throughput",
    "concurrency": "concurrency",
    "accept length": "accept_length",
    "backend": "backend",
    "acceptance rate (%)": "spec_decode_acceptance_rate",
    "acceptance length": "spec_decode_acceptance_length",
    "drafts": "spec_decode_num_drafts",
    "draft tokens": "spec_decode_draft_tokens",
    "accepted tokens": "spec_decode_accepted_tokens",
}
_EARNED = ("accept_length_printed", "accept_rate_printed", "accepted")  # what a server that speculates says
_SGLANG_ONLY = ("total_output_tokens_retokenized", "backend", "concurrency", "accept_length")
_TIME = re.compile(r"(mean|median|std|max|p\d{1,2}(?:\.\d)?) (ttft|tpot|itl|e2el|e2e latency) \(ms\)")
_POSITION = re.compile(r"position (\d{1,3})")
_ARGUMENT = re.compile(r"\b([a-z_]+)=(?:'([^']*)'|([^,()\[\]{}]+))")
_WANTED = ("model", "dataset_name", "temperature", "ignore_eos", "seed", "num_prompts", "backend", "max_concurrency")
#: argument that gives the output length, by dataset
_LENGTHS = {"random": "random_output_len", "custom": "custom_output_len", "sharegpt": "sharegpt_output_len"}


class ServingBlock:
    """`============ Serving Benchmark Result ============` and what follows, with the client's arguments before it."""

    marks = ("Serving Benchmark Result",)

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._titles = Titles()
        self._points: list[Point] = []
        self._found: dict[str, Any] | None = None
        self._client: dict[str, Any] = {}
        self._at = (0, 0)
        self._misses = 0

    @property
    def open(self) -> bool:
        """True inside a block."""
        return self._found is not None

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line belongs to a block."""
        if "Serving Benchmark Result" in text:
            self._close()
            self._found, self._at, self._misses = {}, (number, offset), 0
            return True
        if self._found is None:
            self._before(text)
            return False
        if _FRAME.match(text):
            self._close()
            return True
        if not text.strip() or _SECTION.match(text):
            return True
        if self._label(text):
            return True
        self._misses += 1
        if self._misses > _MISSES:
            self._close()
        return False

    def end(self) -> None:
        """Adds the blocks. Both tools print acceptance only of a server that speculates: beside such a block, one
        without is of a server that does not, unless the words above it say otherwise."""
        self._close()
        known = {p.tool for p in self._points if p.values.keys() & _EARNED}
        for point in self._points:
            if point.tool in known and not point.values.keys() & _EARNED and "speculative" not in point.values:
                point.put("speculative", False)
                point.attrs["assumed"] = "without speculation: no acceptance, which another block of the text has"
            self._rows.point(point)
        self._points = []

    def _close(self) -> None:
        """Reads the block, if there is one."""
        found, self._found = self._found, None
        if not found:
            return
        form = BENCH_SERVING if any(key in found for key in _SGLANG_ONLY) else VLLM_BENCH
        client, self._client = self._client, {}
        point = form.point({**client, **found}, *self._at)
        if (length := client.get(_LENGTHS.get(str(client.get("dataset_name")), ""))) is not None:
            point.put("output_length", length)
        for name in _LENGTHS.values():
            point.attrs.pop(name, None)
        title, k = self._titles.take()
        if title is not None:
            point.put("series", title)
            point.put("speculative", speculates(title))
            point.put("k", k or None)
        self._points.append(point)

    def _before(self, text: str) -> None:
        self._titles.line(text)
        if "Namespace(" in text:
            self._client = arguments(text[:20_000])
        elif match := LABEL.match(text[:200]):
            key = _SERVING.get(match["label"].casefold())
            if key in ("max_concurrency", "request_rate"):
                self._client[key] = value_of(match["value"])

    def _label(self, text: str) -> bool:
        match = LABEL.match(text[:200])
        if match is None or self._found is None:
            return False
        label = match["label"].casefold().strip()
        key = _SERVING.get(label)
        if key is None and (time := _TIME.fullmatch(label)):
            key = f"{time[1]}_{time[2].replace(' ', '_')}_ms"
        if key is not None:
            self._found[key] = value_of(match["value"])
            return True
        if position := _POSITION.fullmatch(label):
            return self._position(int(position[1]), match["value"])
        return label.startswith("per-position") or (label.endswith(")") and value_of(match["value"]) is not None)

    def _position(self, index: int, value: str) -> bool:
        rates = (
            self._found.setdefault("spec_decode_per_position_acceptance_rates", []) if self._found is not None else []
        )
        percent = value_of(value)
        if not isinstance(percent, float) or index != len(rates):
            return False
        rates.append(percent / 100)
        return True


def arguments(text: str) -> dict[str, Any]:
    """The client's arguments that matter for what was measured, out of `Namespace(name=value, ...)`."""
    found: dict[str, Any] = {}
    for match in _ARGUMENT.finditer(text):
        if match[1] in (*_WANTED, *_LENGTHS.values()):
            found[match[1]] = match[2] if match[2] is not None else value_of(match[3].strip())
    return {name: value for name, value in found.items() if value is not None}


def value_of(text: str) -> Value:
    """A number as float, True and False, other words as they are; None for None and empty."""
    if text in ("None", "N/A", "-", ""):
        return None
    if text in ("True", "False"):
        return text == "True"
    found = quantity(text)
    if found is None and text.casefold() in ("nan", "inf"):
        return float(text) if text.casefold() == "inf" else None
    return text if found is None else found.value


class LabelledBlock:
    """Consecutive `label: value` lines that begin with a given label."""

    def __init__(self, rows: Rows, form: JsonForm, first: str, labels: dict[str, str]) -> None:
        self._rows = rows
        self._form = form
        self._first = first
        self._labels = labels
        self._found: dict[str, Any] = {}
        self._at = (0, 0)
        self._misses = 0

    @property
    def open(self) -> bool:
        """True inside a block."""
        return bool(self._found)

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line belongs to a block."""
        match = LABEL.match(text[:200])
        label = match["label"].casefold() if match else ""
        if label == self._first:
            self.end()
            self._at, self._misses = (number, offset), 0
        elif not self._found:
            return False
        key = self._labels.get(label)
        if key is None or match is None:
            self._misses += bool(text.strip())
            if self._misses > 2:
                self.end()
            return False
        found = quantity(match["value"])
        if found is not None:
            self._found[key] = found.value / 1000 if found.kind == "time" else found.value  # seconds, as in the JSON
        return True

    def end(self) -> None:
        """Reads the block, if it says more than its first line."""
        found, self._found = self._found, {}
        if len(found) > 2:
            self._rows.point(self._form.point(found, *self._at))


class OneBatch(LabelledBlock):
    """`batch size: 8` and what bench_one_batch_server prints after it."""

    marks = ("batch size:",)

    def __init__(self, rows: Rows) -> None:
        labels = {
            "batch size": "batch_size",
            "input_len": "input_len",
            "output_len": "output_len",
            "latency": "latency",
            "input throughput": "input_throughput",
            "output throughput": "output_throughput",
            "(input + output) throughput": "overall_throughput",
            "last_ttft": "last_ttft",
            "ttft": "last_ttft",
            "last generation throughput": "last_gen_throughput",
            "acc_length": "acc_length",
            "cache hit rate": "cache_hit_rate",
        }
        super().__init__(rows, ONE_BATCH, "batch size", labels)


class SpeculativeLines:
    """`Finish i=0: batch_size=1, steps=0, topk=0, num_draft_tokens=0, speed=84.22 token/s, step_time=11.87 ms`."""

    marks = ("Finish i=",)
    open = False
    _FORM = re.compile(
        r"Finish i=\d+: batch_size=(\d+), steps=(\d+), topk=(\d+), num_draft_tokens=(\d+), "
        r"speed=([0-9.]+) token/s, step_time=([0-9.]+) ms"
    )

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line is such a result."""
        match = self._FORM.search(text) if "Finish i=" in text else None
        if match is None:
            return False
        names = ("batch_size", "steps", "topk", "num_draft_tokens", "speed", "step_time")
        found = dict(zip(names, map(float, match.groups()), strict=True))
        found["step_time"] /= 1000
        self._rows.point(BENCH_SPECULATIVE.point(found, number, offset))
        return True

    def end(self) -> None:
        """Nothing is kept from line to line."""
