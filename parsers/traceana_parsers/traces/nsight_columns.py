"""Reads Nsight Systems exports made with --type parquetdir or arrowdir: a folder with one file per table.

Column names are those of the SQLite export; types differ (ids are unsigned, some columns 32 bits wide) and are made
signed 64-bit before anything is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Source
from traceana_parsers.traces.gather import TABLE_SUFFIXES, table_folder
from traceana_parsers.traces.nsight_common import (
    BATCH,
    BLOCK_LIMIT,
    CONTENT_LIMIT,
    NAME_LIMIT,
    SMALL_TABLE,
    StoreError,
)
from traceana_parsers.traces.nsight_environment import OnText
from traceana_parsers.traces.nsight_read import read_export

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

T = TypeVar("T")


def read(source: Source, file_id: int, sink: Sink, on_text: OnText | None = None) -> FileReport:
    """Adds the rows of a whole export folder to `sink`; `source` is the folder or one of its tables.

    Never raises for what is in it; `problem` says what went wrong. `on_text`: see nsight_sqlite.read.
    """
    report = FileReport(file_id, source.path, format="nsight")
    folder = table_folder(source.path)
    if folder is None:
        report.problem = "no table of an Nsight Systems export"
        return report
    try:
        report.modified = source.modified
        store = FolderStore(Path(folder))
        report.bytes = store.bytes
    except OSError as error:
        report.problem = str(error.strerror or error)
        return report
    read_export(store, report, sink, on_text)
    if report.problem is None and store.problems:
        report.problem = store.problems[0]
    return report


class FolderStore:
    """The tables of an export folder; see nsight_common.TableStore."""

    def __init__(self, folder: Path) -> None:
        """Lists the folder. Raises OSError when that is not allowed."""
        self._files: dict[str, Path] = {}
        for suffix in reversed(TABLE_SUFFIXES):
            self._files |= {path.stem: path for path in folder.iterdir() if path.suffix == suffix and path.is_file()}
        self.bytes = sum(path.stat().st_size for path in self._files.values())
        self.problems: list[str] = []
        self._schemas: dict[str, dict[str, Any]] = {}
        self._strings: pl.DataFrame | None = None

    def columns(self, table: str) -> frozenset[str]:
        """The table's column names; empty when there is no such table or it cannot be opened (see `problems`)."""
        return frozenset(self._schema(table))

    def _schema(self, table: str) -> dict[str, Any]:
        if table not in self._schemas:
            self._schemas[table] = {}
            if table in self._files:
                try:
                    with _Table(self._files[table]) as opened:
                        self._schemas[table] = {f.name: f.type for f in opened.schema}
                except StoreError as error:
                    self.problems.append(str(error))
        return self._schemas[table]

    def batches(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), only: tuple[str, Sequence[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Rows in batches; see nsight_common.TableStore.batches."""
        import polars as pl

        known = self._schema(table)
        if not known or (only and only[0] not in known):
            return
        asked = [*ints, *texts, *([only[0]] if only else [])]
        for frame in self._frames(table, [c for c in dict.fromkeys(asked) if c in known]):
            chosen = frame.filter(pl.col(only[0]).is_in(list(only[1]))) if only else frame
            if not chosen.height:
                continue
            made = [_ints(chosen, c) for c in ints] + [_texts(chosen, c) for c in texts]
            yield pl.DataFrame(made)

    def _frames(self, table: str, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        import polars as pl

        with _Table(self._files[table]) as opened:
            for batch in opened.batches(columns):
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                yield frame

    def distinct(self, table: str, ints: Sequence[str]) -> list[tuple[int | None, ...]]:
        """Distinct combinations of integers; see nsight_common.TableStore.distinct."""
        import polars as pl

        if not set(ints) <= self.columns(table):
            return []
        found = [frame.unique() for frame in self.batches(table, ints)]
        return pl.concat(found).unique().sort(*ints).head(SMALL_TABLE).rows() if found else []

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
        """A small table; see nsight_common.TableStore.rows."""
        import polars as pl

        known = self._schema(table)
        if not known:
            return []
        found: list[tuple[object, ...]] = []
        for frame in self._frames(table, [c for c in columns if c in known]):
            made = [_cells(frame, c) for c in columns]
            found += pl.DataFrame(made).rows() if made else []
            if len(found) >= SMALL_TABLE:
                break
        return found[:SMALL_TABLE]

    def strings(self, ids: Sequence[int]) -> dict[int, str]:
        """Texts by id; see nsight_common.TableStore.strings."""
        import polars as pl

        wanted = self._string_table().filter(pl.col("id").is_in(list(ids)))
        texts = wanted.filter(~pl.col("value").str.contains("\0", literal=True).fill_null(True))
        return dict(texts.with_columns(pl.col("value").str.slice(0, NAME_LIMIT + 1)).rows())

    def blocks(self) -> Iterator[str]:
        """Texts with a NUL in them; see nsight_common.TableStore.blocks."""
        import polars as pl

        found = self._string_table().filter(pl.col("value").str.contains("\0", literal=True))
        for text in found["value"]:
            yield text[:BLOCK_LIMIT]

    def content(self, string_id: int) -> bytes:
        """A text in full; see nsight_common.TableStore.content."""
        import polars as pl

        found = self._string_table().filter(pl.col("id") == string_id)["value"].to_list()
        return (found[0] or "").encode()[:CONTENT_LIMIT] if found else b""

    def _string_table(self) -> pl.DataFrame:
        """StringIds as a whole: (id, value)."""
        import polars as pl

        if self._strings is None:
            frames = list(self.batches_in_full("StringIds")) if self._schema("StringIds") else []
            empty = pl.DataFrame(schema={"id": pl.Int64, "value": pl.String})
            self._strings = pl.concat([empty, *frames])
        return self._strings

    def batches_in_full(self, table: str) -> Iterator[pl.DataFrame]:
        """Rows (id, value) of StringIds, uncut."""
        import polars as pl

        for frame in self._frames(table, [c for c in ("id", "value") if c in self._schema(table)]):
            yield pl.DataFrame([_ints(frame, "id"), _texts(frame, "value", cut=False)])


def _ints(frame: pl.DataFrame, column: str) -> pl.Series:
    """A column as Int64: unsigned values keep their bits, as SQLite has them; what is no integer is null."""
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None], pl.Int64).new_from_index(0, frame.height)
    series = frame[column]
    if series.dtype == pl.UInt64:
        return series.reinterpret(signed=True)
    return (
        series.cast(pl.Int64, strict=False) if series.dtype.is_numeric() else series.clear(frame.height).cast(pl.Int64)
    )


def _texts(frame: pl.DataFrame, column: str, *, cut: bool = True) -> pl.Series:
    import polars as pl

    if column not in frame.columns:
        return pl.Series(column, [None], pl.String).new_from_index(0, frame.height)
    series = frame[column]
    if series.dtype == pl.Binary:
        return series.bin.encode("hex")
    text = series.cast(pl.String, strict=False)
    return text.str.slice(0, NAME_LIMIT + 1) if cut else text


def _cells(frame: pl.DataFrame, column: str) -> pl.Series:
    """A column of a small table: integers or texts."""
    integer = column in frame.columns and frame[column].dtype.is_integer()
    return _ints(frame, column) if integer or column not in frame.columns else _texts(frame, column, cut=False)


class _Table:
    """One open table file. Raises StoreError for what Arrow cannot read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._close: Callable[[], object] = lambda: None

    def __enter__(self) -> _Table:
        self._reader: Any = self._guarded(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _open(self) -> object:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._path.suffix == ".parquet":
            opened = pq.ParquetFile(self._path)
            self._close = opened.close
            return opened
        file = pa.OSFile(str(self._path))
        self._close = file.close
        head = file.read(6)
        file.seek(0)
        return pa.ipc.open_file(file) if head == b"ARROW1" else pa.ipc.open_stream(file)

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the table."""
        return getattr(self._reader, "schema_arrow", None) or self._reader.schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of at most BATCH rows with these columns."""
        if hasattr(self._reader, "iter_batches"):
            source: Iterator[Any] = iter(self._reader.iter_batches(batch_size=BATCH, columns=list(columns)))
        elif hasattr(self._reader, "num_record_batches"):
            source = (self._reader.get_batch(i) for i in range(self._reader.num_record_batches))
        else:
            source = iter(self._reader)
        while (batch := self._guarded(lambda: next(source, None))) is not None:
            for start in range(0, batch.num_rows, BATCH):
                yield batch.select(list(columns)).slice(start, BATCH)

    def _guarded(self, step: Callable[[], T]) -> T:
        import pyarrow as pa

        try:
            return step()
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())[:200]
            raise StoreError(f"{self._path.name} cannot be read: {reason}") from error
