import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana.speculation import breakeven as b

positive = st.floats(1e-3, 1e6)
lengths = st.floats(1.0, 100.0)


def test_a_cycle_is_read_off_a_plain_sglang_line():
    for length, tps in ((1.95, 178.86), (1.80, 165.41), (2.05, 188.68)):
        assert b.cycle_ms(length, 1, tps) == pytest.approx(10.9, abs=0.05)


def test_a_cycle_is_read_off_a_steady_vllm_window():
    assert b.cycle_ms_from_drafts(3, 8, 240.0) == pytest.approx(100.0)
    assert b.is_steady(206.1, 240.0, 3, 2.58)


def test_a_window_that_spans_idle_time_is_not_steady():
    assert not b.is_steady(20.9, 1.51, 2, 2.07)
    assert not b.is_steady(206.1, 240.0, 3, 2.8)


def test_dflash_cycle_of_five_steps_needs_an_accept_length_of_4_9():
    assert b.break_even_accept_length(17.1, 3.5) == pytest.approx(4.9, abs=0.05)
    assert b.speedup(5.602, 3.5, 17.1) == pytest.approx(1.15, abs=0.005)


@pytest.mark.parametrize(
    ("users", "base_tps", "step", "spec_tps", "cycle", "even", "gain"),
    [
        (1, 59.0, 16.9, 95.6, 27.1, 1.60, 1.62),
        (2, 92.4, 21.6, 148.5, 35.1, 1.62, 1.61),
        (4, 164.3, 24.3, 247.3, 45.4, 1.87, 1.50),
        (8, 251.5, 31.7, 201.5, 101.3, 3.20, 0.80),
        (16, 429.2, 37.3, 313.3, 134.0, 3.59, 0.73),
        (32, 318.1, 101.3, 405.6, 191.3, 1.89, 1.28),
    ],
)
def test_break_evens_of_an_mtp_sweep_on_eight_cards(users, base_tps, step, spec_tps, cycle, even, gain):
    assert b.break_even_accept_length(cycle, step) == pytest.approx(even, abs=0.0051)
    point = b.SweepPoint(users, spec_tps, base_tps)
    assert point.speedup == pytest.approx(gain, abs=0.0055)  # the table was rounded from unrounded throughputs


def test_a_sweep_names_the_neighbours_between_which_the_winner_changes():
    sweep = [(32, 405.6, 318.1), (1, 95.6, 59.0), (8, 201.5, 251.5), (4, 247.3, 164.3), (16, 313.3, 429.2)]
    assert b.crossovers([b.SweepPoint(*row) for row in sweep]) == (
        b.Crossover(4, 8, "baseline"),
        b.Crossover(16, 32, "speculation"),
    )


def test_equal_throughputs_are_nobodys_win():
    point = b.SweepPoint(4, 100.0, 100.0)
    assert (point.winner, point.win_ratio) == ("even", 0.0)


@given(lengths, positive, positive)
def test_cycle_and_throughput_are_inverse(length, running, tps):
    assert b.generation_tps(length, running, b.cycle_ms(length, running, tps)) == pytest.approx(tps, rel=1e-12)


@given(lengths, positive, positive, positive)
def test_speculation_pays_exactly_above_its_break_even(length, running, base_tps, cycle):
    step = b.step_ms(running, base_tps)
    gain = b.speedup(length, step, cycle)
    assert gain == pytest.approx(length / b.break_even_accept_length(cycle, step), rel=1e-12)
    assert gain == pytest.approx(b.generation_tps(length, running, cycle) / base_tps, rel=1e-12)


@given(positive, positive, positive, st.floats(1.01, 10))
def test_a_longer_cycle_asks_for_more_and_gives_less(cycle, step, tps, factor):
    assert b.break_even_accept_length(cycle * factor, step) > b.break_even_accept_length(cycle, step)
    assert b.speedup(2.0, step, cycle * factor) < b.speedup(2.0, step, cycle)
    assert b.accept_length_for_target(tps, cycle * factor) > b.accept_length_for_target(tps, cycle)


@given(positive, positive, positive)
def test_a_target_met_exactly_has_that_throughput(target, cycle, running):
    needed = b.accept_length_for_target(target, cycle, running)
    assert b.generation_tps(needed, running, cycle) == pytest.approx(target, rel=1e-12)


@given(st.floats(1.01, 50), st.floats(0.01, 0.99))
def test_a_communication_share_comes_back_from_its_speedup(length, share):
    gain = b.comm_bound_speedup(1 - share, share, length)
    assert 1.0 <= gain <= length
    assert b.communication_share(gain, length) == pytest.approx(share, abs=1e-9)


def test_a_speedup_outside_the_communication_model_is_refused():
    for gain, length in ((2.6, 2.5), (0.9, 2.5), (1.0, 1.0)):
        with pytest.raises(ValueError, match="the model needs"):
            b.communication_share(gain, length)


@pytest.mark.parametrize(("wanted", "drafts"), [(0.5, 0), (1.0, 0), (1.2, 1), (2.0, 2), (3.99, 3), (4.0, 4), (4.5, 4)])
def test_the_fewest_drafts_that_need_not_all_be_accepted(wanted, drafts):
    assert b.drafts_for_accept_length(wanted) == drafts
    assert wanted <= 1 or b.max_accept_length(drafts) > wanted


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_figures_that_cannot_be_are_refused_by_name(bad):
    for call, name in (
        (lambda: b.cycle_ms(2.0, 1, bad), "throughput"),
        (lambda: b.cycle_ms(2.0, bad, 50), "running"),
        (lambda: b.step_ms(1, bad), "baseline throughput"),
        (lambda: b.break_even_accept_length(bad, 12), "cycle"),
        (lambda: b.break_even_accept_length(30, bad), "step"),
        (lambda: b.cycle_ms_from_drafts(bad, 1, 50), "k must"),
        (lambda: b.accept_length_for_target(bad, 30), "target"),
        (lambda: b.spread_of_runs([61.0, bad]), "run"),
    ):
        with pytest.raises(ValueError, match=name):
            call()


def test_one_run_has_no_spread():
    assert b.spread_of_runs([94.0]) == b.RunSpread(1, 94.0, None, None)
    with pytest.raises(ValueError, match="at least one"):
        b.spread_of_runs([])
    with pytest.raises(ValueError, match="at least one"):
        b.peak([])
