"""The gate: pass, regression, inconclusive; limits, history, assumed noise."""

import math
import random
from dataclasses import replace

import pytest

from tests.facts.compare_builders import conditions, facts, point, run, side
from traceana.errors import TraceanaError
from traceana.facts.check import check, first, limits
from traceana.facts.timer_series import TimerSeries
from traceana.speculation.gate import Result, gate, overall
from traceana.speculation.noise import Measured, ratio_interval

HISTORY = (100.0, 101.0, 99.0, 100.5, 99.5)


def runs(name: str, throughputs: tuple[float, ...], **known: object):
    return side(name, *(run(facts(point(tps, **known)), conditions()) for tps in throughputs))


def checked(history: tuple[float, ...], new: tuple[float, ...], tolerances=None, run_noise=None, **known: object):
    return check(runs("baseline", history), runs("new", new, **known), tolerances or {}, run_noise, "store")


def line(found, metric: str):
    return next(row for row in found.lines if row.metric == metric)


def test_a_recorded_history_tells_a_regression_from_a_run_like_the_others() -> None:
    assert checked(HISTORY, (100.2,)).result == "pass"
    assert checked(HISTORY, (80.0,)).result == "regression"
    near = checked(HISTORY, (95.0,))
    assert near.result == "inconclusive"
    assert line(near, "tok/s").basis == "runs"
    assert line(near, "tok/s").sd_runs == pytest.approx(0.008, abs=0.001)


def test_one_run_each_is_inconclusive_until_three_are_recorded_and_says_why() -> None:
    found = checked((100.0,), (100.0,))
    assert found.result == "inconclusive"
    assert "assumed" in " ".join(found.notes)
    assert line(found, "tok/s").basis == "assumed"
    assert checked((100.0, 100.4), (100.0,)).lines[0].basis == "assumed"
    assert checked((100.0, 100.4, 99.8), (100.0,)).lines[0].basis == "runs"


def test_a_stated_spread_takes_the_place_of_the_assumed_one() -> None:
    found = checked((100.0,), (100.0,), run_noise=0.005)
    assert found.result == "pass"
    assert "as stated" in " ".join(found.notes)


def test_a_large_loss_fails_even_without_a_history() -> None:
    parts = tuple(math.exp(0.02 * random.Random(1).gauss(0, 1)) for _ in range(20))
    found = check(
        side("baseline", run(facts(point(100, spread=parts)))),
        side("new", run(facts(point(60, spread=parts)))),
        {},
        None,
        "f",
    )
    assert found.result == "regression"
    assert line(found, "tok/s").change == pytest.approx(-0.4)


def test_a_faster_run_passes_and_a_slower_cycle_fails_by_its_own_limit() -> None:
    assert checked(HISTORY, (130.0,)).result == "pass"
    slow = checked(HISTORY, (90.0,), {"tps": None, "tpot": None, "accept": None, "cycle": 0.05})
    assert [row.metric for row in slow.lines] == ["cycle ms"]
    assert slow.lines[0].limit == 0.05
    assert slow.lines[0].change == pytest.approx(1 / 0.9 - 1, rel=1e-3)
    assert slow.result == "regression"
    assert checked(HISTORY, (90.0,), {"tps": 0.3, "tpot": 0.5, "cycle": 0.5}).result == "pass"


def test_lost_acceptance_fails_though_the_cycle_is_the_same() -> None:
    before = side(
        "baseline",
        *(run(facts(point(t, e=2.6 * f))) for t, f in zip(HISTORY, (1, 1.002, 0.999, 1.001, 1.0), strict=True)),
    )
    after = side("new", run(facts(point(88.0, e=2.3))))
    found = check(before, after, {"tps": None, "tpot": None, "cycle": None}, None, "store")
    assert [(row.metric, row.result) for row in found.lines] == [("accept length", "regression")]


