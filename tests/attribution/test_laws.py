"""The laws learnt from others' wrong numbers, as far as they concern attribution (STYLE.md)."""

import shutil
import socket
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from tests.attribution.builder import Process, Tables, tables
from tests.parsers.traces.build_nsight import Export
from traceana import api
from traceana.attribution.cycles import cycles_of_scopes
from traceana.attribution.ledger import build_ledger
from traceana.attribution.model import BUCKETS, Ledger, LedgerError
from traceana.attribution.phase_table import phase_spans, phase_table
from traceana.attribution.projection import project
from traceana.attribution.ranks import match_ranks, splits
from traceana.attribution.scopes import scopes_by_name

KINETO = Path(__file__).parents[2] / "fixtures" / "traces" / "kineto"


def ledger_of(trace: Tables, with_splits: pl.DataFrame | None = None) -> Ledger:
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    return build_ledger(cycles, trace.ops, with_splits)


def only(ledger: Ledger) -> dict[str, int]:
    return {name: int(ledger.rows[name].sum()) for name in (*BUCKETS, "window_ns") if ledger.rows[name].sum()}


def test_law_1_busy_time_is_the_union_per_device_and_never_exceeds_the_wall() -> None:
    process = Process()
    process.range("verify", 0, 100)
    for stream in (7, 8, 9):
        process.kernel("gemm", 10, 90, process.call(stream - 6, stream - 5), stream=stream)
    trace = tables(process)
    found = project(trace.ranges, trace.launches, trace.ops).row(0, named=True)
    assert found["sum_ns"] == 240 and found["busy_ns"] == 80 == found["proj_end_ns"] - found["proj_start_ns"]
    assert only(ledger_of(trace))["compute"] == 80


def test_law_2_idle_of_a_device_is_not_the_sum_over_its_streams() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 50, process.call(1, 2), stream=7)
    process.kernel("gemm", 50, 90, process.call(3, 4), stream=8)
    assert only(ledger_of(tables(process))) == {"compute": 80, "launch_gap": 2, "other_idle": 18, "window_ns": 100}


def test_law_3_gpus_are_never_merged_into_one_timeline() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 40, process.call(1, 2), device=0)
    process.kernel("gemm", 30, 90, process.call(3, 4), device=1)
    rows = ledger_of(tables(process)).rows.group_by("device").agg(pl.col("compute").sum()).sort("device").rows()
    assert rows == [(0, 30), (1, 60)]
    two = [Process(file_id=f, rank=f) for f in (0, 1)]  # same pid, same device number: two hosts
    for process in two:
        process.range("verify", 0, 100)
        process.kernel("gemm", 10, 60, process.call(1, 2))
    assert ledger_of(tables(*two)).rows.group_by("rank").agg(pl.col("compute").sum()).sort("rank").rows() == [
        (0, 50),
        (1, 50),
    ]


def test_law_4_one_nanosecond_is_claimed_by_one_bucket() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 0, 50, process.call(0, 0), stream=7)
    process.kernel("allgather", 20, 70, process.call(1, 2), stream=8)
    process.copy(10, 90, process.call(3, 4), stream=9)
    ledger = ledger_of(tables(process))
    assert only(ledger) == {"compute": 50, "other_comm_exposed": 20, "copies": 20, "other_idle": 10, "window_ns": 100}
    assert ledger.rows["other_comm_overlapped"].sum() == 30


def test_law_5_a_kernel_of_no_known_kind_is_compute_not_lost() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 60, process.call(1, 2))
    trace = tables(process)
    unknown = trace.kinds.clear()
    from traceana.attribution.ops import device_ops

    ops = device_ops(trace.kernels, trace.memops, trace.graphs, trace.launches, unknown)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, ops)
    assert build_ledger(cycles, ops).rows["compute"].sum() == 50


def test_law_5_and_6_parts_that_do_not_add_up_are_refused_with_the_row() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 60, process.call(1, 2))
    good = ledger_of(tables(process))
    with pytest.raises(LedgerError, match="'compute': 51"):
        replace(good, rows=good.rows.with_columns(pl.col("compute") + 1)).self_check()
    with pytest.raises(LedgerError, match="'compute': 51"):
        replace(good, devices=good.devices.with_columns(pl.col("compute") + 1)).self_check()
    with pytest.raises(LedgerError, match="phases do not add up to the cycle"):
        replace(good, rows=good.rows.clear()).self_check()
    below = good.rows.with_columns(pl.col("compute") - 60, pl.col("copies") + 60)
    with pytest.raises(LedgerError, match="'compute': -10"):
        replace(good, rows=below).self_check()


