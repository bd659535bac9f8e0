"""Is a difference real, and how many more runs would tell."""

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.speculation.bootstrap import block_length, parts_error
from traceana.speculation.noise import (
    Answer,
    Basis,
    Measured,
    judge,
    ratio_interval,
    runs_needed,
    smallest_difference,
)
from traceana.speculation.student import t_quantile

FIVE = (61.0, 68.7, 51.6, 67.2, 60.2)  # three draft steps, five runs
figures = st.floats(1e-3, 1e6)


@pytest.mark.parametrize(
    ("probability", "freedom", "printed"),
    [(0.975, 1, 12.706), (0.975, 4, 2.776), (0.975, 8, 2.306), (0.95, 30, 1.697), (0.8, 2, 1.061), (0.975, 500, 1.960)],
)
def test_t_quantiles_are_those_of_the_tables(probability: float, freedom: int, printed: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(printed, abs=6e-4)
    assert t_quantile(1 - probability, freedom) == pytest.approx(-printed, abs=6e-4)


def test_between_whole_degrees_of_freedom_the_quantile_lies_between() -> None:
    quantiles = [t_quantile(0.975, freedom) for freedom in (1, 1.2, 1.6, 2, 2.5, 3, 30, 30.5, 31)]
    assert quantiles == sorted(quantiles, reverse=True)
    # from the distribution with 1.5 degrees of freedom, integrated numerically
    assert t_quantile(0.975, 1.5) == pytest.approx(6.2, abs=0.25)


def test_no_t_quantile_without_a_degree_of_freedom() -> None:
    for probability, freedom in ((0.975, 0), (0.0, 3), (1.0, 3), (0.975, math.nan)):
        with pytest.raises(ValueError, match="t quantile"):
            t_quantile(probability, freedom)


def test_one_run_against_five_rests_on_the_spread_of_the_five_and_says_so() -> None:
    found = ratio_interval(Measured((94.0,)), Measured(FIVE))
    assert found.basis is Basis.RUNS
    assert found.unrepeated
    assert found.sd_runs == pytest.approx(0.113, abs=0.001)
    low, high = found.low, found.high
    assert low is not None
    assert high is not None
    # a sixth run would fall within exp(+-2.776 x 0.113 x sqrt(1 + 1/5)) of the five
    assert high / found.ratio == pytest.approx(math.exp(2.776 * found.sd_runs * math.sqrt(1.2)), rel=1e-3)
    assert low * high == pytest.approx(found.ratio**2)


def test_five_runs_with_eleven_per_cent_spread_show_no_difference_of_ten_per_cent() -> None:
    sd = statistics.stdev(map(math.log, FIVE))
    assert 0.2 < smallest_difference(sd, (5, 5)) < 0.3
    slower = tuple(value * 0.9 for value in FIVE)
    assert judge(ratio_interval(Measured(FIVE), Measured(slower))) is Answer.INCONCLUSIVE
    assert runs_needed(0.9, sd) == pytest.approx(20, abs=3)


@given(st.floats(0.3, 0.97), st.floats(0.005, 0.3))
def test_the_runs_that_are_asked_for_are_the_fewest_that_show_the_difference(ratio: float, sd: float) -> None:
    n = runs_needed(ratio, sd)
    if n is None:
        assert math.log1p(smallest_difference(sd, (1000, 1000))) > -math.log(ratio)
        return
    assert math.log1p(smallest_difference(sd, (n, n))) <= -math.log(ratio)
    assert n == 2 or math.log1p(smallest_difference(sd, (n - 1, n - 1))) > -math.log(ratio)


def test_a_sample_size_of_the_handbook() -> None:
    # two samples, a difference of one standard deviation, 5 % and 80 %: 17 a side (Cohen 1988, table 2.4.1)
    assert runs_needed(math.exp(-1), 1.0) in (16, 17)


def test_the_same_figures_are_the_same_only_where_the_noise_is_small() -> None:
    quiet = Measured((100.0, 101.0, 99.5, 100.2))
    assert judge(ratio_interval(quiet, quiet)) is Answer.SAME
    loud = Measured((100.0, 130.0, 80.0))
    assert judge(ratio_interval(loud, loud)) is Answer.INCONCLUSIVE
    assert judge(ratio_interval(Measured((100.0,)), Measured((100.0,)))) is Answer.INCONCLUSIVE


def test_single_runs_are_judged_by_their_requests_and_marked() -> None:
    rng = random.Random(3)
    fast = Measured((10.0,), tuple(10 * math.exp(rng.gauss(0, 0.1)) for _ in range(30)))
    slow = Measured((15.0,), tuple(15 * math.exp(rng.gauss(0, 0.1)) for _ in range(30)))
    found = ratio_interval(fast, slow)
    assert (found.basis, found.sd_runs, judge(found)) == (Basis.PARTS, None, Answer.HIGHER)
    assumed = ratio_interval(fast, slow, assumed_sd=0.3)
    assert (assumed.basis, judge(assumed)) == (Basis.ASSUMED, Answer.INCONCLUSIVE)


def test_single_figures_have_no_interval_unless_a_spread_is_given() -> None:
    found = ratio_interval(Measured((94.0,)), Measured((61.7,)))
    assert (found.basis, found.low, found.high) == (Basis.NONE, None, None)
    assert found.at(0.9) is None
    assert ratio_interval(Measured((94.0,)), Measured((61.7,)), assumed_sd=0.02).high < 1
    half = ratio_interval(Measured((94.0,), (90.0, 94.0, 98.0)), Measured((61.7,)))
    assert half.basis is Basis.NONE


@pytest.mark.parametrize("bad", [(), (0.0,), (-1.0, 2.0), (math.nan,), (math.inf, 1.0)])
def test_a_figure_that_cannot_be_is_refused(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above zero"):
        ratio_interval(Measured((1.0,)), Measured(bad))


@given(st.lists(figures, min_size=1, max_size=6), st.lists(figures, min_size=1, max_size=6))
@settings(max_examples=60)
def test_the_interval_holds_the_ratio_and_turns_over_with_the_sides(one: list[float], other: list[float]) -> None:
    there, back = (ratio_interval(Measured(tuple(a)), Measured(tuple(b))) for a, b in ((one, other), (other, one)))
    assert there.ratio * back.ratio == pytest.approx(1.0)
    if there.low is None:
        assert len(one) == len(other) == 1
        return
    assert there.low <= there.ratio * (1 + 1e-9)
    assert there.high >= there.ratio * (1 - 1e-9)
    assert there.low * back.high == pytest.approx(1.0)
    narrow = there.at(0.5)
    assert there.low <= narrow[0] * (1 + 1e-9)
    assert narrow[1] <= there.high * (1 + 1e-9)


def correlated(n: int, r: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    x, out = rng.gauss(0, 1), []
    for _ in range(n):
        x = r * x + math.sqrt(1 - r * r) * rng.gauss(0, 1)
        out.append(100 * math.exp(0.05 * x))
    return out


def test_blocks_grow_with_the_correlation_of_neighbours() -> None:
    mean = {r: statistics.fmean(block_length(correlated(200, r, seed)) for seed in range(20)) for r in (0.0, 0.5, 0.9)}
    assert mean[0.0] < 2.5
    assert mean[0.0] < mean[0.5] < mean[0.9]
    # (6 r^2 / (1 - r^2)^2)^(1/3) 200^(1/3) at r = 0.5
    assert mean[0.5] == pytest.approx((6 * 0.25 / 0.75**2 * 200) ** (1 / 3), rel=0.3)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_without_correlation_the_error_of_a_mean_is_the_textbooks(statistic: str) -> None:
    errors = []
    for seed in range(15):
        values = correlated(40, 0.0, seed)
        found = parts_error(values, statistic)
        errors.append(found.se / (0.05 / math.sqrt(40)))
    # the median of a normal sample varies sqrt(pi / 2) times as much as its mean
    assert statistics.fmean(errors) == pytest.approx(1.0 if statistic == "mean" else math.sqrt(math.pi / 2), rel=0.15)


def test_correlated_windows_are_worth_fewer_independent_ones() -> None:
    seeds = range(30)
    for r, least in ((0.0, 30.0), (0.8, 0.0)):
        values = [parts_error(correlated(50, r, seed)) for seed in seeds]
        covered = [abs(statistics.fmean(map(math.log, correlated(50, r, s))) - math.log(100)) for s in seeds]
        halves = [t_quantile(0.975, max(1, v.effective - 1)) * v.se for v in values]
        assert sum(c < h for c, h in zip(covered, halves, strict=True)) >= 24
        assert statistics.fmean(v.effective for v in values) > least
        if r:
            assert statistics.fmean(v.effective for v in values) < 15


def test_parts_that_tell_nothing_give_nothing() -> None:
    assert parts_error([1.0]) is None
    assert parts_error([1.0, 0.0, 2.0]) is None
    assert parts_error([1.0, math.nan, 2.0]) is None
    still = parts_error([5.0] * 10)
    assert still.se == pytest.approx(0.0, abs=1e-12)
    assert still.block == 1


def test_the_same_parts_give_the_same_interval_every_time() -> None:
    values = correlated(30, 0.3, 1)
    assert parts_error(values) == parts_error(values)
