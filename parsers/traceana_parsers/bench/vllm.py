"""`vllm bench serve` and its forerunner benchmark_serving.py: the JSON of --save-result and --save-detailed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from traceana_parsers.bench.form import Field, JsonForm, Object, statistics
from traceana_parsers.bench.rows import Point, Value, number

#: statistics by the name before `_ttft_ms`
SERVING = {"mean": "mean", "median": "median", "std": "std", "p90": "p90", "p95": "p95", "p99": "p99"}
LISTS = frozenset(
    {
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "queue_times",
        "generated_texts",
        "errors",
    }
)
#: what both engines' serving benchmarks write under the same names
SHARED = (
    Field("label", "series"),
    Field("backend|endpoint_type", "backend"),
    Field("model_id|model", "model"),
    Field("dataset_name", "dataset"),
    Field("temperature", "temperature"),
    Field("max_concurrency", "concurrency"),
    Field("duration", "duration_s"),
    Field("completed", "requests"),
    Field("failed", "failed"),
    Field("total_input_tokens", "input_tokens"),
    Field("total_output_tokens", "output_tokens"),
    Field("output_throughput", "output_tps"),
    *statistics("{}_ttft_ms", "ttft", SERVING),
    *statistics("{}_tpot_ms", "tpot", SERVING),
    *statistics("{}_itl_ms", "itl", SERVING),
)


def rate(value: Value) -> float | None:
    """A request rate; `"inf"`, Infinity and trace replays aside it is a number."""
    if isinstance(value, str):
        return float("inf") if value.casefold() in ("inf", "infinity") else None
    return number(value)


def digest(texts: Sequence[Any]) -> str | None:
    """Eight bytes that are equal where the texts are, as hex; None when there are no texts."""
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    made = hashlib.blake2b(digest_size=8)
    for text in texts:
        piece = text.encode("utf-8", "surrogatepass")
        made.update(len(piece).to_bytes(8, "little"))
        made.update(piece)
    return made.hexdigest()


def _more(obj: Object, point: Point) -> None:
    point.put("request_rate", rate(obj.get("request_rate")))
    point.put("itl_of", "chunk" if obj.get("mean_itl_ms") is not None else None)
    date = obj.get("date")
    if isinstance(date, str):
        try:
            point.put("ts", datetime.strptime(date, "%Y%m%d-%H%M%S"))
        except ValueError:
            point.attrs["date"] = date
    _speculation(obj, point)
    requests(obj, point, chunks=True)


def _speculation(obj: Object, point: Point) -> None:
    """The spec_decode_* fields (0.14+): /metrics deltas around the run, so other clients' traffic is in them."""
    percent = number(obj.get("spec_decode_acceptance_rate"))
    if percent is None and obj.get("spec_decode_acceptance_length") is None:
        return
    point.put("speculative", True)
    point.put("accept_scope", "run")
    point.put("accept_rate_printed", None if percent is None else percent / 100)
    drafts, drafted = number(obj.get("spec_decode_num_drafts")), number(obj.get("spec_decode_draft_tokens"))
    if drafts and drafted and drafted % drafts == 0:
        point.put("k", drafted / drafts)


def requests(obj: Object, point: Point, *, chunks: bool) -> None:
    """Per-request rows from the lists of --save-detailed or --output-details; times there are seconds.

    `chunks`: every gap of `itls` is one streamed chunk.
    """
    lists = {name: obj[name] for name in LISTS if isinstance(obj.get(name), list)}
    lengths = {len(values) for values in lists.values()}
    if not lists:
        return
    if len(lengths) > 1:
        point.doubts.append(f"lists of {min(lengths)} to {max(lengths)} requests: per-request values were not read")
        return
    point.values["texts"] = digest(lists.get("generated_texts", []))
    gaps = lists.get("itls", [])
    total = 0
    for index in range(lengths.pop()):
        at = {name: values[index] for name, values in lists.items()}
        row = _request(at)
        own = at.get("itls")
        if isinstance(own, list) and chunks:
            row["chunks"] = len(own)
            total += len(own)
        point.requests.append(row)
    if gaps and chunks:
        point.put("chunks", total)


def _request(at: dict[str, Any]) -> dict[str, Any]:
    first, whole, gaps = number(at.get("ttfts")), number(at.get("latencies")), at.get("itls")
    row: dict[str, Any] = {
        "start_s": at.get("start_times"),
        "input_tokens": at.get("input_lens"),
        "output_tokens": at.get("output_lens"),
        "ttft_ms": None if first is None else 1000 * first,
        "e2e_ms": None if whole is None else 1000 * whole,
        "error": at.get("errors") or None,
        "text": digest([at["generated_texts"]]) if isinstance(at.get("generated_texts"), str) else None,
    }
    if isinstance(gaps, list):
        try:
            row["decode_ms"] = 1000 * float(sum(gaps))
        except (TypeError, OverflowError):
            row["decode_ms"] = None
    return row


VLLM_BENCH = JsonForm(
    tool="vllm_bench",
    needs=("duration", "completed", "total_output_tokens", "output_throughput"),
    fields=(
        *SHARED,
        *statistics("{}_e2el_ms", "e2e", SERVING),
        Field("spec_decode_acceptance_length", "accept_length_printed"),
        Field("spec_decode_num_drafts", "drafts"),
        Field("spec_decode_draft_tokens", "drafted"),
        Field("spec_decode_accepted_tokens", "accepted"),
        Field("spec_decode_per_position_acceptance_rates", "per_position"),
    ),
    silent=LISTS | {"date", "request_rate", "spec_decode_acceptance_rate", "tokenizer_id"},
    more=_more,
    source="vllm/benchmarks/serve.py (0.32); benchmarks/benchmark_serving.py before 0.10",
    example='{"date": "20260203-091520", "backend": "vllm", "label": null, "model_id": "m", "num_prompts": 4, '
    '"request_rate": "inf", "max_concurrency": 2, "duration": 10.0, "completed": 4, "failed": 0, '
    '"total_input_tokens": 400, "total_output_tokens": 800, "output_throughput": 80.0, "mean_ttft_ms": 20.5, '
    '"mean_tpot_ms": 12.0, "mean_itl_ms": 24.0, "spec_decode_acceptance_rate": 40.0, '
    '"spec_decode_acceptance_length": 2.2, "spec_decode_num_drafts": 360, "spec_decode_draft_tokens": 1080, '
    '"spec_decode_accepted_tokens": 432}',
    gives={
        "concurrency": 2,
        "output_tps": 80.0,
        "tpot_mean_ms": 12.0,
        "itl_of": "chunk",
        "accept_rate_printed": 0.4,
        "k": 3,
        "request_rate": float("inf"),
    },
)
FORMS = (VLLM_BENCH,)
