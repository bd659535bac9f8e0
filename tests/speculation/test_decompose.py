import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation.decompose import log_ratio, printed_sum, shapley_ms_per_token, variance_shares

figures = st.floats(1e-3, 1e6)
pairs = st.tuples(figures, figures)
phases = st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=6)
accept_lengths = st.floats(1.0, 50.0)


def test_same_acceptance_and_half_the_speed_is_the_cycle():
    # tokens per cycle 2.72 -> 2.42, cycle 122 -> 234 ms, 21.1 -> 10.0 tok/s
    parts = log_ratio((2.72, 2.42), (122, 234), gen_tps=(21.1, 10.0))
    assert 1 / parts.throughput_factor == pytest.approx(2.11)
    assert 1 / parts.cycle_factor == pytest.approx(1.92, abs=0.005)
    assert 1 / parts.acceptance_factor == pytest.approx(2.72 / 2.42)
    assert abs(parts.cycle) > 5 * abs(parts.acceptance)
    assert abs(parts.unexplained) < 0.03
    best_to_worst = log_ratio((2.98, 2.42), (1, 1))
    assert 1 / best_to_worst.acceptance_factor == pytest.approx(1.23, abs=0.005)


@given(pairs, pairs, pairs)
def test_acceptance_cycle_and_batch_add_up_to_the_throughput(lengths, cycles, running):
    parts = log_ratio(lengths, cycles, running)
    assert parts.acceptance + parts.cycle + parts.batch + parts.unexplained == parts.total
    tps = [1000 * e * r / c for e, c, r in zip(lengths, cycles, running, strict=True)]
    assert parts.total == pytest.approx(math.log(tps[1] / tps[0]), abs=1e-9)
    assert parts.unexplained == 0.0


@given(pairs, pairs, pairs, pairs)
def test_what_the_parts_leave_over_is_unexplained(lengths, cycles, running, tps):
    parts = log_ratio(lengths, cycles, running, tps)
    assert parts.acceptance + parts.cycle + parts.batch + parts.unexplained == parts.total
    assert parts.total == pytest.approx(math.log(tps[1] / tps[0]), abs=1e-9)


def test_an_unchanged_part_explains_nothing():
    parts = log_ratio((2.6, 2.6), (45.4, 101.3), (4, 8))
    assert parts.acceptance == 0.0
    assert parts.batch == pytest.approx(math.log(2))
    with pytest.raises(ValueError, match="cycle"):
        log_ratio((2.6, 2.6), (45.4, 0.0))


def brute_force_shapley(before, after, e0, e1):
    """Average effect of each factor over all orders, in exact fractions."""
    names = ["E", *before]
    ends = [dict(before, E=e0), dict(after, E=e1)]

    def ms_per_token(new):
        values = {name: Fraction(ends[name in new][name]) for name in names}
        return sum((values[name] for name in before), Fraction()) / values["E"]

    totals = dict.fromkeys(names, Fraction())
    orders = list(itertools.permutations(names))
    for order in orders:
        new = set()
        for name in order:
            start = ms_per_token(new)
            new.add(name)
            totals[name] += ms_per_token(new) - start
    return {name: total / len(orders) for name, total in totals.items()}


def test_the_closed_form_is_the_average_over_all_orders():
    before = {"draft": 1.9, "verify": 19.0, "re-extend": 0.8, "other": 0.4}
    after = {"draft": 2.4, "verify": 29.97, "re-extend": 0.84, "other": 0.4}
    parts = shapley_ms_per_token(before, after, 2.05, 1.92)
    expected = brute_force_shapley(before, after, 2.05, 1.92)
    assert parts.acceptance_ms == pytest.approx(float(expected["E"]), rel=1e-12)
    assert dict(parts.phases) == pytest.approx({name: float(expected[name]) for name in before}, rel=1e-11)
    assert dict(parts.phases)["other"] == 0.0
    assert max(parts.phases, key=lambda part: part[1])[0] == "verify"
    parts.self_check()


@given(phases, accept_lengths, accept_lengths)
def test_the_parts_add_up_to_the_last_digit_in_any_order(values, e0, e1):
    before = {f"p{i}": old for i, (old, _) in enumerate(values)}
    after = {f"p{i}": new for i, (_, new) in enumerate(values)}
    parts = shapley_ms_per_token(before, after, e0, e1)
    parts.self_check()
    amounts = [parts.acceptance_ms, *(ms for _, ms in parts.phases)]
    random.Random(len(amounts)).shuffle(amounts)
    assert sum(amounts) == parts.difference_ms
    assert parts.after_ms - parts.before_ms == parts.difference_ms
    assert parts.before_ms == pytest.approx(math.fsum(before.values()) / e0, rel=1e-9, abs=1e-6)
    assert parts.after_ms == pytest.approx(math.fsum(after.values()) / e1, rel=1e-9, abs=1e-6)
    for (name, ms), (old, new) in zip(parts.phases, values, strict=True):
        assert ms == 0.0 if old == new else ms * (new - old) >= 0, name


@given(phases, accept_lengths, accept_lengths)
def test_going_back_costs_what_going_there_gained(values, e0, e1):
    before = {str(i): old for i, (old, _) in enumerate(values)}
    after = {str(i): new for i, (_, new) in enumerate(values)}
    there, back = shapley_ms_per_token(before, after, e0, e1), shapley_ms_per_token(after, before, e1, e0)
    scale = max(there.before_ms, there.after_ms, 1e-300)
    assert back.acceptance_ms == pytest.approx(-there.acceptance_ms, abs=1e-11 * scale + 1e-12)


