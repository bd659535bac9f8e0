"""What is counted inside cycles: host waits with the idle time they cause, communication kernels, copies."""

import polars as pl
import pytest

from tests.attribution.builder import Process, tables
from traceana.attribution.cycle_contents import comm_kernels, copies
from traceana.attribution.cycles import cycles_of_scopes
from traceana.attribution.host_waits import host_waits
from traceana.attribution.scopes import scopes_by_name


def api_call(process: Process, name: str, start: int, end: int, tid: int = 1, correlation: int | None = None) -> None:
    process._add("launches", start, end, name, tid=tid, correlation=correlation, is_graph=False)


def cycle(process: Process, start: int) -> None:
    """1,000 ns: a verify whose GPU work runs from +100 to +400, then nothing until the next one."""
    process.range("verify", start, start + 450)
    process.kernel("gemm", start + 100, start + 400, process.call(start + 10, start + 60))


def waits(process: Process) -> list[dict[str, object]]:
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    return host_waits(cycles, trace.launches, trace.ops, trace.names).to_dicts()


@pytest.fixture
def process() -> Process:
    made = Process()
    for start in range(0, 3_000, 1_000):
        cycle(made, start)
    return made


@pytest.mark.parametrize(
    "name",
    ["cudaStreamSynchronize", "cudaEventSynchronize_v3020", "cudaDeviceSynchronize", "hipStreamSynchronize", "cuMemcpyDtoH_v2", "cudaMemcpy_v3020"],
)  # fmt: skip
def test_a_wait_that_drains_the_gpu_causes_the_idle_time_until_the_next_operation(process: Process, name: str) -> None:
    api_call(process, name, 200, 405)
    (found,) = waits(process)
    assert (found["call"], found["calls"], found["cycles"], found["cycles_waiting"]) == (name, 1, 3, 1)
    assert (found["call_ns"], found["idle_ns"]) == (205, 700)  # 400 to 1,100


def test_idle_time_is_counted_no_further_than_the_cycle_lasts(process: Process) -> None:
    api_call(process, "cudaStreamSynchronize", 2_200, 2_405)
    (found,) = waits(process)
    assert found["idle_ns"] == 50  # the last cycle ends with its host range


def test_a_host_that_was_late_anyway_has_not_waited(process: Process) -> None:
    api_call(process, "cudaStreamSynchronize", 420, 425)
    (found,) = waits(process)
    assert (found["calls"], found["cycles_waiting"], found["idle_ns"]) == (1, 0, 0)


def test_a_wait_that_ends_while_the_gpu_has_work_costs_nothing(process: Process) -> None:
    api_call(process, "cudaEventSynchronize", 150, 300)
    (found,) = waits(process)
    assert (found["cycles_waiting"], found["idle_ns"]) == (0, 0)


def test_of_two_waits_in_a_row_the_first_drained_the_gpu(process: Process) -> None:
    api_call(process, "cudaStreamSynchronize", 200, 405)
    api_call(process, "cudaStreamSynchronize", 410, 412)
    (found,) = waits(process)
    assert (found["calls"], found["idle_ns"]) == (2, 700)


def test_waits_of_other_threads_and_calls_that_do_not_wait_are_not_counted(process: Process) -> None:
    api_call(process, "cudaStreamSynchronize", 200, 405, tid=9)
    api_call(process, "cudaStreamWaitEvent", 200, 405)
    api_call(process, "cudaMemcpyAsync", 500, 505, correlation=77)
    assert waits(process) == []


def test_an_asynchronous_copy_waits_only_if_its_call_outlasts_it(process: Process) -> None:
    api_call(process, "cudaMemcpyAsync", 200, 460, correlation=77)
    process.copy(420, 450, 77)
    (found,) = waits(process)
    assert (found["call"], found["idle_ns"]) == ("cudaMemcpyAsync", 650)  # 450 to 1,100


def test_communication_is_counted_by_phase_library_size_and_shape() -> None:
    process = Process()
    for start in (0, 1_000):
        process.range("draft", start, start + 100)
        process.kernel("gemm", start + 20, start + 90, process.call(start + 1, start + 5))
        process.range("verify", start + 100, start + 500)
        for at in (110, 300):
            call = process.call(start + at, start + at + 5)
            process.kernel(
                "allreduce ring", start + at + 20, start + at + 90, call, bytes=64, size=2, grid=1, block=544
            )
    process.kernel("allreduce ring", 5_000, 5_100, process.call(4_990, 4_995), bytes=64, size=2)  # in no cycle
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    libraries = trace.names.select("file_id", "name_id", pl.lit("nccl").alias("library"))
    (found,) = comm_kernels(cycles, trace.ops, trace.kernels, trace.collectives, libraries).to_dicts()
    assert {name: found[name] for name in ("phase", "collective", "library", "bytes", "group_size", "block_x")} == {
        "phase": "verify", "collective": "all_reduce", "library": "nccl", "bytes": 64, "group_size": 2, "block_x": 544,
    }  # fmt: skip
    assert (found["instances"], found["total_ns"], found["shortest_ns"]) == (4, 280, 70)


def test_copies_are_counted_by_direction_with_their_bytes(process: Process) -> None:
    process.copy(420, 440, process.call(401, 405))
    process.copy(1_420, 1_450, process.call(1_401, 1_405))
    process.copy(9_000, 9_010, process.call(8_990, 8_995))  # in no cycle
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    (found,) = copies(cycles, trace.memops).to_dicts()
    assert (found["phase"], found["kind"], found["copies"], found["total_ns"], found["bytes"]) == (
        "verify",
        "HtoD",
        2,
        50,
        128,
    )
