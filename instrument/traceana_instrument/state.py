"""What one process holds: settings, the switch, a recorder per thread, the interval and the thread that prints it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from traceana_instrument import ranges, settings
from traceana_instrument.emit import NOTE, Emitter, at_exit
from traceana_instrument.hook import PHASES
from traceana_instrument.interval import Interval
from traceana_instrument.recorder import Recorder

VERIFY = PHASES.index("verify")
FAULTS = 10  # own errors after which the timers give up


class State:
    """The timers of this process. `on` is read by every wrapper first."""

    def __init__(self, wanted: settings.Settings) -> None:
        self.settings = wanted
        self.engine = ""
        self.first: Callable[[Any], None] = lambda made: self.run()  # called with the first object that has a cycle
        self._fresh()

    def _fresh(self) -> None:
        self.on = self.settings.on
        self.faults = 0
        self.rank: int | None = None
        self.started = False
        self.interval = Interval()
        self.emitter = Emitter(self.settings, self.interval, self.known_rank, self._turn)
        self.emitter.engine = self.engine
        self._local = threading.local()
        self._ranges: Any = None
        self._broken = False

    def recorder(self) -> Recorder:
        """This thread's recorder."""
        found: Recorder | None = getattr(self._local, "recorder", None)
        if found is None:
            if self._ranges is None:
                self._ranges = ranges.choose(self.settings.nvtx)
            found = self._local.recorder = Recorder(self.interval, self._ranges, VERIFY, self.fault)
        return found

    @property
    def nvtx(self) -> str:
        """Which NVTX the ranges go to."""
        if self._ranges is None:
            self._ranges = ranges.choose(self.settings.nvtx)
        return str(self._ranges.name)

    def run(self) -> None:
        """Start printing."""
        if not self.started:
            self.started = True
            self.emitter.engine = self.engine
            self.emitter.start()
            at_exit(self.emitter.flush)

    def fault(self, error: BaseException) -> None:
        """One of our own errors: counted, and after FAULTS of them the timers stop. The engine never sees it."""
        self.faults += 1
        if self.faults == FAULTS:
            self._broken, self.on = True, False
            self.emitter.say(f"{NOTE} timers are off after {FAULTS} errors of their own, the last: {error!r:.200}")

    def known_rank(self) -> int:
        """Rank of this process in the engine's process group; 0 where there is none."""
        if self.rank is None:
            self.rank = _rank()
        return self.rank

    def _turn(self, on: bool) -> None:
        if self.settings.on and not self._broken and on is not self.on:
            self.on = on
            self.interval.gap += 1
            state, file = ("on", "back") if on else ("off", "gone")
            self.emitter.say(f"{NOTE} timers are {state}: the switch file is {file}")

    def after_fork(self) -> None:
        """In the child of a fork: its own interval, thread and recorders; what the parent had open is the parent's."""
        self._fresh()


def _rank() -> int:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank())
        return int(os.environ.get("RANK", "0"))
    except Exception:  # a rank that cannot be told must not stop anything
        return 0


#: the one state of the process, once there is one
_made: list[State] = []


def current(wanted: settings.Settings | None = None) -> State:
    """The process's state, made at the first call."""
    if not _made:
        _made.append(State(settings.read() if wanted is None else wanted))
        os.register_at_fork(after_in_child=_made[0].after_fork)
    return _made[0]
