"""Sums over the cycles of one interval, and the line they become."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from traceana_instrument.hook import PHASES

COMM_KEYS = 64  # kinds of collective kept apart per interval; the rest is summed as "other"
COMM_SHOWN = 12  # kinds printed per line, by time
BATCHES = 1024  # batch sizes counted apart
NS_PER_MS = 1e6


class Sample(NamedTuple):
    """One finished cycle, nanoseconds; `parts` and `total` by the clock named, `host` always by the host's."""

    batch: int
    k: int | None
    drafted: int
    seen: int  # bits of the phases that occurred
    total: int
    parts: Sequence[int]
    host_total: int
    host: Sequence[int]
    between: int | None
    overhead: int
    clock: str
    at: int  # start of the cycle by the host's clock


class Sums:
    """What has been added since the last line."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.ended = started  # first and last cycle
        self.cycles = 0
        self.seen = 0
        self.parts = [0] * len(PHASES)
        self.host = [0] * len(PHASES)
        self.total = self.host_total = self.overhead = 0
        self.between = self.continuous = 0
        self.batch = self.drafted = 0
        self.batches: dict[int, int] = {}
        self.k: int | None = None
        self.one_k = True
        self.clock = ""
        self.comms: dict[Any, list[int]] = {}
        self.lost = self.clock_errors = 0
        # acceptance by source: requests with a draft, tokens they emitted; drafts accepted -> requests
        self.accepted: dict[str, list[int]] = {}
        self.lengths: dict[int, int] = {}


class Interval:
    """The running sums, shared by the engine's threads and the one that prints."""

    def __init__(self, wall: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._wall = wall
        self._sums = Sums(wall())
        self.on_cycle: Callable[[Sample, int], None] | None = None
        self.full: Callable[[], None] | None = None
        self.limit = 200
        self.seconds = 10.0
        self.cycle = 0  # cycles since the process started
        self.gap = 0  # times the timers were off: what lay in between is no part of any cycle

    def add(self, sample: Sample) -> None:
        """Add a cycle; asks for a line when the interval is full."""
        with self._lock:
            sums = self._sums
            sums.ended = self._wall()
            if not sums.cycles:
                sums.started = sums.ended
                sums.k = sample.k
            self.cycle += 1
            sums.cycles += 1
            sums.seen |= sample.seen
            for sum_of, new in ((sums.parts, sample.parts), (sums.host, sample.host)):
                for index, ns in enumerate(new):
                    sum_of[index] += ns
            sums.total += sample.total
            sums.host_total += sample.host_total
            sums.overhead += sample.overhead
            if sample.between is not None:
                sums.between += sample.between
                sums.continuous += 1
            sums.batch += sample.batch
            sums.drafted += sample.drafted
            if sample.batch in sums.batches or len(sums.batches) < BATCHES:
                sums.batches[sample.batch] = sums.batches.get(sample.batch, 0) + 1
            sums.one_k = sums.one_k and sample.k == sums.k
            sums.clock = sample.clock
            full = sums.cycles == self.limit
        if self.on_cycle is not None:
            self.on_cycle(sample, self.cycle)
        if full and self.full is not None:
            self.full()

    def add_comm(self, key: tuple[str, int, int], ns: int) -> None:
        """Add one collective: (operation, bytes, phase), nanoseconds."""
        with self._lock:
            comms = self._sums.comms
            entry = comms.get(key)
            if entry is None:
                if len(comms) >= COMM_KEYS:
                    key = ("other", 0, -1)
                entry = comms.setdefault(key, [0, 0])
            entry[0] += 1
            entry[1] += ns

    def accept(self, source: str, requests: int, tokens: int, lengths: Sequence[int] = ()) -> None:
        """Add requests that had a draft and the tokens they emitted, bonus counted; `lengths`: drafts accepted."""
        with self._lock:
            entry = self._sums.accepted.setdefault(source, [0, 0])
            entry[0] += requests
            entry[1] += tokens
            counts = self._sums.lengths
            for length in lengths:
                if length < BATCHES:
                    counts[length] = counts.get(length, 0) + 1

    def lose(self) -> None:
        """A cycle was dropped because the GPU had not passed it when too many waited."""
        with self._lock:
            self._sums.lost += 1

    def clock_error(self) -> None:
        """A cycle was dropped because a clock went backwards."""
        with self._lock:
            self._sums.clock_errors += 1

    def due(self) -> bool:
        """Whether the interval holds cycles and is old enough for a line."""
        with self._lock:
            return self._sums.cycles > 0 and self._wall() - self._sums.started >= self.seconds

    def is_full(self) -> bool:
        """Whether the interval has its number of cycles."""
        with self._lock:
            return self._sums.cycles >= self.limit

    def take(self) -> Sums | None:
        """The sums, and a new interval begins; None where there is no cycle in them."""
        with self._lock:
            if not self._sums.cycles:
                return None
            taken, self._sums = self._sums, Sums(self._wall())
            return taken


def line(sums: Sums, rank: int) -> dict[str, Any]:
    """The values of one EAGLE3_PROFILE line (DESIGN: v 1). What is not known is left out, never 0."""
    n = sums.cycles
    batch = max(sums.batches, key=lambda size: (sums.batches[size], -size))
    out: dict[str, Any] = {"v": 1, "rank": rank, "cycles": n, "batch": batch}
    if len(sums.batches) > 1:
        out["batch_mean"] = round(sums.batch / n, 2)
    if sums.k is not None and sums.one_k:
        out["k"] = sums.k
    parts = {name: sums.parts[i] / n for i, name in enumerate(PHASES) if sums.seen & (1 << i)}
    between = sums.between / sums.continuous if sums.continuous else 0.0
    total = sums.total / n + between
    for name, ns in parts.items():
        out[name + "_ms"] = ms(max(0.0, ns))
    out["other_ms"] = ms(max(0.0, total - sum(parts.values())))
    out["total_ms"] = ms(total)
    if sums.continuous:
        out["between_ms"] = ms(between)
    out.update(_acceptance(sums))
    out["clock"] = sums.clock
    if sums.clock != "host":
        for index, name in enumerate(PHASES):
            if sums.seen & (1 << index):
                out[f"host_{name}_ms"] = ms(sums.host[index] / n)
        out["host_cycle_ms"] = ms(sums.host_total / n)
    out["overhead_us"] = round(sums.overhead / n / 1e3, 1)
    out["seconds"] = round(sums.ended - sums.started, 3)
    for name, count in (("lost", sums.lost), ("clock_errors", sums.clock_errors)):
        if count:
            out[name] = count
    if sums.comms:
        shown = sorted(sums.comms.items(), key=lambda item: -item[1][1])[:COMM_SHOWN]
        out["comm"] = [
            {"op": op, "bytes": size, "in": PHASES[phase] if phase >= 0 else "other", "per_cycle": round(count / n, 2),
             "us": round(ns / count / 1e3, 1)}
            for (op, size, phase), (count, ns) in shown
        ]  # fmt: skip
        out["comm_ms"] = ms(sum(ns for _, ns in sums.comms.values()) / n)
    return out


def _acceptance(sums: Sums) -> dict[str, Any]:
    # the engine's own counter before what the timers saw of a result: both would be the same requests twice
    found = sums.accepted.get("engine") or sums.accepted.get("result")
    out: dict[str, Any] = {}
    if found and found[0]:
        out["accept_length"] = round(found[1] / found[0], 4)
        out["accept_requests"] = found[0]
    drafted = sum(sums.lengths.values())
    if drafted:
        top = max(sums.lengths)
        out["per_position"] = [
            round(sum(count for length, count in sums.lengths.items() if length >= place) / drafted, 4)
            for place in range(1, top + 1)
        ]
    if sums.batch:
        out["coverage"] = round(sums.drafted / sums.batch, 4)
    return out


def ms(ns: float) -> float:
    """Nanoseconds as printed: ms with four decimals."""
    return round(ns / NS_PER_MS, 4)
