"""nccl-tests (all_reduce_perf and its kin): the table it prints, with the lines before it."""

from __future__ import annotations

import re

from traceana_parsers.bench.rows import Rows

_ROW = re.compile(
    r"^\s*(?P<size>\d{1,15})\s+\d{1,15}\s+(?:u?int\d+|float|half|double|b?f?loat\d+|bfloat16|f8e\d+m\d+|fp8_e\d+m\d+)"
    r"(?:\s+(?:sum|prod|min|max|avg|mulsum|none|all))?\s+(?P<rest>[0-9.eN/A+\-\s]+)$"
)
_VERSION = re.compile(r"nccl-library=(\d+)|NCCL version (\d+\.\d+\.\d+)")
_DEVICE = re.compile(r"#\s+Rank\s+(?P<rank>\d+)\b.*\bdevice\s+\d+\s+\[[0-9a-fx:.]+\]\s+(?P<name>\S.*?)\s*$")
_COLLECTIVE = re.compile(r"\b([a-z]+(?:_[a-z]+)*)_perf\b")
_VARIABLE = re.compile(r"\b(NCCL_[A-Z0-9_]+=[^\s;&|]{1,60})")
_GPUS = re.compile(r"# nThread (\d+) nGpus (\d+)")
_NAMES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}


class NcclTests:
    """Reads rows of the table, out-of-place and in-place each a point of `collective_points`."""

    marks = ("out-of-place", "   sum", "  none", "_perf")
    open = False

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._collective: str | None = None
        self._version: str | None = None
        self._device: str | None = None
        self._ranks: int | None = None
        self._series: str | None = None

    def line(self, text: str, number: int, offset: int) -> bool:
        """True when the line belongs to a table or its head."""
        match = _ROW.match(text) if len(text) < 400 else None
        if match:
            return self._row(int(match["size"]), _without_root(match["rest"].split()), number, offset)
        return self._head(text)

    def end(self) -> None:
        """Nothing is kept from line to line."""

    def _head(self, text: str) -> bool:
        if "_perf" in text and (found := _COLLECTIVE.search(text)) and len(text) < 2000:
            self._collective = _NAMES.get(found[1], found[1])
            if not text.startswith("#"):  # the command
                self._series = " ".join(_VARIABLE.findall(text)) or None
                self._ranks = self._device = None
            return True
        if "nccl-library=" in text or "NCCL version" in text:
            found = _VERSION.search(text)
            if found:
                self._version = _dotted(found[1]) if found[1] else found[2]
            return False
        if not text.startswith("#"):
            return False
        if device := _DEVICE.match(text):
            self._ranks = max(self._ranks or 0, int(device["rank"]) + 1)
            self._device = device["name"]
        elif gpus := _GPUS.match(text):
            self._ranks = self._ranks or int(gpus[1]) * int(gpus[2])
        return True

    def _row(self, size: int, cells: list[str], number: int, offset: int) -> bool:
        """Two halves of four values: time, algorithm and bus bandwidth, wrong results; the second may be cut off."""
        if len(cells) not in (3, 4, 8):
            return len(cells) > 3 and self._half(size, cells[:4], False, number, offset)
        made = self._half(size, cells[:4], False, number, offset)
        if len(cells) == 8:
            made = self._half(size, cells[4:], True, number, offset) or made
        return made

    def _half(self, size: int, cells: list[str], in_place: bool, number: int, offset: int) -> bool:
        try:
            time, algbw, busbw = (float(cell) for cell in cells[:3])
        except ValueError:
            return False
        wrong = cells[3] if len(cells) > 3 else "N/A"
        row = {
            "collective": self._collective,
            "library": "nccl",
            "version": self._version,
            "ranks": self._ranks,
            "device": self._device,
            "bytes": size,
            "in_place": in_place,
            "time_us": time,
            "algbw_gbps": algbw,
            "busbw_gbps": busbw,
            "wrong": int(wrong) if wrong.isdigit() else None,
            "series": self._series,
        }
        self._rows.add("collective_points", row, number, offset)
        self._rows.tools["nccl_tests"] += 1
        return True


def _without_root(cells: list[str]) -> list[str]:
    """The two halves of a row; before 2.11 nccl-tests printed no root, which is a whole number before the times."""
    root = len(cells) in (4, 5, 9) and re.fullmatch(r"-?\d+", cells[0]) is not None
    return cells[1:] if root else cells


def _dotted(code: str) -> str:
    """NCCL's number of a version: 22809 is 2.28.9, 2804 was 2.8.4."""
    value = int(code)
    major, rest = divmod(value, 10_000) if value >= 10_000 else divmod(value, 1000)
    return f"{major}.{rest // 100}.{rest % 100}"
