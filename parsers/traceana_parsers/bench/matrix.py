"""llm-decode-bench (a matrix of context lengths by concurrency) and trtllm-bench, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from traceana_parsers.bench.form import Field, JsonForm, Object, get, statistics
from traceana_parsers.bench.rows import Point, number

_DECODE = {"avg": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
_TRTLLM = {"average": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99"}


def _cells(obj: Object) -> Iterable[Object | None]:
    """Each measured cell with the report's metadata; cells that did not fit are left out."""
    results = obj.get("results")
    for cell in results if isinstance(results, list) else ():
        fits = isinstance(cell, Mapping) and not cell.get("capacity_limited")
        yield {"report": obj.get("metadata"), **cell} if fits else None


def _cell(obj: Object, point: Point) -> None:
    rate = number(obj.get("server_spec_accept_rate"))
    if rate:  # 0.0 is "no speculation" and "not known" alike
        point.put("accept_rate_printed", rate)
        point.put("accept_scope", "snapshot")
        point.put("speculative", True)
    point.put("itl_of", "chunk" if obj.get("chunk_inter_token_latency_avg") else None)
    failed = number(obj.get("num_errors"))
    point.put("failed", failed)
    if number(obj.get("underfilled")) or obj.get("underfilled") is True:
        point.doubts.append("the requested concurrency was not reached")
    samples = obj.get("request_samples")
    for sample in samples if isinstance(samples, list) else ():
        if isinstance(sample, Mapping):
            point.requests.append(_sample(sample))


def _sample(sample: Object) -> dict[str, Any]:
    tokens, gap = number(sample.get("output_tokens")), number(sample.get("inter_token_latency_avg"))
    first, whole = number(sample.get("ttft")), number(sample.get("latency"))
    chunk = number(sample.get("chunk_inter_token_latency_avg"))
    row: dict[str, Any] = {
        "input_tokens": sample.get("input_tokens"),
        "output_tokens": tokens,
        "ttft_ms": None if first is None else 1000 * first,
        "e2e_ms": 1000 * whole if whole else None,
    }
    if tokens and gap:
        row["decode_ms"] = 1000 * gap * (tokens - 1)
        chunks = gap * (tokens - 1) / chunk if chunk else 0.5
        if abs(chunks - round(chunks)) < 1e-3:  # both are means of the same time
            row["chunks"] = round(chunks)
    return row


DECODE_BENCH = JsonForm(
    tool="llm_decode_bench",
    needs=("metadata.concurrency_levels", "results"),
    hints=("decode_mode", "concurrency_levels"),
    fields=(
        Field("report.model", "model"),
        Field("report.engine", "backend"),
        Field("concurrency", "concurrency"),
        Field("avg_running_reqs", "concurrency_seen"),
        Field("context_tokens", "context_tokens"),
        Field("report.max_tokens", "output_length"),
        Field("completed_request_count", "requests"),
        Field("measurement_seconds", "duration_s"),
        Field("client_output_tokens", "output_tokens"),
        Field("aggregate_tps", "output_tps"),
        Field("per_request_avg_tps", "user_tps"),
        *statistics("ttft_{}", "ttft", _DECODE, 1000),
        *statistics("inter_token_latency_{}", "tpot", _DECODE, 1000),
        *statistics("chunk_inter_token_latency_{}", "itl", _DECODE, 1000),
        *statistics("request_latency_{}", "e2e", _DECODE, 1000),
    ),
    silent=frozenset({"server_spec_accept_rate", "server_spec_accept_length", "num_errors", "ready_reason"}),
    listed="results",
    parts=_cells,
    more=_cell,
    source="llm-decode-bench 0.4.17, the JSON it saves",
    example='{"metadata": {"model": "m", "engine": "vllm", "decode_mode": "duration", "max_tokens": 2048, '
    '"concurrency_levels": [1]}, "results": [{"concurrency": 1, "context_tokens": 0, "measurement_seconds": 30.0, '
    '"client_output_tokens": 2867, "aggregate_tps": 95.6, "per_request_avg_tps": 95.6, "ttft_avg": 0.89, '
    '"inter_token_latency_avg": 0.0105, "chunk_inter_token_latency_avg": 0.0271, "server_spec_accept_rate": 0.577, '
    '"server_spec_accept_length": 0.0, "completed_request_count": 1, "num_errors": 0, "capacity_limited": false}]}',
    gives={
        "concurrency": 1,
        "context_tokens": 0,
        "output_tps": 95.6,
        "tpot_mean_ms": 10.5,
        "itl_mean_ms": 27.1,
        "accept_rate_printed": 0.577,
        "accept_scope": "snapshot",
    },
)


