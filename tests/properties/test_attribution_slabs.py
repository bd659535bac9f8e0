"""Attribution slab by slab says exactly what it says of all events at once, whatever the slabs: random small traces."""

from pathlib import Path
from random import Random
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pyarrow.parquet import ParquetFile

from tests.attribution.builder import Process, tables
from tests.attribution.planted import verify_cycles
from traceana.attribution.results import attribute
from traceana.store.dataset import RunWriter, Tables, open_run
from traceana.store.parts import Only
from traceana.store.tables import ATTRIBUTION_TABLES, BY_RANK
from traceana_parsers.interface import MemorySink

REAL = {
    "gemm": "nvjet_tst_64x8_64x16_1x4_h_bz_splitK_TNT",
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "allgather": "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "rccl": "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)",
}
times, lengths = st.integers(0, 120), st.integers(0, 25)
#: name, call it belongs to (place among the calls), start, length, device, stream, message size
op = st.tuples(
    st.sampled_from(["gemm", "allreduce", "allgather", "copy", "graph", "untimed graph"]),
    st.one_of(st.none(), st.integers(0, 15)), times, lengths, st.integers(0, 1), st.integers(7, 8),
    st.sampled_from([None, 64]),
)  # fmt: skip
#: name, start, length, thread, correlation (shared by several now and then)
call = st.tuples(
    st.sampled_from(
        ["cudaLaunchKernel", "cudaLaunchKernel", "cudaGraphLaunch", "cudaStreamSynchronize", "cudaMemcpyAsync"]
    ),
    times, lengths, st.integers(1, 2), st.integers(0, 12),
)  # fmt: skip
scope = st.tuples(st.sampled_from(["cycle", "draft", "verify", "re_extend"]), times, lengths, st.integers(1, 2))
events = st.tuples(st.lists(op, max_size=25), st.lists(call, max_size=16), st.lists(scope, max_size=10))
slab_rows = st.integers(2, 12)


def process_of(ops, calls, scopes, *, file_id: int = 0) -> Process:  # type: ignore[no-untyped-def]
    """A process with these events, in their order."""
    process = Process(file_id=file_id, rank=file_id, pid=100 + file_id)
    for name, start, length, tid, correlation in calls:
        process._add(
            "launches", start, start + length, name, tid=tid, correlation=correlation, is_graph="Graph" in name
        )
    for name, at, start, length, device, stream, size in ops:
        launch = None if at is None or not calls else calls[at % len(calls)][4]
        if name == "copy":
            process.copy(start, start + length, launch, device=device, stream=stream)
        elif name == "graph" and launch is not None:
            process.graph(start, start + length, launch, device=device, graph_id=1)
        elif name == "untimed graph" and launch is not None:
            process.graph(start, start, launch, device=device)
        elif "graph" not in name:
            process.kernel(
                name, start, start + length, launch, device=device, stream=stream, bytes=size, grid=size or 8
            )
    for name, start, length, tid in scopes:
        process.range(name, start, start + length, tid=tid)
    process.trace()
    return process


def run_of(*processes: Process) -> Tables:
    made = tables(*processes).tables
    real = pl.col("name").str.extract(r"^(\w+)").replace_strict(REAL, default=pl.col("name"))
    made["names"] = made["names"].with_columns(real.alias("name"))
    return Tables({name: [frame] for name, frame in made.items()})


def results(run: Tables, rows: int) -> dict[str, pl.DataFrame]:
    """All result tables, made with slabs of so many rows, in an order that does not depend on them."""
    sink = MemorySink()
    with patch("traceana.attribution.events.SLAB_ROWS", rows), patch("traceana.attribution.skew.MIN_ONE_RANK", 2):
        attribute(run, sink)
    found = Tables(sink.tables)
    return {name: found.frame(name).sort(pl.all()) for name in ATTRIBUTION_TABLES}


def assert_slabs_do_not_matter(run: Tables, rows: int) -> None:
    at_once, in_slabs = results(run, 1 << 20), results(run, rows)
    for name, frame in at_once.items():
        assert_frame_equal(in_slabs[name], frame, check_exact=True)


@settings(max_examples=40, deadline=None)
@given(events, slab_rows)
def test_slabs_change_nothing_of_what_ranges_launched(given_events, rows) -> None:  # type: ignore[no-untyped-def]
    """Two devices, streams and threads, ids of several calls, work that runs across cuts, late, early and empty."""
    assert_slabs_do_not_matter(run_of(process_of(*given_events)), rows)


