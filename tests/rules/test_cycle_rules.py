"""CYC, GRF001 and STB004: what the rules say of the cycle's cost, from runs built as facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import at, capacity, drafting, drivers, fact, graphs, level, retraction, run, setting, spread
from tests.rules.builders import stability as steadiness
from traceana.facts.model import Facts, Provenance, Window
from traceana.rules import cyc001_cycle_limits_throughput as cyc001
from traceana.rules import cyc002_below_break_even as cyc002
from traceana.rules import cyc004_step_cost_cliff as cyc004
from traceana.rules import grf001_running_batch_without_cuda_graph as grf001
from traceana.rules import stb004_unstable_throughput as stb004
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Severity

LOADS = (1, 2, 4, 8, 16, 32)
CLIFF_CYCLES = (28.0, 36.0, 42.0, 100.0, 130.0, 190.0)  # 4 ... 128 tokens a forward with k = 3
CLIFF_STEPS = (17.0, 21.6, 24.3, 31.7, 37.3, 101.0)  # 1 ... 32 tokens a forward


def found(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Finding), outcome
    assert outcome.evidence, "a finding shows where it was seen"
    return outcome


def with_mtp(cycles: tuple[float, ...] = CLIFF_CYCLES, **more: object) -> Facts:
    levels = [level(r, c, 2.6, k=3, around=0.02) for r, c in zip(LOADS, cycles, strict=True)]
    return drafting(*levels, method="mtp", engine="vllm", **more)  # type: ignore[arg-type]


def without(steps: tuple[float, ...] = CLIFF_STEPS, **more: object) -> Facts:
    levels = [level(r, s, line=700 + r) for r, s in zip(LOADS, steps, strict=True)]
    return run(*levels, engine="vllm", **more)  # type: ignore[arg-type]


SMOOTH_CYCLES = (24.0, 26.0, 29.0, 34.0, 42.0, 57.0)
SMOOTH_STEPS = (17.0, 17.6, 18.5, 20.0, 23.0, 28.0)


@pytest.mark.parametrize("rule", [cyc001, cyc002, cyc004, stb004])
@pytest.mark.parametrize("baseline", [None, without(SMOOTH_STEPS)])
def test_a_healthy_run_has_no_finding(rule: object, baseline: Facts | None) -> None:
    facts = with_mtp(SMOOTH_CYCLES, drivers=drivers(0.9, 0.05), stability=steadiness())
    assert not isinstance(rule.check(facts, baseline), Finding)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", [cyc001, cyc002])
def test_a_run_without_speculation_is_not_asked(rule: object) -> None:
    assert isinstance(rule.check(without(), None), NotApplicable)  # type: ignore[attr-defined]


# CYC002 -------------------------------------------------------------------------------------------------------------


def test_the_loads_that_lose_are_named_and_those_that_pay() -> None:
    finding = found(cyc002.check(with_mtp(), without()))
    assert "pays up to 4 running (1.50-1.58x)" in finding.title
    assert "loses at 8 and 16 running (0.82x and 0.75x)" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert "pays again at 32 running" in finding.why
    assert "CYC004" in finding.rivals
    assert "ACC002" not in finding.rivals
    assert "up to 4 running" in finding.fix[0]


def test_the_loss_is_a_range_in_ms_per_token() -> None:
    explains = found(cyc002.check(with_mtp(), without())).explains_ms_per_token
    assert explains is not None
    assert explains.low_ms < 130 / 2.6 - 37.3 < explains.high_ms
    assert "16 running" in explains.basis
    assert explains.provenance is Provenance.DERIVED


def test_without_a_baseline_break_even_is_not_known() -> None:
    outcome = cyc002.check(with_mtp(), None)
    assert isinstance(outcome, CannotTell)
    assert "--baseline" in outcome.capture


def test_a_baseline_that_speculates_is_refused() -> None:
    outcome = cyc002.check(with_mtp(), with_mtp())
    assert isinstance(outcome, CannotTell)
    assert "speculates" in outcome.reason


def test_one_window_a_load_gives_no_verdict() -> None:
    facts = drafting(level(8, 100.0, 2.6, k=3, n=1), engine="vllm")
    assert isinstance(cyc002.check(facts, without()), CannotTell)
    assert isinstance(cyc002.check(with_mtp(), run(level(8, 31.7, n=1))), CannotTell)


def test_loads_that_do_not_meet_cannot_be_compared() -> None:
    outcome = cyc002.check(with_mtp(), run(level(3, 20.0)))
    assert isinstance(outcome, CannotTell)
    assert "without: 3" in outcome.reason


def test_overlapping_windows_are_even_and_not_a_loss() -> None:
    facts = drafting(level(8, 60.0, 2.4, k=3, around=0.08))  # 0.96x
    outcome = cyc002.check(facts, run(level(8, 24.0, around=0.08)))
    assert isinstance(outcome, Clear)
    assert "even within noise at 8 running" in outcome.note


def test_a_loss_of_a_twentieth_is_even_and_of_a_tenth_medium() -> None:
    base = run(level(8, 24.0, around=0.005))
    assert isinstance(cyc002.check(drafting(level(8, 60.0, 2.4, k=3, around=0.005)), base), Clear)
    facts = drafting(level(8, 63.0, 2.4, k=3, around=0.005))
    assert found(cyc002.check(facts, base)).confidence is Confidence.MEDIUM


def test_half_the_speed_lost_is_critical_and_a_poor_drafter_named() -> None:
    finding = found(cyc002.check(drafting(level(1, 30.0, 1.02, k=3)), run(level(1, 12.0))))
    assert finding.severity is Severity.CRITICAL
    assert "earn too little" in finding.why
    assert "ACC002" in finding.rivals


def test_sglang_is_offered_its_adaptive_mode() -> None:
    facts = replace(with_mtp(), identity=run().identity)
    assert any("--speculative-adaptive" in fix for fix in found(cyc002.check(facts, without())).fix)


# CYC001 -------------------------------------------------------------------------------------------------------------


def test_a_cycle_of_five_steps_limits_a_good_drafter() -> None:
    facts = drafting(level(1, 17.1, 5.6, k=15, around=0.02), k=15, method="dflash", engine="vllm")
    finding = found(cyc001.check(facts, run(level(1, 3.5))))
    assert "5.60 tokens per cycle, but a cycle of 4.9 baseline steps" in finding.title
    assert finding.confidence is Confidence.HIGH
    explains = finding.explains_ms_per_token
    assert explains is not None
    assert explains.high_ms == pytest.approx((17.1 - 3.5) / 5.6)
    assert explains.low_ms == pytest.approx((17.1 - 2.5 * 3.5) / 5.6)
    assert finding.severity is Severity.WARNING


def test_a_gain_that_shrinks_to_nothing_at_high_load_is_for_information() -> None:
    facts = drafting(level(1, 24.0, 2.6, k=3), level(32, 75.0, 2.6, k=3, around=0.03))
    finding = found(cyc001.check(facts, run(level(1, 17.0), level(32, 29.0, around=0.03))))
    assert finding.severity is Severity.INFO
    assert "32 running requests (1.01x)" in finding.title


def test_a_loss_is_left_to_the_break_even_rule() -> None:
    outcome = cyc001.check(with_mtp(), without())
    assert isinstance(outcome, Clear)
    assert "CYC002" in outcome.note


def test_a_long_cycle_behind_a_poor_drafter_is_not_the_cycles_fault() -> None:
    facts = drafting(level(1, 30.0, 1.8, k=3, around=0.4), drivers=drivers(0.9))
    assert isinstance(cyc001.check(facts, run(level(1, 11.0, around=0.4))), Clear)


def test_a_long_cycle_that_pays_well_is_no_finding() -> None:
    facts = drafting(level(1, 40.0, 3.8, k=5), k=5, drivers=drivers(0.9, 0.05))
    assert isinstance(cyc001.check(facts, run(level(1, 14.0))), Clear)  # 2.9 steps, 1.33x


def varying(share: float = 0.1, sd: float = 0.18, **more: object) -> Facts:
    one = level(8, 32.0, 2.5, k=3, n=40, around=0.2)
    return drafting(one, drivers=drivers(share, sd), stability=steadiness(cv=sd), **more)  # type: ignore[arg-type]


def test_a_cycle_that_varies_at_constant_load_is_named() -> None:
    finding = found(cyc001.check(varying(), None))
    assert "90 % of the variance at constant load over 40 windows" in finding.title
    assert finding.confidence is Confidence.MEDIUM
    assert finding.explains_ms_per_token is not None


@pytest.mark.parametrize(("share", "sd"), [(0.6, 0.18), (0.1, 0.06)], ids=["acceptance moves it", "it hardly moves"])
def test_other_variance_is_not_the_cycles(share: float, sd: float) -> None:
    assert isinstance(cyc001.check(varying(share, sd), None), Clear)


def test_few_windows_do_not_split_the_variance() -> None:
    assert isinstance(cyc001.check(drafting(level(8, 32.0, 2.5, k=3), drivers=drivers(0.1, n=5)), None), CannotTell)


def test_a_cycle_that_a_retraction_stretched_is_left_to_its_rule() -> None:
    facts = varying(capacity=capacity(retractions=(retraction(600.0, 300.0),)))
    assert isinstance(cyc001.check(facts, None), Clear)


def test_fifteen_windows_are_enough_to_split_the_variance() -> None:
    facts = drafting(level(8, 32.0, 2.5, k=3, n=15, around=0.2), drivers=drivers(0.1, n=15))
    assert isinstance(cyc001.check(facts, None), Finding)


def by_context() -> tuple[object, ...]:
    return (level(8, 26.0, 2.5, k=3, n=20, around=0.02), level(8, 38.0, 2.5, k=3, n=20, around=0.02))


def test_context_length_explains_a_cycle_that_varies() -> None:
    facts = varying(context_regimes=by_context())
    for rule in (cyc001, stb004):
        outcome = rule.check(facts, None)
        assert isinstance(outcome, Clear)
        assert "context length, 26.0 ms to 38.0 ms" in outcome.note


# CYC004 -------------------------------------------------------------------------------------------------------------


def test_a_cliff_in_both_runs_is_certain() -> None:
    finding = found(cyc004.check(with_mtp(), without()))
    assert finding.title.startswith(
        "A forward of 32 tokens costs 2.38x one of 16, with and without speculation: 42.0 ms"
    )
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.HIGH)
    assert "between 16 and 32 tokens too (37.3 ms -> 101 ms)" in finding.why
    assert any("MoE" in rival for rival in finding.rivals)
    assert {e.line for e in finding.evidence} == {108, 104, 732}


def test_the_cliff_is_sized_per_token_and_beyond_the_usual_growth() -> None:
    explains = found(cyc004.check(with_mtp(), without())).explains_ms_per_token
    assert explains is not None
    assert explains.high_ms == pytest.approx((100 - 42) / 2.6)
    assert explains.low_ms == pytest.approx((100 - 42 * 36 / 28) / 2.6)


def test_the_advice_keeps_each_load_below_the_cliff() -> None:
    fix = found(cyc004.check(with_mtp(), without())).fix[0]
    assert "at 16 tokens or less: k = 3 up to 4 running, k = 2 up to 5, k = 1 up to 8, off above 8" in fix
    assert "pays again at 32" in fix


def test_a_cliff_in_one_run_alone_is_medium() -> None:
    assert found(cyc004.check(with_mtp(), None)).confidence is Confidence.MEDIUM


def test_a_cliff_that_the_baseline_does_not_share_belongs_to_speculation() -> None:
    finding = found(cyc004.check(with_mtp(), without(SMOOTH_STEPS)))
    assert finding.confidence is Confidence.MEDIUM
    assert "belongs to the speculative path" in finding.why


def test_a_run_without_speculation_can_have_a_cliff() -> None:
    finding = found(cyc004.check(without(), None))
    assert "A forward of 32 tokens costs 2.71x one of 16" in finding.title
    assert "acceptance" not in finding.why


@pytest.mark.parametrize(
    "cycles",
    [
        SMOOTH_CYCLES,
        (10.0, 19.0, 36.0, 70.0, 139.0, 276.0),
        (28.0, 36.0, 50.0, 70.0, 100.0, 140.0),
        (10.0, 16.0, 26.0, 50.0, 80.0, 140.0),
        (10.0, 14.8, 22.0, 42.0, 62.0, 90.0),
        (20.0, 21.0, 22.0, 30.0, 32.0, 34.0),
        (20.0, 20.5, 22.0, 36.0, 70.0, 140.0),
    ],
    ids=["smooth", "linear", "steady growth", "dear below as well", "little contrast", "a step of 1.36x", "a knee"],
)
def test_growth_without_a_jump_is_no_cliff(cycles: tuple[float, ...]) -> None:
    assert isinstance(cyc004.check(with_mtp(cycles), None), Clear)


def test_a_cycle_that_grows_no_more_than_its_tokens_may_be_bound_by_compute() -> None:
    loads = ((1, 16.0), (4, 16.2), (16, 17.7), (40, 39.1))  # the last: 2.5x the tokens, 2.2x the cycle
    facts = drafting(*(level(r, c, 2.6, k=3) for r, c in loads))
    finding = found(cyc004.check(facts, None))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)
    assert "compute bound" in finding.rivals[0]
    assert sum("compute bound" in rival for rival in finding.rivals) == 1


@pytest.mark.parametrize(
    ("baseline", "sure"), [(None, Confidence.LOW), ((18.0, 18.4, 19.0, 33.0, 34.0), Confidence.MEDIUM)]
)
def test_a_smaller_step_over_flat_sizes_is_named_with_less_confidence(
    baseline: tuple[float, ...] | None, sure: Confidence
) -> None:
    plain = None if baseline is None else run(*(level(4 << i, step) for i, step in enumerate(baseline)))
    finding = found(cyc004.check(with_mtp((20.0, 21.0, 22.0, 37.0, 39.0, 41.0)), plain))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, sure)
    assert "a step, not the knee" in finding.why
    assert "keep what is faster" in finding.fix[0]


def test_a_cost_that_bends_before_its_largest_size_is_no_cliff_yet() -> None:
    facts = drafting(*(level(r, c, 2.2, k=2) for r, c in ((4, 18.0), (16, 24.0), (40, 53.0))))
    outcome = cyc004.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "hold 80 running" in outcome.capture


@pytest.mark.parametrize(("windows", "outcome"), [(5, Finding), (1, Clear)])
def test_one_window_below_a_smaller_step_may_be_off_itself(windows: int, outcome: type) -> None:
    below = (level(1, 20.0, 2.6, k=3), level(2, 21.0, 2.6, k=3), level(4, 21.5, 2.6, k=3, n=windows))
    above = (level(8, 37.0, 2.6, k=3, around=0.35), level(16, 38.0, 2.6, k=3))
    assert isinstance(cyc004.check(drafting(*below, *above), None), outcome)


def test_without_the_number_of_draft_tokens_a_forwards_size_is_not_known() -> None:
    levels = (replace(level(r, 20.0 * r, 2.6, k=3), tokens_per_forward=None) for r in (1, 2, 4))
    outcome = cyc004.check(drafting(*levels, k=None), None)
    assert isinstance(outcome, CannotTell)
    assert "number of draft tokens" in outcome.reason


def test_a_smaller_step_within_the_scatter_of_the_windows_is_no_cliff() -> None:
    levels = [level(r, c, 2.6, k=3) for r, c in ((1, 20.0), (2, 21.0), (4, 22.0), (8, 37.0), (16, 39.0))]
    levels[3] = replace(levels[3], cycle_ms=spread(37.0, 5, 0.5))
    assert isinstance(cyc004.check(drafting(*levels), None), Clear)


def test_a_load_that_is_never_free_of_prefill_bounds_the_cycle_below_a_cliff() -> None:
    mixed = replace(level(4, 23.0, 2.6, k=3, n=0), cycle_ms=None, cycle_bound_ms=23.0)
    facts = drafting(level(1, 20.0, 2.6, k=3), level(2, 21.0, 2.6, k=3), mixed, level(8, 50.0, 2.6, k=3))
    assert "A forward of 32 tokens costs 2.17x one of 16" in found(cyc004.check(facts, None)).title


def test_a_load_that_is_never_free_of_prefill_shows_no_cliff_at_itself() -> None:
    mixed = replace(level(8, 50.0, 2.6, k=3, n=0), cycle_ms=None, cycle_bound_ms=50.0)
    facts = drafting(*(level(r, c, 2.6, k=3) for r, c in ((1, 20.0), (2, 21.0), (4, 22.0))), mixed)
    outcome = cyc004.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "hold 8 running" in outcome.capture


@pytest.mark.parametrize(
    ("loads", "ask"),
    [
        (((1, 20.0), (2, 22.0), (8, 50.0)), "hold loads between 2 and 8 running"),
        (((2, 20.0), (4, 38.0), (8, 40.0)), "hold half of 2 running requests"),
        (((1, 20.0), (2, 38.0), (4, 40.0)), "fewer draft tokens"),
    ],
)
def test_a_growth_that_could_hide_a_cliff_names_the_load_to_hold(
    loads: tuple[tuple[int, float], ...], ask: str
) -> None:
    outcome = cyc004.check(drafting(*(level(r, c, 2.5, k=3) for r, c in loads)), None)
    assert isinstance(outcome, CannotTell)
    assert ask in outcome.capture


def test_one_slow_load_among_faster_ones_is_no_cliff() -> None:
    assert isinstance(cyc004.check(with_mtp((28.0, 30.0, 33.0, 90.0, 44.0, 60.0)), None), Clear)


def test_loads_close_to_each_other_do_not_hide_a_cliff() -> None:
    loads = ((1, 28.0), (2, 33.0), (3, 35.0), (4, 41.0), (5, 99.0), (6, 101.0), (8, 104.0))
    facts = drafting(*(level(r, c, 2.6, k=3) for r, c in loads))
    assert "A forward of 20 tokens costs 2.41x one of 16" in found(cyc004.check(facts, None)).title


def test_a_single_window_above_cannot_tell_a_cliff() -> None:
    facts = drafting(level(1, 20.0, 2.5, k=3), level(2, 22.0, 2.5, k=3), level(4, 60.0, 2.5, k=3, n=1))
    outcome = cyc004.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "hold 4 running" in outcome.capture


def test_leaving_the_graph_ladder_is_not_called_a_cliff() -> None:
    graph, eager = {"graph_share": 1.0}, {"graph_share": 0.0}
    facts = drafting(
        level(8, 20.0, 2.5, k=3, **graph), level(16, 22.0, 2.5, k=3, **graph), level(32, 60.0, 2.5, k=3, **eager)
    )
    outcome = cyc004.check(facts, None)
    assert isinstance(outcome, Clear)
    assert "GRF001" in outcome.note


def test_two_loads_cannot_show_a_cliff() -> None:
    assert isinstance(cyc004.check(drafting(level(1, 20.0, 2.5, k=3), level(2, 60.0, 2.5, k=3)), None), CannotTell)


# GRF001 -------------------------------------------------------------------------------------------------------------


def one_by_one(*loads: tuple[int, float]) -> Facts:
    """Windows of changing load, none of them steady."""
    rows = tuple(
        Window(None, "server", r, 0, tps, None, None, None, False, "running changed", at(20 + i))
        for i, (r, tps) in enumerate(loads)
    )
    facts = run(windows=len(rows))
    return replace(facts, windows=replace(facts.windows, sample=rows))


def ceiling(**more: object) -> Facts:
    facts = one_by_one((46, 1447.0), (36, 1262.6), (28, 1086.6), (22, 895.4), (20, 768.9), (15, 681.7))
    fields = {"windows_eager": 2, "windows_graph": 6, "eager_running": (36, 46), "graph_running": (11, 28), **more}
    return replace(facts, graphs=graphs(**fields))


def test_a_batch_above_the_ladder_is_named_with_its_size() -> None:
    finding = found(grf001.check(ceiling(captured_max=32), None))
    assert finding.title == "36-46 running requests ran without a CUDA graph: the largest captured batch is 32"
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.fix[0] == "--cuda-graph-max-bs 64"
    assert "35.1 tok/s each (eager), 28 get 38.8" in finding.why
    assert finding.rivals == ()


def test_the_cost_of_eager_forwards_is_an_upper_bound() -> None:
    explains = found(grf001.check(ceiling(captured_max=32), None)).explains_ms_per_token
    assert explains is not None
    assert explains.low_ms == 0
    assert explains.high_ms == pytest.approx(1000 / 35.07 - 1000 / 38.81, abs=0.02)
    assert explains.provenance is Provenance.DERIVED


def test_without_the_ladder_eager_windows_are_still_named_with_rivals() -> None:
    finding = found(grf001.check(ceiling(), None))
    assert finding.confidence is Confidence.HIGH
    assert "2 of 8 windows" in finding.title
    assert finding.rivals
    assert finding.confirm is not None


def test_a_ladder_that_covers_the_load_leaves_the_cause_open() -> None:
    finding = found(grf001.check(ceiling(captured_max=128, eager_running=(8, 16), graph_running=(8, 16)), None))
    assert finding.confidence is Confidence.MEDIUM
    assert "reach 128" in finding.why
    assert finding.rivals
    assert finding.explains_ms_per_token is None


@pytest.mark.parametrize(
    "fields",
    [
        {"windows_eager": 0, "windows_graph": 100},
        {"windows_eager": 4, "windows_graph": 96, "eager_running": (8, 8), "graph_running": (4, 32)},
        {"windows_eager": 1, "windows_graph": 7, "eager_running": (46, 46), "graph_running": (4, 32)},
    ],
    ids=["all graphs", "few and not tied to the load", "a single window"],
)
def test_healthy_graph_coverage_is_silent(fields: dict[str, object]) -> None:
    assert isinstance(grf001.check(ceiling(**fields), None), Clear)


def test_a_tenth_of_the_windows_eager_is_named_wherever_they_are() -> None:
    fields = {"windows_eager": 10, "windows_graph": 90, "eager_running": (8, 8), "graph_running": (4, 32)}
    assert isinstance(grf001.check(ceiling(**fields), None), Finding)


def test_few_eager_windows_above_the_ladder_are_named() -> None:
    fields = {"windows_eager": 3, "windows_graph": 197, "eager_running": (40, 48), "graph_running": (4, 32)}
    assert isinstance(grf001.check(ceiling(captured_max=32, **fields), None), Finding)


def test_graphs_switched_off_are_named_with_the_flag() -> None:
    facts = replace(run(level(8, 60.0)), graphs=graphs(switched_off="disable_cuda_graph=True"))
    finding = found(grf001.check(facts, None))
    assert "switched off by --disable-cuda-graph" in finding.title
    assert finding.confidence is Confidence.HIGH


def test_enforce_eager_is_named_for_vllm() -> None:
    facts = replace(with_mtp(), graphs=graphs(switched_off="enforce_eager=True"))
    assert "--enforce-eager" in found(grf001.check(facts, None)).title


def test_windows_that_replayed_graphs_outweigh_the_flag() -> None:
    facts = replace(run(level(8, 60.0)), graphs=graphs(switched_off="disable_cuda_graph=True", windows_graph=5))
    assert isinstance(grf001.check(facts, None), Clear)


@pytest.mark.parametrize(("name", "value"), [("device_config", "cpu"), ("device", "cpu")])
def test_a_cpu_server_has_no_graphs_to_miss(name: str, value: str) -> None:
    facts = replace(
        with_mtp(settings=(setting(name, value, "engine_config"),)), graphs=graphs(switched_off="enforce_eager=True")
    )
    assert isinstance(grf001.check(facts, None), NotApplicable)


def test_vllm_loads_above_the_ladder_are_derived_and_medium() -> None:
    facts = replace(with_mtp(), graphs=graphs(captured_max=16))
    finding = found(grf001.check(facts, None))
    assert finding.title.startswith("32 running requests exceed")
    assert finding.confidence is Confidence.MEDIUM
    assert finding.fix[0].startswith("--max-cudagraph-capture-size 128")
    assert isinstance(grf001.check(replace(with_mtp(), graphs=graphs(captured_max=64)), None), Clear)


def test_vllm_forwards_in_mode_none_are_counted() -> None:
    facts = replace(with_mtp(), graphs=graphs(runtime_modes=(("FULL", 400), ("NONE", 600)), captured_max=32))
    finding = found(grf001.check(facts, None))
    assert "600 of 1,000 forwards" in finding.title
    assert any("prefill" in rival for rival in finding.rivals)
    assert isinstance(
        grf001.check(replace(facts, graphs=graphs(runtime_modes=(("FULL", 700), ("NONE", 300)))), None), Clear
    )


def test_without_ladder_or_field_graph_use_cannot_be_told() -> None:
    outcome = grf001.check(with_mtp(), None)
    assert isinstance(outcome, CannotTell)
    assert "--cudagraph-metrics" in outcome.capture


# STB004 -------------------------------------------------------------------------------------------------------------


def test_scatter_that_acceptance_does_not_explain_is_unstable() -> None:
    finding = found(stb004.check(varying(), None))
    assert "at 8 running varies by 18 % over 40 steady windows" in finding.title
    assert finding.confidence is Confidence.MEDIUM
    assert "Acceptance explains 10 %" in finding.why


def test_scatter_from_acceptance_is_normal() -> None:
    outcome = stb004.check(varying(0.8, 0.4), None)
    assert isinstance(outcome, Clear)
    assert "80 % of the variance is acceptance" in outcome.note


def test_scatter_is_judged_without_acceptance_part() -> None:
    assert isinstance(stb004.check(varying(0.45, 0.18), None), Clear)  # 0.18 * sqrt(0.55) = 0.13


def test_jit_stalls_are_named_as_the_cause() -> None:
    facts = varying()
    stalls = steadiness(cv=0.2, jit_stalls=3, jit_evidence=(at(55),))
    finding = found(stb004.check(replace(facts, stability=stalls), None))
    assert "with 3 JIT stalls" in finding.title
    assert at(55) in finding.evidence
    assert "warm up" in finding.fix[0]


def test_a_step_is_named_with_both_means() -> None:
    facts = run(level(8, 30.0, n=40), stability=steadiness(cv=0.12, step_change=(266.0, 190.0, at(90))))
    finding = found(stb004.check(facts, None))
    assert "stepped from 266 to 190 tok/s" in finding.title
    assert finding.evidence[0] == at(90)


def test_a_step_at_a_retraction_is_left_to_its_rule() -> None:
    facts = run(
        level(8, 30.0, n=40),
        stability=steadiness(cv=0.3, step_change=(266.0, 30.0, at(90))),
        capacity=capacity(retractions=(retraction(266.0, 30.0),)),
    )
    assert isinstance(stb004.check(facts, None), Clear)


def test_a_trend_over_hours_is_for_information() -> None:
    facts = run(level(8, 30.0, n=120), span_s=7_200.0, stability=steadiness(cv=0.09, n=120, trend_per_hour=-0.14))
    finding = found(stb004.check(facts, None))
    assert "falls by 14 % per hour" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LOW)


@pytest.mark.parametrize(
    "fields",
    [
        {"cv": 0.11},
        {"cv": 0.05, "step_change": (266.0, 230.0, at(90))},
        {"cv": 0.05, "trend_per_hour": -0.1, "n": 120},
        {"cv": 0.05, "trend_per_hour": -0.4, "n": 40},
    ],
    ids=["run-to-run spread", "a small step", "a small trend", "a trend in few windows"],
)
def test_normal_variation_is_silent(fields: dict[str, object]) -> None:
    facts = run(level(8, 30.0, n=40), span_s=4_000.0, stability=steadiness(**fields))
    assert isinstance(stb004.check(facts, None), Clear)


def test_a_trend_needs_an_hour() -> None:
    facts = run(level(8, 30.0, n=90), span_s=3_000.0, stability=steadiness(n=90, trend_per_hour=-0.5))
    assert isinstance(stb004.check(facts, None), Clear)


def test_twenty_windows_are_enough_to_judge() -> None:
    assert isinstance(stb004.check(run(level(8, 30.0, n=20), stability=steadiness(0.3, 20)), None), Finding)


def test_a_fifth_from_acceptance_does_not_excuse_the_rest() -> None:
    assert isinstance(stb004.check(varying(0.2, 0.25), None), Finding)


def test_few_windows_do_not_judge_stability() -> None:
    facts = run(level(8, 30.0, n=4), stability=steadiness(cv=0.4, n=4))
    assert isinstance(stb004.check(facts, None), CannotTell)
    assert isinstance(stb004.check(run(windows=0), None), NotApplicable)


def test_builders_hang_together() -> None:
    one = level(8, 100.0, 2.6, k=3)
    assert one.gen_tps.median == pytest.approx(208.0)
    assert one.tokens_per_forward == 32
    assert spread(10.0).low < 10.0 < spread(10.0).high
    assert fact(None).known is False
