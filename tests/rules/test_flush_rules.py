"""ACC010: acceptance returns when the prefix cache is flushed, and is lost with cached or handed-over prefixes."""

import pytest

from tests.rules.builders import at, drafting, level, setting, stability
from tests.rules.node_builders import found
from traceana.facts.model import CachedPrefixes, Facts, Flush
from traceana.rules import acc010_draft_state_lost_with_cached_prefixes as acc010
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable


def flushed(*pairs: tuple[float, float]) -> Facts:
    flushes = tuple(Flush(before, after, at(50 + i)) for i, (before, after) in enumerate(pairs))
    return drafting(level(4, 15.0, 2.5, 3), stability=stability(flushes=flushes))


def test_one_flush_is_a_hint_and_two_are_a_pattern():
    once = found(acc010.check(flushed((1.8, 2.8)), None))
    assert "from 1.80 to 2.80" in once.title
    assert once.confidence is Confidence.LOW
    twice = found(acc010.check(flushed((1.8, 2.8), (1.7, 2.8)), None))
    assert "2 of 2 flushes" in twice.title
    assert twice.confidence is Confidence.MEDIUM


def test_flushes_that_mostly_change_nothing_are_no_finding():
    assert isinstance(acc010.check(flushed((2.7, 2.8)), None), Clear)
    assert isinstance(acc010.check(flushed((1.8, 2.8), (2.7, 2.8)), None), Clear)


def test_without_a_flush_nothing_is_asked():
    assert isinstance(acc010.check(flushed(), None), NotApplicable)


def by_prompt(cold: float, cached: float) -> Facts:
    seen = CachedPrefixes(cold, cached, (24, 18), (at(70),))
    return drafting(level(1, 15.0, 2.5, 3), stability=stability(cached=seen))


def test_prompts_from_the_cache_that_lose_the_drafts_are_a_hint():
    finding = found(acc010.check(by_prompt(3.0, 1.8), None))
    assert "1.80 behind prompts from the prefix cache and 3.00 behind others" in finding.title
    assert finding.confidence is Confidence.LOW
    assert "18 windows follow a prompt that came from the cache" in finding.why
    assert isinstance(acc010.check(by_prompt(3.0, 2.6), None), Clear)


def served(tokens: float, *names_and_values: tuple[str, object]) -> Facts:
    rows = tuple(setting(name, value) for name, value in (("tp_size", 1), *names_and_values))
    return drafting(level(4, 15.0, tokens, 3), settings=rows)


@pytest.mark.parametrize(
    "on",
    [
        ("enable_hierarchical_cache", True),
        ("disaggregation_mode", "decode"),
        ("kv_transfer_config", "KVTransferConfig(kv_connector='NixlConnector')"),
    ],
)
def test_a_run_with_prefixes_from_elsewhere_is_held_against_one_without(on: tuple[str, object]):
    finding = found(acc010.check(served(1.6, on), served(2.9)))
    assert f"Accept length is 1.60 with {on[0]}=" in finding.title
    assert "2.90 in the baseline without" in finding.title
    assert finding.confidence is Confidence.LOW


def test_the_same_cache_on_both_sides_or_little_lost_is_no_finding():
    on = ("enable_hierarchical_cache", True)
    assert isinstance(acc010.check(served(1.6, on), served(2.9, on)), CannotTell)
    assert isinstance(acc010.check(served(2.6, on), served(2.9)), CannotTell)


@pytest.mark.parametrize(
    "off", [("disaggregation_mode", "null"), ("disaggregation_mode", "prefill"), ("kv_transfer_config", None)]
)
def test_what_is_switched_off_is_no_path(off: tuple[str, object]):
    assert isinstance(acc010.check(served(1.6, off), served(2.9)), NotApplicable)


def test_hicache_alone_asks_for_a_flush():
    outcome = acc010.check(served(1.6, ("enable_hierarchical_cache", True)), None)
    assert isinstance(outcome, CannotTell)
    assert "/flush_cache" in outcome.capture


def test_the_engine_s_own_word_that_the_draft_is_not_stored_is_sure():
    facts = drafting(level(4, 15.0, 2.5, 3), stability=stability(draft_not_kept=(at(9),)))
    finding = found(acc010.check(facts, None))
    assert finding.confidence is Confidence.HIGH
    assert "skips the draft's pool" in finding.title
