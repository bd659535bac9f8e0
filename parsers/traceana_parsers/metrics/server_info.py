"""SGLang's /server_info (and /get_server_info): settings as resolved, acceptance since start, step times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from traceana_parsers.bench.form import Object
from traceana_parsers.bench.rows import Point, Rows, number

_LONGEST = 4096  # characters of a setting's value
#: values of internal_states that are measurements and no settings
_MEASURED = ("avg_spec_accept_length", "last_gen_throughput", "effective_max_running_requests_per_dp")
_SECRET = ("api_key", "admin_api_key", "ssl_keyfile_password")
_STEP = "step_time_dict"


def _states(info: Object) -> list[Mapping[str, Any]]:
    states = info.get("internal_states")
    return [s for s in states if isinstance(s, Mapping)] if isinstance(states, list) else []


def speculation(info: Object, point: Point) -> None:
    """What the server says of its speculation, for a point measured on it."""
    states = _states(info)
    args = {**info, **states[0]} if states else info
    algorithm = args.get("speculative_algorithm")
    if "speculative_algorithm" not in args:
        return
    point.put("speculative", algorithm is not None)
    if algorithm is None:
        return
    point.attrs["speculative_algorithm"] = algorithm
    point.put("num_steps", args.get("speculative_num_steps"))
    point.put("topk", args.get("speculative_eagle_topk"))
    point.put("num_draft_tokens", args.get("speculative_num_draft_tokens"))


def _settings(info: Object) -> Iterator[tuple[str, str]]:
    """Names and values of the arguments; as resolved where the scheduler says them."""
    states = _states(info)
    named: dict[str, Any] = {**info, **(states[0] if states else {})}
    for name, value in named.items():
        if name in ("internal_states", "memory_usage", _STEP, "env_vars", *_MEASURED, *_SECRET) or value is None:
            continue
        text = str(value)
        if len(text) <= _LONGEST:
            yield name, text
    variables = states[0].get("env_vars") if states else None
    for name, value in variables.items() if isinstance(variables, Mapping) else ():
        if isinstance(name, str) and name.startswith(("SGLANG_", "NCCL_")) and isinstance(value, str | int | float):
            yield name, str(value)


def write_settings(info: Object, rows: Rows, line: int, offset: int) -> None:
    """Adds the arguments as rows of `settings`."""
    for name, value in _settings(info):
        origin = "nccl_env" if name.startswith("NCCL_") else "server_info"
        rows.add("settings", {"name": name, "value": value, "origin": origin}, line, offset)


def _measured(info: Object) -> Iterator[tuple[str, str, float]]:
    """(name, DP rank, value) of what the schedulers measured."""
    for rank, state in enumerate(_states(info)):
        for name in _MEASURED:
            value = number(state.get(name))
            if value is not None:
                yield name, str(rank), value
        memory = state.get("memory_usage")
        for name, amount in memory.items() if isinstance(memory, Mapping) else ():
            value = number(amount)
            if value is not None:
                yield f"memory_usage_{name}", str(rank), value


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Reads an answer of /server_info: settings, gauges `server_info:*`, a point per batch size with step times."""

    tool: str = "server_info"
    needs: Sequence[str] = ("internal_states", "tp_size")
    hints: Sequence[str] = ("tokenizer_path", "model_path", "tp_size")
    source: str = "sglang/srt/entrypoints/http_server.py get_server_info (0.4.6 ... 0.5.23)"

    def read(self, obj: Object, rows: Rows, line: int, offset: int) -> int:
        """Adds settings, gauges and step times; how many values were measured."""
        import json

        write_settings(obj, rows, line, offset)
        made = 0
        for name, rank, value in _measured(obj):
            labels = json.dumps({"dp": rank})
            row = {"scrape": 0, "name": f"server_info:{name}", "labels": labels, "kind": "gauge", "value": value}
            rows.add("metrics", row, line, offset)
            made += 1
        return made + self._steps(obj, rows, line, offset)

    def _steps(self, obj: Object, rows: Rows, line: int, offset: int) -> int:
        states = _states(obj)
        times = states[0].get(_STEP) if states else None
        made = 0
        for batch, samples in times.items() if isinstance(times, Mapping) else ():
            seconds = [s for v in samples if (s := number(v)) is not None] if isinstance(samples, list) else []
            if not seconds or not str(batch).isdigit():
                continue
            point = Point(self.tool, line, offset)
            point.values |= {
                "concurrency": int(batch),
                "step_ms": 1000 * median(seconds),
                "model": obj.get("model_path"),
            }
            point.attrs |= {"samples": len(seconds), "step_ms_min": 1000 * min(seconds)}
            speculation(obj, point)
            rows.point(point)
            made += 1
        return made
