"""What a capture cannot show, why that matters, and the exact command that captures it right."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import polars as pl

from traceana.attribution.model import MIN_CYCLES, CaptureNote, TraceCounts

#: what readers write into `traces.notes` when events are missing
_LOST = re.compile(r"drop|exceed|overflow|lost|could not allocate|incomplete|truncated|cut off", re.IGNORECASE)
_ODD_TIMES = re.compile(r"end before they start|have no usable time", re.IGNORECASE)
_STACKS = re.compile(r"with_stack|python frames|profile_memory", re.IGNORECASE)
#: share of kernels without a launch record from which the calls count as missing
_WITHOUT_LAUNCH = 0.05

_NSYS = (
    "nsys profile -t cuda,nvtx --cuda-graph-trace=node --trace-fork-before-exec=true "
    "--capture-range=cudaProfilerApi --capture-range-end=stop -o rank%q{{RANK}} {server} "
    "&& nsys export --type sqlite --include-blobs=true rank0.nsys-rep"
)
_SERVER = {"sglang": "python -m sglang.launch_server ...", "vllm": "vllm serve ..."}
_START = {
    "sglang": (
        "curl -X POST http://localhost:30000/start_profile -H 'Content-Type: application/json' "
        """-d '{"activities": ["CPU", "GPU"], "num_steps": 100, "with_stack": false, "record_shapes": false}'"""
    ),
    "vllm": (
        """vllm serve ... --profiler-config '{"profiler": "torch", "torch_profiler_dir": "/tmp/traces", """
        """"torch_profiler_with_stack": false}' && curl -X POST http://localhost:8000/start_profile """
        "&& sleep 5 && curl -X POST http://localhost:8000/stop_profile"
    ),
}
#: where nothing tells the engine
_ANY_START = (
    "profile 400 steps of decoding on every rank, without stacks, shapes and memory (SGLang: POST /start_profile; "
    "vLLM: --profiler-config and POST /start_profile; else torch.profiler)"
)


def judge_capture(
    traces: pl.DataFrame, counts: Sequence[TraceCounts], engine: str | None = None, unmatched: Sequence[str] = ()
) -> list[CaptureNote]:
    """Everything wrong with a set of traces of one run, worst first.

    Args:
        traces: the `traces` table. counts: of each process. engine: sglang or vllm, for the commands. unmatched:
            RankMatch.notes.
    """
    tool = traces.get_column("tool").drop_nulls().to_list()
    too_short = _too_short(counts)
    command = _Commands(engine, "kineto" if tool and tool[0] == "kineto" else "nsight", longer=bool(too_short))
    found = [
        *_no_gpu(traces, counts, command),
        *_hidden_graphs(traces, counts, command),
        *_missing_ranks(traces, command),
        *_unmatched(unmatched, command),
        *_lost_events(traces, command),
        *_odd_times(traces, command),
        *_clocks(traces, command),
        *_no_launches(counts, command),
        *(CaptureNote("warning", "too-few-cycles", *texts, command.again) for texts in too_short),
        *_overhead(traces, counts, command),
    ]
    order = ("critical", "warning", "info")
    return sorted(found, key=lambda note: order.index(note.severity))


class _Commands:
    """The commands for one engine and one profiler; `longer`: the capture is to hold more cycles, too."""

    def __init__(self, engine: str | None, tool: str, *, longer: bool = False) -> None:
        self.nsys = _NSYS.format(server=_SERVER.get(engine or "", "python SERVER ..."))
        torch = _START.get(engine or "", _ANY_START)
        if longer:
            torch = torch.replace('"num_steps": 100', '"num_steps": 400').replace("sleep 5", "sleep 20")
            self.nsys = self.nsys.replace(
                "--capture-range=cudaProfilerApi --capture-range-end=stop", "--delay=60 --duration=20"
            )
        self.again = torch if tool == "kineto" else self.nsys


#: tools that give sums; the second one lists what a trace beside it tells better
_SUMS = ("nsight_stats", "kernel_table")


