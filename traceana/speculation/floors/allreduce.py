"""Measured allreduce latencies: which curve fits a box, and what it says for a message size.

`allreduce.csv` is distilled from the collective benchmarks of ai-dynamo/aiconfigurator (Apache-2.0) by
benchmarks/distil_allreduce.py: all-reduces of 2-byte elements, back to back, without skew or launch gaps. They are a
floor, not a forecast.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

SOURCE = "ai-dynamo/aiconfigurator collective benchmarks (Apache-2.0)"


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time of one allreduce. `how` is interpolated, smallest (no shorter message was measured) or extrapolated."""

    us: float
    how: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Measured time over message size of one library on one system. `mode` is eager, graph or - (not said)."""

    system: str
    device: str
    library: str
    version: str
    mode: str
    ranks: int
    points: tuple[tuple[int, float], ...]  # (bytes per rank, us), ascending

    @property
    def label(self) -> str:
        """The curve in words, e.g. `nccl 2.29.2` or `vllm 0.24.0 custom allreduce, graph`."""
        if self.library == "nccl":
            return f"nccl {self.version}"
        return f"{self.library} {self.version} allreduce" + (f", {self.mode}" if self.mode != "-" else "")

    def at(self, size: int) -> Estimate:
        """Time for a message of `size` bytes: log-log between the measured sizes.

        Below the smallest size the smallest's time stands (latency); above the largest, alpha + beta x bytes through
        the last two points. Raises ValueError for a size below 1.
        """
        if size < 1:
            raise ValueError(f"a message has at least 1 byte, not {size}")
        first, last = self.points[0], self.points[-1]
        if size <= first[0]:
            return Estimate(first[1], "interpolated" if size == first[0] else "smallest")
        if size > last[0]:
            before = self.points[-2]
            per_byte = max(0.0, (last[1] - before[1]) / (last[0] - before[0]))
            return Estimate(last[1] + per_byte * (size - last[0]), "extrapolated")
        for low, high in zip(self.points, self.points[1:], strict=False):
            if size <= high[0]:
                share = math.log(size / low[0]) / math.log(high[0] / low[0])
                return Estimate(math.exp(math.log(low[1]) * (1 - share) + math.log(high[1]) * share), "interpolated")
        raise AssertionError("the points are ascending")


@cache
def curves() -> tuple[Curve, ...]:
    """Every measured curve. The file is part of the package."""
    text = files("traceana.speculation.floors").joinpath("allreduce.csv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines())
    sizes = [int(cell) for cell in next(rows)[6:]]
    return tuple(
        Curve(
            *(system, device, library, version, mode),
            ranks=int(ranks),
            points=tuple((size, float(cell)) for size, cell in zip(sizes, cells, strict=True) if cell),
        )
        for system, device, library, version, mode, ranks, *cells in rows
    )


def for_box(system: str, ranks: int, library: str | None = None, mode: str | None = None) -> tuple[Curve, ...]:
    """The curves of a system and number of ranks, NCCL first; none where nobody measured it."""
    found = [
        curve
        for curve in curves()
        if curve.system == system
        and curve.ranks == ranks
        and (library is None or curve.library == library)
        and (mode is None or curve.mode in (mode, "-"))
    ]
    return tuple(sorted(found, key=lambda c: (c.library != "nccl", c.library, c.mode)))
