"""Numbers for keys: nulls are a key, order is that of the keys, whatever way is taken to find them."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.attribution import codes

value = st.one_of(st.none(), st.sampled_from([-(1 << 61), -1, 0, 1, 7, 1 << 61]))


@given(st.lists(st.tuples(value, value), max_size=8), st.lists(st.tuples(value, value), max_size=8), st.integers(1, 9))
def test_codes_of_two_frames_are_the_places_of_their_keys(a: list[tuple], b: list[tuple], repeat: int) -> None:  # type: ignore[type-arg]
    rows = [row for row in a for _ in range(repeat)]  # runs
    frames = [pl.DataFrame(r, schema={"x": pl.Int64, "y": pl.Int64}, orient="row") for r in (rows, b)]
    (left, right), count = codes.dense_codes(frames, ("x", "y"))
    order = sorted({*a, *b}, key=lambda row: [(v is not None, v or 0) for v in row])
    assert count == max(len(order), 0)
    assert left.tolist() == [order.index(row) for row in rows] and right.tolist() == [order.index(row) for row in b]


@pytest.mark.parametrize("values", [[], [5], [5, 5, 5, 5, 5], [3, 1, 2, 1], [1 << 61, -(1 << 61), 0, 7, 9]])
def test_densify_gives_places_among_distinct_values(values: list[int]) -> None:
    found, count = codes.densify(np.array(values, np.int64))
    order = sorted(set(values))
    assert count == len(order) and found.tolist() == [order.index(one) for one in values]


def test_rows_by_code_leave_out_what_has_no_code() -> None:
    found = codes.rows_by_code(np.array([1, -1, 0, 1], np.int64), 3)
    assert [rows.tolist() for rows in found] == [[2], [0, 3], []]
    assert codes.first_rows(np.array([1, 0, 1, 0, 2]), 3).tolist() == [True, True, False, False, True]