def _no_gpu(traces: pl.DataFrame, counts: Sequence[TraceCounts], command: _Commands) -> list[CaptureNote]:
    """Traces without work on a GPU, and captures of sums, which have none by nature. Empty traces are not counted."""
    timed = traces.filter(pl.col("start_ns").is_not_null())
    timed = timed if timed.height else traces
    sums = set(traces.filter(pl.col("tool").is_in(_SUMS)).get_column("file_id").to_list())
    of_interest = set(timed.get_column("file_id").to_list()) - sums
    found = []
    idle = [c.file_id for c in counts if not c.kernels + c.memops + c.graph_rows]
    without = tuple(f for f in idle if f in of_interest)
    every = sum(c.file_id in of_interest for c in counts)
    if without:
        found.append(
            CaptureNote(
                "critical" if len(without) == every and not sums else "warning",
                "no-gpu-events",
                f"{len(without)} of {every} traces hold no GPU event",
                "nothing can be said of GPU time there: the GPU was not traced, or the process used none",
                command.again,
                without,
            )
        )
    summed = tuple(f for f in idle if f in sums)
    if summed:
        what = f"{len(summed)} of {len(counts)} captures hold sums (nsys stats, a recipe, a table), and no GPU event"
        consequence = "time by kernel or range can be said, nothing of cycles, idle time, overlap or ranks"
        export = "nsys export --type sqlite --include-blobs=true rep.nsys-rep"
        found.append(CaptureNote("warning", "sums-only", what, consequence, export, summed))
    return found


def _hidden_graphs(traces: pl.DataFrame, counts: Sequence[TraceCounts], command: _Commands) -> list[CaptureNote]:
    whole = {c.file_id for c in counts if c.graph_rows or c.hidden_graph_launches}
    whole |= set(traces.filter(pl.col("graph_mode") == "graph").get_column("file_id").to_list())
    hidden, concerned = sum(c.hidden_graph_launches for c in counts), tuple(sorted(whole))
    if not concerned:
        return []
    rows, launches = sum(c.graph_rows for c in counts), sum(c.graph_launches for c in counts)
    what = f"CUDA graphs were traced as a whole: {rows} replays without their kernels"
    if hidden:
        what += f"; {hidden} of {launches} graph launches left no trace on the GPU at all"
    consequence = "time inside replays is unknown, not idle: no split into compute, allreduce and gaps there"
    return [CaptureNote("critical", "graphs-hide-kernels", what, consequence, command.again, concerned)]


def _missing_ranks(traces: pl.DataFrame, command: _Commands) -> list[CaptureNote]:
    world = traces.get_column("world_size").max()
    seen = set(traces.get_column("rank").drop_nulls().to_list())
    if not isinstance(world, int) or world <= 1 or len(seen) >= world or (not seen and traces.height >= world):
        return []
    missing = sorted(set(range(world)) - seen)
    which = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    what = f"{len(seen) or traces.height} of {world} ranks were traced" + (f"; missing: {which}" if seen else "")
    consequence = "the last rank to arrive may be a missing one: transfer times are upper bounds, the late rank a guess"
    return [CaptureNote("warning", "ranks-missing", what, consequence, command.again)]


def _unmatched(notes: Sequence[str], command: _Commands) -> list[CaptureNote]:
    if not notes:
        return []
    consequence = "transfer and wait of these collectives are not told apart, or by a guess of which belong together"
    return [CaptureNote("warning", "ranks-unmatched", "; ".join(notes[:3]), consequence, command.again)]


def _notes(traces: pl.DataFrame, pattern: re.Pattern[str]) -> tuple[list[str], tuple[int, ...]]:
    """Texts of `traces.notes` that fit, and the traces they are of."""
    texts: list[str] = []
    files: list[int] = []
    for file_id, notes in traces.select("file_id", "notes").iter_rows():
        fits = [text for text in json.loads(notes or "[]") if pattern.search(text)]
        texts += fits
        files += [file_id] if fits else []
    return texts, tuple(files)


