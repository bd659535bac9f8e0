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
    found = np.array(rows, np.int64).reshape(-1, 2)
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
    assert iv.union_length(*arrays(rows)) == len(instants(rows))
    assert as_set(iv.pieces(*iv.by_start(*arrays(rows)))) == instants(rows)


@given(raw)
def test_merged_pieces_are_as_few_as_can_be(rows: Raw) -> None:
    merged = iv.merge(*arrays(rows))
    assert as_set(merged) == instants(rows)
    assert (merged[0][1:] > merged[1][:-1]).all()


@given(raw, raw)
def test_intersection_difference_and_complement(a: Raw, b: Raw) -> None:
    left, right = iv.merge(*arrays(a)), iv.pieces(*iv.by_start(*arrays(b)))
    assert as_set(iv.intersect(left, right)) == instants(a) & instants(b)
    assert as_set(iv.subtract(left, right)) == instants(a) - instants(b)
    assert as_set(iv.complement(*right, 5, 30)) == set(range(5, 30)) - instants(b)


@given(raw, st.integers(0, 50), st.integers(0, 50))
def test_clipping_keeps_what_is_inside(rows: Raw, low: int, high: int) -> None:
    start, end = iv.clip(*arrays(rows), low, high)
    assert (end > start).all()
    assert instants(list(zip(start.tolist(), end.tolist(), strict=True))) == instants(rows) & set(range(low, high))


@given(raw, raw)
def test_time_in_windows_is_what_lies_inside_and_never_more_than_the_window(rows: Raw, windows: Raw) -> None:
    found = iv.busy_in_windows(*arrays(rows), *arrays(windows))
    assert found.tolist() == [len(instants(rows) & set(range(*window))) for window in windows]


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
    assert iv.union_length(start + top, end + top) == length
    windows = np.array([0, top], np.int64), np.array([HUGE, HUGE], np.int64)
    assert iv.busy_in_windows(start + top, end + top, *windows).tolist() == [length, length]
    # groups whose spans do not fit above each other in 64 bits
    far = np.zeros(len(start), np.int64) if not spread else np.where(np.arange(len(start)) % 2, top, 0)
    groups = np.arange(len(start), dtype=np.int64) % 3
    got = iv.union_by_group(groups, start + far, end + far, 3)
    for group in range(3):
        at = groups == group
        assert got[group] == iv.union_length((start + far)[at], (end + far)[at])


@pytest.mark.parametrize("shift", [0, HUGE - 100, -HUGE])
def test_nested_touching_empty_and_unsorted_intervals(shift: int) -> None:
    start = np.array([30, 0, 5, 10, 10, 40], np.int64) + shift
    end = np.array([30, 10, 8, 20, 10, 45], np.int64) + shift
    assert iv.union_length(start, end) == 25
    merged = iv.merge(start, end)
    assert (merged[0] - shift).tolist() == [0, 40] and (merged[1] - shift).tolist() == [20, 45]


def test_no_intervals_cover_nothing() -> None:
    none = iv.empty()
    windows = np.array([0], np.int64), np.array([10], np.int64)
    assert iv.busy_in_windows(*none, *windows).tolist() == [0]
    assert iv.union_length(*none) == 0 and iv.merge(*none)[0].size == 0
    assert iv.complement(*none, 0, 10)[1].tolist() == [10]


def test_groups_that_span_all_of_time_are_kept_apart() -> None:
    groups = np.repeat(np.arange(4, dtype=np.int64), 3)
    start = np.tile(np.array([0, 5, HUGE - 20], np.int64), 4)
    end = np.tile(np.array([10, 12, HUGE], np.int64), 4)
    assert iv.union_by_group(groups, start, end, 4).tolist() == [32] * 4
