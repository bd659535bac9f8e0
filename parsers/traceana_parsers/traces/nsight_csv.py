"""The reports in a text file of `nsys stats`, of every generation of report names.

Reports are known by their columns, never by file names; columns by name and unit (`Total Time (ns)`, `(us)`, `(ms)`).
A file may be the captured output of `nsys stats`, with `Processing [...]` lines and several reports one after another,
as CSV (any delimiter, also as a spreadsheet program saved it again) or in nsys' default format of aligned columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from traceana_parsers.sources import Stream, StreamState, blocks
from traceana_parsers.traces.nsight_common import LAST_NS

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
    Report("api_sum", {"Total Time", "Num Calls", "Name"}, "cuda_api_sum, cudaapisum", "API summary"),
    Report(
        "memory_sum", {"Total Time", "Count", "Operation"}, "cuda_gpu_mem_time_sum, gpumemtimesum", "memory summary"
    ),
    Report("size_sum", {"Total", "Count", "Operation"}, "cuda_gpu_mem_size_sum, gpumemsizesum", "memory size summary"),
    Report("api_trace", {"Start", "Duration", "Result", "Name"}, "cuda_api_trace, cudaapitrace", "CUDA API trace"),
    Report("launch_trace", {"API Start", "Kernel Start"}, "cuda_kern_exec_trace", "kernel launch trace"),
    Report("launch_sum", {"TAvg", "KAvg", "Kernel Name"}, "cuda_kern_exec_sum", "kernel launch summary"),
    Report("range_kernels", {"NVTX Range", "Kern Inst"}, "nvtx_kern_sum", "kernels by NVTX range"),
    Report("pushpop", {"Start", "Duration", "DurNonChild", "Name"}, "nvtx_pushpop_trace", "NVTX trace"),
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
    rb"[ \t]*(?:It is assumed file was previously|Consider using --force-export).*|"
    rb"WARNING: .*|\[\d+/\d+\] .*| ?\*\* .*|[ \t]*)\r?(?:\n|\Z)",
    re.MULTILINE,
)
_SKIPPED = re.compile(rb"^SKIPPED: (.*?)\r?$", re.MULTILINE)
_DASHES = re.compile(r"-+")
_RULE = re.compile(r"[ \t]*-{2,}(?:[ \t]+-+)+[ \t]*")
_DELIMITERS = (",", ";", "\t", "|")
_BOM = b"\xef\xbb\xbf"
EMPTY = "0 bytes: nsys stats writes an empty file when the capture has no such data (was -t cuda,nvtx used?)"


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the rows of a report are written: `delimiter`, or the `spans` of aligned columns."""

    report: Report
    columns: list[str]
    scale: dict[str, int]
    delimiter: str = ","
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one report: columns by name without unit, all texts; `scale` has the factor of columns with a unit.

    `comma`: numbers are written with a decimal comma, as spreadsheet programs do in many countries.
    """

    report: Report
    frame: pl.DataFrame
    scale: dict[str, int]
    comma: bool = False

    def text(self, column: str) -> pl.Series:
        """A column as it stands; empty cells and absent columns are null."""
        import polars as pl

        if column not in self.frame.columns:
            return pl.Series(column, [None], pl.String).new_from_index(0, self.frame.height)
        return self.frame.select(pl.col(column).replace("", None))[column]

    def number(self, column: str) -> pl.Series:
        """A column as Float64, in ns or bytes where it has such a unit; null where a cell holds no number."""
        import polars as pl

        return self._plain(column).cast(pl.Float64, strict=False) * self.scale.get(column, 1)

    def integer(self, column: str) -> pl.Series:
        """A column as Int64, rounded; whole numbers are read exactly. Beyond LAST_NS it is null."""
        import polars as pl

        number = self.number(column)
        rounded = number.round().cast(pl.Int64, strict=False)
        whole = self._plain(column).cast(pl.Int64, strict=False) * self.scale.get(column, 1)
        return whole.fill_null(rounded).set(number.abs() >= LAST_NS, None)

    def _plain(self, column: str) -> pl.Series:
        """Numbers without thousands separators and with a decimal point."""
        digits = self.text(column).str.replace_all(r"[\s'\x{a0}\x{202f}]", "")
        if self.comma:
            return digits.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
        return digits.str.replace_all(",", "", literal=True)


def sniff(head: bytes, path: str) -> bool:
    """True when the text that begins with `head` (decompressed) is output of nsys stats; `path` does not matter."""
    if b"\0" in head:
        return False
    lines = _BETWEEN.sub(b"", head[:16_384].removeprefix(_BOM)).splitlines()[:2]
    return _layout(*lines) is not None if lines else _SKIPPED.search(head) is not None


def sections(stream: Stream, state: StreamState) -> Iterator[Section]:
    """The reports in a stream, in pieces of bounded size; closes it."""
    layout: _Layout | None = None
    comma = False
    with stream:
        for block in blocks(stream, state):
            for piece in _BETWEEN.split(bytes(block.data).removeprefix(_BOM)):
                if not piece.strip():
                    continue
                found, body = _headed(piece)
                if found:
                    layout, comma = found, False
                if layout and body.strip():
                    frame = _table(body, layout)
                    comma = comma or (layout.delimiter != "," and _decimal_comma(frame, layout.scale))
                    yield Section(layout.report, frame, layout.scale, comma)


def _headed(piece: bytes) -> tuple[_Layout | None, bytes]:
    """The layout that the first line or two of a piece tell, and the rows behind them; no layout: all are rows."""
    first, _, rest = piece.partition(b"\n")
    second, _, behind = rest.partition(b"\n")
    layout = _layout(first, second)
    if layout is None:
        return None, piece
    return layout, behind if layout.spans else rest


def _layout(first: bytes, second: bytes = b"") -> _Layout | None:
    """The layout behind a header line (and the line of dashes under it); None when it is no header of a report."""
    line = first.decode("utf-8", "replace").rstrip("\r\n")
    rule = second.decode("utf-8", "replace").rstrip("\r\n")
    if _RULE.fullmatch(rule):
        edges = [match.start() for match in _DASHES.finditer(rule)]
        spans = tuple(pairwise([*edges, 1 << 30]))
        return _known([line[a:b] for a, b in spans], spans=spans)
    for delimiter in _DELIMITERS:
        if delimiter in line and (found := _known(_cells(line.strip(" "), delimiter), delimiter=delimiter)):
            return found
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a carriage return within, or a cell beyond any limit
        return []


def _known(cells: list[str], delimiter: str = ",", spans: tuple[tuple[int, int], ...] = ()) -> _Layout | None:
    matches = [_HEADER.match(cell.strip()) for cell in cells]
    names = [match["name"] if match else "" for match in matches]
    report = next((r for r in REPORTS if r.columns <= frozenset(names)), None)
    if report is None or len(set(names)) < len(names):
        return None
    scale = {m["name"]: UNITS[m["unit"]] for m in matches if m and m["unit"] in UNITS}
    return _Layout(report, names, scale, delimiter, spans)


def _decimal_comma(frame: pl.DataFrame, numeric: dict[str, int]) -> bool:
    """True when the numbers of these columns are written with a decimal comma."""
    cells = [frame[name] for name in numeric if name in frame.columns]
    point = any(cell.str.contains(r"^-?\d{1,3}(?:,\d{3})*\.\d+$").any() for cell in cells)
    return not point and any(cell.str.contains(r"^-?[\d. ]*\d,(?:\d{1,2}|\d{4,})$").any() for cell in cells)


def _table(piece: bytes, layout: _Layout) -> pl.DataFrame:
    import polars as pl

    text = piece if piece.isascii() else piece.decode("utf-8", "replace").encode()
    kinds = dict.fromkeys(layout.columns, pl.String)
    if layout.spans:
        lines = [line for line in text.decode().splitlines() if line.strip() and not _RULE.fullmatch(line)]
        cut = [[line[a:b].strip() for a, b in layout.spans] for line in lines]
        return pl.DataFrame(cut, schema=kinds, orient="row")
    try:
        return pl.read_csv(text, has_header=False, schema=kinds, truncate_ragged_lines=True, separator=layout.delimiter)
    except pl.exceptions.PolarsError:  # a quote out of place: line by line
        width = len(layout.columns)
        read = (_cells(line, layout.delimiter) for line in text.decode().splitlines())
        rows = [(row + [""] * width)[:width] for row in read if row]
        return pl.DataFrame(rows, schema=kinds, orient="row")


def kinds_in(head: bytes) -> list[str]:
    """Kinds of the reports whose headers are in the first bytes of a file."""
    pieces = (piece for piece in _BETWEEN.split(head.removeprefix(_BOM)) if piece.strip())
    return [layout.report.kind for layout, _ in map(_headed, pieces) if layout is not None]


def why_empty(head: bytes, seen: Sequence[str]) -> str:
    """Why a file that begins with `head` gave no row, in one line; `seen`: the reports it holds."""
    if not head:
        return EMPTY
    skipped = _SKIPPED.search(head)
    if skipped:
        return f"nsys stats skipped the report: {skipped[1].decode('utf-8', 'replace')[:200]}"
    if seen:
        return f"no row of the {' and the '.join(seen)} has its figures"
    return "a header of nsys stats and no rows: the capture has no such data (was -t cuda,nvtx used?)"
