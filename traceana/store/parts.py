"""The Parquet files of one table: opened at once, read when asked for, and then only what may hold the rows wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.errors import TraceanaError
from traceana.store.tables import STORED
from traceana_parsers.schema import arrow_schema

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

#: column -> the value that wanted rows have (None: null), or those they may have
Only = Mapping[str, int | Collection[int] | None]
_GROUPS_AT_ONCE = 16  # row groups read at a time where rows are picked from them


def picked(only: Only) -> pl.Expr:
    """True for the rows wanted."""
    import polars as pl

    tests = [
        pl.col(name).is_in(list(value)) if isinstance(value, Collection) else pl.col(name).eq_missing(pl.lit(value))
        for name, value in only.items()
    ]
    return pl.all_horizontal(tests)


class Part:
    """One open Parquet file. It is mapped: removed afterwards, it stays readable."""

    def __init__(self, path: Path) -> None:
        """Opens a file. Raises TraceanaError when it is damaged, FileNotFoundError when it has gone."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._path = path
        with damage_named(path):
            self._file = pq.ParquetFile(pa.memory_map(str(path)), page_checksum_verification=True)
        self._column = {name: at for at, name in enumerate(self._file.schema_arrow.names)}

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self._file.metadata.num_rows)

    def is_of(self, table: str) -> bool:
        """Whether its columns are those of the table."""
        return bool(self._file.schema_arrow.equals(arrow_schema(table, STORED)))

    def frames(self, columns: list[str], only: Only | None = None) -> Iterator[pl.DataFrame]:
        """Its rows, or those wanted; row groups without any are not read."""
        import polars as pl

        only = only or {}
        held = [self._held(group, only) for group in range(self._file.num_row_groups)]
        groups = [group for group, some in enumerate(held) if some is not False]
        for at in range(0, len(groups), _GROUPS_AT_ONCE):
            some = groups[at : at + _GROUPS_AT_ONCE]
            with damage_named(self._path):
                read = _polars(self._file.read_row_groups(some, columns=[*{*columns, *only}]))
            if not all(held[group] for group in some):
                read = read.filter(picked(only))
            yield read.select(pl.col(columns))

    def _held(self, group: int, only: Only) -> bool | None:
        """Whether the rows of a row group are wanted, by its statistics: all, none or (None) perhaps some."""
        found = self._file.metadata.row_group(group)
        tests = [_fits(found.column(self._column[name]).statistics, value) for name, value in only.items()]
        return False if False in tests else None if None in tests else True


def _fits(statistics: pq.Statistics | None, value: int | Collection[int] | None) -> bool | None:
    if statistics is None or not statistics.has_null_count:
        return None
    if value is None:
        return None if statistics.null_count and statistics.num_values else statistics.null_count > 0
    if not statistics.num_values:
        return False
    if not statistics.has_min_max:
        return None
    values = value if isinstance(value, Collection) else (value,)
    low, high = statistics.min, statistics.max
    if not any(low <= one <= high for one in values):
        return False
    return True if low == high and not statistics.null_count else None


def open_parts(folder: Path, table: str) -> list[Part]:
    """The files of a table below a run's folder, in one folder or in one per rank, by rank and number."""
    return [Part(path) for path in sorted((folder / table).rglob("part-*.parquet"), key=_by_rank)]


def _by_rank(path: Path) -> tuple[int, str, str]:
    rank = path.parent.name.removeprefix("rank=")
    return int(rank) if rank.removeprefix("-").isdecimal() else 1 << 40, rank, path.name


def _polars(table: pa.Table) -> pl.DataFrame:
    import polars as pl

    made = pl.from_arrow(table)
    assert isinstance(made, pl.DataFrame)
    return made


def release_memory() -> None:
    """Gives back what allocators keep of the memory that Arrow and (through C's) numpy have used."""
    import pyarrow as pa

    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
        pool.release_unused()


@contextmanager
def damage_named(path: Path, what: str = "damaged") -> Iterator[None]:
    """Turns what is raised over a damaged file into a line for the user; a file that has gone is left to the caller."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise TraceanaError(f"{path}: {what} ({reason}); ingest the logs again") from error
