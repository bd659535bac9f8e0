"""CYC008: a tree of drafts makes the verify of a large batch expensive."""

from tests.rules.builders import drafting, fact, level, run
from traceana.facts.model import Facts
from traceana.rules import cyc008_tree_too_wide_for_batch as cyc008
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Severity


def tree(*levels: tuple[int, float], topk: int | None = 8, width: int | None = 32) -> Facts:
    shape = {"topk": fact(topk), "num_steps": fact(4), "num_draft_tokens": fact(width), "k": fact(31)}
    return drafting(*(level(r, ms, 3.3, 31) for r, ms in levels), k=31, tokens=3.3, speculation=shape)


def test_a_cycle_that_grows_with_the_tree_is_told_with_its_share_per_token():
    finding = cyc008.check(tree((1, 16.0), (16, 33.0)), None)
    assert isinstance(finding, Finding)
    assert "512 tokens at 16 running requests" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.MEDIUM)
    assert finding.explains_ms_per_token is not None
    assert finding.explains_ms_per_token.low_ms == 0.0, "attention grows with the load as well"
    assert round(finding.explains_ms_per_token.high_ms, 2) == round((33.0 - 16.0) / 3.3, 2)


def test_one_load_alone_is_no_more_than_a_hint():
    finding = cyc008.check(tree((16, 33.0)), None)
    assert isinstance(finding, Finding)
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.LOW)
    assert finding.explains_ms_per_token is None


def test_a_wide_tree_that_costs_little_is_fine():
    assert isinstance(cyc008.check(tree((1, 16.0), (16, 19.0)), None), Clear)
    assert isinstance(cyc008.check(tree((1, 16.0), (4, 20.0)), None), Clear), "128 tokens are not too many"


def test_a_step_that_grows_alike_without_speculation_clears_the_tree():
    plain = run(level(1, 8.0), level(16, 16.0))
    assert isinstance(cyc008.check(tree((1, 16.0), (16, 33.0)), plain), Clear)
    flat = run(level(1, 8.0), level(16, 8.8))
    assert isinstance(cyc008.check(tree((1, 16.0), (16, 33.0)), flat), Finding)


def test_a_chain_is_not_asked_and_an_unknown_shape_cannot_tell():
    assert isinstance(cyc008.check(tree((16, 33.0), topk=1), None), NotApplicable)
    assert isinstance(cyc008.check(tree((16, 33.0), topk=None), None), CannotTell)
