"""Interval algebra against sets of integer instants."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.attribution import intervals as iv

Raw = list[tuple[int, int]]
raw = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)
HUGE = 1 << 62


def arrays(rows: Raw) -> iv.Intervals:
    """In ascending order of start, as a sweep wants them."""
    found = np.array(sorted(rows, key=lambda row: row[0]), np.int64).reshape(-1, 2)
    return found[:, 0].copy(), found[:, 1].copy()


def instants(rows: Raw) -> set[int]:
    return {t for start, end in rows for t in range(start, end)}


def as_set(pieces: iv.Intervals) -> set[int]:
    rows = list(zip(pieces[0].tolist(), pieces[1].tolist(), strict=True))
    assert all(start < end for start, end in rows)
    assert all(a[1] <= b[0] for a, b in pairwise(rows)), "pieces must be ascending and disjoint"
    return instants(rows)


@given(raw)
def test_a_union_counts_every_instant_once(rows: Raw) -> None:
    assert as_set(iv.pieces(*arrays(rows))) == instants(rows)


@given(raw, st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_union_of_some_counts_those_only(rows: Raw, chosen: list[bool]) -> None:
    start, end = arrays(rows)
    member = np.array(chosen[: len(start)], np.bool_)
    kept = list(zip(start[member].tolist(), end[member].tolist(), strict=True))
    assert as_set(iv.pieces(start, end, member)) == instants(kept)


@given(raw)
def test_each_piece_belongs_to_the_row_that_was_first_to_cover_it(rows: Raw) -> None:
    start, end = arrays(rows)
    for low, high, owner in zip(*(found.tolist() for found in iv.owned_pieces(start, end)), strict=True):
        for t in range(low, high):
            assert owner == next(i for i in range(len(start)) if start[i] <= t < end[i])


@given(raw, raw)
def test_time_in_windows_is_what_lies_inside_and_never_more_than_the_window(rows: Raw, windows: Raw) -> None:
    found = iv.coverage(*iv.pieces(*arrays(rows)), *arrays(windows))
    ordered = sorted(windows, key=lambda row: row[0])
    assert found.tolist() == [len(instants(rows) & set(range(*window))) for window in ordered]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 9)), max_size=15))
def test_unions_by_group_do_not_mix_groups(rows: list[tuple[int, int, int]]) -> None:
    found = np.array(rows, np.int64).reshape(-1, 3)
    got = iv.union_by_group(found[:, 0], found[:, 1], found[:, 1] + found[:, 2], 4)
    wanted = [len(instants([(s, s + d) for g, s, d in rows if g == group])) for group in range(4)]
    assert got.tolist() == wanted


@given(raw, st.booleans())
def test_times_up_to_2_to_the_62_do_not_overflow(rows: Raw, spread: bool) -> None:
    top = HUGE - 60
    start, end = arrays(rows)
    length = len(instants(rows))
    windows = np.array([0, top], np.int64), np.array([HUGE, HUGE], np.int64)
    assert iv.coverage(*iv.pieces(start + top, end + top), *windows).tolist() == [length, length]
    # groups whose spans do not fit above each other in 64 bits
    far = np.zeros(len(start), np.int64) if not spread else np.where(np.arange(len(start)) % 2, top, 0)
    groups = np.arange(len(start), dtype=np.int64) % 3
    got = iv.union_by_group(groups, start + far, end + far, 3)
    for group in range(3):
        at = groups == group
        own = list(zip((start + far)[at].tolist(), (end + far)[at].tolist(), strict=True))
        assert got[group] == len(instants([row for row in own if row[0] < top])) + len(
            instants([(low - top, high - top) for low, high in own if low >= top])
        )


@pytest.mark.parametrize("shift", [0, HUGE - 100, -HUGE])
def test_nested_touching_and_empty_intervals(shift: int) -> None:
    start = np.array([0, 5, 10, 10, 30, 40], np.int64) + shift
    end = np.array([10, 8, 20, 10, 30, 45], np.int64) + shift
    low, high = iv.pieces(start, end)
    assert (low - shift).tolist() == [0, 10, 40] and (high - shift).tolist() == [10, 20, 45]


def test_no_intervals_cover_nothing() -> None:
    none = np.empty(0, np.int64)
    windows = np.array([0], np.int64), np.array([10], np.int64)
    assert iv.coverage(*iv.pieces(none, none), *windows).tolist() == [0]


def test_groups_that_span_all_of_time_are_kept_apart() -> None:
    groups = np.repeat(np.arange(4, dtype=np.int64), 3)
    start = np.tile(np.array([0, 5, HUGE - 20], np.int64), 4)
    end = np.tile(np.array([10, 12, HUGE], np.int64), 4)
    assert iv.union_by_group(groups, start, end, 4).tolist() == [32] * 4
