"""What a point may not say: impossible values are taken out, contradictions are named. Nothing is repaired silently."""

from __future__ import annotations

import math

from traceana_parsers.bench.rows import Point, number

_TIMES = ("ttft", "tpot", "itl", "e2e")
_NOT_NEGATIVE = (
    "output_tps",
    "user_tps",
    "duration_s",
    "requests",
    "failed",
    "input_tokens",
    "output_tokens",
    "step_ms",
)
_OFF = 0.05  # share by which output tokens / duration may miss the throughput: tools round and trim


def check(point: Point) -> None:
    """Removes values that cannot be and adds a doubt for each, and for values that contradict each other."""
    for column in list(point.values):
        value = number(point.values[column])
        if value is None:
            if isinstance(point.values[column], float):  # NaN
                _drop(point, column, "is not a number")
        elif math.isinf(value) and column != "request_rate":
            _drop(point, column, "is infinite")
        elif value == 0 and column.startswith(_TIMES) and not column.endswith("_std_ms"):
            del point.values[column]  # how tools write that there was none
        elif value < 0 and (column in _NOT_NEGATIVE or column.startswith(_TIMES)):
            _drop(point, column, f"is negative ({value:g})")
    _shares(point)
    _throughput(point)


def _drop(point: Point, column: str, why: str) -> None:
    del point.values[column]
    point.doubts.append(f"{column} {why}")


def _shares(point: Point) -> None:
    rate = number(point.values.get("accept_rate_printed"))
    if rate is not None and not 0 <= rate <= 1:
        _drop(point, "accept_rate_printed", f"is outside 0 ... 1 ({rate:g})")
    length = number(point.values.get("accept_length_printed"))
    if length is not None and length < 1:
        # 0 and -1 are how tools say "unknown"
        if length in (0, -1):
            del point.values["accept_length_printed"]
        elif point.tool not in ("table", "run_list"):
            _drop(point, "accept_length_printed", f"is below 1 ({length:g})")
    drafted, accepted = number(point.values.get("drafted")), number(point.values.get("accepted"))
    if drafted is not None and accepted is not None and accepted > drafted:
        point.doubts.append(f"more tokens accepted ({accepted:g}) than drafted ({drafted:g})")


def _throughput(point: Point) -> None:
    tps = number(point.values.get("output_tps"))
    tokens, duration = number(point.values.get("output_tokens")), number(point.values.get("duration_s"))
    if tps is None or tps <= 0:
        return
    if tokens and duration and point.tool in ("vllm_bench", "sglang_bench", "run_list"):
        made = tokens / duration
        if abs(made / tps - 1) > _OFF:
            point.doubts.append(f"output tokens / duration = {made:.1f} tok/s, but {tps:g} tok/s is written")
    tpot = number(point.values.get("tpot_mean_ms", point.values.get("tpot_median_ms")))
    users = number(point.values.get("concurrency"))
    if tpot and users and tps * tpot > 3000 * users:
        point.doubts.append(
            f"{tps:g} tok/s at {tpot:g} ms per token needs {tps * tpot / 1000:.0f} requests at once, "
            f"{users:g} were asked for: a unit is wrong"
        )
