"""A cycle being timed, its parts, and what the engine says of it."""

from __future__ import annotations

from typing import Any, NamedTuple

SPANS = 64  # parts of one cycle; a cycle with more is dropped
COMMS = 2048  # collectives of one cycle
PHASE_COUNT = 3


class Facts(NamedTuple):
    """What the engine's own objects say of one cycle."""

    batch: int  # requests
    k: int | None  # draft tokens per request, where it is a chain
    drafted: int  # requests that had a draft to verify
    anchor: Any  # the batch's first request: the same in the next cycle means that decoding went on in between


class Span:
    """One part of a cycle: w0..w1 with the timers' own work, h0..h1 without it, e0..e1 on the GPU."""

    __slots__ = ("e0", "e1", "h0", "h1", "held", "inner", "parent", "phase", "range", "w0", "w1")

    phase: int
    parent: Span | None
    h0: int
    h1: int
    w0: int
    w1: int
    inner: int  # the timers' own work inside h0..h1 that no nested span accounts for
    e0: Any
    e1: Any
    held: bool
    range: Any


class Cycle:
    """One cycle being timed, reused."""

    __slots__ = (
        "bad", "comms", "continuous", "e0", "e1", "facts", "h0", "h1", "inner", "n", "overhead", "pre", "range",
        "spans", "verified",
    )  # fmt: skip

    e0: Any
    e1: Any
    range: Any

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.comms: list[tuple[Any, int, int, Any, Any]] = []
        self.reset()

    def reset(self) -> None:
        """Forget the last cycle."""
        self.n = self.h0 = self.h1 = self.overhead = self.inner = 0
        self.pre = 0  # the timers' own work since the last cycle's end
        self.bad = self.continuous = self.verified = False
        self.e0 = self.e1 = self.range = None
        self.facts: Facts | None = None
        self.comms.clear()
