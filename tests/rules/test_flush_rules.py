"""ACC010: acceptance returns when the prefix cache is flushed."""

from tests.rules.builders import at, drafting, level, stability
from tests.rules.node_builders import found
from traceana.facts.model import Facts, Flush
from traceana.rules import acc010_draft_state_lost_with_cached_prefixes as acc010
from traceana.rules.interface import Clear, Confidence, NotApplicable


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
