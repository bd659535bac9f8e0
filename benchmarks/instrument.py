"""What the timers cost the server: host time per wrapped call, as a ratio to an empty wrapper, and the start of a process.

A cycle of four calls (cycle, draft, verify, re-extend) whose methods do nothing. The empty wrapper is what any decorator
costs: a function that passes its arguments on. CUDA events are stood in for by objects that do nothing, so that row is
the bookkeeping of events without the driver's own share; on a GPU add what two `cudaEventRecord` and one
`cudaEventQuery` per call cost there.

    python benchmarks/instrument.py [--cycles 20000] [--repeat 9]
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path

from traceana_instrument.hook import Hook
from traceana_instrument.install import Installed
from traceana_instrument.settings import Settings
from traceana_instrument.state import State

MODULE = "benchmarked"
CALLS = 4  # wrapped calls in a cycle
BOOTSTRAP = Path(__file__).resolve().parents[1] / "instrument" / "traceana_instrument" / "bootstrap"
HOOKS = (
    Hook(MODULE, "Worker.draft", "draft", ""),
    Hook(MODULE, "Worker.verify", "verify", ""),
    Hook(MODULE, "Worker.catch_up", "re_extend", ""),
    Hook(MODULE, "Worker.forward", "cycle", "", read="sglang_batch"),
)


class Request:
    rid = "a"


class Batch:
    reqs = (Request(),)


def make_worker() -> type:
    """A worker whose methods do nothing."""

    class Worker:
        speculative_num_draft_tokens, topk = 4, 1

        def draft(self) -> None:
            pass

        def verify(self) -> None:
            pass

        def catch_up(self) -> None:
            pass

        def forward(self, batch: Batch) -> None:
            self.draft()
            self.verify()
            self.catch_up()

    Worker.__module__ = MODULE
    return Worker


def empty(method: Callable) -> Callable:
    """The reference: a wrapper that does nothing."""

    @functools.wraps(method)
    def wrapper(*args: object, **kwargs: object) -> object:
        return method(*args, **kwargs)

    return wrapper


def timed(settings: Settings) -> tuple[type, State]:
    """The worker with timers; no thread prints, the benchmark takes the sums."""
    state = State(settings)
    state.started = True
    module = types.ModuleType(MODULE)
    module.Worker = make_worker()
    Installed(state, HOOKS).apply(module)
    return module.Worker, state


def collectives(settings: Settings) -> tuple[type, State]:
    """The same worker with four collectives in its verify, as a class of their own."""

    class Group:
        def all_reduce(self) -> None:
            pass

    state = State(settings)
    state.started = True
    module = types.ModuleType(MODULE)
    Group.__module__ = MODULE
    worker, group = make_worker(), Group()

    def verify(self: object) -> None:
        for _ in range(CALLS):
            group.all_reduce()

    worker.verify = verify
    module.Worker, module.Group = worker, Group
    Installed(state, [*HOOKS, Hook(MODULE, "Group.all_reduce", "comm", "")]).apply(module)
    return worker, state


class Event:
    """An event of a GPU that is always done."""

    def __init__(self, enable_timing: bool) -> None:
        pass

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        return 1.0


def fake_torch() -> types.ModuleType:
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(
        Event=Event, is_available=lambda: True, is_initialized=lambda: True, is_current_stream_capturing=lambda: False
    )
    return torch


def ns_per_call(worker: type, cycles: int, repeat: int, state: State | None = None) -> float:
    """CPU nanoseconds per wrapped call, the least of the repeats."""
    engine, batch, best = worker(), Batch(), float("inf")
    for _ in range(repeat):
        start = time.process_time_ns()
        for _ in range(cycles):
            engine.forward(batch)
        best = min(best, (time.process_time_ns() - start) / cycles / CALLS)
        if state is not None:
            sums = state.interval.take()
            assert sums is None or sums.cycles == cycles, "not every cycle was timed"
    return best


def start_cpu_ms(repeat: int, path: str, **environ: str) -> float:
    """CPU milliseconds of `python -c pass` with the bootstrap folder on its path or not, the least of the repeats."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EAGLE3_"))}
    best = float("inf")
    for _ in range(repeat):
        child = subprocess.Popen([sys.executable, "-c", "pass"], env={**env, "PYTHONPATH": path, **environ})
        used = os.wait4(child.pid, 0)[2]
        child.returncode = 0
        best = min(best, (used.ru_utime + used.ru_stime) * 1e3)
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cycles", type=int, default=20_000)
    options.add_argument("--repeat", type=int, default=9)
    given = options.parse_args()
    measure = functools.partial(ns_per_call, cycles=given.cycles, repeat=given.repeat)

    bare = measure(make_worker())
    wrapped = make_worker()
    for hook in HOOKS:
        setattr(wrapped, hook.method, empty(getattr(wrapped, hook.method)))
    reference = measure(wrapped) - bare
    rows = [("an empty wrapper", reference)]
    worker, state = timed(Settings(on=True))
    state.on = False
    rows.append(("switch file removed", measure(worker, state=state) - bare))
    worker, state = timed(Settings(on=True))
    rows.append(("timers on, host clock", measure(worker, state=state) - bare))
    with tempfile.TemporaryDirectory() as folder:
        worker, state = timed(Settings(on=True, directory=folder))
        rows.append(("and every cycle kept for its file", measure(worker, state=state) - bare))
    worker, state = collectives(Settings(on=True))
    without = measure(worker, state=state)
    worker, state = collectives(Settings(on=True, comm=True))
    rows.append(("each collective with EAGLE3_PROFILE=comm, host clock", measure(worker, state=state) - without))
    kept = sys.modules.get("torch")
    sys.modules["torch"] = fake_torch()
    worker, state = timed(Settings(on=True, nvtx=False))
    rows.append(("timers on, CUDA events that cost nothing", measure(worker, state=state) - bare))
    if kept is None:
        del sys.modules["torch"]
    else:
        sys.modules["torch"] = kept

    print("| per wrapped call | ns | to an empty wrapper |\n|---|---:|---:|")
    for name, ns in rows:
        print(f"| {name} | {ns:.0f} | {ns / reference:.1f} |")
    # without EAGLE3_PROFILE no method is wrapped (a test proves it): what is left is the look at the variable
    plain = start_cpu_ms(given.repeat, "")
    off = start_cpu_ms(given.repeat, str(BOOTSTRAP))
    on = start_cpu_ms(given.repeat, str(BOOTSTRAP), EAGLE3_PROFILE="1")
    print("\n| start of a process | CPU ms | to `python -c pass` |\n|---|---:|---:|")
    for name, ms in (
        ("`python -c pass`", plain),
        ("bootstrap on its path, EAGLE3_PROFILE unset", off),
        ("EAGLE3_PROFILE=1", on),
    ):
        print(f"| {name} | {ms:.1f} | {ms / plain:.2f} |")


if __name__ == "__main__":
    main()
