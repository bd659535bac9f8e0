"""Sweeps over concurrency: crossings with their uncertainty, cost cliffs, break-even without a drafter, schedules."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation.load import requests_decoding, requests_in_flight, scaling
from traceana.speculation.sweep_cost import CostCurve, Forward, cliffs, plain_break_even
from traceana.speculation.sweep_crossing import RatioAt, crossings
from traceana.speculation.sweep_schedule import Choice, schedule

#: a step of 1 ... 32 requests whose cost falls off a cliff between 16 and 32 tokens
_STEPS = [Forward(1, 17.0), Forward(2, 21.5), Forward(4, 24.5), Forward(8, 31.5), Forward(16, 37.5), Forward(32, 101.0)]


def test_the_crossing_lies_where_the_logarithms_say() -> None:
    (found,) = crossings([RatioAt(4, 1.5), RatioAt(8, 0.8)])
    assert found.at == pytest.approx(4 * 2 ** (math.log(1.5) / math.log(1.5 / 0.8)))
    assert (found.after, found.before, found.rises, found.known) == (4, 8, False, False)


def test_one_winner_throughout_has_no_crossing() -> None:
    assert crossings([RatioAt(c, r) for c, r in ((1, 0.84), (10, 0.52), (250, 0.44))]) == ()
    assert crossings([]) == ()
    assert crossings([RatioAt(1, 1.0), RatioAt(2, 1.0)]) == ()


def test_noise_widens_the_crossing_over_the_loads_that_it_leaves_undecided() -> None:
    points = [RatioAt(1, 1.4, 1.3, 1.5), RatioAt(4, 1.02, 0.95, 1.1), RatioAt(16, 0.7, 0.65, 0.75)]
    (found,) = crossings(points)
    assert found.low is not None
    assert found.high is not None
    assert 1 < found.low < 4 < found.at < found.high < 16


def test_a_crossing_that_noise_may_put_beyond_the_measured_loads_is_open_there() -> None:
    (found,) = crossings([RatioAt(1, 1.4, 1.3, 1.5), RatioAt(4, 0.98, 0.9, 1.07)])
    assert found.low is not None
    assert found.high is None
    assert found.known


def test_a_load_with_equal_figures_is_the_crossing() -> None:
    (found,) = crossings([RatioAt(1, 1.2), RatioAt(2, 1.0), RatioAt(4, 0.9)])
    assert found.at == 2


@given(
    st.lists(st.tuples(st.integers(1, 500), st.floats(0.2, 5.0)), min_size=2, max_size=9, unique_by=lambda p: p[0]),
    st.floats(1.001, 1.5),
)
def test_a_crossing_lies_between_its_loads_and_within_its_range(points: list[tuple[int, float]], noise: float) -> None:
    found = crossings([RatioAt(c, r, r / noise, r * noise) for c, r in points])
    ordered = [r for _, r in sorted(points) if r != 1.0]
    assert len(found) == sum((a > 1) != (b > 1) for a, b in pairwise(ordered))
    for crossing in found:
        assert crossing.after <= crossing.at * (1 + 1e-9)
        assert crossing.at <= crossing.before * (1 + 1e-9)
        assert crossing.low is None or crossing.low <= crossing.at * (1 + 1e-9)
        assert crossing.high is None or crossing.high >= crossing.at * (1 - 1e-9)


def test_a_cliff_is_found_where_it_is_and_nowhere_else() -> None:
    (found,) = cliffs(_STEPS)
    assert (found.below.tokens, found.above.tokens) == (16, 32)
    assert found.jump == pytest.approx(101.0 / 37.5)
    assert cliffs([Forward(2**i, 10.0 * 1.9**i) for i in range(6)]) == ()


def test_one_slow_level_is_no_cliff() -> None:
    slow = [*_STEPS[:4], Forward(16, 90.0), Forward(32, 45.0)]
    assert cliffs(slow) == ()


def test_break_even_without_a_drafter_is_the_ratio_of_two_measured_steps() -> None:
    found = {(row.batch, row.k): row for row in plain_break_even(CostCurve(_STEPS), [1, 8, 16], [1, 2, 3])}
    assert found[8, 3].accept_length == pytest.approx(101.0 / 31.5)
    assert found[8, 3].between is None
    assert found[8, 2].between == (16, 32)
    assert found[1, 3].accept_length == pytest.approx(24.5 / 17.0)
    assert (16, 2) not in found  # 48 tokens were not measured


def test_sizes_far_apart_are_not_interpolated() -> None:
    curve = CostCurve([Forward(1, 10.0), Forward(8, 20.0)])
    assert curve.at(4) is None
    assert curve.at(16) is None
    assert curve.at(8.1) is not None


def test_a_draft_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 token"):
        plain_break_even(CostCurve(_STEPS), [1], [0])


def test_the_schedule_switches_off_just_above_the_last_load_that_pays() -> None:
    spans = schedule(
        [Choice(load, use) for load, use in ((1, "k=3"), (2, "k=3"), (4, "k=3"), (8, "off"), (16, "off"), (32, "k=3"))]
    )
    assert [(s.first, s.last, s.use) for s in spans] == [(1, 4, "k=3"), (5, 16, "off"), (17, 32, "k=3")]


def test_a_load_that_does_not_decide_keeps_what_its_neighbours_use() -> None:
    spans = schedule([Choice(1, "k=3"), Choice(2, None), Choice(4, "k=3"), Choice(8, None)])
    assert [(s.first, s.last, s.use, s.measured) for s in spans] == [(1, 4, "k=3", (1, 4))]
    assert schedule([Choice(1, None)]) == ()


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 7)), max_size=12, unique_by=lambda c: c[0]))
def test_a_schedule_covers_every_load_once(choices: list[tuple[int, int]]) -> None:
    spans = schedule([Choice(load, f"k={k}") for load, k in choices])
    covered = [load for span in spans for load in range(span.first, span.last + 1)]
    assert covered == list(range(1, max((load for load, _ in choices), default=0) + 1))
    by_load = {load: span.use for span in spans for load in range(span.first, span.last + 1)}
    assert all(by_load[load] == f"k={k}" for load, k in choices)


def test_little_law_counts_the_requests_that_decode_and_those_in_flight() -> None:
    assert requests_decoding(1042.18, 17.41) == pytest.approx(18.1, abs=0.05)
    assert requests_in_flight(100, 393.02, 153886.0 + 4095 * 17.41) == pytest.approx(57.3, abs=0.1)


def test_saturation_is_the_load_above_which_nothing_is_gained() -> None:
    found = scaling([(1, 92.6), (10, 457.2), (30, 711.0), (70, 784.2), (100, 761.6), (250, 772.1)])
    assert found is not None
    assert (found.ceiling_at, found.saturates_at) == (70, 70)
    assert found.gain == pytest.approx(8.47, abs=0.005)
    assert dict(found.efficiency)[10] == pytest.approx(457.2 / 926.0)


def test_a_sweep_that_still_rises_is_not_saturated() -> None:
    found = scaling([(1, 26.1), (8, 208.9), (32, 807.5)])
    assert found is not None
    assert found.saturates_at is None
    assert scaling([(1, 26.1)]) is None