def _lost_events(traces: pl.DataFrame, command: _Commands) -> list[CaptureNote]:
    texts, files = _notes(traces, _LOST)
    if not texts:
        return []
    consequence = "counts and sums are too small, and collectives may be matched to the wrong instance"
    return [CaptureNote("warning", "events-lost", f"events were lost: {texts[0]}", consequence, command.again, files)]


def _odd_times(traces: pl.DataFrame, command: _Commands) -> list[CaptureNote]:
    texts, files = _notes(traces, _ODD_TIMES)
    if not texts:
        return []
    consequence = "busy time is too small by what they lasted, and idle time too large"
    return [CaptureNote("warning", "times-odd", texts[0], consequence, command.again, files)]


def _clocks(traces: pl.DataFrame, command: _Commands) -> list[CaptureNote]:
    timed = traces.filter(pl.col("start_ns").is_not_null() & pl.col("end_ns").is_not_null())
    if timed.get_column("file_id").n_unique() < 2:
        return []
    relative = timed.filter(pl.col("clock") == "relative").get_column("file_id").unique().sort().to_list()
    if relative:
        what = f"{len(relative)} traces are not tied to the wall clock"
        consequence = "events of different files can be ordered only where collectives tie them together"
        return [CaptureNote("warning", "clock-relative", what, consequence, command.again, tuple(relative))]
    latest, earliest = timed.get_column("start_ns").max(), timed.get_column("end_ns").min()
    if isinstance(latest, int) and isinstance(earliest, int) and latest > earliest:
        what = f"the traces do not overlap in time: one starts {(latest - earliest) / 1e6:.1f} ms after another ended"
        consequence = "they show different cycles, or clocks that disagree: ranks cannot be compared"
        return [CaptureNote("warning", "clock-no-overlap", what, consequence, command.again)]
    return []


def _no_launches(counts: Sequence[TraceCounts], command: _Commands) -> list[CaptureNote]:
    without = tuple(c.file_id for c in counts if c.kernels and c.kernels_without_launch > _WITHOUT_LAUNCH * c.kernels)
    if not without:
        return []
    kernels = sum(c.kernels for c in counts if c.file_id in without)
    lone = sum(c.kernels_without_launch for c in counts if c.file_id in without)
    what = f"{lone} of {kernels} kernels have no launch record"
    consequence = "for them launch gaps cannot be told from other idle time, nor which phase they belong to"
    return [CaptureNote("warning", "launches-missing", what, consequence, command.again, without)]


def _too_short(counts: Sequence[TraceCounts]) -> list[tuple[str, str]]:
    """What is missing and what that hides, where cycles are too few."""
    most = max((c.cycles for c in counts if c.kernels + c.graph_rows), default=MIN_CYCLES)
    if most >= MIN_CYCLES:
        return []
    if not most:
        return [("no cycle was found in the capture", "nothing can be said per cycle or phase")]
    return [(f"{_cycles(most)} captured, fewer than {MIN_CYCLES}", "a mean of so few says nothing of their spread")]


def _overhead(traces: pl.DataFrame, counts: Sequence[TraceCounts], command: _Commands) -> list[CaptureNote]:
    found: list[CaptureNote] = []
    texts, files = _notes(traces, _STACKS)
    if texts:
        consequence = "host times, and with them launch gaps and cycles, are longer than without the profiler"
        found.append(CaptureNote("warning", "profiler-overhead", texts[0], consequence, command.again, files))
    node = (
        traces.filter((pl.col("graph_mode") == "node") & (pl.col("tool") == "nsight")).get_column("file_id").to_list()
    )
    replays = sum(c.graph_launches for c in counts if c.file_id in node)
    if replays:
        what = f"{replays} graph replays were traced node by node"
        consequence = "replays run slower than in production: shares inside them hold, their length does not"
        whole = command.nsys.replace("--cuda-graph-trace=node", "--cuda-graph-trace=graph")
        found.append(CaptureNote("info", "node-mode-overhead", what, consequence, whole, tuple(node)))
    return found


def _cycles(n: int) -> str:
    return "1 cycle was" if n == 1 else f"{n} cycles were"