def test_a_phase_measured_in_one_run_only_is_not_taken_as_zero():
    with pytest.raises(ValueError, match="same phases"):
        shapley_ms_per_token({"draft": 1.0, "verify": 19.0}, {"verify": 30.0}, 2.0, 2.0)
    with pytest.raises(ValueError, match="same phases"):
        shapley_ms_per_token({}, {}, 2.0, 2.0)
    with pytest.raises(ValueError, match="verify"):
        shapley_ms_per_token({"verify": -1.0}, {"verify": 30.0}, 2.0, 2.0)
    with pytest.raises(ValueError, match="bonus"):
        shapley_ms_per_token({"verify": 1.0}, {"verify": 30.0}, 0.9, 2.0)


def logs_of(windows):
    """ln(tps), ln(E), ln(C) of (E, C, R) windows."""
    return (
        [math.log(1000 * e * r / c) for e, c, r in windows],
        [math.log(e) for e, _, _ in windows],
        [math.log(c) for _, c, _ in windows],
    )


def test_throughput_that_follows_acceptance_at_a_constant_cycle_is_all_acceptance():
    found = variance_shares(*logs_of([(1.95, 10.9, 1), (1.80, 10.9, 1), (2.05, 10.9, 1), (1.57, 10.9, 1)]))
    assert found.acceptance == pytest.approx(1.0)
    assert found.cycle == pytest.approx(0.0, abs=1e-12)
    assert found.n == 4


def test_the_load_itself_is_not_counted():
    windows = [(2.0, 10.0, 1), (2.2, 10.0, 1), (2.0, 40.0, 8), (2.2, 40.0, 8)]
    running = [r for *_, r in windows]
    found = variance_shares(*logs_of(windows), groups=running)
    assert found.acceptance == pytest.approx(1.0)
    assert variance_shares(*logs_of(windows)).acceptance != pytest.approx(1.0, abs=0.5)
    assert found.sd_ln_tps == pytest.approx(math.log(1.1) / math.sqrt(2))


@given(st.lists(st.tuples(st.floats(1, 8), st.floats(5, 500), st.sampled_from([1, 4, 8])), min_size=2, max_size=30))
def test_shares_add_up_to_one_within_a_load(windows):
    found = variance_shares(*logs_of(windows), groups=[r for *_, r in windows])
    if found is None:
        return
    assert found.acceptance + found.cycle + found.other == pytest.approx(1.0, abs=1e-6 + 1e-12 / found.sd_ln_tps)
    assert found.other == pytest.approx(0.0, abs=1e-6 + 1e-12 / found.sd_ln_tps)


def test_what_neither_acceptance_nor_cycle_carry_is_other():
    found = variance_shares([0.0, 0.2], [0.0, 0.1], [0.0, 0.0])
    assert (found.acceptance, found.cycle, found.other) == pytest.approx((0.5, 0.0, 0.5))


def test_nothing_can_be_said_of_one_window_or_of_throughput_that_does_not_move():
    assert variance_shares([1.0], [1.0], [1.0]) is None
    assert variance_shares([], [], []) is None
    assert variance_shares([1.0, 1.0], [1.0, 2.0], [1.0, 2.0]) is None
    assert variance_shares([1.0, 2.0], [1.0, 2.0], [1.0, 1.0], groups=[1, 2]) is None
    with pytest.raises(ValueError, match="length"):
        variance_shares([1.0, 2.0], [1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        variance_shares([1.0, math.nan], [1.0, 2.0], [1.0, 2.0])


@given(st.lists(st.floats(-1e6, 1e6), max_size=9), st.integers(0, 4))
def test_printed_parts_add_up_to_the_printed_sum(parts, decimals):
    *shown, total = printed_sum(parts, decimals)
    assert sum(map(Fraction, shown), Fraction()) == Fraction(total)
    unit = Fraction(1, 10**decimals)
    assert abs(Fraction(total) - sum(map(Fraction, parts), Fraction())) <= unit / 2
    assert all(abs(Fraction(text) - Fraction(part)) < unit for text, part in zip(shown, parts, strict=True))


def test_three_thirds_print_as_one():
    assert sorted(printed_sum([1 / 3, 1 / 3, 1 / 3], 2)) == ["0.33", "0.33", "0.34", "1.00"]
    assert printed_sum([-1.25, 0.25], 0) == ("-1", "0", "-1")
    with pytest.raises(ValueError, match="finite"):
        printed_sum([math.nan], 1)


def test_a_phase_split_into_buckets_keeps_its_total():
    phases = ({"draft": 2.0, "verify": 20.0}, {"draft": 2.5, "verify": 30.0})
    buckets = (
        {"draft": 2.0, "verify compute": 12.0, "verify wait": 8.0},
        {"draft": 2.5, "verify compute": 11.0, "verify wait": 19.0},
    )
    whole, split = (shapley_ms_per_token(before, after, 2.0, 2.4) for before, after in (phases, buckets))
    assert split.acceptance_ms == pytest.approx(whole.acceptance_ms, rel=1e-12)
    parts = dict(split.phases)
    assert parts["verify compute"] + parts["verify wait"] == pytest.approx(dict(whole.phases)["verify"], rel=1e-12)
    assert parts["verify wait"] > 0 > parts["verify compute"]
