"""Every figure the founding articles print, against our arithmetic. Source: the four founding articles."""

import pytest

from traceana.speculation.acceptance import solve_acceptance_probability, with_bonus
from traceana.speculation.breakeven import (
    SweepPoint,
    accept_length_for_target,
    break_even_accept_length,
    comm_bound_speedup,
    communication_share,
    crossovers,
    cycle_ms,
    generation_tps,
    max_accept_length,
    peak,
    spread_of_runs,
    step_ms,
    token_weighted_tps,
)

# baseline tok/s, EAGLE-3 tok/s, speed-up, speed-up as printed. The Communication Bottleneck
K26 = [
    (26.1, 41.6, 1.5939, 1.59),
    (26.4, 43.7, 1.6553, 1.66),
    (26.4, 44.3, 1.678, 1.68),
    (26.1, 45.4, 1.7395, 1.74),
    (208.9, 344.6, 1.6496, 1.65),
    (807.5, 844.1, 1.0453, 1.05),
]
# concurrency, EAGLE-3 tok/s, baseline tok/s, ratio, winner's lead in %, both as printed. The Verdict
K25 = [
    (1, 77.5, 92.6, 0.8369, 19.5, 0.84, 19),
    (2, 125.1, 159.7, 0.7833, 27.7, 0.78, 28),
    (5, 183.2, 292.5, 0.6263, 59.7, 0.63, 60),
    (10, 239.6, 457.2, 0.5241, 90.8, 0.52, 91),
    (30, 299.5, 711.0, 0.4212, 137.4, 0.42, 137),
    (70, 337.7, 784.2, 0.4306, 132.2, 0.43, 132),
    (100, 338.8, 761.6, 0.4449, 124.8, 0.44, 125),
    (250, 340.9, 772.1, 0.4415, 126.5, 0.44, 126),
]
# tokens, seconds, tok/s as printed. The Moment of Truth
RUNS = [(2048, 33.59, 61.0), (2048, 29.81, 68.7), (2048, 39.66, 51.6), (1519, 22.61, 67.2), (2048, 34.03, 60.2)]


@pytest.mark.parametrize(("baseline", "spec", "ratio", "printed"), K26)
def test_speedups_of_the_first_table(baseline, spec, ratio, printed):
    point = SweepPoint(1, spec, baseline)
    assert point.speedup == pytest.approx(ratio, abs=5e-5)
    assert point.speedup == pytest.approx(printed, abs=0.0051)
    assert point.winner == "speculation"


@pytest.mark.parametrize(("c", "spec", "baseline", "ratio", "lead", "printed_ratio", "printed_lead"), K25)
def test_ratios_and_winners_of_the_concurrency_table(c, spec, baseline, ratio, lead, printed_ratio, printed_lead):
    point = SweepPoint(c, spec, baseline)
    assert point.speedup == pytest.approx(ratio, abs=5.1e-5)
    assert point.speedup == pytest.approx(printed_ratio, abs=0.0051)
    assert point.winner == "baseline"
    assert 100 * point.win_ratio == pytest.approx(lead, abs=0.05)
    assert 100 * point.win_ratio == pytest.approx(printed_lead, abs=0.51)


def test_the_baseline_scales_to_its_peak_and_speculation_stays_behind_everywhere():
    points = [SweepPoint(c, spec, baseline) for c, spec, baseline, *_ in K25]
    base_c, base_peak = peak([(p.concurrency, p.baseline_tps) for p in points])
    spec_c, spec_peak = peak([(p.concurrency, p.spec_tps) for p in points])
    assert (base_c, spec_c) == (70, 250)
    assert base_peak / points[0].baseline_tps == pytest.approx(8.47, abs=0.005)
    assert spec_peak / points[0].spec_tps == pytest.approx(4.40, abs=0.005)
    assert base_peak / spec_peak == pytest.approx(2.30, abs=0.005)
    assert crossovers(points) == ()


def test_the_five_runs_of_three_steps_have_a_mean_and_a_spread():
    spread = spread_of_runs([tps for *_, tps in RUNS])
    assert spread.n == 5
    assert spread.mean == pytest.approx(61.74)
    assert spread.stdev == pytest.approx(6.78, abs=0.005)
    assert spread.cv == pytest.approx(0.1099, abs=5e-5)
    assert token_weighted_tps([(tokens, seconds) for tokens, seconds, _ in RUNS]) == pytest.approx(60.81, abs=0.005)
    for tokens, seconds, tps in RUNS:
        assert token_weighted_tps([(tokens, seconds)]) == pytest.approx(tps, abs=0.051)


def test_three_steps_against_the_baseline_and_against_two_steps():
    assert SweepPoint(1, 61.7, 88.8).speedup - 1 == pytest.approx(-0.3052, abs=5e-5)
    assert SweepPoint(1, 61.7, 94.0).speedup - 1 == pytest.approx(-0.3436, abs=5e-5)


def test_a_30_ms_cycle_breaks_even_at_2_46_against_82_tokens_per_second():
    assert break_even_accept_length(30, step_ms(1, 82)) == pytest.approx(2.46)


def test_150_tokens_per_second_are_out_of_reach_of_three_drafts():
    needed = accept_length_for_target(150, 30)
    assert needed == 4.5
    assert max_accept_length(3) == 4.0
    assert solve_acceptance_probability(needed, 3) is None
    assert solve_acceptance_probability(needed, None) == pytest.approx(0.7778, abs=5e-5)
    assert solve_acceptance_probability(needed, 4) == pytest.approx(0.9473, abs=5e-5)
    assert solve_acceptance_probability(needed, 5) == pytest.approx(0.8834, abs=5e-5)


def test_the_30_ms_wall():
    length = with_bonus(0.92)
    assert length == pytest.approx(1.92)
    assert cycle_ms(length, 1, 61.7) == pytest.approx(31.12, abs=0.005)
    assert cycle_ms(2.05, 1, 61.7) == pytest.approx(33.23, abs=0.0051)
    assert generation_tps(2.05, 1, 30) == pytest.approx(68.3, abs=0.05)
    assert solve_acceptance_probability(1.92, 3) == pytest.approx(0.5161, abs=5e-5)
    assert solve_acceptance_probability(2.05, 3) == pytest.approx(0.5603, abs=5e-5)
    assert break_even_accept_length(31.12, step_ms(1, 88.8)) == pytest.approx(2.76, abs=0.005)


@pytest.mark.parametrize(
    ("gain", "length", "share"),
    [(1.74, 2.5, 0.2912), (1.05, 2.5, 0.9206), (1.74, 2.0, 0.1494), (1.65, 2.0, 0.2121), (1.05, 2.0, 0.9048)],
)
def test_the_share_of_communication_from_speedup_and_accept_length(gain, length, share):
    assert communication_share(gain, length) == pytest.approx(share, abs=5.1e-5)
    exact = communication_share(gain, length)
    assert comm_bound_speedup(1 - exact, exact, length) == pytest.approx(gain, rel=1e-12)
