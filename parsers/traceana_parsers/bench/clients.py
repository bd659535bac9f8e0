"""Load generators: AIPerf, GenAI-Perf and GuideLLM. What they call inter-token latency is time per output token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from traceana_parsers.bench.form import Field, JsonForm, Object, get, statistics
from traceana_parsers.bench.rows import Point, Rows, Value, number

_PERF = {"avg": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99", "std": "std"}
_GUIDE = {
    "mean": "mean",
    "median": "median",
    "percentiles.p90": "p90",
    "percentiles.p95": "p95",
    "percentiles.p99": "p99",
    "std_dev": "std",
}
#: factor to milliseconds by unit as written
_TO_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "seconds": 1e3, "us": 1e-3, "ns": 1e-6}


def _export(obj: Object) -> Iterable[Object | None]:
    """Metrics stand at the top; in the first versions of AIPerf below `records`."""
    records = obj.get("records")
    return ({**obj, **records},) if isinstance(records, Mapping) else (obj,)


def _perf(obj: Object, point: Point) -> None:
    for name, column in (("time_to_first_token", "ttft"), ("inter_token_latency", "tpot"), ("request_latency", "e2e")):
        unit = get(obj, f"{name}.unit")
        factor = _TO_MS.get(unit) if isinstance(unit, str) else 1.0
        if factor is None:
            point.doubts.append(f"{name} in {unit!r}, which is no unit of time")
        if factor != 1.0:
            for key in [k for k in point.values if k.startswith(f"{column}_")]:
                value = number(point.values[key])
                if factor is None or value is None:
                    del point.values[key]
                else:
                    point.values[key] = value * factor
    names = get(obj, "input_config.endpoint.model_names") or get(obj, "input_config.model_names")
    names = names or get(obj, "input_config.model")
    point.put("model", names if isinstance(names, str) else ",".join(map(str, names)) if names else None)
    if point.values.get("itl_mean_ms") is not None:
        point.put("itl_of", "chunk")
    if get(obj, "spec_decode_acceptance_length.avg") is not None:
        point.put("speculative", True)
        point.put("accept_scope", "run")
    start = obj.get("start_time")
    if isinstance(start, str):
        try:
            point.put("ts", datetime.fromisoformat(start).replace(tzinfo=None))
        except ValueError:
            point.attrs["start_time"] = start


_PERF_FIELDS = (
    Field("input_config.loadgen.concurrency|input_config.concurrency", "concurrency"),
    Field("input_config.perf_analyzer.stimulus.concurrency|input_config.stimulus.concurrency", "concurrency"),
    Field("input_config.loadgen.request_rate|input_config.request_rate", "request_rate"),
    Field("input_config.perf_analyzer.stimulus.request_rate", "request_rate"),
    Field("effective_concurrency.avg", "concurrency_seen"),
    Field("request_count.avg", "requests"),
    Field("error_request_count.avg", "failed"),
    Field("benchmark_duration.avg", "duration_s"),
    Field("total_isl.avg", "input_tokens"),
    Field("total_osl.avg|total_output_tokens.avg", "output_tokens"),
    Field("output_token_throughput.avg", "output_tps"),
    Field("output_token_throughput_per_user.avg|output_token_throughput_per_request.avg", "user_tps"),
    Field("spec_decode_acceptance_length.avg|acceptance_length.avg", "accept_length_printed"),
    Field("spec_decode_overall_draft_acceptance_rate.avg", "accept_rate_printed", 0.01),
    *statistics("time_to_first_token.{}", "ttft", _PERF),
    *statistics("inter_token_latency.{}", "tpot", _PERF),
    *statistics("inter_chunk_latency.{}", "itl", _PERF),
    *statistics("request_latency.{}", "e2e", _PERF),
)
AIPERF = JsonForm(
    tool="aiperf",
    needs=("output_token_throughput", "request_latency"),
    hints=("request_throughput", "request_latency"),
    fields=_PERF_FIELDS,
    parts=_export,
    more=_perf,
    source="ai-dynamo/aiperf exporters/metrics_json_exporter.py; genai_perf/export_data/json_exporter.py",
    example='{"schema_version": "1.1", "request_throughput": {"unit": "requests/sec", "avg": 2.0}, '
    '"request_latency": {"unit": "ms", "avg": 2000.0, "p50": 1990.0, "p99": 2500.0}, '
    '"request_count": {"unit": "requests", "avg": 40.0}, '
    '"time_to_first_token": {"unit": "ms", "avg": 50.0, "p50": 48.0, "p90": 60.0, "std": 4.0}, '
    '"inter_token_latency": {"unit": "ms", "avg": 15.0}, "inter_chunk_latency": {"unit": "ms", "avg": 33.0}, '
    '"output_token_throughput": {"unit": "tokens/sec", "avg": 256.0}, '
    '"input_config": {"endpoint": {"model_names": ["m"]}, "loadgen": {"concurrency": 4}}}',
    gives={
        "concurrency": 4,
        "output_tps": 256.0,
        "tpot_mean_ms": 15.0,
        "itl_mean_ms": 33.0,
        "itl_of": "chunk",
        "ttft_std_ms": 4.0,
        "model": "m",
        "requests": 40,
    },
)


class Records:
    """One line per request of AIPerf's profile_export.jsonl: rows of `bench_requests` without a point."""

    tool = "aiperf"
    needs = ("metadata", "metrics.request_latency")
    hints = ("metadata", "metrics", "request_latency")

    def read(self, obj: Object, rows: Rows, line: int, offset: int) -> int:
        """Adds the request, unless it is a warm-up."""
        if get(obj, "metadata.benchmark_phase") == "warmup":
            return 0
        gaps = get(obj, "metrics.inter_chunk_latency.value")
        gap_ms = _TO_MS.get(str(get(obj, "metrics.inter_chunk_latency.unit")), 1.0)
        row: dict[str, Any] = {
            "request": rows.counts.get("bench_requests", 0),
            "start_s": _seconds(get(obj, "metadata.request_start_ns")),
            "input_tokens": get(obj, "metrics.input_sequence_length.value"),
            "output_tokens": get(obj, "metrics.output_sequence_length.value"),
            "ttft_ms": _ms(obj, "time_to_first_token") or _ms(obj, "ttft"),
            "e2e_ms": _ms(obj, "request_latency"),
            "error": str(get(obj, "error.message") or obj.get("error") or "") or None,
        }
        if isinstance(gaps, list) and all(number(g) is not None for g in gaps):
            row |= {"chunks": len(gaps), "decode_ms": gap_ms * sum(gaps)}
        rows.add("bench_requests", row, line, offset)
        return 1


