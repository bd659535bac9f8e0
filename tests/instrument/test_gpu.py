"""With CUDA: times of the GPU, read when they are there; nothing waits, nothing touches a graph being captured."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.instrument.engine import HOOKS, MODULE, Batch, Clock, Gpu, install, make_worker, taken
from traceana_instrument import finished
from traceana_instrument.clocks import EVENTS
from traceana_instrument.hook import Hook


@pytest.fixture
def gpu(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    made = Gpu(clock, monkeypatch)
    yield made
    assert made.broken == []


def test_gpu_time_and_launch_time_are_told_apart(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    engine = worker()
    for count in (1, 20):
        for _ in range(count):
            engine.forward(Batch())
            clock.pass_ms(0.5)
        line = taken(state)  # the first cycle, whose launches the GPU waits for, is in the first line
    # the host launches in 14 ms what takes the GPU 36: it runs ahead and its own times say nothing of the cycle
    assert (line["draft_ms"], line["verify_ms"], line["re_extend_ms"], line["clock"]) == (4, 30, 2, "cuda_event")
    assert (line["host_draft_ms"], line["host_verify_ms"], line["host_re_extend_ms"]) == (2, 10, 1)
    assert line["host_cycle_ms"] == 13.5
    assert line["total_ms"] == 36


def test_a_gpu_that_waits_for_the_host_has_time_between_cycles(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    for _ in range(10):
        worker().forward(Batch())
        clock.pass_ms(100)
    assert taken(state)["between_ms"] == 69


def test_a_cycle_is_counted_only_when_the_gpu_has_passed_it(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    gpu.passed = 0
    worker().forward(Batch())
    worker().forward(Batch())
    assert state.interval.take() is None
    gpu.passed = 10**30
    worker().forward(Batch())
    assert taken(state)["cycles"] == 3


def test_a_gpu_that_hangs_costs_a_bounded_number_of_events(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    worker().forward(Batch())
    state.interval.take()
    gpu.passed = gpu.clock.ns
    for _ in range(1000):
        worker().forward(Batch())
    assert len(gpu.events) <= min(EVENTS, 9 * (finished.WAITING + 2))
    gpu.passed = 10**30
    worker().forward(Batch())
    line = taken(state)
    assert line["cycles"] == finished.WAITING + 1
    assert line["lost"] == 1000 - finished.WAITING
    assert line["verify_ms"] == 30
    assert line["between_ms"] == 0  # not what lies between the cycles on both sides of the lost ones


def test_events_are_used_again(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    for _ in range(500):
        worker().forward(Batch())
    assert len(gpu.events) < 40 < gpu.recorded
    assert taken(state)["cycles"] == 500


def test_nothing_is_recorded_while_a_graph_is_captured(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    engine = worker()
    engine.forward(Batch())
    before = gpu.recorded
    gpu.capturing = True
    assert engine.forward(Batch()) == "done"
    assert gpu.recorded == before
    gpu.capturing = False

    def capture() -> None:
        gpu.capturing = True

    engine.also = capture  # the capture begins inside a part
    engine.forward(Batch())
    gpu.capturing = False
    engine.also = None
    engine.forward(Batch())
    assert state.faults == 0
    assert taken(state)["cycles"] == 2


def test_collectives_are_timed_on_the_gpu(clock: Clock, gpu: Gpu) -> None:
    class Group:
        def all_gather(self) -> None:
            clock.pass_ms(0.01)
            gpu.launch(0.2)

    Group.__module__ = MODULE
    from traceana_instrument.settings import Settings

    hooks = [*HOOKS, Hook(MODULE, "Group.all_gather", "comm", "1.0..")]
    state, _ = install(clock, worker := make_worker(clock, gpu), hooks, Settings(on=True, comm=True), Group=Group)
    engine = worker()
    engine.also = Group().all_gather
    for _ in range(5):
        engine.forward(Batch())
    assert taken(state)["comm_ms"] == pytest.approx(0.2)


def test_cuda_is_never_initialised_by_the_timers(clock: Clock, gpu: Gpu) -> None:
    gpu.cuda.is_initialized = lambda: False
    state, _ = install(clock, worker := make_worker(clock, gpu))
    worker().forward(Batch())
    assert taken(state)["clock"] == "host"
    assert not gpu.events


def test_an_event_that_cannot_be_read_costs_one_cycle(clock: Clock, gpu: Gpu) -> None:
    state, _ = install(clock, worker := make_worker(clock, gpu))
    worker().forward(Batch())
    gpu.events[1].elapsed_time = lambda end: 1 / 0  # type: ignore[attr-defined, method-assign]
    for _ in range(5):
        worker().forward(Batch())
    assert state.faults > 0
    assert taken(state)["cycles"] >= 1


def test_the_rounding_of_events_is_no_broken_clock(clock: Clock, gpu: Gpu) -> None:
    """A part that is all of the part around it may come out longer than that by what an event resolves."""
    worker = make_worker(clock, gpu)

    def verify(self: Any) -> None:
        self.catch_up()
        gpu.events[-1].at += 200  # the end of the inner part, 0.2 us late

    worker.verify = verify  # type: ignore[attr-defined]
    state, _ = install(clock, worker)
    worker().forward(Batch())
    line = taken(state)
    assert "clock_errors" not in line
    assert (line["verify_ms"], line["re_extend_ms"]) == (0, 4.0002)
