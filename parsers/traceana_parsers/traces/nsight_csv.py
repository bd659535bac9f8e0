"""The reports in a CSV file of `nsys stats`, of every generation of report names.

Reports are known by their columns, never by file names; columns by name and unit (`Total Time (ns)`, `(us)`, `(ms)`).
A file may be the captured output of `nsys stats`, with `Processing [...]` lines and several reports one after another.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana_parsers.sources import Source, SourceError, StreamState, blocks, open_stream

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Report:
    """A report of nsys: the columns it is known by. `names`: what the generations of nsys call it."""

    kind: str
    columns: Set[str]
    names: str
    what: str


#: the first whose columns are all there decides
REPORTS = (
    Report("gpu_trace", {"Start", "Duration", "CorrId", "Name"}, "cuda_gpu_trace, gputrace", "GPU trace"),
    Report("projection", {"Projected Start", "Name"}, "nvtx_gpu_proj_trace, nvtxgpuproj", "NVTX projection"),
    Report("projection_sum", {"Range", "Total Proj Time"}, "nvtx_gpu_proj_sum", "NVTX projection summary"),
    Report("gpu_sum", {"Total Time", "Instances", "Category", "Operation"}, "cuda_gpu_sum, gpusum", "GPU summary"),
    Report("range_sum", {"Total Time", "Instances", "Range"}, "nvtx_sum, nvtxsum", "NVTX summary"),
    Report("kernel_sum", {"Total Time", "Instances", "Name"}, "cuda_gpu_kern_sum, gpukernsum", "kernel summary"),
    Report("api_sum", {"Total Time", "Num Calls", "Name"}, "cuda_api_sum, cudaapisum", "CUDA API summary"),
    Report("memory_sum", {"Count", "Operation"}, "cuda_gpu_mem_time_sum, gpumemtimesum", "memory summary"),
    Report("api_trace", {"Start", "Duration", "Result", "Name"}, "cuda_api_trace, cudaapitrace", "CUDA API trace"),
    Report("launch_trace", {"API Start", "Kernel Start"}, "cuda_kern_exec_trace", "kernel launch trace"),
    Report("launch_sum", {"TAvg", "KAvg", "Kernel Name"}, "cuda_kern_exec_sum", "kernel launch summary"),
    Report("range_kernels", {"NVTX Range", "Kern Inst"}, "nvtx_kern_sum", "kernels by NVTX range"),
    Report("pushpop", {"DurNonChild", "Name"}, "nvtx_pushpop_trace", "NVTX trace"),
)

_HEADER = re.compile(r"^(?P<name>.*?)(?: ?\((?P<unit>[^()]*)\))?$")
#: nanoseconds per unit; bytes per unit (nsys counts in powers of ten)
UNITS = {
    "ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "ms": 10**6, "msec": 10**6, "s": 10**9, "sec": 10**9,
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9,
}  # fmt: skip
#: lines between reports: progress of nsys, titles, blank lines
_BETWEEN = re.compile(
    rb"^(?:Processing \[.*|SKIPPED: .*|Generating SQLite .*|Using .*\.sqlite.*|Exporting .*|Importing .*|NOTICE: .*|"
    rb"WARNING: .*| ?\*\* .*|[ \t]*)\r?(?:\n|\Z)",
    re.MULTILINE,
)
_SKIPPED = re.compile(rb"^SKIPPED: (.*?)\r?$", re.MULTILINE)
EMPTY = "0 bytes: nsys stats writes an empty file when the capture has no such data (was -t cuda,nvtx used?)"


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one report: columns by name without unit, all texts; `scale` has the factor of columns with a unit."""

    report: Report
    frame: pl.DataFrame
    scale: dict[str, int]

    def text(self, column: str) -> pl.Series:
        """A column as it stands; empty cells and absent columns are null."""
        import polars as pl

        if column not in self.frame.columns:
            return pl.Series(column, [None], pl.String).new_from_index(0, self.frame.height)
        return self.frame.select(pl.col(column).replace("", None))[column]

    def number(self, column: str) -> pl.Series:
        """A column as Float64, in ns or bytes where it has such a unit; null where a cell holds no number."""
        import polars as pl

        values = self.text(column).str.strip_chars().str.replace_all(",", "").cast(pl.Float64, strict=False)
        return values * self.scale.get(column, 1)

    def integer(self, column: str) -> pl.Series:
        """A column as Int64, rounded; whole numbers are read exactly."""
        import polars as pl

        rounded = self.number(column).round().cast(pl.Int64, strict=False)
        whole = self.text(column).str.strip_chars().cast(pl.Int64, strict=False) * self.scale.get(column, 1)
        return whole.fill_null(rounded)