def test_verify_is_checked_where_timer_lines_print_it() -> None:
    def timed(ms: float):
        parts = tuple(ms * math.exp(0.01 * random.Random(i).gauss(0, 1)) for i in range(30))
        return replace(run(facts(parts={"draft": 2.0, "verify": ms})), timers=TimerSeries(1, ms, parts, parts))

    found = check(side("baseline", timed(19.0)), side("new", timed(30.0)), {}, None, "f")
    assert line(found, "verify ms").result == "regression"
    assert line(found, "verify ms").load == "1 running"


def test_nothing_in_common_is_no_pass() -> None:
    found = check(
        side("baseline", run(facts(point(50, at=1), point(60, at=2)))),
        side("new", run(facts(point(50, at=4)))),
        {},
        None,
        "f",
    )
    assert (found.result, found.lines) == ("inconclusive", ())
    assert "Nothing to check" in found.sentence


def test_a_run_with_shorter_answers_is_named_unfair() -> None:
    before = side("baseline", run(facts(point(100)), conditions()))
    after = side("new", run(facts(point(120)), conditions(output_tokens=1000)))
    assert check(before, after, {}, None, "f").unfair == ("output tokens per request: 256 / 62.5",)


def test_a_result_that_contradicts_itself_neither_passes_nor_fails() -> None:
    doubtful = side("new", run(facts(point(50)), conditions(doubt="the totals contradict the throughput")))
    found = check(runs("baseline", HISTORY), doubtful, {}, None, "store")
    assert {row.result for row in found.lines} == {"inconclusive"}
    assert "the totals contradict the throughput" in found.notes


def test_the_first_run_begins_the_baseline_if_it_has_a_figure() -> None:
    found = first(runs("new", (100.0,)), "store")
    assert (found.result, found.baseline_runs) == ("first", 0)
    with pytest.raises(TraceanaError, match="no throughput, cycle or timer line"):
        first(side("new", run(facts())), "store")


def test_one_regression_fails_the_check_and_one_open_line_keeps_it_from_passing() -> None:
    assert overall([Result.PASS, Result.INCONCLUSIVE, Result.REGRESSION]) is Result.REGRESSION
    assert overall([Result.PASS, Result.INCONCLUSIVE]) is Result.INCONCLUSIVE
    assert overall([Result.PASS, Result.PASS]) is Result.PASS
    assert overall([]) is Result.INCONCLUSIVE


def test_more_lines_make_a_false_alarm_no_likelier() -> None:
    interval = ratio_interval(Measured(HISTORY), Measured((92.2,)))
    assert gate(interval, 0.05, True, 1) is Result.REGRESSION
    assert gate(interval, 0.05, True, 40) is Result.INCONCLUSIVE


def test_lower_is_better_is_the_mirror_image_of_higher_is_better() -> None:
    for value in (80.0, 94.0, 100.0, 120.0):
        up = ratio_interval(Measured(HISTORY), Measured((value,)))
        down = ratio_interval(Measured(tuple(1000 / h for h in HISTORY)), Measured((1000 / value,)))
        assert gate(up, 0.05, True) is gate(down, 1 / 0.95 - 1, False)


def test_the_limits_are_those_the_help_names() -> None:
    assert {limit.option: limit.tolerance for limit in limits()} == {
        "tps": 0.05, "tpot": 0.05, "cycle": 0.05, "verify": 0.05, "accept": 0.03
    }  # fmt: skip


def test_false_alarms_stay_within_what_is_promised() -> None:
    """400 checks of runs exactly at the limit, the worst case, with 3 % from run to run and ten recorded runs."""
    rng = random.Random(5)
    alarms = 0
    for _ in range(400):
        before = tuple(100 * math.exp(0.03 * rng.gauss(0, 1)) for _ in range(10))
        after = (95 * math.exp(0.03 * rng.gauss(0, 1)),)
        alarms += gate(ratio_interval(Measured(before), Measured(after)), 0.05, True) is Result.REGRESSION
    assert alarms <= 32  # 5 % of 400 and three standard deviations
