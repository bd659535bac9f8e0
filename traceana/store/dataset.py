"""A store on disk: `STORE/run=<id>/<table>/part-00000.parquet` and `run=<id>/run.json`.

A run is written into a hidden folder beside its place, synced, and renamed whole: readers see all of it or nothing, and
of two writers of one run the last wins. Inputs are never touched.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceana.errors import TraceanaError
from traceana_parsers.schema import TABLES, arrow_schema, empty

if TYPE_CHECKING:
    import polars as pl

MANIFEST = "run.json"
STORE_SCHEMA = "traceana/store/1"
_ROWS_PER_GROUP = 65_536


class Tables:
    """The tables of one run, in memory or on disk."""

    def __init__(self, frames: Mapping[str, list[pl.DataFrame]] | None = None, folder: Path | None = None) -> None:
        self._frames = frames or {}
        self._folder = folder

    def frame(self, table: str, columns: list[str] | None = None) -> pl.DataFrame:
        """All rows of a table, in the order they were read; no rows when the run has none."""
        import polars as pl

        wanted = columns or [c.name for c in TABLES[table]]
        if self._folder is not None:
            parts = sorted((self._folder / table).glob("part-*.parquet"))
            if not parts:
                return empty(table).select(wanted)
            return pl.concat([pl.read_parquet(part, columns=wanted, hive_partitioning=False) for part in parts])
        frames = self._frames.get(table)
        return pl.concat(frames).select(wanted) if frames else empty(table).select(wanted)

    def height(self, table: str) -> int:
        """Number of rows of a table."""
        if self._folder is None:
            return sum(frame.height for frame in self._frames.get(table, []))
        import pyarrow.parquet as pq

        return sum(pq.ParquetFile(p).metadata.num_rows for p in (self._folder / table).glob("part-*.parquet"))


class RunWriter:
    """Takes the rows of a run (the readers' Sink) and writes them under `store`; nothing is visible before `commit`.

    Use as a context manager: leaving it without `commit` removes everything.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._tmp = store / f".writing-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._writers: dict[str, Any] = {}
        self._pending: dict[str, list[pl.DataFrame]] = {}

    def __enter__(self) -> RunWriter:
        try:
            self._tmp.mkdir(parents=True)
        except OSError as error:
            raise TraceanaError(f"{self._store}: cannot write here: {error.strerror}; choose another --out") from error
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            writer.close()
        shutil.rmtree(self._tmp, ignore_errors=True)

    @property
    def folder(self) -> Path:
        """Where the rows lie until `commit`."""
        return self._tmp

    def add(self, table: str, frame: pl.DataFrame) -> None:
        """Take more rows of one table."""
        pending = self._pending.setdefault(table, [])
        pending.append(frame)
        if sum(f.height for f in pending) >= _ROWS_PER_GROUP:
            self._flush(table)

    def flush(self) -> Tables:
        """Close all files and give the tables as written."""
        for table in list(self._pending):
            self._flush(table)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        return Tables(folder=self._tmp)

    def _flush(self, table: str) -> None:
        import polars as pl
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
            writer = pq.ParquetWriter(folder / f"part-{number:05d}.parquet", schema, compression="zstd")
            self._writers[table] = writer
        for frame in frames:
            writer.write_table(frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema))

    def commit(self, run_id: str, manifest: Mapping[str, object]) -> Path:
        """Make the run visible as `run=<run_id>`, replacing one of the same id. Returns its folder."""
        self.flush()
        target = self._store / f"run={run_id}"
        text = json.dumps({"schema": STORE_SCHEMA, "run": run_id, **manifest}, indent=2)
        (self._tmp / MANIFEST).write_text(text, encoding="utf-8")
        for path in sorted(self._tmp.rglob("*")):
            if path.is_file():
                _sync(path)
        _sync(self._tmp)
        for _ in range(20):
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
            except OSError:
                continue
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
    """True when `path` is a store or one run of it."""
    folder = Path(path)
    return folder.is_dir() and ((folder / MANIFEST).is_file() or any(folder.glob(f"run=*/{MANIFEST}")))


def open_run(path: str) -> tuple[Tables, dict[str, Any]]:
    """Tables and manifest of a run folder, or of the run last written to a store.

    Raises TraceanaError when the manifest cannot be read or is of another version.
    """
    folder = Path(path)
    if not (folder / MANIFEST).is_file():
        runs = sorted(folder.glob(f"run=*/{MANIFEST}"), key=lambda p: p.stat().st_mtime_ns)
        folder = runs[-1].parent
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known = manifest["schema"] == STORE_SCHEMA
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceanaError(f"{folder / MANIFEST}: not a run of a store ({error}); ingest the logs again") from error
    if not known:
        raise TraceanaError(f"{folder}: written by another version ({manifest['schema']}); ingest the logs again")
    return Tables(folder=folder), manifest
