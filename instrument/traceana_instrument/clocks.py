"""Two clocks: the host's, and the GPU's by CUDA events, which are recorded now and read when they are complete."""

from __future__ import annotations

import sys
from time import perf_counter_ns
from typing import Any

#: events kept per thread: 64 waiting cycles of ten events, or a dozen with 160 collectives each; made as needed
EVENTS = 4096

host_ns = perf_counter_ns


class CudaEvents:
    """Marks on the current CUDA stream, from a fixed pool of events. Nothing here waits for the GPU."""

    name = "cuda_event"

    def __init__(self, torch: Any, size: int = EVENTS) -> None:
        self._new = torch.cuda.Event
        self._capturing = torch.cuda.is_current_stream_capturing
        self.free: list[Any] = []  # events nobody waits for
        self._unmade = size

    def mark(self) -> Any:
        """An event recorded on the current stream; None while a graph is captured or when the pool is empty."""
        if self._capturing():
            return None
        if self.free:
            event = self.free.pop()
        elif self._unmade:
            self._unmade -= 1
            event = self._new(enable_timing=True)
        else:
            return None
        event.record()
        return event

    @staticmethod
    def ns(start: Any, end: Any) -> int:
        """Nanoseconds between two events the GPU has passed."""
        return int(start.elapsed_time(end) * 1e6)


def choose() -> CudaEvents | None:
    """CUDA events where this process already uses CUDA, else None: the host's clock. CUDA is never initialised here."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        if cuda is not None and cuda.is_available() and cuda.is_initialized():
            return CudaEvents(torch)
    except Exception:  # a half-built torch: the host's clock will do
        return None
    return None
