"""Reads Nsight Systems SQLite exports of every schema version. Nothing is written to the file or put beside it."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Source, SourceError, open_stream
from traceana_parsers.traces.nsight_common import (
    BLOCK_LIMIT,
    CONTENT_LIMIT,
    MARKS,
    NAME_LIMIT,
    SMALL_TABLE,
    StoreError,
)
from traceana_parsers.traces.nsight_environment import OnText
from traceana_parsers.traces.nsight_read import read_export
from traceana_parsers.traces.sqlite_stream import quoted, reason, table_rows, uri_of

if TYPE_CHECKING:
    import polars as pl

MAGIC = b"SQLite format 3\0"
_COPY = 1 << 20
_INFLATED, _SMALL = 100, 64 << 20  # times its size that a compressed file may grow to, and bytes that any may
_ERRORS = (sqlite3.Error, OverflowError, UnicodeError)  # the last: a message with the damage in it
_CELL = 65_536  # characters of a value of a small table that are read


def sniff(head: bytes, path: str) -> bool:
    """True when a file that begins with `head` (decompressed) is an SQLite file; `path` does not matter."""
    return head.startswith(MAGIC)


def read(source: Source, file_id: int, sink: Sink, on_text: OnText | None = None) -> FileReport:
    """Adds the rows of one export to `sink`. Never raises for what is in it; `problem` says what went wrong.

    `on_text` is given the output that nsys captured of the program (server and NCCL logs): its name and its bytes.
    """
    report = FileReport(file_id, source.path, format="nsight")
    try:
        report.modified = source.modified
        report.bytes = Path(source.path).stat().st_size
        with Path(source.path).open("rb") as stream:
            plain = stream.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError) as error:
        report.problem = str(getattr(error, "strerror", None) or error)
        return report
    if plain:
        _read_file(Path(source.path), report, sink, on_text)
        return report
    with tempfile.TemporaryDirectory(prefix="traceana-") as folder:
        try:
            copy = _decompressed(source, Path(folder) / "export.sqlite")
        except Exception as error:  # the decompressors raise types of their own
            reason = str(error).removeprefix(f"{source.path}: ") or type(error).__name__
            report.problem = f"cannot be decompressed ({reason})"
            return report
        report.bytes = copy.stat().st_size
        _read_file(copy, report, sink, on_text)
    return report


def _decompressed(source: Source, target: Path) -> Path:
    stream = open_stream(source)
    with stream, target.open("wb") as out:
        first = stream.read1(_COPY)
        if not first.startswith(MAGIC):
            raise SourceError("no SQLite file inside")
        out.write(first)
        most = max(_INFLATED * source.size, _SMALL)
        while piece := stream.read1(_COPY):
            out.write(piece)
            if out.tell() > most:
                raise SourceError(f"it grows to more than {_INFLATED} times its size, which no export does")
    return target


def _read_file(path: Path, report: FileReport, sink: Sink, on_text: OnText | None) -> None:
    try:
        store = SqliteStore(path)
    except StoreError as error:
        report.problem = str(error)
        return
    try:
        if not any(store.columns(table) for table in MARKS):
            report.problem = "an SQLite file, but no Nsight Systems export (none of its tables is there)"
            return
        read_export(store, report, sink, on_text)
    finally:
        store.close()
    if report.problem is None and (beside := _unmerged(path)):
        report.problem = f"{beside} holds changes that were not merged into the file; they were not read"


def _unmerged(path: Path) -> str | None:
    """A write-ahead log or rollback journal with content beside the file."""
    for suffix in ("-wal", "-journal"):
        beside = path.with_name(path.name + suffix)
        if beside.is_file() and beside.stat().st_size:
            return beside.name
    return None


class SqliteStore:
    """The tables of an SQLite export; see nsight_common.TableStore."""

    def __init__(self, path: Path) -> None:
        """Opens the file. Raises StoreError when it is no readable SQLite file."""
        self._path = path
        try:
            self._db = sqlite3.connect(uri_of(path), uri=True, isolation_level=None)
            self._db.text_factory = bytes
            tables = [_text(n) for (n,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            self._columns = {table: self._table_columns(table) for table in tables}
            _need_json(self._db)
        except _ERRORS as error:
            raise StoreError(f"SQLite cannot read it: {reason(error)}") from error

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _table_columns(self, table: str) -> frozenset[str]:
        return frozenset(_text(row[1]) for row in self._db.execute(f"PRAGMA table_info({quoted(table)})"))

    def columns(self, table: str) -> frozenset[str]:
        """The table's column names; empty when there is no such table."""
        return self._columns.get(table, frozenset())

    def batches(
        self, table: str, ints: Sequence[str], texts: Sequence[str] = (), only: tuple[str, Sequence[int]] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Rows in batches; see nsight_common.TableStore.batches."""
        import polars as pl

        known = self.columns(table)
        if not known or (only and only[0] not in known):
            return
        where = f" WHERE {quoted(only[0])} IN ({', '.join(map(str, only[1]))})" if only else ""
        numbers, words = ([c for c in columns if c in known] for columns in (ints, texts))
        if not numbers + words:
            return
        for frame in table_rows(self._path, table, numbers, words, where):
            yield frame.select(
                *(pl.col(c) if c in known else pl.lit(None, pl.Int64).alias(c) for c in ints),
                *(pl.col(c) if c in known else pl.lit(None, pl.String).alias(c) for c in texts),
            )

    def distinct(self, table: str, ints: Sequence[str]) -> list[tuple[int | None, ...]]:
        """Distinct combinations of integers; see nsight_common.TableStore.distinct."""
        if not set(ints) <= self.columns(table):
            return []
        wanted = ", ".join(quoted(c) for c in ints)
        rows = self._all(f"SELECT DISTINCT {wanted} FROM {quoted(table)} LIMIT {SMALL_TABLE}")
        found = [tuple(v if isinstance(v, int) else None for v in row) for row in rows]
        return sorted(found, key=lambda row: [(v is not None, v or 0) for v in row])  # SQLite would sort every row

    def rows(self, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
        """A small table; see nsight_common.TableStore.rows. Texts are cut behind 65,536 characters."""
        known = self.columns(table)
        if not known:
            return []
        cells = ", ".join(_cell(c) if c in known else "NULL" for c in columns)
        found = self._all(f"SELECT {cells} FROM {quoted(table)} LIMIT {SMALL_TABLE}")
        return [tuple(_text(v) if isinstance(v, bytes) else v for v in row) for row in found]

    def strings(self, ids: Sequence[int]) -> dict[int, str]:
        """Texts by id; see nsight_common.TableStore.strings."""
        if not {"id", "value"} <= self.columns("StringIds"):
            return {}
        rows = self._all(
            f"SELECT id, substr(value, 1, {NAME_LIMIT + 1}) FROM StringIds "
            "WHERE id IN (SELECT value FROM json_each(?)) AND instr(CAST(value AS BLOB), x'00') = 0",
            (json.dumps([int(i) for i in ids]),),
        )
        return {int(i): _text(value) for i, value in rows if isinstance(i, int) and value is not None}

    def blocks(self) -> Iterator[str]:
        """Texts with a NUL in them; see nsight_common.TableStore.blocks."""
        if "value" not in self.columns("StringIds"):
            return
        found = self._all(
            f"SELECT substr(CAST(value AS BLOB), 1, {BLOCK_LIMIT}) FROM StringIds "
            "WHERE instr(CAST(value AS BLOB), x'00') > 0"
        )
        for (value,) in found:
            yield _text(value)

    def content(self, string_id: int) -> bytes:
        """A text in full; see nsight_common.TableStore.content."""
        if not {"id", "value"} <= self.columns("StringIds"):
            return b""
        found = self._all(
            f"SELECT substr(CAST(value AS BLOB), 1, {CONTENT_LIMIT}) FROM StringIds WHERE id = ?", (string_id,)
        )
        return bytes(found[0][0] or b"") if found else b""

    def _all(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except _ERRORS as error:
            raise StoreError(f"SQLite: {reason(error)}") from error


def _cell(column: str) -> str:
    """A value of a small table: integers as they are, anything else as text of bounded length."""
    name = quoted(column)
    return f"CASE typeof({name}) WHEN 'integer' THEN {name} WHEN 'null' THEN NULL ELSE substr({name}, 1, {_CELL}) END"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _need_json(db: sqlite3.Connection) -> None:
    try:
        db.execute("SELECT json_array(1), json_group_array(1) FROM json_each('[1]')").fetchall()
    except sqlite3.OperationalError as error:
        raise StoreError("this Python's SQLite has no JSON functions (standard since 3.38); use another") from error