def sniff(head: bytes, path: str) -> bool:
    """True when the text that begins with `head` (decompressed) is CSV output of nsys stats; `path` does not matter."""
    if b"\0" in head:
        return False
    lines = _BETWEEN.sub(b"", head[:16_384]).splitlines()[:1]
    return bool(lines) and _report_of(lines[0]) is not None


def sections(source: Source, state: StreamState) -> Iterator[Section]:
    """The reports in a file, in pieces of bounded size. Raises SourceError when it cannot be opened."""
    header: tuple[Report, list[str], dict[str, int]] | None = None
    stream = open_stream(source)
    with stream:
        for block in blocks(stream, state):
            for piece in _BETWEEN.split(bytes(block.data).removeprefix(b"\xef\xbb\xbf")):
                if not piece.strip():
                    continue
                first, _, rest = piece.partition(b"\n")
                found = _report_of(first)
                header = found or header
                body = rest if found else piece
                if header and body.strip():
                    report, columns, scale = header
                    yield Section(report, _table(body, columns), scale)


def _report_of(line: bytes) -> tuple[Report, list[str], dict[str, int]] | None:
    """Report, column names and units of a header line; None when it is none."""
    text = line.decode("utf-8", "replace").strip()
    if "," not in text:
        return None
    cells = [_HEADER.match(cell.strip()) for cell in next(csv.reader([text]), [])]
    names = [match["name"] if match else "" for match in cells]
    report = next((r for r in REPORTS if r.columns <= frozenset(names)), None)
    if report is None or len(set(names)) < len(names):
        return None
    scale = {m["name"]: UNITS[m["unit"]] for m in cells if m and m["unit"] in UNITS}
    return report, names, scale


def _table(piece: bytes, columns: list[str]) -> pl.DataFrame:
    import polars as pl

    text = piece if piece.isascii() else piece.decode("utf-8", "replace").encode()
    kinds = dict.fromkeys(columns, pl.String)
    try:
        return pl.read_csv(text, has_header=False, schema=kinds, truncate_ragged_lines=True)
    except pl.exceptions.PolarsError:  # a quote out of place: line by line
        width = len(columns)
        rows = [(row + [""] * width)[:width] for row in csv.reader(text.decode().splitlines()) if row]
        return pl.DataFrame(rows, schema=kinds, orient="row")


def of_kind(path: str, kind: str) -> list[Section]:
    """All sections of one kind in a file; raises SourceError with the reason when there is none."""
    state = StreamState()
    seen: dict[str, None] = {}
    found = []
    for section in sections(Source(path), state):
        seen[section.report.what] = None
        if section.report.kind == kind:
            found.append(section)
    if found:
        return found
    wanted = next(r for r in REPORTS if r.kind == kind)
    raise SourceError(f"{path}: {why_empty(Source(path), state, wanted, list(seen))}")


def why_empty(source: Source, state: StreamState, wanted: Report | None, seen: list[str]) -> str:
    """Why a file holds no report that is `wanted` (any, when None), in one line; `seen`: what it holds instead."""
    if state.problem:
        return state.problem
    if state.size == 0:
        return EMPTY
    stream = open_stream(source)
    with stream:
        skipped = _SKIPPED.search(stream.read1(1 << 16))
    if skipped:
        return f"nsys stats skipped the report: {skipped[1].decode('utf-8', 'replace')[:200]}"
    what = f"no {wanted.what} ({wanted.names})" if wanted else "no report of nsys stats"
    return f"{what} in it" + (f"; it holds a {' and a '.join(seen)}" if seen else "")
