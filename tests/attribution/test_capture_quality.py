"""A capture's faults: each is named once, with what it hides and a command that can be pasted."""

import polars as pl

from tests.attribution.builder import Process, tables
from traceana.attribution.capture_quality import judge_capture
from traceana.attribution.late import last_to_arrive
from traceana.attribution.model import CaptureNote, TraceCounts
from traceana.attribution.model import Process as Who
from traceana.attribution.names import FileNames
from traceana.attribution.process import Matched, attribute_process
from traceana.attribution.ranks import MEMBERS
from traceana.attribution.skew import Tally
from traceana.store.dataset import Tables
from traceana_parsers.interface import MemorySink


def counted(process: Process) -> TraceCounts:
    events, sink = Tables({name: [frame] for name, frame in tables(process).tables.items()}), MemorySink()
    nobody = Matched(None, last_to_arrive(pl.DataFrame(schema=MEMBERS)))
    who = Who(process.file_id, process.rank, process.pid)
    attribute_process(events, who, FileNames(events, process.file_id), nobody, sink, Tally())
    row = sink.tables["processes"][0].drop("engine", "source", "provenance").row(0, named=True)
    return TraceCounts(**row)


def judged(
    *processes: Process, engine: str | None = "sglang", unmatched: tuple[str, ...] = ()
) -> dict[str, CaptureNote]:
    notes = judge_capture(tables(*processes).traces, [counted(process) for process in processes], engine, unmatched)
    found = {note.code: note for note in notes}
    assert len(found) == len(notes)
    order = [("critical", "warning", "info").index(note.severity) for note in notes]
    assert order == sorted(order)
    assert all(note.what and note.consequence and note.command for note in notes)
    return found


def healthy(rank: int = 0, cycles: int = 25, **more: object) -> Process:
    process = Process(file_id=rank, rank=rank)
    for at in range(0, cycles * 1_000, 1_000):
        process.range("verify", at, at + 500)
        process.kernel("gemm", at + 20, at + 900, process.call(at + 1, at + 9))
    process.trace(**{"start_ns": 0, "end_ns": cycles * 1_000} | more)
    return process


def test_a_good_capture_has_no_faults() -> None:
    assert judged(healthy(0, world_size=2), healthy(1, world_size=2)) == {}


def test_graphs_traced_as_a_whole_hide_their_kernels() -> None:
    process = healthy(graph_mode="graph")
    process.graph(30_000, 30_500, process.call(29_990, 29_995, graph=True))
    process.call(31_000, 31_005, graph=True)
    note = judged(process)["graphs-hide-kernels"]
    assert note.severity == "critical" and note.traces == (0,)
    assert note.what == (
        "CUDA graphs were traced as a whole: 1 replays without their kernels; "
        "1 of 2 graph launches left no trace on the GPU at all"
    )
    assert "--cuda-graph-trace=node" in note.command and "sglang.launch_server" in note.command
    assert "unknown, not idle" in note.consequence


def test_missing_ranks_are_listed() -> None:
    notes = judged(*(healthy(rank, world_size=8) for rank in (0, 2)))
    assert notes["ranks-missing"].what == "2 of 8 ranks were traced; missing: 1, 3, 4, 5, 6, 7"


def test_lost_events_are_said_in_the_readers_words() -> None:
    notes = judged(healthy(notes='["the profiler says: 120 events were dropped"]'))
    assert notes["events-lost"].what == "events were lost: the profiler says: 120 events were dropped"


def test_clocks_that_do_not_meet() -> None:
    apart = judged(healthy(0), healthy(1, start_ns=90_000_000, end_ns=99_000_000))
    assert apart["clock-no-overlap"].what == "the traces do not overlap in time: one starts 90.0 ms after another ended"
    relative = judged(healthy(0), healthy(1, clock="relative"))
    assert relative["clock-relative"].traces == (1,) and "clock-no-overlap" not in relative
    assert "clock-relative" not in judged(healthy(0, clock="relative"))  # one file has nothing to disagree with


def test_a_short_capture_and_one_without_cycles() -> None:
    short = judged(healthy(cycles=19))["too-few-cycles"]
    assert short.what == "19 cycles were captured, fewer than 20" and "--duration=20" in short.command
    kineto = judged(healthy(cycles=3, tool="kineto"))["too-few-cycles"]
    assert '"num_steps": 400' in kineto.command
    none = Process()
    none.kernel("gemm", 10, 90, none.call(1, 2))
    none.trace()
    assert judged(none)["too-few-cycles"].what == "no cycle was found in the capture"


def test_no_gpu_events_is_critical_only_when_no_trace_has_any() -> None:
    empty = Process(file_id=1, rank=1)
    empty.trace(end_ns=25_000)
    assert judged(empty)["no-gpu-events"].severity == "critical"
    both = judged(healthy(0), empty)["no-gpu-events"]
    assert both.severity == "warning" and both.what == "1 of 2 traces hold no GPU event" and both.traces == (1,)


def test_the_profilers_own_cost_is_said() -> None:
    stacks = judged(healthy(tool="kineto", notes='["with_stack: Python frames were recorded"]'), engine="vllm")
    assert '"torch_profiler_with_stack": false' in stacks["profiler-overhead"].command
    process = healthy(graph_mode="node")
    call = process.call(30_000, 30_005, graph=True)
    process.kernel("gemm", 30_010, 30_100, call, node=1)
    note = judged(process)["node-mode-overhead"]
    assert note.severity == "info" and "--cuda-graph-trace=graph" in note.command


def test_kernels_without_launch_records() -> None:
    process = healthy()
    for at in range(30_000, 40_000, 1_000):
        process.kernel("gemm", at, at + 100, None)
    assert judged(process)["launches-missing"].what == "10 of 35 kernels have no launch record"


def test_ranks_whose_collectives_do_not_fit_are_said_once() -> None:
    notes = judged(healthy(0), healthy(1), unmatched=("all_reduce: 1 of 2 ranks left out", "all_gather: the same"))
    assert notes["ranks-unmatched"].what == "all_reduce: 1 of 2 ranks left out; all_gather: the same"


def test_nothing_traced_is_nothing_wrong() -> None:
    assert judge_capture(tables().traces, []) == []


def test_events_that_end_before_they_start_are_told() -> None:
    notes = judged(healthy(notes='["7 events end before they start; their end was set to the start"]'))
    assert notes["times-odd"].what.startswith("7 events end before they start")
    assert "idle time too large" in notes["times-odd"].consequence
