"""Large tables of an SQLite file as frames: ADBC hands out Arrow batches, for a third of the CPU time of sqlite3.

ADBC types a column by its first batch. Columns are asked for as they are first; where a value does not fit, the rest of
the table is asked for again with every value made what it should be, which takes longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from traceana_parsers.traces.nsight_common import BATCH, BINARY, NAME_LIMIT, StoreError

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor

T = TypeVar("T")


def table_rows(
    path: Path, table: str, ints: Sequence[str], texts: Sequence[str], where: str = ""
) -> Iterator[pl.DataFrame]:
    """Rows of a table in the order stored, at most BATCH at a time: Int64 and String columns, which it must have.

    Values that are no numbers, and texts that are empty, are null; texts are cut behind NAME_LIMIT characters, but
    BINARY is hexadecimal. Nothing is locked or written beside the file. Raises StoreError where it is damaged.
    """
    done = 0
    try:
        for frame in _frames(path, table, [quoted(c) for c in ints], texts, where, done):
            if not all(frame[c].dtype.is_integer() for c in ints):
                break  # another type from the first batch on
            done += frame.height
            yield _texts_decoded(frame, texts)
        else:
            return
    except _Stopped:
        pass
    try:
        for frame in _frames(path, table, [_integer(c) for c in ints], texts, where, done):
            yield _texts_decoded(frame, texts)
    except _Stopped as stopped:
        raise StoreError(str(stopped)) from stopped


def _frames(
    path: Path, table: str, ints: Sequence[str], texts: Sequence[str], where: str, skip: int
) -> Iterator[pl.DataFrame]:
    import adbc_driver_sqlite.dbapi
    import polars as pl

    columns = ", ".join([*ints, *map(_text, texts)])
    query = f"SELECT {columns} FROM {quoted(table)}{where} ORDER BY rowid LIMIT -1 OFFSET {skip}"
    # a connection of its own: one cannot be closed while a cursor of it is open somewhere
    with _guarded(lambda: adbc_driver_sqlite.dbapi.connect(uri_of(path), autocommit=True)) as db, db.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH)})
        reader = _guarded(lambda: _executed(cursor, query))
        while (batch := _guarded(lambda: next(reader, None))) is not None:
            frame = pl.from_arrow(batch)
            assert isinstance(frame, pl.DataFrame)
            yield frame


#: what the driver puts before the words of SQLite
_DRIVER = re.compile(r"^(?:IO: |INVALID_ARGUMENT: |\[SQLite\] |Failed to (?:step|prepare) query: )+")


class _Stopped(Exception):
    """What ADBC says of rows that it could not hand out."""


def _executed(cursor: Cursor, query: str) -> pa.RecordBatchReader:
    cursor.execute(query)
    return cursor.fetch_record_batch()


def _guarded(step: Callable[[], T]) -> T:
    import adbc_driver_manager
    import pyarrow as pa

    try:
        return step()
    except (adbc_driver_manager.Error, pa.ArrowException, OSError, UnicodeError) as error:
        raise _Stopped(f"SQLite: {_DRIVER.sub('', reason(error))}") from error


def uri_of(path: Path) -> str:
    """The URI that opens a file read-only; immutable: no locks, no -wal or -shm file, whatever its journal mode."""
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def reason(error: Exception) -> str:
    """What an error says, in one line."""
    if isinstance(error, UnicodeError):
        return "the schema is damaged"
    return " ".join(str(error).split())[:200]


def quoted(name: str) -> str:
    """A name of a table or column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _integer(column: str) -> str:
    name = quoted(column)
    return f"CASE typeof({name}) WHEN 'integer' THEN {name} WHEN 'real' THEN CAST({name} AS INTEGER) END AS {name}"


def _text(column: str) -> str:
    """A text as bytes, because it may be none; never null, so that the first batch has its type."""
    name = quoted(column)
    if column == BINARY:
        cut = f"CAST(hex(substr(CAST({name} AS BLOB), 1, {NAME_LIMIT // 2})) AS BLOB)"
    else:  # not substr of the text: that counts characters of every value
        cut = f"CASE WHEN length({name}) > {NAME_LIMIT} THEN substr({name}, 1, {NAME_LIMIT + 1}) ELSE {name} END"
        cut = f"CAST({cut} AS BLOB)"
    return f"coalesce({cut}, x'') AS {name}"


def _texts_decoded(frame: pl.DataFrame, texts: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    for column in texts:
        values = frame[column]
        try:
            text = values.cast(pl.String)
        except pl.exceptions.PolarsError:  # bytes that are no UTF-8
            text = pl.Series([v.decode("utf-8", "replace") for v in values.to_list()], dtype=pl.String)
        frame = frame.with_columns(text.replace("", None).alias(column))
    return frame
