"""Verify cycles of several ranks with every nanosecond planted: what the ledger must give back."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.attribution.builder import Process

_CALL = 200  # ns on the host per launch
_LAYERS = 3


@dataclass
class Planted:
    """Processes, and per rank and phase the ns of each bucket over all cycles."""

    processes: list[Process]
    truth: dict[tuple[int, str], dict[str, int]] = field(default_factory=dict)

    def add(self, rank: int, phase: str, bucket: str, ns: int) -> None:
        found = self.truth.setdefault((rank, phase), {})
        found[bucket] = found.get(bucket, 0) + ns


class Rank:
    """One rank's device: `now` is when it becomes free, on the true clock."""

    def __init__(self, planted: Planted, rank: int, start: int) -> None:
        self.planted, self.rank, self.now, self.begin = planted, rank, start, start
        self.process = planted.processes[rank]
        self.ranges: dict[str, list[int]] = {}

    def begin_cycle(self, idle: int) -> None:
        if idle:
            self.planted.add(self.rank, "other", "launch_gap", idle)
        self.now += idle
        self.begin, self.ranges = self.now, {}

    def launch(self, phase: str, gap: int, wait: int) -> int:
        """A call that returns `gap` ns after the device became free (0: long before); then `wait` ns of dependency."""
        end = self.now + gap if gap else self.now - 1_000
        self.ranges.setdefault(phase, [end - _CALL - 50, 0])[1] = end + 10
        self.planted.add(self.rank, phase, "launch_gap", gap)
        self.planted.add(self.rank, phase, "other_idle", wait)
        self.now += gap + wait
        return self.process.call(end - _CALL, end)

    def work(self, phase: str, name: str, ns: int, *, gap: int = 0, wait: int = 0) -> None:
        call = self.launch(phase, gap, wait)
        if name == "copy":
            self.process.copy(self.now, self.now + ns, call)
        else:
            self.process.kernel(name, self.now, self.now + ns, call)
        self.planted.add(self.rank, phase, "copies" if name == "copy" else "compute", ns)
        self.now += ns

    def end_cycle(self) -> None:
        for phase, (start, end) in self.ranges.items():
            self.process.range(phase, self.begin if phase == "draft" else start, end)
        self.process.range("cycle", self.begin, max(end for _, end in self.ranges.values()) + 20)


def allreduce(ranks: list[Rank], transfer: int) -> None:
    """All leave together, `transfer` ns after the last arrived."""
    calls = [rank.launch("verify", 0, 0) for rank in ranks]
    leave = max(rank.now for rank in ranks) + transfer
    for rank, call in zip(ranks, calls, strict=True):
        rank.process.kernel("allreduce ring", rank.now, leave, call, bytes=57_344, group="tp", size=len(ranks))
        rank.planted.add(rank.rank, "verify", "allreduce_transfer", transfer)
        rank.planted.add(rank.rank, "verify", "allreduce_wait", leave - rank.now - transfer)
        rank.now = leave


def verify_cycles(
    *,
    ranks: int = 8,
    cycles: int = 24,
    transfer: int = 21_000,
    late: int = 3,
    lateness: int = 40_000,
    drift: int = 1_000,
) -> Planted:
    """Cycles of draft, verify (layers of gemm and allreduce) and re-extend; rank `late` computes `lateness` ns longer.

    In a cycle: 300 ns between cycles, a launch gap before the draft, 700 ns of dependency before the verify, a copy after
    the re-extend. Rank r's clock runs `drift` * r ahead.
    """
    planted = Planted([Process(file_id=r, rank=r, pid=500 + r, ahead=drift * r) for r in range(ranks)])
    devices = [Rank(planted, rank, 10_000) for rank in range(ranks)]
    for cycle in range(cycles):
        for r, rank in enumerate(devices):
            rank.begin_cycle(300 if cycle else 0)
            rank.work("draft", "gemm draft", 5_000 + 10 * cycle, gap=4_000 + 100 * r)
        for layer in range(_LAYERS):
            for r, rank in enumerate(devices):
                slow = lateness if r == late and layer == 1 else 0
                jitter = 50 * ((r * 7 + cycle * 3 + layer) % 11)
                rank.work("verify", "gemm verify", 9_000 + jitter + slow, wait=0 if layer else 700)
            allreduce(devices, transfer + cycle)
        for rank in devices:
            rank.work("re_extend", "gemm extend", 4_000)
            rank.work("re_extend", "copy", 2_500)
            rank.end_cycle()
    return planted
