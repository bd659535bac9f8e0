"""PyTorch's printed profile (`key_averages().table()`, vLLM's profiler_out.txt): its GPU kernels, summed by name.

Operators carry the time of the kernels they launch, so only rows without CPU time are kernels: counting both would
count a kernel twice. A profile without a GPU has no such columns and is passed over.
"""

from __future__ import annotations

import re
from typing import Any

from traceana_parsers.bench.kernel_grid import LARGEST_NS, KernelTables, share_of, time_ns

_GAP = re.compile(r"\s{2,}")
_RULE = re.compile(r"\s*-{3,}(?:\s+-{3,})*\s*$")
_DIGITS = 15  # of a number of calls
_DEVICE = ("Self CUDA", "Self XPU", "Self PrivateUse1")
#: rows of device time that span kernels: steps, collectives, stages of the engine
_ANNOTATION = re.compile(
    r"ProfilerStep|nccl:|c10d::|##|aten::|record_param_comms|execute_|gpu_model_runner: |iteration_"
)
_HOST = ("CPU total", "Self CPU")


class TorchTable:
    """Reads such a table line by line."""

    marks = ("Self CPU",)

    def __init__(self, kernels: KernelTables) -> None:
        self._kernels = kernels
        self._columns: list[str] = []
        self._device: str | None = None
        self._ruled = False  # the rule below the headings has come

    @property
    def open(self) -> bool:
        """True inside a table."""
        return bool(self._columns)

    def line(self, text: str, number: int, offset: int) -> bool:
        """Takes a line; True when it belongs to the table."""
        if not self._columns:
            return self._begin(text)
        if _RULE.match(text):
            if self._ruled:
                self.end()
            else:
                self._ruled = True
            return True
        if not text.strip():
            self.end()
            return False
        cells = _GAP.split(text.strip())
        if self._device is not None and len(cells) == len(self._columns):
            made = self._row(dict(zip(self._columns, cells, strict=True)), self._device)
            self._kernels.take([made] if made is not None else [])
        return True

    def end(self) -> None:
        """The table has ended."""
        self._columns, self._ruled = [], False

    def _begin(self, text: str) -> bool:
        cells = _GAP.split(text.strip())
        if cells[0] != "Name" or "Self CPU" not in cells or "# of Calls" not in cells:
            return False
        self._columns, self._device = cells, next((name for name in _DEVICE if name in cells), None)
        return True

    def _row(self, row: dict[str, str], device: str) -> dict[str, Any] | None:
        """A kernel; None for an operator, a call or an annotation."""
        if _ANNOTATION.match(row["Name"]) or any((time_ns(row.get(name, "")) or 0.0) > 0 for name in _HOST):
            return None
        total, calls = time_ns(row[device]), row["# of Calls"]
        n = int(calls) if calls.isdecimal() and len(calls) <= _DIGITS else 0
        if not total or total >= LARGEST_NS or n < 1:
            return None
        share = share_of(row.get(f"{device} %", ""))
        return {"name": row["Name"], "instances": n, "total_ns": round(total), "avg_ns": total / n, "share": share}
