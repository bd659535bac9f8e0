"""What the readers of Nsight Systems exports share: where rows come from, ids, the time axis, names of calls.

An export is a set of tables (SQLite file, or a folder of Parquet or Arrow files) of which every one, and most columns,
may be absent: nsys creates a table when it has rows for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
NVTX = "NVTX_EVENTS"
#: tables by which an export is known; any one of them will do
MARKS = (
    KERNEL,
    RUNTIME,
    MEMCPY,
    MEMSET,
    GRAPH_TRACE,
    NVTX,
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "META_DATA_CAPTURE",
)

BATCH = 65_536  # rows read at a time
NAME_LIMIT = 4_000  # characters of a name that are kept
UNNAMED = "(unnamed)"
BINARY = "binaryData"  # payloads of NVTX events
#: NVTX eventType of ranges: push/pop and start/end, each as traced and as imported from text
RANGE_TYPES = (59, 60, 70, 71)
DOMAIN_TYPE = 75
#: times beyond this (146 years, in ns) are no times; sums of two stay within int64
LAST_NS = 1 << 62
#: times from here on count from 1970, not from the start of a session (2001; no session lasts 31 years)
EPOCH_FROM_NS = 10**18

#: how to capture what a report needs, around the command that starts the server
CAPTURE = (
    "nsys profile -t cuda,nvtx,osrt --cuda-graph-trace=node --trace-fork-before-exec=true "
    "--capture-range=cudaProfilerApi -o rep SERVER_COMMAND "
    "&& nsys export --type sqlite --include-blobs=true rep.nsys-rep"
)


class StoreError(Exception):
    """A table that cannot be read (further); `str()` is the reason."""


class TableStore(Protocol):
    """The tables of one export. Methods raise StoreError when the data is damaged."""

    def columns(self, table: str) -> frozenset[str]:
        """The table's column names; empty when there is no such table."""

    def batches(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), only: tuple[str, Sequence[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Rows in the order stored, at most BATCH at a time, with exactly these columns (Int64 and String).

        Columns that the table has not are null; values that are no integers are null. `only` keeps the rows whose
        column holds one of the given values. Texts are cut behind NAME_LIMIT characters; BINARY comes as hexadecimal.
        """

    def distinct(self, table: str, ints: Sequence[str]) -> list[tuple[int | None, ...]]:
        """The distinct combinations of columns, ascending; none when the table or a column is absent."""

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
        """All rows of a small table (at most SMALL_TABLE); None for columns that are absent."""

    def strings(self, ids: Sequence[int]) -> dict[int, str]:
        """Texts of StringIds by id, cut behind NAME_LIMIT characters; a text with a NUL in it is left out."""

    def blocks(self) -> Iterator[str]:
        """Texts of StringIds that hold a NUL: environments, as `A=b\\0C=d`."""

    def content(self, string_id: int) -> bytes:
        """A text of StringIds in full, up to CONTENT_LIMIT bytes; empty when there is none."""


SMALL_TABLE = 200_000  # rows
CONTENT_LIMIT = 256 << 20  # bytes of one captured output that are read
BLOCK_LIMIT = 4 << 20  # bytes of an environment block that are looked at

_PID_BITS = 24
_PID_MASK = (1 << _PID_BITS) - 1


def pid_of(serial: int) -> int:
    """Process id in a globalTid or globalPid (`hw:8 vm:8 pid:24 tid:24`, signed or unsigned)."""
    return (serial >> _PID_BITS) & _PID_MASK


def pid_expr(column: str) -> pl.Expr:
    """`pid_of` over a column."""
    import polars as pl

    return pl.col(column).floordiv(1 << _PID_BITS) & _PID_MASK


def tid_expr(column: str) -> pl.Expr:
    """Thread id in a globalTid."""
    import polars as pl

    return pl.col(column) & _PID_MASK


#: `cudaLaunchKernel_v7000`, `cudaLaunchKernel_ptsz_v7000`, `cuLaunchKernel_ptsz`
API_SUFFIX = r"(?:_pts[zd])?(?:_v\d+)?(?:_pts[zd])?$"
_API_SUFFIX = re.compile(API_SUFFIX)
#: counters that torch's emit_nvtx appends; with them every range has a name of its own
RANGE_COUNTERS = r"(?s), (?:op_id|seq|sizes|input_op_ids) = .*$"


def api_name(recorded: str) -> str:
    """The call's name without version and stream-mode suffixes."""
    return _API_SUFFIX.sub("", recorded, count=1)


@dataclass(slots=True)
class Session:
    """When and where the export was recorded, and how its times become UTC."""

    offset_ns: int = 0  # added to every time
    clock: str = "relative"
    host: str | None = None
    tool_version: str | None = None
    graph_option: str | None = None  # node or graph, as asked of nsys
    notes: list[str] = field(default_factory=list)


def read_session(store: TableStore) -> Session:
    """Clock, host, versions and the graph option of an export. UTC = session start + t (sections 1.1 and 1.2).

    A normalised export holds UTC already; a shift given at export is taken back, so that times are those of the
    recording machine's clock, as in its server log.
    """
    session = Session()
    meta = _meta(store)
    product, schema = meta.get("EXPORT_PRODUCT_VERSION"), meta.get("EXPORT_SCHEMA_VERSION")
    parts = [text for text in (product, schema and f"schema {schema}") if text]
    session.tool_version = ", ".join(parts)[:100] or None
    session.host = _host(store)
    session.graph_option = _graph_option(store)
    shift = _integer(meta.get("EXPORT_CONFIG_TIME_SHIFT")) or _integer(meta.get("EXPORT_PARAM_TIME_SHIFT")) or 0
    start = _session_start(store)
    absolute = str(meta.get("EXPORT_PARAM_TIME_NORMALIZE")).lower() == "true" or _first_time(store) > EPOCH_FROM_NS
    if absolute:
        session.clock, session.offset_ns = "utc", -shift
    elif start is not None:
        session.clock, session.offset_ns = "utc", start - shift
    else:
        session.notes.append("no session start in the export: times count from the start of the capture, not in UTC")
    if shift and session.clock == "utc":
        session.notes.append(f"exported with --ts-shift={shift}: taken back, times are the recording machine's clock")
    return session


def _meta(store: TableStore) -> dict[str, str]:
    found: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in store.rows(table, ("name", "value")):
            if isinstance(name, str) and isinstance(value, str):
                found.setdefault(name, value)
    return found


def _host(store: TableStore) -> str | None:
    for name, value in store.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value")):
        if name == "Hostname" and isinstance(value, str) and value:
            return value[:255]
    return None


def _graph_option(store: TableStore) -> str | None:
    for name, value in store.rows("META_DATA_CAPTURE", ("name", "value")):
        # `PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE` until 2025.1
        if isinstance(name, str) and name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE"):
            mode = str(value).lower()
            return mode if mode in ("node", "graph") else None
    return None


def _session_start(store: TableStore) -> int | None:
    starts = [
        int(value)
        for (value,) in store.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))
        if isinstance(value, int) and EPOCH_FROM_NS < value < LAST_NS
    ]
    return starts[0] if starts else None


def _first_time(store: TableStore) -> int:
    """The smallest of the first times of the tables; 0 when there are none."""
    firsts = []
    for table in (KERNEL, RUNTIME, NVTX, MEMCPY):
        try:
            frame = next(iter(store.batches(table, ("start",))), None)
        except StoreError:  # reported when its rows are read
            continue
        value = None if frame is None else frame["start"].min()
        firsts += [value] if isinstance(value, int) else []
    return min(firsts, default=0)


def _integer(text: object) -> int | None:
    try:
        return int(str(text))
    except ValueError:
        return None
