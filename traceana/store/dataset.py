"""A store on disk: `STORE/run=<id>/<table>/part-00000.parquet` and `run=<id>/run.json`.

Tables with a row per recorded event have a folder per rank: `run=<id>/kernels/rank=3/part-00000.parquet`; a rank that
is not known is `rank=__HIVE_DEFAULT_PARTITION__`, which readers of such layouts take for null.

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
from traceana.store.files import by_rank, new_file, sync
from traceana.store.parts import Mark, Only, Part, damage_named, open_parts, picked, release_memory
from traceana.store.tables import ATTRIBUTION_TABLES, STORED
from traceana_parsers.schema import arrow_schema, empty

if TYPE_CHECKING:
    import polars as pl

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
        self._parts: dict[str, list[Part]] = {}
        if folder is not None:
            self._parts = {name: _parts_of(folder, name) for name in STORED}

    def frame(self, table: str, columns: list[str] | None = None, only: Only | None = None) -> pl.DataFrame:
        """The rows of a table, or those whose columns have the values `only` says; no rows when the run has none.

        In the order they were read; of tables with a folder per rank, rank by rank once they are on disk.
        """
        import polars as pl

        wanted = columns or [c.name for c in STORED[table]]
        frames = list(self.pieces(table, wanted, only))
        if self._parts:
            release_memory()
        return pl.concat(frames, rechunk=True) if frames else empty(table, STORED).select(wanted)

    def pieces(self, table: str, columns: list[str], only: Only | None = None) -> Iterator[pl.DataFrame]:
        """What `frame` gives, piece by piece: some row groups at a time."""
        for frame in self._frames.get(table, []):
            yield (frame.filter(picked(only)) if only else frame).select(columns)
        for part in self._parts.get(table, []):
            yield from part.frames(columns, only)

    def marks(self, table: str, column: str, only: Only, every: int) -> list[Mark]:
        """How the wanted rows spread over a column of whole numbers: parts of them, in order of their least value.

        Of rows on disk the parts are row groups, known by their statistics; of those in memory `every` rows in order.
        """
        found: list[Mark] = []
        for frame in self._frames.get(table, []):
            values = frame.filter(picked(only)).get_column(column).drop_nulls().sort()
            parts = (values.slice(at, every) for at in range(0, len(values), every))
            found += [Mark(part[0], part[-1], len(part)) for part in parts]
        for part in self._parts.get(table, []):
            found += part.marks(column, only)
        return sorted(found)

    def height(self, table: str) -> int:
        """Number of rows of a table."""
        return sum(f.height for f in self._frames.get(table, [])) + sum(p.rows for p in self._parts.get(table, []))

    def without(self, tables: Mapping[str, object]) -> Tables:
        """The same without the rows of some tables."""
        made = Tables({name: frames for name, frames in self._frames.items() if name not in tables})
        made._parts = {name: parts for name, parts in self._parts.items() if name not in tables}
        return made

    def replaced(self, tables: Mapping[str, pl.DataFrame]) -> Tables:
        """The same with other rows in some tables."""
        made = self.without(tables)
        made._frames = {**made._frames, **{name: [frame] for name, frame in tables.items()}}
        return made


def _parts_of(folder: Path, table: str) -> list[Part]:
    """The files of a table. Raises TraceanaError when its columns are of another version."""
    parts = open_parts(folder, table)
    if all(part.is_of(table) for part in parts):
        return parts
    if table in ATTRIBUTION_TABLES:  # made anew from the others
        return []
    raise TraceanaError(f"{folder / table}: its columns are of another version; ingest the logs again")


class RunWriter:
    """Takes the rows of a run (the readers' Sink) and writes them under `store`; nothing is visible before `commit`.

    Use as a context manager: leaving it without `commit` removes everything.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._made = False
        self._tmp = store / f".writing-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._writers: dict[tuple[str, str], Any] = {}  # by table and folder below the run's
        self._pending: dict[tuple[str, str], list[pl.DataFrame]] = {}

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
        for folder, rows in by_rank(table, frame):
            self._take((table, folder), rows)

    def _take(self, place: tuple[str, str], frame: pl.DataFrame) -> None:
        import polars as pl

        pending = self._pending.setdefault(place, [])
        pending.append(frame)
        if sum(f.height for f in pending) >= _ROWS_PER_GROUP:
            with self._written():
                self._flush(place)
        elif len(pending) >= _FRAMES:
            self._pending[place] = [pl.concat(pending, rechunk=True)]

    def flush(self) -> Tables:
        """Close all files and give the tables as written. Raises TraceanaError when they cannot be written."""
        self._close()
        return Tables(folder=self._tmp)

    def _close(self) -> None:
        with self._written():
            for place in list(self._pending):
                self._flush(place)
            for writer in self._writers.values():
                writer.close()
        self._writers.clear()
        release_memory()

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TraceanaError(f"{self._store}: cannot be written: {error.strerror or error}") from error

    def _flush(self, place: tuple[str, str]) -> None:
        import polars as pl

        frames = self._pending.pop(place, [])
        if not sum(f.height for f in frames):
            return
        table, folder = place
        schema = arrow_schema(table, STORED)
        if place not in self._writers:
            self._writers[place] = new_file(self._tmp / folder, schema)
        rows = pl.concat(frames)  # one row group, mostly: each costs memory until the file is closed
        table_rows = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)
        self._writers[place].write_table(table_rows, row_group_size=2 * _ROWS_PER_GROUP)

    def commit(self, run_id: str, manifest: Mapping[str, object]) -> Path:
        """Make the run visible as `run=<run_id>`, replacing one of the same id. Returns its folder.

        Raises TraceanaError for an id that is no plain name, and when the store cannot be written.
        """
        if not _PLAIN_NAME.fullmatch(run_id):
            raise TraceanaError(f"{run_id!r} is no name for a run: use letters, digits, '-', '_' and '.', 100 at most")
        self._close()
        with self._written():
            return self._publish(self._store / f"run={run_id}", {"schema": STORE_SCHEMA, "run": run_id, **manifest})

    def _publish(self, target: Path, manifest: Mapping[str, object]) -> Path:
        (self._tmp / MANIFEST).write_text(json.dumps(manifest, indent=2), encoding="utf-8")
        for path in (*self._tmp.rglob("*"), self._tmp):
            sync(path)
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
            sync(self._store)
            return target
        raise TraceanaError(f"{target}: another process keeps writing this run; try again")


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
            return _whole(folder, tables, manifest), manifest
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
    with damage_named(path, "not a run of a store"):
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        schema = manifest["schema"]
    if schema != STORE_SCHEMA:
        raise TraceanaError(f"{folder}: written by another version ({schema}); ingest the logs again")
    return manifest


def _whole(folder: Path, tables: Tables, manifest: Mapping[str, Any]) -> Tables:
    """The tables of a run of which nothing is missing, without attribution's where that is not whole.

    Raises TraceanaError when a table has not the rows it was written with: a file was lost or taken away.
    """
    rows = manifest.get("rows")
    written = {table: count for table, count in rows.items() if table in STORED} if isinstance(rows, dict) else {}
    odd = [table for table, count in written.items() if table != "runs" and tables.height(table) != count]
    lost = next((table for table in odd if table not in ATTRIBUTION_TABLES), None)
    if lost is not None:
        found = tables.height(lost)
        raise TraceanaError(f"{folder / lost}: {found} rows, but {written[lost]} were written; ingest the logs again")
    return tables.without(ATTRIBUTION_TABLES) if odd else tables
