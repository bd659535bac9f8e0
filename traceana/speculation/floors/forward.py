"""Floors of one forward: its allreduces, its weight reads, its launches. Formulas: docs/arithmetic.md."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.speculation.floors.allreduce import Curve
from traceana.speculation.floors.hardware import Gpu

#: a Megatron-style layer reduces after attention and after the MLP or the experts
ALLREDUCES_PER_LAYER = 2
#: host time of one kernel launch outside a CUDA graph, us: cudaLaunchKernel alone, and through PyTorch's dispatcher.
#: Assumed from common profiles; the ledger of a trace measures it.
LAUNCH_US = (2.0, 8.0)


@dataclass(frozen=True, slots=True)
class AllreduceFloor:
    """Floor of the allreduces of a forward that carries `tokens` tokens (None: counted in a trace)."""

    tokens: int | None
    message_bytes: int
    each_us: float
    count: int
    how: str  # interpolated, smallest or extrapolated, see allreduce.Estimate

    @property
    def forward_ms(self) -> float:
        """All of them, in ms."""
        return self.each_us * self.count / 1000


def allreduce_floor(
    curve: Curve,
    *,
    layers: int,
    hidden: int,
    tokens: int,
    per_layer: int = ALLREDUCES_PER_LAYER,
    element_bytes: int = 2,
) -> AllreduceFloor:
    """Floor of a forward's allreduces: `layers x per_layer` messages of `tokens x hidden x element_bytes` bytes each.

    Raises ValueError when a number is below 1.
    """
    for name, value in (("layers", layers), ("hidden", hidden), ("tokens", tokens), ("per_layer", per_layer)):
        if value < 1:
            raise ValueError(f"{name} is {value}: give 1 or more")
    return counted_floor(curve, size=tokens * hidden * element_bytes, count=layers * per_layer, tokens=tokens)


def counted_floor(curve: Curve, *, size: int, count: int, tokens: int | None = None) -> AllreduceFloor:
    """Floor of `count` allreduces of `size` bytes each, as a trace counts them. ValueError for a size below 1."""
    each = curve.at(size)
    return AllreduceFloor(tokens, size, each.us, count, each.how)


def weight_read_ms(gpu: Gpu, weight_bytes_per_gpu: float) -> float:
    """Time to read the weights of one forward once from memory at the data sheet's bandwidth, in ms.

    For a mixture of experts only the weights that the batch touches count. Raises ValueError for a negative size.
    """
    if weight_bytes_per_gpu < 0:
        raise ValueError("weight bytes are negative")
    return weight_bytes_per_gpu / (gpu.memory_gbps * 1e9) * 1e3


def launch_ms(kernels: int) -> tuple[float, float]:
    """Host time to launch a forward's kernels one by one, in ms, low and high; a CUDA graph needs one launch."""
    return kernels * LAUNCH_US[0] / 1000, kernels * LAUNCH_US[1] / 1000
