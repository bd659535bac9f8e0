"""An engine of a few lines whose methods take exactly the time they are told, and a torch whose GPU is a number."""

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from traceana_instrument.hook import Hook
from traceana_instrument.install import Installed
from traceana_instrument.interval import Sums, line
from traceana_instrument.settings import Settings
from traceana_instrument.state import State

MODULE = "toyengine.worker"
MS = 1_000_000


class Clock:
    """Nanoseconds that pass only when they are told to."""

    def __init__(self) -> None:
        self.ns = 1_000_000_000
        self.tick = 0  # what each look at the clock costs

    def __call__(self) -> int:
        self.ns += self.tick
        return self.ns

    def pass_ms(self, ms: float) -> None:
        self.ns += int(ms * MS)


class Request:
    def __init__(self, rid: str) -> None:
        self.rid = rid


class Batch:
    def __init__(self, *names: str, prefill: bool = False) -> None:
        self.reqs = [Request(name) for name in names or ("a",)]
        self.prefill = prefill


HOOKS = (
    Hook(MODULE, "Worker.draft", "draft", "1.0.."),
    Hook(MODULE, "Worker.catch_up", "re_extend", "1.0.."),
    Hook(MODULE, "Worker.verify", "verify", "1.0.."),
    Hook(MODULE, "Worker.forward", "cycle", "1.0..", read="sglang_batch"),
)


def make_worker(clock: Clock, gpu: "Gpu | None" = None) -> type:
    """A worker class: draft 2 ms, verify 10 ms, catch_up 1 ms, and 0.5 ms of its own."""

    class Worker:
        speculative_num_draft_tokens = 4
        topk = 1
        fails: BaseException | None = None
        also: Callable[[], object] | None = None  # called inside verify

        def _takes(self, host_ms: float, gpu_ms: float) -> None:
            clock.pass_ms(host_ms)
            if gpu is not None:
                gpu.launch(gpu_ms)

        def draft(self) -> str:
            self._takes(2, 4)
            return "drafts"

        def verify(self) -> str:
            self._takes(10, 30)
            if self.also is not None:
                self.also()
            if self.fails is not None:
                raise self.fails
            return "verified"

        def catch_up(self) -> None:
            self._takes(1, 2)

        def forward(self, batch: Batch) -> str:
            clock.pass_ms(0.5)
            if batch.prefill:
                clock.pass_ms(50)
                return "prefilled"
            self.draft()
            self.verify()
            self.catch_up()
            return "done"

    Worker.__module__ = MODULE
    return Worker


def install(
    clock: Clock, worker: type, hooks: Sequence[Hook] = HOOKS, wanted: Settings | None = None, **others: type
) -> tuple[State, Installed]:
    """The hooks on a module that holds the classes; nothing of the process is touched."""
    state = State(wanted or Settings(on=True))
    state.started = True  # no thread: tests take the sums themselves
    installed = Installed(state, hooks)
    module = types.ModuleType(MODULE)
    module.__dict__.update({worker.__name__: worker, **others})
    installed.apply(module)
    return state, installed


def taken(state: State) -> dict[str, Any]:
    """The line of the interval so far."""
    sums = state.interval.take()
    assert isinstance(sums, Sums), "no cycle was counted"
    return line(sums, 0)


class Gpu:
    """One stream: work is launched behind what was launched before; `torch` is what the timers see of it."""

    def __init__(self, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = clock
        self.busy_until = clock.ns
        self.passed = 10**30  # work up to this instant is done
        self.capturing = False
        self.events: list[Any] = []
        self.recorded = 0
        self.broken: list[str] = []  # what no timer may do
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                assert enable_timing
                self.at: int | None = None
                gpu.events.append(self)

            def record(self) -> None:
                if gpu.capturing:
                    gpu.broken.append("an event was recorded into a graph")
                gpu.recorded += 1
                self.at = max(gpu.clock.ns, gpu.busy_until)

            def query(self) -> bool:
                if gpu.capturing:
                    gpu.broken.append("a query would break the capture")
                assert self.at is not None
                return self.at <= gpu.passed

            def elapsed_time(self, end: "Event") -> float:
                assert self.at is not None and end.at is not None
                if end.at > gpu.passed:
                    gpu.broken.append("an event was read too early")
                return (end.at - self.at) / MS

            def synchronize(self) -> None:
                forbidden()

        def forbidden() -> None:
            gpu.broken.append("the timers waited for the GPU")

        torch = types.ModuleType("torch")
        self.cuda = types.SimpleNamespace(
            Event=Event, is_available=lambda: True, is_initialized=lambda: True, synchronize=forbidden,
            is_current_stream_capturing=lambda: gpu.capturing,
        )  # fmt: skip
        torch.cuda = self.cuda  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "torch", torch)

    def launch(self, ms: float) -> None:
        """Queue work of this length."""
        self.busy_until = max(self.clock.ns, self.busy_until) + int(ms * MS)
