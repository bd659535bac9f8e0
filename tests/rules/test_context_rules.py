"""ACC008: acceptance falls as the context grows."""

from dataclasses import replace

from tests.rules.builders import drafting, level, run, spread
from traceana.facts.model import Facts, Regime
from traceana.rules import acc008_acceptance_falls_with_context as acc008
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Severity


def at_context(context: int, tokens: float, cycle: float = 16.0, k: int = 3, n: int = 8) -> Regime:
    return replace(level(4, cycle, tokens, k, n=n), context_tokens=spread(context, n))


def by_context(*seen: tuple[int, float], n: int = 8) -> Facts:
    return drafting(at_context(6000, 2.6), context_regimes=tuple(at_context(c, t, n=n) for c, t in seen))


def test_a_fall_over_several_lengths_is_told_with_what_it_costs():
    finding = acc008.check(by_context((1500, 3.0), (6000, 2.6), (26000, 2.2)), None)
    assert isinstance(finding, Finding)
    assert "from 3.00 at 1,500 tokens to 2.20 at 26,000" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.explains_ms_per_token is not None
    middle = 16.0 / 2.2 - 16.0 / 3.0
    assert finding.explains_ms_per_token.low_ms < middle < finding.explains_ms_per_token.high_ms


def test_two_lengths_or_few_windows_are_low_confidence():
    for facts in (by_context((1500, 3.0), (26000, 2.2)), by_context((1500, 3.0), (6000, 2.6), (26000, 2.2), n=3)):
        finding = acc008.check(facts, None)
        assert isinstance(finding, Finding)
        assert finding.confidence is Confidence.LOW


def test_a_small_or_noisy_fall_is_no_finding():
    assert isinstance(acc008.check(by_context((1500, 3.0), (26000, 2.8)), None), Clear)
    noisy = tuple(replace(at_context(c, t), accept_length=spread(t, 8, 0.3)) for c, t in ((1500, 3.0), (26000, 2.4)))
    assert isinstance(acc008.check(drafting(noisy[0], context_regimes=noisy), None), Clear)


def test_a_baseline_at_the_same_length_says_whether_speculation_still_pays():
    def plain(step: float) -> Facts:
        return run(level(4, step), context_regimes=(at_context(1500, 1.0, 8.0, 0), at_context(25000, 1.0, step, 0)))

    facts = by_context((1500, 3.0), (6000, 2.6), (26000, 2.2))
    pays, loses = acc008.check(facts, plain(12.0)), acc008.check(facts, plain(6.0))
    assert isinstance(pays, Finding)
    assert isinstance(loses, Finding)
    assert pays.severity is Severity.INFO
    assert "still pays" in pays.why
    assert loses.severity is Severity.WARNING
    assert "speculation loses" in loses.why


def test_without_context_it_cannot_tell_and_one_length_or_no_drafts_raise_no_question():
    assert isinstance(acc008.check(drafting(level(4, 16.0, 2.6, 3)), None), CannotTell)
    assert isinstance(acc008.check(by_context(), None), NotApplicable)
    assert isinstance(acc008.check(by_context((1500, 3.0), (2200, 2.2)), None), NotApplicable)
    assert isinstance(acc008.check(run(level(4, 8.0)), None), NotApplicable)
