"""NVTX ranges around the cycle and its parts, for a profiler that is attached to the server.

`torch.cuda.nvtx` comes first: it is always there with a CUDA build of torch and every nsys sees it, but it knows no
domains. The `nvtx` package gives the domain `traceana`; from its 0.2.12 on nsys <= 2023.4 does not see it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

DOMAIN = "traceana"
NAMES = ("cycle", "draft", "verify", "re_extend")


class NoRanges:
    """Where no NVTX is present or wanted."""

    name = "none"

    def start(self, name: str) -> Any:
        """Nothing."""

    def end(self, token: Any) -> None:
        """Nothing."""


class Ranges:
    """Start/end ranges: they may outlive the call they were opened in, as a cycle over two calls does."""

    def __init__(self, name: str, start: Callable[[str], Any], end: Callable[[Any], Any]) -> None:
        self.name = name
        self.start = start
        self._end = end

    def end(self, token: Any) -> None:
        """Close a range; None is none."""
        if token is not None:
            self._end(token)


def choose(wanted: bool) -> Ranges | NoRanges:
    """The first NVTX that works in this process; torch is used only where the engine has imported it already."""
    if not wanted:
        return NoRanges()
    for make in (_torch, _nvtx):
        try:
            ranges = make()
            if ranges is not None:
                ranges.end(ranges.start(NAMES[0]))
                return ranges
        except Exception:  # builds without NVTX raise what they like
            continue
    return NoRanges()


def _torch() -> Ranges | None:
    module = getattr(getattr(sys.modules.get("torch"), "cuda", None), "nvtx", None)
    return None if module is None else Ranges("torch.cuda.nvtx", module.range_start, module.range_end)


def _nvtx() -> Ranges | None:
    import nvtx

    def start(name: str) -> Any:
        return nvtx.start_range(message=name, domain=DOMAIN)

    return Ranges("nvtx", start, nvtx.end_range)
