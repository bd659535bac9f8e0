"""Cycles that are over: they wait until the GPU has passed them and become samples of the interval."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from traceana_instrument.clocks import CudaEvents
from traceana_instrument.cycle import PHASE_COUNT, Cycle
from traceana_instrument.interval import Interval, Sample

WAITING = 64  # finished cycles that wait for the GPU
ROUNDING_NS = 5_000  # CUDA events resolve half a microsecond: so much below nothing is nothing, more is a broken clock


class Finished:
    """The queue of one thread, and the objects it has done with, for use again."""

    def __init__(self, interval: Interval, fault: Callable[[BaseException], None]) -> None:
        self.events: CudaEvents | None = None
        self._interval = interval
        self._fault = fault
        self._waiting: deque[Cycle] = deque()
        self._spare: list[Cycle] = []
        self._last_h = 0  # end of the last cycle that was folded
        self._last_e: Any = None

    def fresh(self) -> Cycle:
        """A cycle to use."""
        return self._spare.pop() if self._spare else Cycle()

    def add(self, cycle: Cycle) -> None:
        """Queue a cycle, and turn into samples what the GPU has passed."""
        events = self.events
        self._waiting.append(cycle)
        while self._waiting:
            # nothing is being captured here: the mark that ended the newest cycle would have failed
            if events is not None and not self._waiting[0].e1.query():
                break
            done = self._waiting.popleft()
            try:
                self._fold(done)
            except Exception as error:  # an event the GPU has not passed after all: one cycle less
                self._fault(error)
                self._forget_last()
            self.recycle(done)
        while len(self._waiting) > WAITING:
            self.recycle(self._waiting.popleft())
            self._forget_last()
            self._interval.lose()

    def _fold(self, cycle: Cycle) -> None:
        facts = cycle.facts
        assert facts is not None
        events = self.events
        host, gpu, seen, own = [0] * PHASE_COUNT, [0] * PHASE_COUNT, 0, cycle.inner
        for span in cycle.spans[: cycle.n]:
            phase, parent, inner, took = span.phase, span.parent, span.inner, span.h1 - span.h0
            wall = span.w1 - span.w0
            seen |= 1 << phase
            own += wall - took + inner
            host[phase] += took - inner
            if parent is not None:
                host[parent.phase] -= wall
            if events is not None:
                ns = int(span.e0.elapsed_time(span.e1) * 1e6)
                gpu[phase] += ns
                if parent is not None:
                    gpu[parent.phase] -= ns
        between = None
        inside = cycle.h1 - cycle.h0 - own  # without the timers' own work
        total = inside if events is None else events.ns(cycle.e0, cycle.e1)
        if cycle.continuous and self._last_h:
            between = cycle.h0 - self._last_h - cycle.pre if events is None else events.ns(self._last_e, cycle.e0)
        self.give_back(self._last_e)
        self._last_h, self._last_e, cycle.e1 = cycle.h1, cycle.e1, None
        if min(*host, *gpu, inside, total, between or 0) < -ROUNDING_NS:
            self._interval.clock_error()
            self._forget_last()
            return
        for key, start, end, first, last in cycle.comms:
            self._interval.add_comm(key, end - start if events is None else events.ns(first, last))
        self._interval.add(
            Sample(
                batch=facts.batch,
                k=facts.k,
                drafted=facts.drafted,
                seen=seen,
                total=total,
                parts=host if events is None else gpu,
                host_total=inside,
                host=host,
                between=between,
                overhead=cycle.overhead,
                clock="host" if events is None else events.name,
                at=cycle.h0,
            )
        )

    def _forget_last(self) -> None:
        self.give_back(self._last_e)
        self._last_h, self._last_e = 0, None

    def recycle(self, cycle: Cycle) -> None:
        """Take back a cycle nobody looks at any more, and its events."""
        if self.events is not None:
            free = self.events.free
            for span in cycle.spans[: cycle.n]:
                if span.e0 is not None:
                    free.append(span.e0)
                if span.e1 is not None:
                    free.append(span.e1)
                span.e0 = span.e1 = None
            for comm in cycle.comms:
                free += comm[3:]
            self.give_back(cycle.e0, cycle.e1)
        cycle.reset()
        if len(self._spare) <= WAITING:
            self._spare.append(cycle)

    def give_back(self, *events: Any) -> None:
        """Return events to the pool; None is none."""
        if self.events is not None:
            self.events.free += [event for event in events if event is not None]
