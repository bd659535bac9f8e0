"""Answers of a server, one JSON object each: what vLLM and SGLang say of the speculation of a single request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceana_parsers.bench.form import Object, get
from traceana_parsers.bench.rows import Rows, Value, number
from traceana_parsers.bench.vllm import digest


def _count(info: Object, *names: str) -> Value:
    """The first of several names that versions gave a value."""
    return next((info[name] for name in names if info.get(name) is not None), None)


@dataclass(frozen=True, slots=True)
class SglangResponse:
    """/generate: `meta_info` with spec_* fields, whose names changed in 0.5.11 and 0.5.12."""

    tool: str = "sglang_response"
    needs: Sequence[str] = ("meta_info.completion_tokens",)
    hints: Sequence[str] = ("meta_info", "completion_tokens")
    source: str = "sglang/srt/managers/tokenizer_manager.py (0.4.6 ... 0.5.23)"

    def read(self, obj: Object, rows: Rows, line: int, offset: int) -> int:
        """Adds the request."""
        info = obj["meta_info"]
        seconds = number(info.get("e2e_latency"))
        row: dict[str, Any] = {
            "request": rows.counts.get("bench_requests", 0),
            "input_tokens": info.get("prompt_tokens"),
            "output_tokens": info.get("completion_tokens"),
            "e2e_ms": None if seconds is None else 1000 * seconds,
            "cycles": info.get("spec_verify_ct"),
            "accepted": _count(info, "spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num"),
            "drafted": _count(info, "spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num"),
            "histogram": _count(info, "spec_correct_drafts_histogram", "spec_accept_histogram"),
            "text": digest([obj["text"]]) if isinstance(obj.get("text"), str) else None,
        }
        rows.add("bench_requests", row, line, offset)
        return 1


@dataclass(frozen=True, slots=True)
class VllmResponse:
    """OpenAI completions; with --per-request-spec-decode-metrics (0.30+) `metrics.speculative_decoding`."""

    tool: str = "vllm_response"
    needs: Sequence[str] = ("object", "usage.completion_tokens", "choices")
    hints: Sequence[str] = ("object", "choices", "created")
    source: str = "vllm/entrypoints/openai (0.30+ for the speculative fields)"

    def read(self, obj: Object, rows: Rows, line: int, offset: int) -> int:
        """Adds the request."""
        usage, metrics, spec = obj["usage"], get(obj, "metrics"), get(obj, "metrics.speculative_decoding")
        row: dict[str, Any] = {
            "request": rows.counts.get("bench_requests", 0),
            "input_tokens": usage.get("prompt_tokens"),
            "output_tokens": usage.get("completion_tokens"),
            "text": digest(_texts(obj)),
        }
        if isinstance(metrics, Mapping):
            row |= {"ttft_ms": metrics.get("time_to_first_token_ms"), "decode_ms": metrics.get("generation_time_ms")}
        if isinstance(spec, Mapping):
            row |= {
                "cycles": spec.get("num_spec_steps"),
                "accepted": spec.get("num_accepted_draft_tokens"),
                "drafted": spec.get("num_draft_tokens"),
                "histogram": spec.get("acceptance_histogram"),
            }
        rows.add("bench_requests", row, line, offset)
        return 1


def _texts(obj: Object) -> list[Any]:
    choices = obj.get("choices")
    if not isinstance(choices, list):
        return []
    return [get(c, "text") if get(c, "text") is not None else get(c, "message.content") for c in choices]


FORMS = (SglangResponse(), VllmResponse())