def _trtllm(obj: Object, point: Point) -> None:
    requests, length = (number(get(obj, f"request_info.{name}")) for name in ("num_requests", "avg_output_length"))
    if requests and length:
        point.put("output_tokens", requests * length)
    if obj.get("decoding_stats") is not None:
        point.put("speculative", True)
        point.put("accept_scope", "run")
        mode = get(obj, "decoding_stats.mode")
        point.attrs["decoding_mode"] = mode if isinstance(mode, str) else None
    for name in ("tp_size", "pp_size", "ep_size", "max_batch_size"):
        point.attrs[name] = number(get(obj, f"world_info.{name}"))


TRTLLM = JsonForm(
    tool="trtllm_bench",
    needs=("world_info", "request_info", "performance"),
    hints=("engine", "world_info"),
    fields=(
        Field("engine.model", "model"),
        Field("engine.backend", "backend"),
        Field("request_info.avg_num_concurrent_requests", "concurrency_seen"),
        Field("request_info.num_requests", "requests"),
        Field("request_info.avg_input_length", "context_tokens"),
        Field("request_info.avg_output_length", "output_length"),
        Field("performance.total_latency_ms", "duration_s", 0.001),
        Field("performance.system_output_throughput_tok_s", "output_tps"),
        Field("performance.output_throughput_per_user_tok_s", "user_tps"),
        Field("streaming_metrics.avg_ttft_ms", "ttft_mean_ms"),
        Field("streaming_metrics.avg_tpot_ms", "tpot_mean_ms"),
        *statistics("streaming_metrics.ttft_percentiles.{}", "ttft", _TRTLLM),
        *statistics("streaming_metrics.tpot_percentiles.{}", "tpot", _TRTLLM),
        *statistics("performance.request_latency_percentiles_ms.{}", "e2e", _TRTLLM),
        Field("decoding_stats.acceptance_length_percentiles.average", "accept_length_printed"),
        Field("decoding_stats.draft_acceptance_rate_percentiles.average", "accept_rate_printed"),
    ),
    more=_trtllm,
    source="TensorRT-LLM bench/dataclasses/reporting.py get_statistics_dict",
    example='{"engine": {"model": "m", "backend": "Pytorch"}, "world_info": {"tp_size": 4, "max_batch_size": 8}, '
    '"request_info": {"num_requests": 64, "avg_num_concurrent_requests": 7.5, "avg_input_length": 3600.0, '
    '"avg_output_length": 256.0}, "performance": {"total_latency_ms": 20000.0, '
    '"system_output_throughput_tok_s": 819.2, "request_latency_percentiles_ms": {"p50": 2300.0, "average": 2400.0}}, '
    '"streaming_metrics": {"avg_ttft_ms": 110.0, "avg_tpot_ms": 8.9}, '
    '"decoding_stats": {"mode": "Eagle3", "acceptance_length_percentiles": {"average": 1.86}}}',
    gives={
        "output_tps": 819.2,
        "duration_s": 20.0,
        "tpot_mean_ms": 8.9,
        "e2e_median_ms": 2300.0,
        "accept_length_printed": 1.86,
        "speculative": True,
        "output_tokens": 16384,
    },
)
FORMS = (DECODE_BENCH, TRTLLM)