def _ms(obj: Object, name: str) -> float | None:
    value, unit = number(get(obj, f"metrics.{name}.value")), get(obj, f"metrics.{name}.unit")
    factor = _TO_MS.get(unit) if isinstance(unit, str) else None
    return value * factor if value is not None and factor else None


def _seconds(nanoseconds: Value) -> float | None:
    value = number(nanoseconds)
    return None if value is None else value / 1e9


def _benchmarks(obj: Object) -> Iterable[Object | None]:
    """Each benchmark with what the report says once."""
    benchmarks = obj.get("benchmarks")
    shared = {"args": obj.get("args"), "metadata": obj.get("metadata")}
    for benchmark in benchmarks if isinstance(benchmarks, list) else ():
        yield {"report": shared, **benchmark} if isinstance(benchmark, Mapping) else None


def _guide(obj: Object, point: Point) -> None:
    for path in ("report.args.model", "config.backend.model", "report.args.backend_kwargs.model"):
        model = get(obj, path)
        point.put("model", model if isinstance(model, str) else None)
    strategy = get(obj, "config.strategy") or get(obj, "args.strategy")
    if isinstance(strategy, Mapping):
        point.attrs["strategy"] = strategy.get("type_")
        if strategy.get("type_") == "synchronous":
            point.put("concurrency", 1)
    start = number(obj.get("start_time"))
    if start and 0 < start < 4e9:
        point.put("ts", datetime.fromtimestamp(start, timezone.utc).replace(tzinfo=None))
    end = number(obj.get("end_time"))
    if start is not None and end is not None and end > start:
        point.put("duration_s", end - start)
    iterations = number(get(obj, "metrics.request_streaming_iterations_count.successful.total_sum"))
    requests = number(get(obj, "metrics.request_streaming_iterations_count.successful.count"))
    if iterations and requests:
        point.put("chunks", iterations - requests)
    version = get(obj, "report.metadata.guidellm_version")
    point.attrs["guidellm_version"] = version if isinstance(version, str) else None


