"""The Parquet files of one table: opened at once, read when asked for, and then only what may hold the rows wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from traceana.errors import TraceanaError
from traceana.store.tables import STORED
from traceana_parsers.schema import arrow_schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class Within:
    """Values from `low` on and below `below`; None: no border on that side."""

    low: int | None = None
    below: int | None = None


class Mark(NamedTuple):
    """Some rows: least and greatest value of a column, and how many they are."""

    low: int
    high: int
    rows: int


#: column -> the value that wanted rows have (None: null), those they may have, or where they lie
Only = Mapping[str, int | Collection[int] | Within | None]
_GROUPS_AT_ONCE = 16  # row groups read at a time where rows are picked from them


def picked(only: Only) -> pl.Expr:
    """True for the rows wanted."""
    import polars as pl

    tests = []
    for name, value in only.items():
        column = pl.col(name)
        if isinstance(value, Within):
            tests.append(pl.lit(value=True) if value.low is None else column >= value.low)
            tests.append(pl.lit(value=True) if value.below is None else column < value.below)
        elif isinstance(value, Collection):
            tests.append(column.is_in(pl.Series(_sorted(value)).implode()))
        else:
            tests.append(column.eq_missing(pl.lit(value)))
    return pl.all_horizontal(tests)


def _sorted(values: Collection[int]) -> npt.NDArray[np.int64]:
    """Values in order, each once; sorted arrays of distinct values cost nothing."""
    import numpy as np

    if isinstance(values, np.ndarray) and bool((values[1:] > values[:-1]).all()):
        return values
    return np.unique(np.fromiter(values, np.int64, len(values)))


class Part:
    """One open Parquet file. Removed afterwards, it stays readable."""

    def __init__(self, path: Path) -> None:
        """Opens a file. Raises TraceanaError when it is damaged, FileNotFoundError when it has gone."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._path = path
        with damage_named(path):
            self._file = pq.ParquetFile(pa.OSFile(str(path)), page_checksum_verification=True)
        self._column = {name: at for at, name in enumerate(self._file.schema_arrow.names)}
        self._known: dict[str, list[_Bounds | None]] = {}

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
        held = self._held(only)
        groups = [group for group, some in enumerate(held) if some is not False]
        for at in range(0, len(groups), _GROUPS_AT_ONCE):
            some = groups[at : at + _GROUPS_AT_ONCE]
            with damage_named(self._path):
                read = _polars(self._file.read_row_groups(some, columns=[*{*columns, *only}]))
            if not all(held[group] for group in some):
                read = read.filter(picked(only))
            yield read.select(pl.col(columns))

    def marks(self, column: str, only: Only) -> Iterator[Mark]:
        """The row groups that may hold wanted rows, by their values of a column."""
        for group, (some, bounds) in enumerate(zip(self._held(only), self._bounds(column), strict=True)):
            if some is not False and bounds is not None and bounds.low is not None and bounds.high is not None:
                yield Mark(bounds.low, bounds.high, int(self._file.metadata.row_group(group).num_rows))

    def _held(self, only: Only) -> list[bool | None]:
        """Whether the rows of each row group are wanted, by its statistics: all, none or (None) perhaps some."""
        found: list[bool | None] = [True] * self._file.num_row_groups
        for name, value in only.items():
            wanted = _sorted(value) if isinstance(value, Collection) else value
            for group, bounds in enumerate(self._bounds(name)):
                if found[group] is not False:
                    fits = None if bounds is None else _fits(bounds, wanted)
                    found[group] = fits if fits is not True else found[group]
        return found

    def _bounds(self, column: str) -> list[_Bounds | None]:
        """Of each row group what its statistics say of a column; None where they say nothing."""
        if column not in self._known:
            at, metadata = self._column[column], self._file.metadata
            groups = (metadata.row_group(group).column(at).statistics for group in range(self._file.num_row_groups))
            self._known[column] = [_bounds_of(statistics) for statistics in groups]
        return self._known[column]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Least and greatest value of a column in a row group (None: not known), and the numbers of values and nulls."""

    low: int | None
    high: int | None
    values: int
    nulls: int


def _bounds_of(statistics: pq.Statistics | None) -> _Bounds | None:
    if statistics is None or not statistics.has_null_count:
        return None
    low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
    return _Bounds(low, high, statistics.num_values, statistics.null_count)


def _fits(bounds: _Bounds, value: int | npt.NDArray[np.int64] | Within | None) -> bool | None:
    if value is None:
        return None if bounds.nulls and bounds.values else bounds.nulls > 0
    if not bounds.values:
        return False
    if bounds.low is None or bounds.high is None:
        return None
    if isinstance(value, Within):
        low = bounds.low if value.low is None else value.low
        below = bounds.high + 1 if value.below is None else value.below
        if bounds.high < low or bounds.low >= below:
            return False
        return True if bounds.low >= low and bounds.high < below and not bounds.nulls else None
    if isinstance(value, int):
        some = bounds.low <= value <= bounds.high
    else:
        at = int(value.searchsorted(bounds.low))
        some = at < len(value) and bool(value[at] <= bounds.high)
    if not some:
        return False
    return True if bounds.low == bounds.high and not bounds.nulls else None


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
