"""The timers' cycles beside the torch profiler's scopes of the same run: matched by time, compared by their medians."""

import gzip
import json
from pathlib import Path
from statistics import median

#: a cycle and the scope it belongs to start within this
NEAR_S = 0.003


def cycles_of(folder: Path, rank: int) -> list[dict]:
    """Cycles that one rank wrote, the file still being written included."""
    out = []
    for path in sorted(folder.glob(f"cycles-rank{rank}-*")):
        for text in path.read_text().splitlines():
            if text.endswith("}"):
                out.append(json.loads(text.split(" ", 1)[1]))
    return out


def compare(traces: Path, cycles: Path, rank: int) -> dict[str, float]:
    """Medians over the matched cycles, in ms: of the timers and of the scopes they should equal.

    verify: `execute_context_...` (execute_model) and `gpu_model_runner: sample`; draft and re-extend together:
    `gpu_model_runner: draft`. The end of the re-extend is before the first argmax of that scope.
    """
    path = next(traces.glob(f"rank{rank}.*.pt.trace.json.gz"))
    trace = json.loads(gzip.decompress(path.read_bytes()))
    base_s = int(trace["baseTimeNanoseconds"]) / 1e9
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    scopes = [event for event in events if event.get("cat") == "user_annotation"]
    steps = [
        s for s in scopes if s["name"].startswith("execute_context_0(0)_generation_") and "_0(0)" not in s["name"][20:]
    ]
    argmax = [event["ts"] for event in events if event["name"] == "aten::argmax"]
    mine = cycles_of(cycles, rank)
    rows = []
    for step in steps:
        start = base_s + step["ts"] / 1e6
        near = [cycle for cycle in mine if abs(cycle["t"] - start) < NEAR_S]
        if len(near) != 1:
            continue
        cycle = near[0]
        end = step["ts"] + (cycle["total_ms"]) * 1e3
        within = {s["name"]: s for s in scopes if step["ts"] <= s["ts"] < end}
        draft, sample = within.get("gpu_model_runner: draft"), within.get("gpu_model_runner: sample")
        if draft is None or sample is None:
            continue
        first = min((ts for ts in argmax if draft["ts"] <= ts < draft["ts"] + draft["dur"]), default=None)
        rows.append(
            {
                "verify": cycle["verify_ms"],
                "verify_scope": (step["dur"] + sample["dur"]) / 1e3,
                "draft": cycle["draft_ms"] + cycle.get("re_extend_ms", 0.0),
                "draft_scope": draft["dur"] / 1e3,
                "re_extend": cycle.get("re_extend_ms"),
                "to_first_token_scope": None if first is None else (first - draft["ts"]) / 1e3,
            }
        )
    out: dict[str, float] = {"steps": len(steps), "matched": len(rows)}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows if row[name] is not None]
        if values:
            out[name] = round(median(values), 4)
    return out
