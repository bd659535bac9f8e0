"""Tables of an nsys recipe (nvtx_gpu_proj_trace) and of nsys-jax: Parquet files of one process, known by columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from traceana_parsers.sources import SourceError
from traceana_parsers.traces.nsight_common import BATCH, NAME_LIMIT

if TYPE_CHECKING:
    import polars as pl
    import pyarrow.parquet as pq

T = TypeVar("T")

#: columns by which a table is known, and what it is
_DEVICE_NAME = "('TARGET_INFO_GPU', 'name')"
_TABLES = (
    (frozenset({"Name", "Projected Start", "Projected Duration"}), "projection"),
    (frozenset({_DEVICE_NAME}), "devices"),
    (frozenset({"name", "value", "nameEnum"}), "system"),
    (frozenset({"Name", "Priority", "PID", "TID"}), "threads"),
    (frozenset({"File"}), "files"),
)
_XLA_DEVICE = "('TARGET_INFO_NVTX_CUDA_DEVICE', 'name')"
_GLOBAL = re.compile(r"#global=(\d{1,6}),")
#: column of the result -> column of nsys
_PROJECTED = {
    "proj_start": "Projected Start", "proj_duration": "Projected Duration", "start": "Orig Start",
    "duration": "Orig Duration", "pid": "PID", "tid": "TID", "gpu_ops": "NumGPUOps",
}  # fmt: skip


def kind_of(path: str) -> str | None:
    """What a Parquet file is: projection, devices, system, threads or files; None for anything else.

    Raises SourceError, with the reason in one line, when it cannot be read.
    """
    names = frozenset(_opened(path).schema_arrow.names)
    return next((kind for columns, kind in _TABLES if columns <= names and (kind != "files" or len(names) == 1)), None)


def sniff(path: str) -> bool:
    """True when the file is a table of a recipe."""
    try:
        return kind_of(path) is not None
    except SourceError:
        return False


def projections(path: str) -> Iterator[pl.DataFrame]:
    """Projected ranges in batches: name (as recorded), proj_start, proj_duration, start, duration, pid, tid, gpu_ops.

    Times in ns. What was launched outside of ranges has a null name. Raises SourceError for a damaged file.
    """
    import polars as pl

    opened = _opened(path)
    present = [c for c in ("Name", *_PROJECTED.values()) if c in opened.schema_arrow.names]
    batches = opened.iter_batches(batch_size=BATCH, columns=present)
    while (batch := _guarded(path, lambda: next(batches, None))) is not None:
        table = pl.from_arrow(batch)
        assert isinstance(table, pl.DataFrame)

        def column(name: str, kind: type[pl.DataType], table: pl.DataFrame = table) -> pl.Expr:
            # some columns are floats, because they have gaps
            return (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind, strict=False)

        yield table.select(
            column("Name", pl.String).str.slice(0, NAME_LIMIT + 1).alias("name"),
            *(column(theirs, pl.Int64).alias(ours) for ours, theirs in _PROJECTED.items()),
        )


def devices(path: str) -> tuple[dict[int, str], int | None]:
    """Names of the GPUs by index, and the global device number of JAX when there is but one: the rank."""
    wanted = ("cuDevice", _DEVICE_NAME, _XLA_DEVICE)
    rows = _rows(path, wanted)
    names = {number: name[:200] for number, name, _ in rows if isinstance(number, int) and isinstance(name, str)}
    told = [match for _, _, name in rows if isinstance(name, str) and (match := _GLOBAL.search(name))]
    return names, int(told[0][1]) if len(rows) == len(told) == 1 else None


def host(path: str) -> str | None:
    """The host's name; nothing else is read of the system table, which holds an environment."""
    return next((str(value)[:255] for name, value in _rows(path, ("name", "value")) if name == "Hostname"), None)


def height(path: str) -> int:
    """Number of rows of a table."""
    return int(_opened(path).metadata.num_rows)


def _rows(path: str, columns: tuple[str, ...], most: int = 10_000) -> list[tuple[object, ...]]:
    opened = _opened(path)
    present = [c for c in columns if c in opened.schema_arrow.names]
    batch = _guarded(path, lambda: next(opened.iter_batches(batch_size=most, columns=present), None))
    if batch is None:
        return []
    rows: list[dict[str, object]] = batch.to_pylist()
    return [tuple(row.get(c) for c in columns) for row in rows]


def _opened(path: str) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    return _guarded(path, lambda: pq.ParquetFile(path))


def _guarded(path: str, step: Callable[[], T]) -> T:
    import pyarrow as pa

    try:
        return step()
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise SourceError(f"{path}: no readable Parquet file: {' '.join(str(error).split())[:200]}") from error
