"""What happens on the engine's thread: cycles and their parts are opened and closed.

One recorder per thread, so nothing here is locked but the addition to the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from traceana_instrument import clocks
from traceana_instrument.cycle import COMMS, SPANS, Cycle, Facts, Span
from traceana_instrument.finished import Finished
from traceana_instrument.interval import Interval
from traceana_instrument.ranges import NoRanges


class Recorder:
    """The spans and cycles of one thread."""

    def __init__(self, interval: Interval, ranges: Any, verify: int, fault: Callable[[BaseException], None]) -> None:
        self.cycle: Cycle | None = None
        self.inside = False  # between a cycle's call and its return
        self.facts: Facts | None = None
        self.drafted: Any = ()  # vLLM: requests with a draft in the step between its two calls
        self.now = clocks.host_ns
        self._events: clocks.CudaEvents | None = None
        self._chosen = False
        self._interval = interval
        self._gap = interval.gap
        self._ranges = ranges if ranges.name != NoRanges.name else None
        self._verify = verify
        self._fault = fault
        self._stack: list[Span] = []
        self._mask = 0
        self._finished = Finished(interval, fault)
        self._anchor: Any = None
        self._late = 0  # work after a cycle's end: counted to the next one

    # ---- cycles

    def begin(self) -> bool:
        """Open a cycle; False where the call is nested in the cycle's own call and is not timed again."""
        if self.inside:
            return False
        start = self.now()
        if not self._chosen:
            self._events = self._finished.events = clocks.choose()
            self._chosen = True
        if self.cycle is not None:
            self.discard()
        if self._gap != self._interval.gap:
            self._gap, self._anchor = self._interval.gap, None
        cycle = self.cycle = self._finished.fresh()
        self.inside = True
        self.facts = None
        if self._ranges is not None:
            cycle.range = self._ranges.start("cycle")
        if self._events is not None:
            cycle.e0 = self._events.mark()
            cycle.bad = cycle.e0 is None
        cycle.h0 = self.now()
        cycle.pre = cycle.overhead = cycle.h0 - start + self._late
        self._late = 0
        return True

    def end(self, facts: Facts | None) -> None:
        """Close the cycle; without facts (a prefill, a mixed step) or a verify it was none and is dropped."""
        cycle = self.cycle
        if cycle is None:
            return
        end = self.now()
        if facts is None or not cycle.verified or cycle.bad:
            self.discard()
            return
        if self._events is not None:
            cycle.e1 = self._events.mark()
            if cycle.e1 is None:
                self.discard()
                return
        cycle.h1 = end
        cycle.facts = facts
        cycle.continuous = facts.anchor is not None and facts.anchor == self._anchor
        self._anchor = facts.anchor
        if self._ranges is not None:
            self._ranges.end(cycle.range)
        self.cycle, self.inside, self.facts = None, False, None
        if self._stack:
            self._close_open_spans()
        self._finished.add(cycle)
        self._late = self.now() - end

    def discard(self) -> None:
        """Drop the cycle, whatever state it is in; the next one starts afresh."""
        cycle, self.cycle, self.inside, self.facts, self._anchor = self.cycle, None, False, None, None
        if cycle is not None:
            if self._ranges is not None:
                self._ranges.end(cycle.range)
            self._close_open_spans()
            self._finished.recycle(cycle)

    def drop(self) -> None:
        """`discard` for error paths: whatever goes wrong here is counted, never raised."""
        try:
            self.discard()
        except Exception as error:
            self.cycle, self.inside, self.facts = None, False, None
            self._stack.clear()
            self._mask = 0
            self._fault(error)

    # ---- parts

    def enter(self, phase: int, name: str, *, held: bool = False, only_alone: bool = False) -> Span | None:
        """Open a part of the cycle; None where there is no cycle or the part is open already.

        held: it may outlive its call and is closed by `close_held`, or with the part it lies in.
        only_alone: only directly in the cycle, not inside another part.
        """
        start = self.now()
        cycle = self.cycle
        if cycle is None or self._mask & (1 << phase) or (only_alone and self._stack):
            return None
        if cycle.n == len(cycle.spans):
            if cycle.n == SPANS:
                cycle.bad = True
                return None
            cycle.spans.append(Span())
        span = cycle.spans[cycle.n]
        cycle.n += 1
        span.phase = phase
        span.parent = self._stack[-1] if self._stack else None
        span.w0 = start
        span.inner = 0
        span.held = held
        span.e0 = span.e1 = None
        self._mask |= 1 << phase
        self._stack.append(span)
        if self._ranges is not None:
            span.range = self._ranges.start(name)
        if self._events is not None:
            span.e0 = self._events.mark()
            if span.e0 is None:
                cycle.bad = True
        span.h0 = span.h1 = span.w1 = self.now()
        return span

    def leave(self, span: Span) -> None:
        """Close a part, and the held ones inside it that nothing closed."""
        end = self.now()
        stack = self._stack
        while stack and stack[-1] is not span and stack[-1].held:
            self._close(stack[-1], end)
        if stack and stack[-1] is span:
            self._close(span, end)

    def close_held(self, phase: int) -> None:
        """Close a part that outlived its call."""
        if self._stack and self._stack[-1].held and self._stack[-1].phase == phase:
            self._close(self._stack[-1], self.now())

    def _close(self, span: Span, end: int) -> None:
        cycle = self.cycle
        self._stack.pop()
        self._mask &= ~(1 << span.phase)
        if self._ranges is not None:
            self._ranges.end(span.range)
        if cycle is None:
            return
        if self._events is not None:
            span.e1 = self._events.mark()
            if span.e1 is None:
                cycle.bad = True
        if span.phase == self._verify:
            cycle.verified = True
        span.h1 = end
        span.w1 = self.now()
        cycle.overhead += span.h0 - span.w0 + span.w1 - end

    def _close_open_spans(self) -> None:
        if self._ranges is not None:
            for span in self._stack:
                self._ranges.end(span.range)
        self._stack.clear()
        self._mask = 0

    # ---- collectives

    def enter_comm(self) -> tuple[int, int, Any] | None:
        """Start of a collective inside a cycle: wrapper start, call start, event."""
        cycle = self.cycle
        if cycle is None:
            return None
        start = self.now()
        event = self._events.mark() if self._events is not None else None
        if len(cycle.comms) >= COMMS or (self._events is not None and event is None):
            cycle.bad = True  # some collectives without the others would be a wrong sum
            return None
        return start, self.now(), event

    def leave_comm(self, token: tuple[int, int, Any], op: str, size: int) -> None:
        """End of a collective."""
        end = self.now()
        start, call, first = token
        cycle = self.cycle
        last = None
        if self._events is not None:
            last = self._events.mark()
        if cycle is None or (self._events is not None and last is None):
            self._finished.give_back(first, last)
            if cycle is not None:
                cycle.bad = True
            return
        cycle.comms.append(((op, size, self._stack[-1].phase if self._stack else -1), call, end, first, last))
        cost = self.now() - end + call - start
        cycle.overhead += cost
        if self._stack:
            self._stack[-1].inner += cost
        else:
            cycle.inner += cost