def test_law_6_counts_and_medians_of_a_phase_are_of_the_same_cycles() -> None:
    process = Process()
    for at in (0, 1_000, 2_000):
        process.range("draft", at, at + 100)
        process.range("verify", at + 100, at + 900)
        if at:  # the first draft launched nothing
            process.kernel("gemm", at + 20, at + 60, process.call(at + 1, at + 2))
        graph = process.call(at + 150, at + 160, graph=True)
        for node in range(5):
            process.kernel("gemm", at + 200 + 50 * node, at + 280 + 50 * node, graph, node=node)
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    table = phase_table(phase_spans(cycles, trace.launches, trace.ops))
    draft, verify = (table.filter(phase=phase).row(0, named=True) for phase in ("draft", "verify"))
    assert draft["cycles"] == verify["cycles"] == 3
    assert (verify["host_span_ns"], verify["launches"], verify["graph_nodes"], verify["graph_launches"]) == (
        800,
        1,
        5,
        1,
    )
    assert (verify["gpu_span_ns"], verify["busy_ns"], verify["kernel_sum_ns"]) == (280, 280, 400)
    assert (draft["launches"], draft["busy_ns"], draft["graph_nodes"]) == (1, 40, 0)


def test_law_7_a_replay_traced_without_nodes_is_unknown_not_idle() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.graph(20, 90, process.call(5, 10, graph=True))
    assert only(ledger_of(tables(process))) == {"unknown": 70, "launch_gap": 10, "other_idle": 20, "window_ns": 100}


def test_law_7_a_replay_that_left_no_trace_at_all_is_unknown_until_later_work_starts() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 20, process.call(1, 2))
    process.call(30, 35, graph=True)  # no kernel, no graph row: exports up to nsys 2023.4
    process.kernel("gemm", 80, 100, process.call(40, 45))
    found = only(ledger_of(tables(process)))
    assert found == {"compute": 30, "unknown": 50, "launch_gap": 12, "other_idle": 8, "window_ns": 100}


def test_law_7_kernels_of_a_replay_count_once_when_the_replay_was_traced_both_ways() -> None:
    process = Process()
    process.range("verify", 0, 100)
    call = process.call(5, 10, graph=True)
    process.graph(20, 90, call)
    process.kernel("gemm", 20, 50, call, node=1)
    process.kernel("gemm", 60, 90, call, node=2)
    found = only(ledger_of(tables(process)))
    assert found == {"compute": 60, "launch_gap": 10, "other_idle": 30, "window_ns": 100}


def test_law_8_collective_time_on_a_rank_that_waits_is_waiting() -> None:
    processes = [Process(file_id=r, rank=r) for r in (0, 1)]
    for at in range(0, 1_200, 100):
        for process, start in zip(processes, (10, 70), strict=True):
            process.range("verify", at, at + 100)
            process.kernel("allreduce", at + start, at + 90, process.call(at + 1, at + 2))
    trace = tables(*processes)
    rows = ledger_of(trace, splits(match_ranks(trace.collectives).members)).per_phase().filter(phase="verify")
    assert rows.select("rank", "allreduce_transfer", "allreduce_wait").rows() == [(0, 240, 720), (1, 240, 0)]


def test_law_9_the_window_stands_beside_every_sum() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 60, process.call(1, 2))
    sums = ledger_of(tables(process)).per_phase()
    assert {"window_ns", "cycles"} <= set(sums.columns) and sums["window_ns"].sum() == 100


def test_law_10_a_capture_of_device_5_alone_works() -> None:
    process = Process(rank=5)
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 60, process.call(1, 2), device=5)
    assert ledger_of(tables(process)).rows.select("rank", "device", "compute").rows()[0][:2] == (5, 5)


def test_law_11_tables_are_not_changed() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 60, process.call(1, 2))
    trace = tables(process)
    before = {name: frame.clone() for name, frame in trace.tables.items()}
    ledger_of(trace)
    match_ranks(trace.collectives)
    assert all(trace.tables[name].equals(frame) for name, frame in before.items())


def test_law_11_inputs_are_never_touched_and_no_network_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = Export()
    for at in range(0, 30_000, 1_000):
        export.nvtx(77, "verify", at, at + 900)
        export.launch(77, at + 10, at + 20, at + 1)
        export.kernel(77, "gemm", at + 100, at + 800, at + 1)
    (folder := tmp_path / "traces").mkdir()
    export.write(folder / "rank1.sqlite")
    shutil.copy(KINETO / "rank0.1767225601000000000.pt.trace.json.gz", folder)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert api.diagnose([str(folder)]).trace is not None
    api.ingest([str(folder)], str(tmp_path / "store"))
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_law_12_idle_time_without_launch_records_is_said_to_have_no_known_cause() -> None:
    process = Process()
    process.range("verify", 0, 100)
    process.kernel("gemm", 10, 20, process.call(1, 2))
    process.kernel("gemm", 50, 60, None)  # its call was not recorded
    process.kernel("gemm", 80, 100, process.call(3, 4))
    rows = ledger_of(tables(process)).rows
    assert (
        rows["idle_without_launch"].sum() == 30 and rows["other_idle"].sum() == 58
    )  # 20 ... 50; 2 ... 10 and 60 ... 80, too


def test_empty_tables_give_empty_answers() -> None:
    trace = tables(Process())
    assert trace.ops.height == 0
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    assert cycles.height == 0 and build_ledger(cycles, trace.ops).rows.height == 0
    assert match_ranks(trace.collectives).members.height == 0
    assert phase_table(phase_spans(cycles, trace.launches, trace.ops)).height == 0
    assert project(trace.ranges, trace.launches, trace.ops).height == 0
