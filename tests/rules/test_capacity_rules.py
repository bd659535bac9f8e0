"""CAP: KV pool, retraction and queue, from runs built as facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import at, capacity, drafting, level, retraction, run, setting
from traceana.facts.model import Facts, Parallelism, Window
from traceana.rules import cap001_kv_pool_full as cap001
from traceana.rules import cap002_throughput_lost_after_retraction as cap002
from traceana.rules import cap003_running_pinned_while_queue_grows as cap003
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Severity

ALL = (cap001, cap002, cap003)


def found(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Finding), outcome
    assert outcome.evidence, "a finding shows where it was seen"
    return outcome


def serving(**fields: object) -> Facts:
    """A run of 40 windows at 4 running requests with the given capacity."""
    return run(level(4, 10.0, n=40), capacity=capacity(**{"windows": 40, "usage_max": 0.4, **fields}))


@pytest.mark.parametrize("rule", ALL)
def test_a_server_with_room_has_no_finding(rule: object) -> None:
    assert isinstance(rule.check(serving(max_running=64), None), Clear)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rule", ALL)
def test_a_log_without_windows_is_not_asked(rule: object) -> None:
    assert isinstance(rule.check(run(windows=0), None), NotApplicable)  # type: ignore[attr-defined]


# CAP001 -------------------------------------------------------------------------------------------------------------

FULL = {"usage_max": 1.0, "windows_full": 12, "windows_queued": 10, "full_evidence": (at(30), at(31))}


def test_a_full_pool_with_a_queue_is_named() -> None:
    finding = found(cap001.check(serving(**FULL, kv_tokens=2_642_944), None))
    assert "The KV pool of 2,642,944 tokens is 95 % full or more in 12 of 40 windows (up to 100 %)" in finding.title
    assert "requests queued in 10 windows" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert "CAP003" in finding.rivals


def test_one_full_window_counts_when_a_request_was_retracted() -> None:
    facts = serving(**{**FULL, "windows_full": 1, "windows_queued": 0}, retractions=(retraction(400.0, 390.0),))
    assert "1 retraction" in found(cap001.check(facts, None)).title


def test_three_full_windows_with_a_queue_are_enough() -> None:
    assert isinstance(cap001.check(serving(**{**FULL, "windows_full": 3, "windows_queued": 3}), None), Finding)


def test_vllm_preemptions_count_as_well() -> None:
    facts = serving(**{**FULL, "windows_queued": 0}, preemptions=32)
    finding = found(cap001.check(facts, None))
    assert "32 preemptions" in finding.title
    assert "prefilled again" in finding.why


def test_speculation_is_named_as_a_user_of_the_pool() -> None:
    facts = drafting(level(4, 10.0, 2.0, k=3), capacity=capacity(windows=5, **FULL))
    assert "Speculation takes a share" in found(cap001.check(facts, None)).why
    assert "Speculation" not in found(cap001.check(serving(**FULL), None)).why


@pytest.mark.parametrize(
    "fields",
    [{**FULL, "windows_queued": 0}, {**FULL, "windows_full": 2}, {"usage_max": 0.94, "windows_queued": 5}],
    ids=["nothing waits", "two windows", "not full"],
)
def test_a_pool_that_holds_is_no_finding(fields: dict[str, object]) -> None:
    assert isinstance(cap001.check(serving(**fields), None), Clear)


def test_windows_without_usage_cannot_tell() -> None:
    assert isinstance(cap001.check(serving(usage_max=None), None), CannotTell)


def test_fixes_speak_the_engines_flags() -> None:
    assert "--mem-fraction-static" in " ".join(found(cap001.check(serving(**FULL), None)).fix)
    facts = run(level(4, 10.0), engine="vllm", capacity=capacity(windows=5, **FULL))
    assert "--gpu-memory-utilization" in " ".join(found(cap001.check(facts, None)).fix)


# CAP002 -------------------------------------------------------------------------------------------------------------


def test_throughput_that_did_not_come_back_is_critical() -> None:
    finding = found(cap002.check(serving(retractions=(retraction(429.5, 30.0),)), None))
    assert "fell from 430 to 30.0 tok/s (0.07x) at a retraction and did not come back" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.HIGH)
    assert finding.evidence == (at(60),)


def test_half_lost_is_critical() -> None:
    assert found(cap002.check(serving(retractions=(retraction(430.0, 190.0),)), None)).severity is Severity.CRITICAL


def test_a_third_lost_is_a_warning() -> None:
    finding = found(cap002.check(serving(retractions=(retraction(429.5, 290.0),)), None))
    assert finding.severity is Severity.WARNING


def test_throughput_that_came_back_is_clear() -> None:
    assert isinstance(cap002.check(serving(retractions=(retraction(429.5, 402.0),)), None), Clear)


def test_the_last_of_several_retractions_decides() -> None:
    came_back = (retraction(430.0, 200.0, 60), retraction(200.0, 420.0, 90))
    assert isinstance(cap002.check(serving(retractions=came_back), None), Clear)
    lost = (retraction(430.0, 420.0, 60), retraction(420.0, 100.0, 90))
    assert "at 2 retractions" in found(cap002.check(serving(retractions=lost), None)).title


def test_throughput_that_came_back_between_retractions_is_clear() -> None:
    again = (retraction(430.0, 250.0, 60, best=410.0), retraction(430.0, 250.0, 90, best=415.0, n_after=12))
    assert isinstance(cap002.check(serving(retractions=again), None), Clear)


def test_a_log_that_ends_at_the_last_retraction_tells_by_the_one_before() -> None:
    cut = (retraction(430.0, 250.0, 60, best=410.0), retraction(430.0, 90.0, 90, n_after=1))
    assert isinstance(cap002.check(serving(retractions=cut), None), Clear)
    lost = (retraction(430.0, 30.0, 60, best=38.0), retraction(30.0, None, 90))
    assert isinstance(cap002.check(serving(retractions=lost), None), Finding)


def test_retractions_that_the_full_pool_names_are_not_told_twice() -> None:
    outcome = cap002.check(serving(windows_full=4, retractions=(retraction(429.5, None),)), None)
    assert isinstance(outcome, CannotTell)
    assert "too few windows after 1 retraction" in outcome.reason


@pytest.mark.parametrize(("before", "after", "word"), [(429.5, None, "after"), (None, None, "before")])
def test_a_log_that_ends_at_the_retraction_claims_no_loss(before: float | None, after: float | None, word: str) -> None:
    finding = found(cap002.check(serving(retractions=(retraction(before, after),)), None))
    assert finding.title.endswith(f"the log shows no throughput {word} it")
    assert finding.severity is Severity.INFO
    assert finding.confidence is Confidence.MEDIUM


def collapsed(running_after: int) -> Facts:
    """430 -> 60 tok/s at a retraction in line 60, with 16 requests running before it."""
    rows = tuple(
        Window(None, "TP0", running, 0, 400.0, None, None, None, True, None, at(line))
        for line, running in ((50, 16), (55, 16), (70, running_after), (75, running_after))
    )
    facts = serving(retractions=(retraction(430.0, 60.0),))
    return replace(facts, windows=replace(facts.windows, sample=rows))


@pytest.mark.parametrize(("running", "confidence"), [(15, Confidence.HIGH), (8, Confidence.MEDIUM)])
def test_the_load_after_the_event_decides_how_sure_it_is(running: int, confidence: Confidence) -> None:
    assert found(cap002.check(collapsed(running), None)).confidence is confidence


def test_fewer_requests_after_the_event_are_a_rival() -> None:
    finding = found(cap002.check(collapsed(2), None))
    assert "16.0 before, 2.00 after" in finding.why
    assert "the load shrank" in finding.rivals[0]


def test_vllm_preempts_without_a_line() -> None:
    facts = run(level(4, 10.0), engine="vllm", capacity=capacity(windows=5, usage_max=0.93))
    outcome = cap002.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "num_preemptions_total" in outcome.capture
    roomy = run(level(4, 10.0), engine="vllm", capacity=capacity(windows=5, usage_max=0.3))
    assert isinstance(cap002.check(roomy, None), Clear)


# CAP003 -------------------------------------------------------------------------------------------------------------


def pinned(running: int = 48, windows: int = 20, spec: bool = True, dp: int | None = None, **fields: object) -> Facts:
    settings = fields.pop("settings", ())
    fields.setdefault("queue_growth", 30.0)
    fields.setdefault("usage_max", 0.3)
    pool = capacity(
        windows=40,
        windows_queued=windows,
        pinned_running=running,
        pinned_windows=windows,
        pinned_evidence=(at(33), at(34)),
        **fields,
    )
    one = level(running, 40.0, 2.4, k=3, queued_max=70) if spec else level(running, 20.0, queued_max=70)
    facts = (drafting if spec else run)(one, capacity=pool, settings=settings)
    return replace(facts, parallelism=Parallelism(dp=replace(facts.identity.engine, value=dp)) if dp else Parallelism())


def test_the_cap_sglang_sets_itself_is_named() -> None:
    finding = found(cap003.check(pinned(max_running=48), None))
    assert finding.title == "48 requests run while up to 70 queue in 20 windows: the cap is 48"
    assert finding.confidence is Confidence.HIGH
    assert "SGLang itself caps a speculating server at 48" in finding.why
    assert "The queue grew by 30 requests" in finding.why
    assert "--max-running-requests" in finding.fix[0]


def test_one_window_with_a_drip_of_prefills_is_medium() -> None:
    finding = found(cap003.check(pinned(32, 1, drip_prefills=7, queue_growth=None), None))
    assert finding.confidence is Confidence.MEDIUM
    assert "7 prefill batches of a few requests" in finding.why
    assert "32 in 0.4.4" in finding.why
    assert "CAP001" in finding.rivals


def test_one_window_alone_is_no_finding() -> None:
    assert isinstance(cap003.check(pinned(32, 1, drip_prefills=1), None), Clear)


def test_a_count_one_below_the_cap_is_an_admission_off_by_one() -> None:
    finding = found(cap003.check(pinned(47, max_running=48), None))
    assert finding.title.endswith("one below the cap of 48")
    assert "off by one" in finding.rivals[0]


def test_the_cap_is_shared_by_data_parallel_ranks() -> None:
    finding = found(cap003.check(pinned(7, max_running=64, dp=8, spec=False), None))
    assert finding.title.endswith("one below the cap of 8")
    assert finding.confidence is Confidence.HIGH


def test_a_full_pool_pins_for_another_reason() -> None:
    outcome = cap003.check(pinned(4, usage_max=1.0), None)
    assert isinstance(outcome, Clear)
    assert "CAP001" in outcome.note


def test_a_nearly_full_pool_makes_it_a_guess() -> None:
    finding = found(cap003.check(pinned(6, 4, spec=False, usage_max=0.94), None))
    assert finding.confidence is Confidence.LOW
    assert finding.rivals[0] == "CAP001"
    assert "the cap is not in the log" in finding.title


def test_a_cap_that_was_set_and_a_queue_that_drains_are_meant() -> None:
    mine = {"max_running": 64, "settings": (setting("max_running_requests", 64),)}
    assert isinstance(cap003.check(pinned(64, queue_growth=-20.0, **mine), None), Clear)
    finding = found(cap003.check(pinned(64, queue_growth=20.0, **mine), None))
    assert "SGLang itself" not in finding.why


def test_the_engines_own_48_in_the_arguments_is_not_taken_as_set() -> None:
    facts = pinned(48, queue_growth=-20.0, max_running=48, settings=(setting("max_running_requests", 48),))
    assert isinstance(cap003.check(facts, None), Finding)


def test_running_that_moves_is_clear() -> None:
    assert isinstance(cap003.check(serving(windows_queued=8), None), Clear)


def test_a_count_below_the_cap_without_usage_cannot_be_told() -> None:
    assert isinstance(cap003.check(pinned(20, max_running=48, usage_max=None), None), CannotTell)


def test_counted_preemptions_are_not_asked_for_again_and_not_taken_for_none():
    facts = run(level(4, 10.0), engine="vllm", capacity=capacity(windows=5, usage_max=0.93, preemptions=32))
    found = cap002.check(facts, None)
    assert isinstance(found, CannotTell)
    assert "32 preemptions were counted" in found.reason
    none = run(level(4, 10.0), engine="vllm", capacity=capacity(windows=5, usage_max=0.93, preemptions=0))
    assert isinstance(cap002.check(none, None), Clear)


def test_a_baseline_without_speculation_says_what_drafting_takes_of_the_pool():
    full = {"windows_full": 6, "windows_queued": 6, "windows": 20, "full_evidence": (at(9),)}
    facts = drafting(level(8, 20.0, 2.5, 3), capacity=capacity(kv_tokens=300_000, usage_max=1.0, **full))
    base = run(level(8, 15.0), capacity=capacity(kv_tokens=400_000))
    assert (
        "Without speculation the pool had 400,000 tokens (baseline), 25 % of which"
        in found(cap001.check(facts, base)).why
    )
    unknown = run(level(8, 15.0), capacity=capacity())
    assert "Speculation takes a share of the pool" in found(cap001.check(facts, unknown)).why
