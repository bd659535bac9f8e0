"""CYC009: on a mixture with few active experts each further draft token costs more than it earns."""

from dataclasses import replace

import pytest

from tests.rules.builders import drafting, fact, level
from tests.rules.node_builders import found
from traceana.facts.model import CycleFacts, CyclePart, Facts, Provenance
from traceana.rules import cyc009_cycle_grows_with_each_draft_token as cyc009
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable, Severity

SPARSE = "example-org/Larch-30B-A3B"


def run(k: int, cycle: float, tokens: float, model: str | None = SPARSE, running: int = 2, **more) -> Facts:
    facts = drafting(level(running, cycle, tokens, k), k=k, **more)
    return replace(facts, identity=replace(facts.identity, model=fact(model)))


def timed(facts: Facts, verify: float, batch: int = 2) -> Facts:
    return replace(facts, cycle=CycleFacts(parts=(CyclePart("verify", verify, Provenance.MEASURED),), batch=batch))


def test_more_drafts_that_bring_nothing_are_told_with_what_each_costs():
    finding = found(cyc009.check(run(3, 12.0, 2.2), run(1, 8.0, 1.7)))
    assert finding.severity is Severity.WARNING
    assert "With 3 draft tokens the cycle takes 12.0 ms, 8.00 ms with 1" in finding.title
    assert "25 % per draft token" in finding.title
    assert "about 10 % of its weights" in finding.why
    explains = finding.explains_ms_per_token
    assert explains is not None
    assert (explains.low_ms, explains.high_ms) == (0.0, pytest.approx(4.0 / 2.2))


def test_the_cycle_alone_gives_low_confidence_and_timers_of_the_verify_give_medium():
    more, fewer = run(3, 12.0, 2.2), run(1, 8.0, 1.7)
    alone = found(cyc009.check(more, fewer))
    assert alone.confidence is Confidence.LOW
    assert "the draft passes themselves" in alone.rivals
    known = found(cyc009.check(timed(more, 9.0), timed(fewer, 6.0)))
    assert known.confidence is Confidence.MEDIUM
    assert "the verify takes 9.00 ms, 6.00 ms with 1" in known.title
    assert known.explains_ms_per_token is not None
    assert known.explains_ms_per_token.low_ms == pytest.approx(3.0 / 2.2)


def test_a_verify_that_did_not_grow_is_not_the_cause():
    """The cycle grew, and the timers say that it was not the verify."""
    outcome = cyc009.check(timed(run(3, 12.0, 2.2), 6.1), timed(run(1, 8.0, 1.7), 6.0))
    assert isinstance(outcome, Clear)


def test_drafts_that_pay_are_left_alone():
    assert isinstance(cyc009.check(run(3, 10.0, 2.6), run(1, 8.0, 1.7)), Clear)
    assert isinstance(cyc009.check(run(3, 8.6, 1.7), run(1, 8.0, 1.7)), Clear), "4 % a token are a draft pass"


def test_it_is_a_question_for_mixtures_only():
    fewer = run(1, 8.0, 1.7)
    assert isinstance(cyc009.check(run(3, 12.0, 2.2, "example-org/Fern-8B"), fewer), NotApplicable)
    assert isinstance(cyc009.check(run(3, 12.0, 2.2, "example-org/Larch-30B-A24B"), fewer), NotApplicable)
    assert isinstance(cyc009.check(run(3, 12.0, 2.2, None), fewer), NotApplicable)


def test_one_number_of_drafts_cannot_tell_and_says_what_to_run():
    for baseline in (None, run(3, 12.0, 2.2)):
        outcome = cyc009.check(run(3, 12.0, 2.2), baseline)
        assert isinstance(outcome, CannotTell)
        assert "1 draft token" in outcome.capture


def test_loads_that_only_one_run_has_compare_nothing():
    assert isinstance(cyc009.check(run(3, 12.0, 2.2), run(1, 8.0, 1.7, running=4)), CannotTell)


def test_the_run_with_fewer_drafts_is_not_blamed():
    assert isinstance(cyc009.check(run(1, 8.0, 1.7), run(3, 12.0, 2.2)), NotApplicable)


def test_a_tree_is_another_rule_s():
    tree = run(3, 12.0, 2.2, speculation={"topk": fact(4)})
    assert isinstance(cyc009.check(tree, run(1, 8.0, 1.7)), NotApplicable)
