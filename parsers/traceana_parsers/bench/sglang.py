"""SGLang's benchmarks: bench_serving, bench_one_batch_server and bench_speculative.py as JSON lines."""

from __future__ import annotations

from collections.abc import Mapping

from traceana_parsers.bench.form import Field, JsonForm, Object, statistics
from traceana_parsers.bench.rows import Point, Rows, number
from traceana_parsers.bench.vllm import LISTS, SERVING, SHARED, rate, requests
from traceana_parsers.metrics.server_info import speculation, write_settings

_TELLS = 1.2  # tokens per chunk from which the two can be told apart


def _itl_of(obj: Object) -> str | None:
    """What the printed ITL is per. Most versions divide a gap by the tokens of its chunk, some do not; the ratio to the
    time per token tells: 1, or about the accept length."""
    gap, token, length = (number(obj.get(name)) for name in ("mean_itl_ms", "mean_tpot_ms", "accept_length"))
    if not gap or not token:
        return None
    ratio = gap / token
    if not length or length < _TELLS:
        return "chunk" if ratio > _TELLS else None
    return "token" if ratio < length**0.5 else "chunk" if ratio < 2 * length else None


def _serving(obj: Object, point: Point) -> None:
    point.put("request_rate", rate(obj.get("request_rate")))
    point.put("itl_of", _itl_of(obj))
    point.put("accept_scope", "lifetime" if number(obj.get("accept_length")) else None)
    if number(obj.get("accept_length")):
        point.put("speculative", True)
    info = obj.get("server_info")
    if isinstance(info, Mapping):
        speculation(info, point)
    requests(obj, point, chunks=False)


def _server(obj: Object, rows: Rows, line: int, offset: int) -> None:
    """Since 0.5.5 a line carries the whole /server_info, whose settings are read too."""
    info = obj.get("server_info")
    if isinstance(info, Mapping):
        write_settings(info, rows, line, offset)


BENCH_SERVING = JsonForm(
    tool="sglang_bench",
    needs=("duration", "completed", "output_throughput", "total_output_tokens_retokenized"),
    fields=(
        Field("tag", "series"),
        *SHARED,
        Field("server_info.model_path", "model"),
        Field("concurrency", "concurrency_seen"),
        Field("random_input_len", "context_tokens"),
        Field("random_output_len|sharegpt_output_len", "output_length"),
        *statistics("{}_e2e_latency_ms", "e2e", SERVING),
        Field("accept_length", "accept_length_printed"),
    ),
    silent=LISTS | {"request_rate"},
    more=_serving,
    beside=_server,
    source="sglang/bench_serving.py (0.4.6 ... 0.5.13), sglang/benchmark/serving.py (later)",
    example='{"tag": "k3", "backend": "sglang", "dataset_name": "random", "request_rate": Infinity, '
    '"max_concurrency": 8, "random_input_len": 256, "random_output_len": 512, "duration": 118.87, "completed": 80, '
    '"total_input_tokens": 20480, "total_output_tokens": 40960, "total_output_tokens_retokenized": 40911, '
    '"output_throughput": 344.58, "mean_e2e_latency_ms": 11800.1, "mean_ttft_ms": 312.4, "mean_tpot_ms": 22.48, '
    '"mean_itl_ms": 22.6, "concurrency": 7.94, "accept_length": 1.71}',
    gives={
        "series": "k3",
        "concurrency": 8,
        "concurrency_seen": 7.94,
        "output_tps": 344.58,
        "tpot_mean_ms": 22.48,
        "itl_of": "token",
        "accept_length_printed": 1.71,
        "accept_scope": "lifetime",
        "request_rate": float("inf"),
    },
)


def _one_batch(obj: Object, point: Point) -> None:
    batch, length, seen = (number(obj.get(name)) for name in ("batch_size", "output_len", "total_output_tokens"))
    point.put("output_tokens", seen if seen is not None else batch * length if batch and length else None)
    point.put("accept_scope", "lifetime" if (number(obj.get("acc_length")) or 0) >= 1 else None)
    if (number(obj.get("acc_length")) or 0) >= 1:
        point.put("speculative", True)


ONE_BATCH = JsonForm(
    tool="one_batch",
    needs=("batch_size", "latency", "output_throughput"),
    fields=(
        Field("run_name", "series"),
        Field("batch_size", "concurrency"),
        Field("input_len", "context_tokens"),
        Field("output_len", "output_length"),
        Field("latency", "duration_s"),
        Field("output_throughput", "output_tps"),
        Field("last_ttft|ttft", "ttft_mean_ms", 1000),
        Field("acc_length", "accept_length_printed"),
    ),
    more=_one_batch,
    source="sglang/bench_one_batch_server.py: output throughput is without the prefill",
    example='{"run_name": "default", "batch_size": 8, "input_len": 1024, "output_len": 16, "latency": 1.5, '
    '"input_throughput": 16384.0, "output_throughput": 128.0, "overall_throughput": 5546.7, "last_ttft": 0.5, '
    '"last_gen_throughput": 130.1, "acc_length": 1.93, "cache_hit_rate": 0.0}',
    gives={"concurrency": 8, "output_tps": 128.0, "ttft_mean_ms": 500.0, "accept_length_printed": 1.93},
)


def _speculative(obj: Object, point: Point) -> None:
    steps = number(obj.get("steps"))
    if steps is None:
        return
    point.put("speculative", steps > 0)
    if steps == 0:  # the run without speculation: 0, 0, 0 are no settings
        for column in ("num_steps", "topk", "num_draft_tokens"):
            point.values.pop(column, None)


BENCH_SPECULATIVE = JsonForm(
    tool="bench_speculative",
    needs=("batch_size", "steps", "topk", "num_draft_tokens", "step_time"),
    fields=(
        Field("batch_size", "concurrency"),
        Field("steps", "num_steps"),
        Field("topk", "topk"),
        Field("num_draft_tokens", "num_draft_tokens"),
        Field("acc_length", "accept_length_printed"),
        Field("step_time", "step_ms", 1000),
        Field("speed", "user_tps"),
    ),
    more=_speculative,
    source="sglang/scripts/playground/bench_speculative.py; step_time is the 20th percentile",
    example='{"batch_size": 1, "steps": 3, "topk": 1, "num_draft_tokens": 4, "acc_length": 2.05, '
    '"step_time": 0.0332, "speed": 61.7, "completion_tokens": 2048.0}',
    gives={
        "concurrency": 1,
        "num_steps": 3,
        "step_ms": 33.2,
        "user_tps": 61.7,
        "accept_length_printed": 2.05,
        "speculative": True,
    },
)
FORMS: tuple[JsonForm, ...] = (BENCH_SERVING, BENCH_SPECULATIVE, ONE_BATCH)
