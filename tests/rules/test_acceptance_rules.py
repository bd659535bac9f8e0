"""ACC: what the rules say of a drafter, from runs built as facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import at, drafting, drivers, fact, level, run, stability
from traceana.facts.model import Facts, Provenance, Trend
from traceana.rules import (
    acc001_eagle_flag_with_eagle3_draft as acc001,
)
from traceana.rules import (
    acc002_dead_draft_head as acc002,
)
from traceana.rules import (
    acc003_acceptance_limits_throughput as acc003,
)
from traceana.rules import (
    acc004_draft_longer_than_it_earns as acc004,
)
from traceana.rules import (
    acc005_few_steps_have_a_draft as acc005,
)
from traceana.rules import (
    acc006_acceptance_dropped_during_run as acc006,
)
from traceana.rules import (
    acc007_acceptance_at_its_bound as acc007,
)
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Severity

ALL = (acc001, acc002, acc003, acc004, acc005, acc006, acc007)


def found(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Finding), outcome
    assert outcome.evidence, "a finding shows where it was seen"
    return outcome


def rejected(lines: int, ones: int | None = None, **more: object) -> Facts:
    """A run whose accept length is exactly 1.00 in `ones` of `lines` lines."""
    ones = lines if ones is None else ones
    more.setdefault("speculation", {})
    return drafting(
        tokens=1.0,
        lines=lines,
        acceptance={"exactly_one": ones, "exactly_one_running": (1, 1)},
        **more,  # type: ignore[arg-type]
    )


def healthy() -> Facts:
    levels = [level(r, c, 2.6, k=3) for r, c in ((1, 28.0), (2, 31.0), (4, 36.0))]
    return drafting(
        *levels,
        method="mtp",
        engine="vllm",
        acceptance={"per_position": fact((0.8, 0.5, 0.3)), "drafted": 40_000, "accepted": 21_000},
        drivers=drivers(0.9, 0.05),
        stability=stability(accept_trend=Trend(-0.01, 0.001, 120)),
    )


@pytest.mark.parametrize("rule", ALL)
def test_a_healthy_run_has_no_finding(rule: object) -> None:
    assert not isinstance(rule.check(healthy(), None), Finding)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", ALL)
def test_a_run_without_speculation_is_not_asked(rule: object) -> None:
    assert isinstance(rule.check(run(level(8, 30.0)), None), NotApplicable)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", ALL)
def test_a_log_without_windows_is_not_asked(rule: object) -> None:
    facts = drafting(lines=0)
    assert isinstance(rule.check(facts, None), NotApplicable)  # type: ignore[attr-defined]


# ACC001 -------------------------------------------------------------------------------------------------------------


def test_eagle_with_an_eagle3_draft_is_named_with_its_flag() -> None:
    finding = found(acc001.check(rejected(24, method="EAGLE", draft="example-org/kimi-eagle3"), None))
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.HIGH)
    assert "exactly 1.00 in 24 of 24 stats lines" in finding.title
    assert finding.fix == ("--speculative-algorithm EAGLE3",)
    assert finding.explains_ms_per_token is None


@pytest.mark.parametrize("name", ["org/Kimi-EAGLE3", "org/llama-eagle-3-head", "/srv/eagle_3"])
def test_draft_names_of_eagle3_are_recognised(name: str) -> None:
    assert isinstance(acc001.check(rejected(24, method="EAGLE", draft=name), None), Finding)


def test_one_line_at_1_00_is_medium() -> None:
    finding = found(acc001.check(rejected(1, method="EAGLE", draft="example-org/kimi-eagle3"), None))
    assert finding.confidence is Confidence.MEDIUM


def test_lines_before_the_steady_ones_do_not_make_24_of_23() -> None:
    facts = rejected(23, 24, method="EAGLE", draft="example-org/kimi-eagle3")
    assert "24 of 24 stats lines" in found(acc001.check(facts, None)).title
    assert isinstance(acc002.check(facts, None), Clear)


def test_few_lines_with_one_lifted_by_a_prefill_are_not_high() -> None:
    facts = rejected(22, 21, method="EAGLE", draft="example-org/kimi-eagle3")
    assert found(acc001.check(facts, None)).confidence is Confidence.HIGH
    facts = rejected(20, 19, method="EAGLE", draft="example-org/kimi-eagle3")
    assert found(acc001.check(facts, None)).confidence is Confidence.MEDIUM


def test_eagle_with_an_eagle1_draft_at_1_00_is_left_to_the_dead_head_rule() -> None:
    facts = rejected(24, method="EAGLE", draft="example-org/eagle-vicuna")
    assert isinstance(acc001.check(facts, None), Clear)
    assert isinstance(acc002.check(facts, None), Finding)


def test_rejected_drafts_without_the_settings_ask_for_the_start_up_line() -> None:
    facts = rejected(24, speculation={"method": fact(None), "draft_model": fact(None)})
    outcome = acc001.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "server_args=" in outcome.capture


def test_the_pairing_without_any_stats_line_cannot_be_judged() -> None:
    outcome = acc001.check(drafting(method="EAGLE", draft="example-org/kimi-eagle3", lines=0), None)
    assert isinstance(outcome, CannotTell)
    assert "--decode-log-interval" in outcome.capture


def test_an_accepting_eagle_run_is_clear_whatever_the_draft_is_called() -> None:
    facts = drafting(tokens=2.4, method="EAGLE", draft="example-org/eagle3")
    assert isinstance(acc001.check(facts, None), Clear)


def test_vllm_is_not_asked_for_the_eagle_flag() -> None:
    facts = rejected(24, method="eagle", draft="example-org/eagle3", engine="vllm")
    assert isinstance(acc001.check(facts, None), NotApplicable)


def test_the_cost_of_the_wrong_flag_is_sized_from_the_baseline() -> None:
    facts = replace(rejected(24, method="EAGLE", draft="org/eagle3"), regimes=(level(1, 25.0, 1.0, k=3),))
    explains = found(acc001.check(facts, run(level(1, 12.5)))).explains_ms_per_token
    assert explains is not None
    assert explains.low_ms < 12.5 < explains.high_ms
    assert explains.provenance is Provenance.DERIVED


def with_third_at_one(mean: float, draft: str = "org/eagle3") -> Facts:
    facts = rejected(30, 10, method="EAGLE", draft=draft)
    return replace(facts, acceptance=replace(facts.acceptance, accept_length=fact(mean, 10)))


def test_drafts_that_are_right_by_chance_leave_the_flag_the_cause() -> None:
    finding = found(acc001.check(with_third_at_one(1.01), None))
    assert finding.title.startswith("Accept length is 1.01 over 30 stats lines")
    assert (finding.confidence, finding.rivals) == (Confidence.MEDIUM, ("ACC002",))


@pytest.mark.parametrize("facts", [with_third_at_one(1.4), with_third_at_one(1.01, "org/eagle2")])
def test_a_live_drafter_or_another_draft_is_not_the_flag(facts: Facts) -> None:
    assert isinstance(acc001.check(facts, None), Clear)


# speculation that is off on purpose -----------------------------------------------------------------------------------


def test_adaptive_speculation_at_1_00_raises_no_alarm() -> None:
    facts = rejected(30, method="EAGLE", draft="org/eagle3", speculation={"adaptive": fact(True)})
    assert isinstance(acc001.check(facts, None), Clear)
    assert isinstance(acc002.check(facts, None), Clear)
    assert isinstance(acc003.check(facts, None), Clear)


def test_1_00_only_above_a_load_raises_no_alarm() -> None:
    facts = drafting(
        tokens=1.02,
        lines=40,
        acceptance={"exactly_one": 39, "exactly_one_running": (48, 64), "other_running": (1, 16)},
    )
    for rule in (acc001, acc002, acc003):
        outcome = rule.check(facts, None)
        assert isinstance(outcome, Clear)
    assert "drafting stops above a load" in outcome.note


# ACC002 -------------------------------------------------------------------------------------------------------------


def positions(*rates: float, drafted: int, lines: int = 8, **more: object) -> Facts:
    return drafting(
        tokens=1 + sum(rates),
        k=len(rates),
        lines=lines,
        acceptance={"per_position": fact(tuple(rates), 12), "drafted": drafted},
        method="mtp",
        engine="vllm",
        **more,  # type: ignore[arg-type]
    )


def test_a_dead_head_is_seen_from_its_first_position() -> None:
    finding = found(acc002.check(positions(0.062, 0.004, 0.0, drafted=9_000), None))
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.HIGH)
    assert "9,000 drafted tokens" in finding.title
    assert "6.2 %" in finding.why
    assert "ACC001" in finding.rivals


def test_a_dead_head_over_few_drafts_cannot_be_told() -> None:
    assert isinstance(acc002.check(positions(0.062, 0.0, 0.0, drafted=600, lines=30), None), CannotTell)


def test_a_weak_head_is_not_dead() -> None:
    assert isinstance(acc002.check(positions(0.35, 0.1, 0.02, drafted=9_000), None), Clear)


def test_a_first_position_of_20_percent_is_weak_and_not_dead() -> None:
    assert isinstance(acc002.check(positions(0.2, 0.0, 0.0, drafted=9_000), None), Clear)


def test_a_second_position_that_lives_is_not_dead() -> None:
    assert isinstance(acc002.check(positions(0.09, 0.02, 0.0, drafted=9_000), None), Clear)


def test_fifteen_hundred_drafts_are_enough_for_a_dead_head() -> None:
    assert isinstance(acc002.check(positions(0.05, 0.0, 0.0, drafted=1_500), None), Finding)


def test_an_accept_length_of_1_03_over_many_lines_is_dead() -> None:
    finding = found(acc002.check(drafting(tokens=1.03, lines=25), None))
    assert finding.confidence is Confidence.HIGH
    assert "1.03 over 25 stats lines" in finding.title


def test_an_accept_length_of_1_03_over_some_lines_is_medium() -> None:
    assert found(acc002.check(drafting(tokens=1.03, lines=8), None)).confidence is Confidence.MEDIUM


def test_a_dead_head_is_not_reported_as_low_acceptance_too() -> None:
    dead = positions(0.052, 0.002, 0.0, drafted=33_000)
    outcome = acc003.check(replace(dead, regimes=(level(4, 31.0, 1.05, k=3),)), None)
    assert isinstance(outcome, Clear)
    assert "ACC002" in outcome.note


def test_three_lines_of_an_excerpt_at_1_00_are_told_with_low_confidence() -> None:
    finding = found(acc002.check(rejected(3), None))
    assert finding.confidence is Confidence.LOW


def test_two_lines_at_1_00_are_too_few() -> None:
    outcome = acc002.check(drafting(tokens=1.0, lines=2), None)
    assert isinstance(outcome, CannotTell)
    assert "2 stats lines" in outcome.reason


def test_the_wrong_flag_is_not_reported_twice() -> None:
    facts = rejected(24, method="EAGLE", draft="org/eagle3")
    outcome = acc002.check(facts, None)
    assert isinstance(outcome, Clear)
    assert "ACC001" in outcome.note


def test_ngram_has_no_head_to_die() -> None:
    facts = drafting(tokens=1.02, method="ngram", draft=None, speculation={"drafts_every_step": False})
    assert isinstance(acc002.check(facts, None), NotApplicable)


# ACC003 -------------------------------------------------------------------------------------------------------------


def low_acceptance(around: float = 0.002, n: int = 5, **more: object) -> Facts:
    """As a single request at 10.9 ms a cycle with 0.85 extra tokens of three drafted."""
    more.setdefault("drivers", drivers(0.99, 0.12, n))
    one = replace(level(1, 10.9, 1.85, k=3, n=n, around=0.12), cycle_ms=level(1, 10.9, n=n, around=around).cycle_ms)
    return drafting(one, **more)  # type: ignore[arg-type]


def test_low_acceptance_at_a_constant_cycle_is_the_limit() -> None:
    finding = found(acc003.check(low_acceptance(), None))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert "accept length 1.85 of at most 4 at a constant 10.9 ms cycle, 1 running request" in finding.title
    assert len(finding.rivals) >= 4
    explains = finding.explains_ms_per_token
    assert explains is not None
    assert explains.provenance is Provenance.MODELLED
    assert 0 < explains.low_ms < explains.high_ms < 10.9 / 1.85


def test_low_acceptance_without_variance_to_split_is_medium() -> None:
    assert found(acc003.check(low_acceptance(drivers=None), None)).confidence is Confidence.MEDIUM


def test_low_acceptance_that_still_pays_is_for_information() -> None:
    finding = found(acc003.check(low_acceptance(), run(level(1, 10.0, around=0.05))))
    assert finding.severity is Severity.INFO


def test_low_acceptance_with_a_wandering_cycle_is_not_blamed_alone() -> None:
    outcome = acc003.check(low_acceptance(around=0.15, drivers=drivers(0.3)), None)
    assert isinstance(outcome, Clear)
    assert "CYC001" in outcome.note


def test_low_acceptance_without_steady_windows_cannot_be_told() -> None:
    assert isinstance(acc003.check(low_acceptance(n=2), None), CannotTell)


def test_acceptance_without_k_cannot_be_called_low() -> None:
    facts = low_acceptance()
    facts = replace(
        facts,
        speculation=replace(facts.speculation, k=fact(None), num_steps=fact(None), num_draft_tokens=fact(None)),
        acceptance=replace(facts.acceptance, accept_rate=fact(None), ceiling=None),
    )
    assert isinstance(acc003.check(facts, None), CannotTell)


@pytest.mark.parametrize(("rate", "low"), [(0.3, True), (0.5, False)])
def test_the_accept_rate_stands_in_where_k_is_unknown(rate: float, low: bool) -> None:
    facts = low_acceptance()
    facts = replace(
        facts,
        speculation=replace(facts.speculation, k=fact(None), num_steps=fact(None), num_draft_tokens=fact(None)),
        acceptance=replace(facts.acceptance, accept_rate=fact(rate), ceiling=None),
    )
    assert isinstance(acc003.check(facts, None), Finding if low else Clear)


def test_a_cycle_that_varies_by_4_percent_is_constant() -> None:
    assert isinstance(acc003.check(low_acceptance(around=0.04), None), Finding)


def test_throughput_that_acceptance_half_explains_is_not_blamed_on_it() -> None:
    assert isinstance(acc003.check(low_acceptance(drivers=drivers(0.5)), None), Clear)


def test_a_low_average_over_a_long_draft_is_not_low_acceptance() -> None:
    facts = drafting(level(1, 30.0, 2.91, k=7), k=7)  # 27 % of seven drafts: 65 % per draft
    assert isinstance(acc003.check(facts, None), Clear)


def test_the_depth_counts_in_a_tree_and_not_its_width() -> None:
    tree = {"topk": fact(8), "num_steps": fact(3), "num_draft_tokens": fact(32), "k": fact(31)}
    facts = drafting(level(1, 30.0, 2.6, k=31), k=31, speculation=tree)
    assert isinstance(acc003.check(facts, None), Clear)


# ACC004 -------------------------------------------------------------------------------------------------------------

SEVEN = (0.74, 0.48, 0.26, 0.17, 0.13, 0.09, 0.04)


def test_a_draft_of_seven_keeps_most_of_its_tokens_with_three() -> None:
    finding = found(acc004.check(positions(*SEVEN, drafted=5_460), None))
    assert finding.title.startswith("Draft positions 4-7 add 0.43 of 1.91 extra tokens per cycle: 3 drafts keep 1.48")
    assert "3/7" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.fix == ("num_speculative_tokens 3",)
    assert finding.explains_ms_per_token is None, "the cost of a position is not in a log"


def test_the_fix_speaks_sglang_to_sglang() -> None:
    facts = replace(positions(*SEVEN, drafted=5_460), identity=run().identity)
    assert found(acc004.check(facts, None)).fix == ("--speculative-num-steps 3 --speculative-num-draft-tokens 4",)


@pytest.mark.parametrize("rates", [(0.8, 0.5, 0.3), (0.8, 0.64, 0.51, 0.41), (0.7, 0.49, 0.34, 0.24, 0.17)])
def test_drafts_that_earn_their_length_stay(rates: tuple[float, ...]) -> None:
    assert isinstance(acc004.check(positions(*rates, drafted=50_000), None), Clear)


def test_a_dead_first_position_is_not_a_matter_of_length() -> None:
    assert isinstance(acc004.check(positions(0.05, 0.0, 0.0, 0.0, drafted=50_000), None), Clear)


def test_two_windows_of_a_quiet_server_are_enough_drafts() -> None:
    assert isinstance(acc004.check(positions(*SEVEN, drafted=546), None), Finding)


def test_few_drafts_do_not_judge_the_positions() -> None:
    assert isinstance(acc004.check(positions(*SEVEN, drafted=161), None), CannotTell)


def test_without_positions_a_long_draft_cannot_be_judged_and_a_short_one_need_not() -> None:
    outcome = acc004.check(drafting(tokens=2.0, k=7), None)
    assert isinstance(outcome, CannotTell)
    assert "spec_accept_histogram" in outcome.capture
    assert isinstance(acc004.check(drafting(tokens=2.0, k=3), None), Clear)


# ACC005 -------------------------------------------------------------------------------------------------------------


def ngram(coverage: float, accept_length: float, running: int, drafted: int = 8_700, **more: object) -> Facts:
    emitted = 1 + coverage * (accept_length - 1)
    return drafting(
        level(running, 180.0, emitted, k=3),
        method="ngram",
        draft=None,
        engine="vllm",
        tokens=accept_length,
        acceptance={"coverage": fact(coverage), "tokens_per_cycle": fact(emitted), "drafted": drafted},
        speculation={"drafts_every_step": False},
        **more,  # type: ignore[arg-type]
    )


def test_ngram_that_supplies_a_sixth_of_the_tokens_at_600_running_is_named() -> None:
    finding = found(acc005.check(ngram(0.101, 2.83, 610), None))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert "Only 16 % of the generated tokens" in finding.title
    assert "610 running requests" in finding.title


def test_ngram_with_nearly_half_the_steps_drafted_is_healthy() -> None:
    outcome = acc005.check(ngram(0.45, 2.71, 4), None)
    assert isinstance(outcome, Clear)
    assert "1.77 tokens per cycle" in outcome.note


def test_a_small_batch_makes_it_information() -> None:
    assert found(acc005.check(ngram(0.1, 2.0, 4), None)).severity is Severity.INFO


@pytest.mark.parametrize(("running", "severity"), [(40, Severity.INFO), (100, Severity.WARNING)])
def test_the_batch_decides_the_severity(running: int, severity: Severity) -> None:
    assert found(acc005.check(ngram(0.1, 2.0, running), None)).severity is severity


@pytest.mark.parametrize(("drafted", "confidence"), [(600, Confidence.MEDIUM), (1_400, Confidence.HIGH)])
def test_the_drafted_tokens_decide_the_confidence(drafted: int, confidence: Confidence) -> None:
    assert found(acc005.check(ngram(0.1, 2.0, 100, drafted), None)).confidence is confidence


def test_few_drafts_that_pay_against_the_baseline_are_left_alone() -> None:
    assert isinstance(acc005.check(ngram(0.1, 2.0, 8), run(level(8, 180.0))), Clear)


def test_ngram_without_engine_throughput_cannot_be_told() -> None:
    facts = ngram(0.1, 2.0, 8)
    facts = replace(facts, acceptance=replace(facts.acceptance, coverage=fact(None), tokens_per_cycle=fact(None)))
    assert isinstance(acc005.check(facts, None), CannotTell)


def test_a_drafter_that_drafts_every_step_is_not_judged_by_coverage() -> None:
    assert isinstance(acc005.check(drafting(level(8, 30.0, 1.1, k=3)), None), NotApplicable)


# ACC006 -------------------------------------------------------------------------------------------------------------


def drift(per_hour: float | None, span_s: float = 7_200.0, n: int = 120, error: float = 0.005) -> Facts:
    return drafting(
        level(8, 30.0, 2.3, k=3, n=n),
        span_s=span_s,
        stability=stability(n=n, accept_trend=None if per_hour is None else Trend(per_hour, error, n)),
    )


def test_acceptance_that_decays_over_hours_is_seen() -> None:
    finding = found(acc006.check(drift(-0.08), None))
    assert "fell by 8.0 % per hour over 2.0 h (120 windows)" in finding.title
    assert finding.confidence is Confidence.LOW


def test_a_decay_that_lost_a_third_is_medium() -> None:
    assert found(acc006.check(drift(-0.17), None)).confidence is Confidence.MEDIUM


def test_acceptance_that_holds_for_hours_is_clear() -> None:
    assert isinstance(acc006.check(drift(-0.02), None), Clear)


def test_a_fall_within_the_scatter_of_the_windows_is_clear() -> None:
    assert isinstance(acc006.check(drift(-0.08, error=0.03), None), Clear)


@pytest.mark.parametrize("span_s", [900.0, 3_000.0])
def test_a_short_log_is_not_asked_for_a_drift(span_s: float) -> None:
    assert isinstance(acc006.check(drift(-0.5, span_s=span_s), None), NotApplicable)


@pytest.mark.parametrize(("trend", "n"), [(None, 120), (-0.2, 20)])
def test_a_long_log_with_few_windows_cannot_show_a_drift(trend: float | None, n: int) -> None:
    assert isinstance(acc006.check(drift(trend, n=n), None), CannotTell)


def test_a_drop_behind_an_eplb_update_is_named_as_a_guess() -> None:
    facts = drafting(level(1, 30.0, 1.24, k=3), stability=stability(n=4, eplb_then_drop=(at(77), 2.87, 1.24)))
    finding = found(acc006.check(facts, None))
    assert "from 2.87 to 1.24 after an EPLB expert weight update" in finding.title
    assert finding.confidence is Confidence.LOW
    assert finding.evidence == (at(77),)


def test_an_eplb_update_without_a_drop_is_no_finding() -> None:
    facts = drafting(level(1, 30.0, 2.8, k=3), stability=stability(n=4, eplb_then_drop=(at(77), 2.87, 2.55)))
    assert not isinstance(acc006.check(facts, None), Finding)


# ACC007 -------------------------------------------------------------------------------------------------------------


def bound(lines: int, of: int, k: int, drafted: int | None) -> Facts:
    return drafting(
        tokens=float(k + 1), k=k, lines=of, acceptance={"exactly_ceiling": lines, "drafted": drafted}, engine="vllm"
    )


def test_every_draft_accepted_is_suspicious() -> None:
    finding = found(acc007.check(bound(6, 6, 5, 12_000), None))
    assert finding.confidence is Confidence.MEDIUM
    assert "exactly 6.00 in 6 of 6 stats lines" in finding.title
    assert any("SIMULATE" in rival for rival in finding.rivals)


@pytest.mark.parametrize(
    ("lines", "of", "k", "drafted"),
    [(2, 6, 5, 12_000), (4, 80, 3, 90_000), (4, 8, 1, 1_400), (3, 3, 5, 60)],
    ids=["two lines", "four in a long log", "one draft token, modest counts", "few drafted tokens"],
)
def test_bounds_reached_by_chance_are_not(lines: int, of: int, k: int, drafted: int) -> None:
    assert isinstance(acc007.check(bound(lines, of, k, drafted), None), Clear)


@pytest.mark.parametrize(
    ("lines", "of", "k", "drafted"),
    [(4, 20, 3, 20_000), (4, 4, 1, 1_200), (3, 3, 5, 180)],
    ids=["a fifth of the lines", "one draft token, many counts", "enough drafted tokens"],
)
def test_bounds_that_cannot_be_chance_are(lines: int, of: int, k: int, drafted: int) -> None:
    assert isinstance(acc007.check(bound(lines, of, k, drafted), None), Finding)


def test_lines_without_counters_stand_for_forty_cycles_each() -> None:
    assert isinstance(acc007.check(bound(4, 4, 3, None), None), Finding)
    assert isinstance(acc007.check(bound(4, 4, 1, None), None), Clear)


def test_speculation_without_acceptance_lines_cannot_be_told() -> None:
    facts = drafting(level(8, 30.0, 2.0, k=3), acceptance={"n_samples": 0, "accept_length": fact(None)})
    for rule in (acc002, acc003, acc007):
        assert isinstance(rule.check(facts, None), CannotTell)


def test_unknown_speculation_asks_for_start_up_lines() -> None:
    facts = replace(run(level(8, 30.0)), speculation=replace(run().speculation, active=fact(None)))
    outcome = acc002.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "start-up lines" in outcome.capture