GUIDELLM = JsonForm(
    tool="guidellm",
    needs=("benchmarks",),
    hints=("benchmarks", "metadata"),
    fields=(
        Field("config.strategy.streams|args.strategy.streams", "concurrency"),
        Field("config.strategy.max_concurrency|args.strategy.max_concurrency", "concurrency"),
        Field("config.strategy.rate|args.strategy.rate", "request_rate"),
        Field("metrics.request_concurrency.successful.mean", "concurrency_seen"),
        Field("metrics.request_totals.successful|request_totals.successful", "requests"),
        Field("run_stats.requests_made.successful", "requests"),
        Field("metrics.request_totals.errored|request_totals.errored|run_stats.requests_made.errored", "failed"),
        Field("duration", "duration_s"),
        Field("metrics.prompt_token_count.successful.total_sum", "input_tokens"),
        Field("metrics.output_token_count.successful.total_sum", "output_tokens"),
        Field("metrics.prompt_token_count.successful.mean", "context_tokens"),
        Field("metrics.output_token_count.successful.mean", "output_length"),
        Field("metrics.output_tokens_per_second.successful.mean", "output_tps"),
        *statistics("metrics.time_to_first_token_ms.successful.{}", "ttft", _GUIDE),
        *statistics("metrics.inter_token_latency_ms.successful.{}", "tpot", _GUIDE),
        *statistics("metrics.request_latency.successful.{}", "e2e", _GUIDE, 1000),
    ),
    silent=frozenset({"type_", "id_", "run_id", "run_index", "start_time", "end_time"}),
    listed="benchmarks",
    parts=_benchmarks,
    more=_guide,
    source="vllm-project/guidellm benchmark/benchmark.py (0.2 ... 0.3), benchmark/schemas/generative (0.4 ... 0.7)",
    example='{"metadata": {"version": 1, "guidellm_version": "0.6.0"}, "args": {"profile": "concurrent", "rate": [8]}, '
    '"benchmarks": [{"type_": "generative_benchmark", "config": {"strategy": {"type_": "concurrent", "streams": 8}}, '
    '"start_time": 1770110120.0, "end_time": 1770110180.0, "duration": 60.0, "metrics": {'
    '"request_totals": {"successful": 96, "errored": 0, "incomplete": 8, "total": 104}, '
    '"request_concurrency": {"successful": {"mean": 7.8}}, '
    '"output_tokens_per_second": {"successful": {"mean": 409.6}}, '
    '"time_to_first_token_ms": {"successful": {"mean": 60.0, "median": 55.0, "std_dev": 9.0, '
    '"percentiles": {"p90": 75.0, "p99": 99.0}}}, '
    '"inter_token_latency_ms": {"successful": {"mean": 18.5}}, '
    '"request_latency": {"successful": {"mean": 4.8}}}}]}',
    gives={
        "concurrency": 8,
        "concurrency_seen": 7.8,
        "output_tps": 409.6,
        "tpot_mean_ms": 18.5,
        "ttft_p99_ms": 99.0,
        "e2e_mean_ms": 4800.0,
        "requests": 96,
        "duration_s": 60.0,
    },
)
FORMS = (AIPERF, Records(), GUIDELLM)
