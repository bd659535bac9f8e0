"""The Parquet files of a run: where the rows of a table belong, how a file is laid out, and that it is on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.store.tables import BY_RANK

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

_NO_RANK = "__HIVE_DEFAULT_PARTITION__"


def by_rank(table: str, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Rows with the folder they belong to."""
    if table not in BY_RANK or not frame.height:
        return [(table, frame)]
    parts = frame.partition_by("rank", maintain_order=True)
    ranks = [part.get_column("rank")[0] for part in parts]
    return [(f"{table}/rank={_NO_RANK if r is None else r}", part) for r, part in zip(ranks, parts, strict=True)]


def new_file(folder: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """The next file of a folder, open for writing."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("part-*.parquet")))
    # whole numbers and times as differences: smaller, and faster to write than dictionaries that overflow
    deltas = [f.name for f in schema if f.type in (pa.int64(), pa.timestamp("ms"))]
    return pq.ParquetWriter(
        folder / f"part-{number:05d}.parquet",
        schema,
        compression="zstd",
        write_page_checksum=True,
        use_dictionary=[name for name in schema.names if name not in deltas],
        column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
    )


def sync(path: Path) -> None:
    """Until a file, or what a folder holds, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
