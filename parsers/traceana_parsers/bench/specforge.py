"""SpecForge's bench_eagle3.py, as JSON: benchmarks by name, each a list of settings with their measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from traceana_parsers.bench.form import Field, JsonForm, Object
from traceana_parsers.bench.rows import Point, Value, number

_SETTING = ("batch_size", "steps", "topk", "num_draft_tokens", "metrics")


def fits(obj: Object) -> bool:
    """True for an object whose values are lists of settings; their names are those of benchmarks."""
    return any(_settings(value) for value in obj.values())


def _settings(value: Value) -> list[Mapping[str, Any]]:
    entries = value if isinstance(value, list) else []
    return [e for e in entries if isinstance(e, Mapping) and all(name in e for name in _SETTING)]


def _parts(obj: Object) -> Iterable[Object | None]:
    for name, value in obj.items():
        for entry in _settings(value):
            metrics = entry["metrics"]
            for one in metrics if isinstance(metrics, list) else [metrics]:
                if isinstance(one, Mapping):
                    yield {
                        **{key: entry[key] for key in _SETTING[:-1]},
                        "benchmark": name,
                        "model": obj.get("model"),
                        **one,
                    }


def _more(obj: Object, point: Point) -> None:
    steps, length = number(obj.get("steps")), number(obj.get("accept_length"))
    if steps is not None:
        point.put("speculative", steps > 0)
    elif length is not None and length > 1:
        point.put("speculative", True)
    if steps == 0:  # the run without speculation: 0, 0, 0 are no settings
        for column in ("num_steps", "topk", "num_draft_tokens"):
            point.values.pop(column, None)


SPECFORGE = JsonForm(
    tool="specforge_bench",
    needs=("steps", "topk", "num_draft_tokens", "metrics"),
    fields=(
        Field("benchmark", "series"),
        Field("benchmark", "dataset"),
        Field("model", "model"),
        Field("batch_size", "concurrency"),
        Field("steps", "num_steps"),
        Field("topk", "topk"),
        Field("num_draft_tokens", "num_draft_tokens"),
        Field("latency", "duration_s"),
        Field("output_throughput", "output_tps"),
        Field("accept_length", "accept_length_printed"),
        Field("num_questions", "requests"),
    ),
    parts=_parts,
    more=_more,
    source="SpecForge benchmarks/bench_eagle3.py and its BenchmarkMetrics",
    example='{"model": "m", "mtbench": [{"batch_size": 4, "steps": 3, "topk": 1, "num_draft_tokens": 4, "metrics": '
    '[{"latency": 61.5, "output_throughput": 410.2, "accept_length": 2.31, "accuracy": null, "num_questions": 20}], '
    '"num_samples": 20}]}',
    gives={
        "series": "mtbench",
        "concurrency": 4,
        "num_steps": 3,
        "output_tps": 410.2,
        "accept_length_printed": 2.31,
        "duration_s": 61.5,
        "speculative": True,
    },
)
