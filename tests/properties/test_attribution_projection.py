"""Nesting and projection of random small traces against the rule itself, pair by pair."""

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.attribution import projection
from traceana.attribution.nesting import innermost, nest
from traceana.attribution.projection import project

times = st.integers(0, 25)
span = st.tuples(times, st.integers(0, 15)).map(lambda p: (p[0], p[0] + p[1]))
lane = st.integers(0, 1)
ranges_of = st.lists(st.tuples(lane, span), max_size=9)  # overlapping ones, too


@given(ranges_of, st.lists(st.tuples(st.integers(0, 2), span), max_size=9))
def test_parent_and_innermost_are_the_enclosing_range_that_started_last(
    ranges: list[tuple[int, tuple[int, int]]], queries: list[tuple[int, tuple[int, int]]]
) -> None:
    rows = np.array([(t, s, e) for t, (s, e) in ranges], np.int64).reshape(-1, 3)
    asked = np.array([(t, s, e) for t, (s, e) in queries], np.int64).reshape(-1, 3)
    nesting = nest(*rows.T)

    def place(at: int) -> tuple[int, int, int]:  # latest start, then shortest, then the later row
        return rows[at][1], -rows[at][2], at

    def best(candidates: list[int]) -> int:
        return max(candidates, key=place, default=-1)

    parents = nesting.parents()
    for at, (own_lane, start, end) in enumerate(rows):
        around = [
            i for i, (t, s, e) in enumerate(rows) if t == own_lane and s <= start and e >= end and place(i) < place(at)
        ]
        assert parents[at] == best(around)
    found = innermost(nesting, *asked.T)
    for at, (own_lane, start, end) in enumerate(asked):
        assert found[at] == best([i for i, (t, s, e) in enumerate(rows) if t == own_lane and s <= start and e >= end])


calls_of = st.lists(st.tuples(lane, span, st.integers(1, 8), st.booleans()), max_size=10)
ops_of = st.lists(st.tuples(st.integers(0, 1), span, st.one_of(st.none(), st.integers(1, 8))), max_size=14)


@settings(max_examples=150, deadline=None)
@given(ranges_of, calls_of, ops_of, st.sampled_from([2, projection._CHUNK]))
def test_projection_equals_the_rule_applied_to_every_pair(ranges, calls, ops, chunk) -> None:  # type: ignore[no-untyped-def]
    """Nested calls, ids used twice, two threads of one process, two devices, several streams, out of order."""
    whole = {"file_id": pl.Int64, "rank": pl.Int64, "pid": pl.Int64}
    range_rows = pl.DataFrame(
        [(0, None, 1, t, s, e) for t, (s, e) in ranges],
        schema=whole | dict.fromkeys(("tid", "start_ns", "end_ns"), pl.Int64), orient="row",
    )  # fmt: skip
    call_rows = pl.DataFrame(
        [(0, None, 1, t, s, e, c, g) for t, (s, e), c, g in calls],
        schema=whole | dict.fromkeys(("tid", "start_ns", "end_ns", "correlation"), pl.Int64) | {"is_graph": pl.Boolean},
        orient="row",
    )
    op_rows = pl.DataFrame(
        [(0, None, 1, d, s, e, c) for d, (s, e), c in ops],
        schema=whole | dict.fromkeys(("device", "start_ns", "end_ns", "correlation"), pl.Int64), orient="row",
    )  # fmt: skip
    before, projection._CHUNK = projection._CHUNK, chunk
    try:
        found = project(range_rows, call_rows, op_rows)
    finally:
        projection._CHUNK = before
    wanted = []
    for at, (thread, (start, end)) in enumerate(ranges):
        inside = [c for c in calls if c[0] == thread and c[1][0] >= start and c[1][1] <= end]
        for device in (0, 1):
            work = [(i, o) for i, o in enumerate(ops) if o[0] == device and any(c[2] == o[2] for c in inside)]
            if not work:
                continue
            wanted.append(
                (
                    at, device, min(o[1][0] for _, o in work), max(o[1][1] for _, o in work), len({o[2] for _, o in work}),
                    len(inside), len(work), sum(o[1][1] - o[1][0] for _, o in work),
                    len({x for _, o in work for x in range(*o[1])}),
                )
            )  # fmt: skip
    names = ["range", "device", "proj_start_ns", "proj_end_ns", "n_ops", "n_launches", "n_rows", "sum_ns", "busy_ns"]
    assert found.select(names).rows() == wanted