@settings(max_examples=10, deadline=None)
@given(events, events, slab_rows)
def test_slabs_change_nothing_of_several_processes(one, other, rows) -> None:  # type: ignore[no-untyped-def]
    assert_slabs_do_not_matter(run_of(process_of(*one), process_of(*other, file_id=1)), rows)


replay = st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans())


@settings(max_examples=15, deadline=None)
@given(st.lists(replay, min_size=1, max_size=3), st.integers(5, 9), st.integers(0, 300), events, slab_rows)
def test_slabs_change_nothing_of_cycles_read_off_replays(pattern, rounds, lag, more, rows) -> None:  # type: ignore[no-untyped-def]
    """Replays that come round, the device behind the host by up to three rounds, and a few events that do not fit."""
    ops, calls, _ = more
    process = process_of(ops[:4], calls[:4], [])
    now = 0
    for _ in range(rounds):
        for nodes, length, whole in pattern:
            now += 30
            launch = process.call(now, now + 3, graph=True, correlation=1000 + now)
            if whole:
                process.graph(now + lag, now + lag + 9 * length, launch, graph_id=nodes)
            for node in range(0 if whole else nodes):
                process.kernel("gemm", now + lag + 9 * node, now + lag + 9 * node + length, launch, node=node)
    assert_slabs_do_not_matter(run_of(process), rows)


@pytest.mark.parametrize("rows", [10, 60])
def test_slabs_change_nothing_of_eight_ranks_that_wait_for_each_other(rows: int) -> None:
    processes = verify_cycles().processes
    for process in processes:
        if not process.rows["traces"]:
            process.trace()
    assert_slabs_do_not_matter(run_of(*processes), rows)


def in_a_store(run: Tables, folder: Path) -> Tables:
    """The same in row groups of a few rows."""
    with patch("traceana.store.dataset._ROWS_PER_GROUP", 16), RunWriter(folder) as writer:
        for name in (*BY_RANK, "traces", "names"):
            for frame in run.frame(name).iter_slices(16):
                writer.add(name, frame)
        writer.flush()
        writer.commit("r", {})
    return open_run(str(folder))[0]


class Watched(Tables):
    """Notes how many rows of kernels and of launches each reading is of."""

    def __init__(self, tables: Tables) -> None:
        super().__init__()
        self._parts = tables._parts
        self.read: list[int] = []

    def frame(self, table: str, columns: list[str] | None = None, only: Only | None = None) -> pl.DataFrame:
        found = super().frame(table, columns, only)
        self.read += [found.height] if table in ("kernels", "launches") else []
        return found


def long_run(lag: int) -> Process:
    """200 cycles of four kernels, the device `lag` behind the host."""
    process = Process(rank=0)
    for at in range(0, 200_000, 1_000):
        process.range("verify", at, at + 900)
        for step in range(4):
            name = "allreduce" if step == 3 else "gemm"
            start = at + 50 + 200 * step + lag
            process.kernel(name, start, start + 150 + step, process.call(at + 40 * step, at + 40 * step + 9))
    process.trace()
    return process


@pytest.mark.parametrize("lag", [0, 5_000, 40_000])
def test_slabs_read_from_a_store_change_nothing_and_are_never_the_whole(lag: int, tmp_path: Path) -> None:
    """The device is behind the host by no slab, by a part of one, by many."""
    stored = in_a_store(run_of(long_run(lag)), tmp_path)
    watched = Watched(stored)
    found = results(watched, 100)
    for name, rows in results(stored, 1 << 20).items():
        assert_frame_equal(found[name], rows, check_exact=True)
    assert len(watched.read) > 20 and max(watched.read) < 300 < stored.height("kernels")


def test_events_in_no_order_are_not_read_again_for_every_slab(tmp_path: Path) -> None:
    process = long_run(0)
    for name in ("kernels", "launches"):
        Random(7).shuffle(process.rows[name])
    stored = in_a_store(run_of(process), tmp_path)
    groups: list[int] = []
    read = ParquetFile.read_row_groups

    def counted(self: ParquetFile, some: list[int], **more: object) -> object:
        groups.extend(some)
        return read(self, some, **more)

    with patch.object(ParquetFile, "read_row_groups", counted):
        found = results(stored, 20)
    for name, rows in results(run_of(long_run(0)), 1 << 20).items():
        assert_frame_equal(found[name], rows, check_exact=True)
    assert len(groups) < 1_500, "some 50 row groups of kernels and of launches, read in each of a few walks"
