"""A store on disk: `STORE/run=<id>/<table>/part-00000.parquet` and `run=<id>/run.json`.

A run is written into a hidden folder beside its place, synced, and renamed whole: readers see all of it or nothing, and
of two writers of one run the last wins. A reader opens all files of a run at once and keeps them, so that it goes on
reading the run it began with. Inputs are never touched.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceana.errors import TraceanaError
from traceana_parsers.schema import TABLES, arrow_schema, empty

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

MANIFEST = "run.json"
STORE_SCHEMA = "traceana/store/1"
_ROWS_PER_GROUP = 16_384  # at least; what waits to be written is most of the memory that reading a long log takes
_FRAMES = 64  # small frames of a table that are kept apart
_PLAIN_NAME = re.compile(r"[\w.-]{1,100}")
_OURS = ("run=", ".writing-", ".replaced-")
_TRIES, _PAUSE = 20, 0.02  # a run that is being replaced is away for less than `_PAUSE` seconds


class Tables:
    """The tables of one run, in memory or on disk."""

    def __init__(self, frames: Mapping[str, list[pl.DataFrame]] | None = None, folder: Path | None = None) -> None:
        self._frames = frames or {}
        self._folder = folder
        self._parts: dict[str, list[Any]] = (
            {} if folder is None else {name: _open_parts(folder, name) for name in TABLES}
        )

    def frame(self, table: str, columns: list[str] | None = None) -> pl.DataFrame:
        """All rows of a table, in the order they were read; no rows when the run has none."""
        import polars as pl

        wanted = columns or [c.name for c in TABLES[table]]
        frames = self._frames.get(table, [])
        if self._parts.get(table):
            with _damage_named(f"{self._folder}/{table}"):
                frames = [_polars(part.read(columns=wanted)) for part in self._parts[table]]
        return pl.concat(frames).select(wanted) if frames else empty(table).select(wanted)

    def height(self, table: str) -> int:
        """Number of rows of a table."""
        if self._folder is None:
            return sum(frame.height for frame in self._frames.get(table, []))
        return sum(int(part.metadata.num_rows) for part in self._parts[table])


def _open_parts(folder: Path, table: str) -> list[Any]:
    """The open Parquet files of one table. They are mapped: a file removed afterwards stays readable."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    parts = []
    for path in sorted((folder / table).glob("part-*.parquet")):
        with _damage_named(str(path)):
            part = pq.ParquetFile(pa.memory_map(str(path)), page_checksum_verification=True)
        if not part.schema_arrow.equals(arrow_schema(table)):
            raise TraceanaError(f"{path}: its columns are of another version; ingest the logs again")
        parts.append(part)
    return parts


def _polars(table: pa.Table) -> pl.DataFrame:
    import polars as pl

    made = pl.from_arrow(table)
    assert isinstance(made, pl.DataFrame)
    return made


