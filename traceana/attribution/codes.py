"""Small consecutive numbers for keys of one or more columns, and what can be done with them without a join."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from traceana.attribution.intervals import BoolArray, IntArray, is_new

#: a lookup table may have this many entries per row, or this many at all
_TABLE_RATIO = 4
_TABLE_SIZE = 1 << 20
#: rows per change of value from which only the changes are sorted
_RUN = 4


def column(frame: pl.DataFrame, name: str, missing: int = -1) -> IntArray:
    """A column as int64, nulls replaced. The array may be a view: copy it before writing to it."""
    return _whole(frame.get_column(name), missing).to_numpy()


def _whole(values: pl.Series, missing: int) -> pl.Series:
    """As int64 without nulls; what is so already costs nothing."""
    values = values if values.dtype == pl.Int64 else values.cast(pl.Int64)
    return values.fill_null(missing) if values.null_count() else values


def small_range(rows: int, span: int) -> bool:
    """Whether a table of `span` entries is cheap beside `rows` rows."""
    return span <= max(_TABLE_RATIO * rows, _TABLE_SIZE)


def densify(values: IntArray) -> tuple[IntArray, int]:
    """Each value's place among the distinct values, and their number. Sorts only where runs and tables do not help."""
    if not len(values):
        return values, 0
    changes = is_new(values)
    heads = values[changes]
    if _RUN * len(heads) <= len(values):
        found, place = np.unique(heads, return_inverse=True)
        length = np.diff(np.concatenate((np.flatnonzero(changes), [len(values)])))
        return np.repeat(place.reshape(-1).astype(np.int64), length), len(found)
    low, high = int(values.min()), int(values.max())
    if small_range(len(values), high - low + 1):
        present = np.zeros(high - low + 1, np.int64)
        present[values - low] = 1
        codes: IntArray = (np.cumsum(present) - 1)[values - low]
        return codes, int(present.sum())
    found, place = np.unique(values, return_inverse=True)
    return place.reshape(-1).astype(np.int64), len(found)


def dense_codes(frames: Sequence[pl.DataFrame], keys: Sequence[str]) -> tuple[list[IntArray], int]:
    """Numbers 0 ... n-1 for the distinct keys of several frames together, in the order of the keys: codes of each, n.

    Nulls are a key of their own, the first.
    """
    borders = np.cumsum([0, *(frame.height for frame in frames)])
    code, count = np.zeros(int(borders[-1]), np.int64), min(int(borders[-1]), 1)
    for key in keys:
        parts = [frame.get_column(key) for frame in frames]
        if _same_throughout(parts):
            continue
        lows = [low for low in (part.min() for part in parts) if isinstance(low, int)]
        null = min(lows, default=0) - 1
        place, places = densify(np.concatenate([_whole(part, null).to_numpy() for part in parts]))
        code, count = densify(code * places + place) if count > 1 else (place, places)
    return [code[low:high] for low, high in pairwise(borders)], count


def _same_throughout(parts: Sequence[pl.Series]) -> bool:
    """Whether all values are one and the same, or all null: most tables hold one process."""
    parts = [part for part in parts if len(part)]
    if all(part.null_count() == len(part) for part in parts):
        return True
    values = {value for part in parts for value in (part.min(), part.max())}
    return len(values) == 1 and not any(part.null_count() for part in parts)


def rows_by_code(codes: IntArray, count: int) -> list[IntArray]:
    """For each code 0 ... count-1 its rows, ascending; rows with a negative code are left out."""
    order = np.argsort(codes, kind="stable").astype(np.int64)
    bounds = np.searchsorted(codes, np.arange(count + 1), sorter=order)
    return [order[low:high] for low, high in pairwise(bounds)]


def first_rows(codes: IntArray, count: int) -> BoolArray:
    """Rows that are the first with their code, 0 ... count-1."""
    first = np.full(count, -1, np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    found: BoolArray = first[codes] == np.arange(len(codes))
    return found
