"""Scrapes of /metrics to measurements: what the counters did from one scrape to the next.

Counters are of the whole server: traffic of other clients is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from traceana_parsers.bench.rows import Point, Rows

if TYPE_CHECKING:
    from traceana_parsers.interface import Sink

#: quantity -> names of the counters that hold it, per version; the first that a scrape has counts
COUNTERS: dict[str, tuple[str, ...]] = {
    "output_tokens": ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
    "input_tokens": ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    "requests": ("vllm:request_success_total", "sglang:num_requests_total"),
    "preemptions": ("vllm:num_preemptions_total",),
    "steps": ("vllm:iteration_tokens_total_count",),
    "drafts": ("vllm:spec_decode_num_drafts_total",),
    "drafted": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted": ("vllm:spec_decode_num_accepted_tokens_total",),
    "cycles": ("sglang:spec_verify_calls_total",),
    "itl_count": (
        "vllm:inter_token_latency_seconds_count",
        "vllm:time_per_output_token_seconds_count",  # until 0.10
        "sglang:inter_token_latency_seconds_count",
    ),
    "itl_sum": (
        "vllm:inter_token_latency_seconds_sum",
        "vllm:time_per_output_token_seconds_sum",
        "sglang:inter_token_latency_seconds_sum",
    ),
    **{
        f"{what}_{part}": tuple(f"{engine}:{name}_seconds_{part}" for engine in ("vllm", "sglang"))
        for what, name in (
            ("ttft", "time_to_first_token"),
            ("tpot", "request_time_per_output_token"),
            ("e2e", "e2e_request_latency"),
        )
        for part in ("count", "sum")
    },
}
#: counters with a label whose values are kept apart: prefix of the quantity, name, label
BY_LABEL = (
    ("position ", "vllm:spec_decode_num_accepted_tokens_per_pos_total", "position"),
    ("forward_s ", "sglang:forward_execution_seconds_total", "category"),
)
WANTED = {name: quantity for quantity, names in COUNTERS.items() for name in names}
LABELLED = {name: (prefix, label) for prefix, name, label in BY_LABEL}
STARTED = "process_start_time_seconds"


@dataclass(slots=True)
class Scrape:
    """The counters of one scrape, added over engines and ranks, with where it stands and when it was made."""

    file_id: int
    line: int
    offset: int
    ts: datetime | None = None
    written: bool = False  # the time is in the file; else it is the file's own
    started: float | None = None
    model: str | None = None
    counters: dict[str, float] = field(default_factory=dict)

    def take(self, name: str, labels: dict[str, str], value: float) -> None:
        """Takes a sample, if it is of a counter that matters."""
        quantity = WANTED.get(name)
        if quantity is None and name in LABELLED:
            prefix, label = LABELLED[name]
            quantity = prefix + labels.get(label, "")
        if quantity is not None:
            self.counters[quantity] = self.counters.get(quantity, 0.0) + value
            self.model = self.model or labels.get("model_name")
        elif name == STARTED:
            self.started = value


def wanted(name: str) -> bool:
    """True for a metric that a difference is made of."""
    return name in WANTED or name in LABELLED or name == STARTED


def add_differences(scrapes: Iterable[Scrape], sink: Sink) -> None:
    """Adds a point per interval in which tokens were generated, to `bench_points`; a single scrape counts from the
    server's start."""
    ordered = _ordered([s for s in scrapes if s.counters.get("output_tokens")])
    pairs = [(None, ordered[0])] if len(ordered) == 1 else pairwise(ordered)
    rows: dict[int, Rows] = {}
    for before, after in pairs:
        if (point := _between(before, after)) is not None:
            rows.setdefault(after.file_id, Rows(sink, after.file_id)).point(point)
    for one in rows.values():
        one.flush()


def _ordered(scrapes: list[Scrape]) -> list[Scrape]:
    """By time where it is written, else by what was counted: times of files do not survive copying."""
    if all(s.written for s in scrapes):
        return sorted(scrapes, key=lambda s: s.ts or datetime.min)
    return sorted(scrapes, key=lambda s: (s.started or 0.0, s.counters["output_tokens"]))


def _between(before: Scrape | None, after: Scrape) -> Point | None:
    first = before.counters if before is not None else {}
    point = Point("metrics", after.line, after.offset)
    point.values = {"model": after.model, "label": "since the server's start" if before is None else None}
    if before is not None and (
        before.started != after.started or any(after.counters.get(name, 0.0) < value for name, value in first.items())
    ):
        point.doubts.append("a counter went back: the server was started again between the two scrapes")
        return point
    made = {name: value - first.get(name, 0.0) for name, value in after.counters.items()}
    if made.get("output_tokens", 0.0) <= 0:
        return None
    for column in ("output_tokens", "input_tokens", "requests", "drafts", "drafted", "accepted", "cycles"):
        if column in made:
            point.put(column, made[column])
    _times(point, made)
    _acceptance(point, made, after)
    _duration(point, before, after)
    point.attrs["engine_steps"] = made.get("steps")
    point.attrs["preemptions"] = made.get("preemptions")
    for name, value in made.items():
        if name.startswith("forward_s ") and value > 0:
            point.attrs[name] = round(value, 6)
    return point


def _times(point: Point, made: dict[str, float]) -> None:
    for what in ("ttft", "tpot", "itl", "e2e"):
        count, total = made.get(f"{what}_count"), made.get(f"{what}_sum")
        if count and total:
            point.put(f"{what}_mean_ms", 1000 * total / count)
    if made.get("itl_count"):
        point.put("chunks", made["itl_count"])
        point.put("itl_of", "chunk")  # a server observes it once per message it sends
        if made.get("steps"):
            # messages per engine step: a step sends one to every request it decodes
            point.put("concurrency_seen", (made["itl_count"] + made.get("ttft_count", 0.0)) / made["steps"])


def _acceptance(point: Point, made: dict[str, float], after: Scrape) -> None:
    drafts, drafted, accepted = (made.get(name) for name in ("drafts", "drafted", "accepted"))
    point.put("accept_scope", "run" if drafts or made.get("cycles") else None)
    if "drafts" in after.counters:
        point.put("speculative", True)
    elif "steps" in after.counters:  # vLLM has the counters of speculation only where it speculates
        point.put("speculative", False)
    if drafts and accepted is not None:
        point.put("accept_length_printed", 1 + accepted / drafts)
        positions: Sequence[str] = sorted(
            (name for name in made if name.startswith("position ") and name[9:].isdigit()),
            key=lambda name: int(name[9:]),
        )
        point.put("per_position", [made[name] / drafts for name in positions] or None)
        if drafted and drafted % drafts == 0:
            point.put("k", drafted / drafts)
    if drafted and accepted is not None:
        point.put("accept_rate_printed", accepted / drafted)
    if made.get("cycles"):
        point.put("speculative", True)


def _duration(point: Point, before: Scrape | None, after: Scrape) -> None:
    """Seconds between the scrapes, idle ones included: throughput only where the times are written."""
    if before is None or before.ts is None or after.ts is None or not (before.written and after.written):
        return
    seconds = (after.ts - before.ts).total_seconds()
    if seconds > 0:
        point.put("duration_s", seconds)
        point.put("output_tps", point.values["output_tokens"] / seconds)
        if total := after.counters.get("e2e_sum", 0.0) - before.counters.get("e2e_sum", 0.0):
            point.put("concurrency_seen", total / seconds)  # Little's law over finished requests
