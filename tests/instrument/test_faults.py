"""Whatever goes wrong, the engine gets its results and its exceptions, and the next cycle is timed again."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.instrument.engine import HOOKS, MODULE, Batch, Clock, install, make_worker, taken
from traceana_instrument import readers
from traceana_instrument.hook import Hook
from traceana_instrument.state import FAULTS


@pytest.mark.parametrize("error", [ValueError("out of memory"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_an_exception_of_the_engine_passes_through_unchanged(clock: Clock, error: BaseException) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    engine = worker()
    engine.fails = error
    with pytest.raises(type(error)) as caught:
        engine.forward(Batch())
    assert caught.value is error
    assert error.__cause__ is None and error.__context__ is None
    engine.fails = None
    engine.forward(Batch())
    line = taken(state)
    assert (line["cycles"], line["total_ms"], state.faults) == (1, 13.5, 0)


def test_an_exception_that_the_engine_catches_inside_a_cycle_drops_that_cycle_only(clock: Clock) -> None:
    base = make_worker(clock)

    class Careful(base):  # type: ignore[misc, valid-type]
        def forward(self, batch: Batch) -> str:
            try:
                return str(super().forward(batch))
            except ValueError:
                self.draft()
                return "recovered"

    Careful.__module__ = MODULE
    hooks = [*HOOKS, Hook(MODULE, "Careful.forward", "cycle", "1.0..", read="sglang_batch")]
    state, _ = install(clock, base, hooks, None, Careful=Careful)
    engine = Careful()
    base.fails = ValueError()
    assert engine.forward(Batch()) == "recovered"
    base.fails = None
    assert engine.forward(Batch()) == "done"
    assert taken(state)["cycles"] == 1


def test_a_part_that_fails_and_is_made_up_for_drops_the_cycle(clock: Clock) -> None:
    """The engine goes on without the draft: what is left is no cycle to average."""
    base = make_worker(clock)

    class Forgiving(base):  # type: ignore[misc, valid-type]
        def draft(self) -> str:
            raise ValueError("no draft today")

        def forward(self, batch: Batch) -> str:
            with contextlib.suppress(ValueError):
                self.draft()
            return str(self.verify())

    Forgiving.__module__ = MODULE
    hooks = [
        *HOOKS,
        Hook(MODULE, "Forgiving.draft", "draft", "1.0.."),
        Hook(MODULE, "Forgiving.forward", "cycle", "1.0..", read="sglang_batch"),
    ]
    state, _ = install(clock, base, hooks, None, Forgiving=Forgiving)
    assert Forgiving().forward(Batch()) == "verified"
    base().forward(Batch())
    line = taken(state)
    assert line["cycles"] == 1 and "clock_errors" not in line


def test_an_error_in_a_reader_is_ours_and_stays_ours(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("this engine looks different")

    monkeypatch.setitem(readers.READERS, "sglang_batch", broken)
    state, _ = install(clock, worker := make_worker(clock))
    for _ in range(FAULTS + 5):
        assert worker().forward(Batch()) == "done"
    # it gives up, says so once, and costs one look at a flag from then on
    assert (state.on, state.faults) == (False, FAULTS)
    texts = list(state.emitter._texts)
    assert len(texts) == 1 and "timers are off" in texts[0] and "looks different" in texts[0]


def test_a_clock_that_goes_backwards_drops_the_cycle_and_is_counted(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    engine = worker()
    engine.also = lambda: clock.pass_ms(-100)
    engine.forward(Batch())
    engine.also = None
    engine.forward(Batch())
    line = taken(state)
    assert (line["cycles"], line["total_ms"], line["clock_errors"]) == (1, 13.5, 1)


def test_a_method_that_is_gone_is_listed_and_the_others_are_timed(clock: Clock) -> None:
    worker = make_worker(clock)
    del worker.catch_up  # type: ignore[attr-defined]
    worker.forward = lambda self, batch: (self.draft(), self.verify())[0]  # type: ignore[attr-defined]
    hooks = [*HOOKS, Hook(MODULE, "Nobody.draft", "draft", "1.0..")]
    state, installed = install(clock, worker, hooks)
    assert [(row.target, why) for row, why in installed.missing] == [
        ("Worker.catch_up", "not in this version"),
        ("Nobody.draft", "not in this version"),
    ]
    worker().forward(Batch())
    assert taken(state)["total_ms"] == 12


class Odd:
    """Things a new version may have made of a method."""

    async def coroutine(self) -> str:
        return "awaited"

    def generator(self) -> Iterator[int]:
        yield 1

    async def agenerator(self) -> Any:
        yield 1

    @property
    def looked_up(self) -> str:
        return "value"

    constant = 3

    @staticmethod
    def static(clock: Clock) -> str:
        clock.pass_ms(1)
        return "static"

    @classmethod
    def of_class(cls, clock: Clock) -> str:
        clock.pass_ms(2)
        return cls.__name__


Odd.__module__ = MODULE


def test_what_is_no_plain_method_is_left_alone_with_a_reason(clock: Clock) -> None:
    odd = type("Odd", (), dict(vars(Odd)))
    odd.__module__ = MODULE
    names = ("coroutine", "generator", "agenerator", "looked_up", "constant")
    _, installed = install(clock, odd, [Hook(MODULE, f"Odd.{name}", "draft", "1.0..") for name in names])
    assert not installed.applied
    assert {row.method: why for row, why in installed.missing} == {
        "coroutine": "a coroutine: other work runs inside it",
        "generator": "a generator: it runs after it has returned",
        "agenerator": "a coroutine: other work runs inside it",
        "looked_up": "not a method",
        "constant": "not a method",
    }
    assert asyncio.run(odd().coroutine()) == "awaited" and list(odd().generator()) == [1]


def test_static_and_class_methods_keep_their_kind(clock: Clock) -> None:
    odd = type("Odd", (), dict(vars(Odd)))
    odd.__module__ = MODULE
    base = make_worker(clock)

    class Worker(base):  # type: ignore[misc, valid-type]
        def forward(self, batch: Batch) -> str:
            self.verify()
            assert odd.static(clock) == "static" and odd().static(clock) == "static"
            assert odd.of_class(clock) == "Odd"
            return "done"

    Worker.__module__ = MODULE
    hooks = [
        Hook(MODULE, "Odd.static", "draft", "1.0.."),
        Hook(MODULE, "Odd.of_class", "re_extend", "1.0.."),
        Hook(MODULE, "Base.verify", "verify", "1.0.."),
        Hook(MODULE, "Worker.forward", "cycle", "1.0..", read="sglang_batch"),
    ]
    state, _ = install(clock, Worker, hooks, None, Odd=odd, Base=base)
    Worker().forward(Batch())
    line = taken(state)
    assert (line["draft_ms"], line["re_extend_ms"]) == (2, 2)


def test_a_class_that_takes_no_attributes_is_listed(clock: Clock) -> None:
    _, installed = install(clock, make_worker(clock), [Hook(MODULE, "dict.get", "draft", "1.0..")], None, dict=dict)
    assert installed.missing[0][1] == "not in this version"  # it is not defined in this module
    frozen = type("Frozen", (type,), {"__setattr__": lambda *_: (_ for _ in ()).throw(AttributeError("read-only"))})
    sealed = frozen("Sealed", (), {"draft": lambda self: 1, "__module__": MODULE})
    _, installed = install(
        clock, make_worker(clock), [Hook(MODULE, "Sealed.draft", "draft", "1.0..")], None, Sealed=sealed
    )
    assert installed.missing[0][1] == "AttributeError: read-only"
    assert sealed().draft() == 1


def test_threads_that_run_cycles_at_once_do_not_mix_them(clock: Clock) -> None:
    """Each thread's cycles have its own parts: 4 threads, 200 cycles each, all whole."""
    state, _ = install(clock, worker := make_worker(clock))
    engines = [worker() for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(engine: Any) -> None:
        barrier.wait()
        for _ in range(200):
            assert engine.forward(Batch()) == "done"

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    line = taken(state)
    # the one clock is moved by all of them, so the times are anything; every cycle is there and none is negative
    assert line["cycles"] + line.get("clock_errors", 0) == 800
    assert min(line["draft_ms"], line["verify_ms"], line["re_extend_ms"], line["other_ms"]) >= 0
    assert state.faults == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_cycle_leaves_both_sides_whole(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    os.register_at_fork(after_in_child=state.after_fork)
    engine = worker()
    engine.forward(Batch())
    pids = []
    engine.also = lambda: pids.append(os.fork())
    engine.forward(Batch())
    if pids[-1] == 0:  # the child: its interval is its own and its next cycle counts
        engine.also = None
        engine.forward(Batch())
        sums = state.interval.take()
        os._exit(0 if sums is not None and sums.cycles == 1 and state.interval.cycle == 1 else 1)
    engine.also = None
    assert os.waitstatus_to_exitcode(os.waitpid(pids[-1], 0)[1]) == 0
    engine.forward(Batch())
    assert taken(state)["cycles"] == 3


def test_the_switch_is_obeyed_in_the_middle_of_a_cycle(clock: Clock) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    engine = worker()
    engine.also = lambda: state._turn(False)
    assert engine.forward(Batch()) == "done"
    engine.also = None
    assert engine.forward(Batch()) == "done"
    state._turn(True)
    engine.forward(Batch())
    line = taken(state)
    assert line["total_ms"] == 13.5
    assert [text.split(":")[0][-3:] for text in state.emitter._texts] == ["off", " on"]


def test_a_million_cycles_leave_memory_flat() -> None:
    class Worker:
        def verify(self) -> None:
            pass

        def forward(self, batch: Batch) -> None:
            self.verify()

    Worker.__module__ = MODULE
    state, _ = install(Clock(), Worker, [row for row in HOOKS if row.phase in ("cycle", "verify")])
    engine, batch = Worker(), Batch()

    def run(cycles: int) -> None:
        for _ in range(cycles // 1000):
            for _ in range(1000):
                engine.forward(batch)
            state.interval.take()

    run(10_000)
    before = sys.getallocatedblocks()
    run(1_000_000)
    assert sys.getallocatedblocks() - before < 200
    assert state.interval.cycle == 1_010_000