@contextmanager
def _damage_named(path: str) -> Iterator[None]:
    """Turns what Arrow says of a damaged file into a line for the user; a file that has gone is left to the caller."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise TraceanaError(f"{path}: damaged ({_first_line(error)}); ingest the logs again") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


class RunWriter:
    """Takes the rows of a run (the readers' Sink) and writes them under `store`; nothing is visible before `commit`.

    Use as a context manager: leaving it without `commit` removes everything.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._made = False
        self._tmp = store / f".writing-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._writers: dict[str, Any] = {}
        self._pending: dict[str, list[pl.DataFrame]] = {}

    def __enter__(self) -> RunWriter:
        try:
            self._made = not self._store.exists()
            self._tmp.mkdir(parents=True)
        except OSError as error:
            raise TraceanaError(f"{self._store}: cannot write here: {error.strerror}; choose another --out") from error
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            with suppress(OSError):  # closing writes the footer: the disk may be full
                writer.close()
        shutil.rmtree(self._tmp, ignore_errors=True)
        if self._made:
            with suppress(OSError):  # stays when it holds a run
                self._store.rmdir()

    @property
    def folder(self) -> Path:
        """Where the rows lie until `commit`."""
        return self._tmp

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take more rows of one table."""
        import polars as pl

        pending = self._pending.setdefault(table, [])
        pending.append(frame)
        if sum(f.height for f in pending) >= _ROWS_PER_GROUP:
            with self._written():
                self._flush(table)
        elif len(pending) >= _FRAMES:
            self._pending[table] = [pl.concat(pending, rechunk=True)]

    def flush(self) -> Tables:
        """Close all files and give the tables as written. Raises TraceanaError when they cannot be written."""
        with self._written():
            for table in list(self._pending):
                self._flush(table)
            for writer in self._writers.values():
                writer.close()
        self._writers.clear()
        return Tables(folder=self._tmp)

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceanaError(f"{self._store}: cannot be written: {error.strerror or error}") from error

    def _flush(self, table: str) -> None:
        import polars as pl
        import pyarrow as pa
        import pyarrow.parquet as pq

        frames = self._pending.pop(table, [])
        if not frames or not sum(f.height for f in frames):
            return
        schema = arrow_schema(table)
        writer = self._writers.get(table)
        if writer is None:
            folder = self._tmp / table
            folder.mkdir(exist_ok=True)
            number = len(list(folder.glob("part-*.parquet")))
            # whole numbers and times as differences: smaller, and faster to write than dictionaries that overflow
            deltas = [f.name for f in schema if f.type in (pa.int64(), pa.timestamp("ms"))]
            writer = pq.ParquetWriter(
                folder / f"part-{number:05d}.parquet",
                schema,
                compression="zstd",
                write_page_checksum=True,
                use_dictionary=[name for name in schema.names if name not in deltas],
                column_encoding=dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
            )
            self._writers[table] = writer
        rows = pl.concat(frames)  # one row group: each costs memory until the file is closed
        writer.write_table(rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema))

    def commit(self, run_id: str, manifest: Mapping[str, object]) -> Path:
        """Make the run visible as `run=<run_id>`, replacing one of the same id. Returns its folder.

        Raises TraceanaError for an id that is no plain name, and when the store cannot be written.
        """
        if not _PLAIN_NAME.fullmatch(run_id):
            raise TraceanaError(f"{run_id!r} is no name for a run: use letters, digits, '-', '_' and '.', 100 at most")
        self.flush()
        with self._written():
            return self._publish(self._store / f"run={run_id}", {"schema": STORE_SCHEMA, "run": run_id, **manifest})

    def _publish(self, target: Path, manifest: Mapping[str, object]) -> Path:
        (self._tmp / MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        for path in sorted(self._tmp.rglob("*")):
            if path.is_file():
                _sync(path)
        _sync(self._tmp)
        for _ in range(_TRIES):
            old = self._store / f".replaced-{uuid.uuid4().hex[:8]}"
            if target.exists():
                try:
                    target.rename(old)
                except FileNotFoundError:  # another writer was faster
                    pass
                else:
                    shutil.rmtree(old, ignore_errors=True)
            try:
                self._tmp.rename(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                continue  # another writer was faster
            _sync(self._store)
            return target
        raise TraceanaError(f"{target}: another process keeps writing this run; try again")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_store(path: str) -> bool:
    """True when `path` is a store or one run of it, also while its only run is being replaced."""
    for _ in range(_TRIES):
        try:
            folder = Path(path)
            if (folder / MANIFEST).is_file() or any(folder.glob(f"run=*/{MANIFEST}")):
                return folder.is_dir()
            if not folder.is_dir() or not any(p.name.startswith(_OURS) for p in folder.iterdir()):
                return False
        except (OSError, ValueError):  # a name that is too long, a folder that may not be entered: no store at least
            return False
        time.sleep(_PAUSE)
    return False


def open_run(path: str) -> tuple[Tables, dict[str, Any]]:
    """Tables and manifest of a run folder, or of the run last written to a store.

    Raises TraceanaError when the run cannot be read, is not whole, or is of another version.
    """
    for _ in range(_TRIES):
        try:
            folder = _run_folder(Path(path))
            before = (folder / MANIFEST).stat()
            manifest = _manifest(folder)
            tables = Tables(folder=folder)
            after = (folder / MANIFEST).stat()
        except FileNotFoundError:  # replaced by another process just now
            time.sleep(_PAUSE)
            continue
        if (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns):
            _check_whole(folder, tables, manifest)
            return tables, manifest
    raise TraceanaError(f"{path}: no run to read, or another process keeps replacing it; try again")


def run_folders(path: str) -> list[Path]:
    """The folders of all runs of a store, the one written last first; of a run's own folder that one."""
    folder = Path(path)
    if (folder / MANIFEST).is_file():
        return [folder]
    found = [(p.stat().st_mtime_ns, p.parent) for p in folder.glob(f"run=*/{MANIFEST}")]
    return [run for _, run in sorted(found, reverse=True)]


def _run_folder(folder: Path) -> Path:
    if (folder / MANIFEST).is_file():
        return folder
    runs = run_folders(str(folder))
    if not runs:
        raise FileNotFoundError(folder)
    return runs[0]


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run. Raises FileNotFoundError when it is away, TraceanaError when it is none."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = manifest["schema"] == STORE_SCHEMA
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise TraceanaError(f"{path}: not a run of a store ({_first_line(error)}); ingest the logs again") from error
    if not known:
        raise TraceanaError(f"{folder}: written by another version ({manifest['schema']}); ingest the logs again")
    return manifest


def _check_whole(folder: Path, tables: Tables, manifest: Mapping[str, Any]) -> None:
    """TraceanaError when a table has not the rows it was written with: a file was lost or taken away."""
    rows = manifest.get("rows")
    for table, count in rows.items() if isinstance(rows, dict) else ():
        if table in TABLES and table != "runs" and tables.height(table) != count:
            found = tables.height(table)
            raise TraceanaError(f"{folder / table}: {found} rows, but {count} were written; ingest the logs again")
