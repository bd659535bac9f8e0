"""STB007: vLLM waits for a worker and says no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rules.builders import at, setting
from tests.rules.node_builders import found, incident, node, served
from traceana.facts.model import Settings, Stall
from traceana.rules import stb007_worker_does_not_answer as stb007
from traceana.rules.interface import Clear, Confidence, NotApplicable, Severity


def _facts(waited: float = 300.0, after: bool = False, **more: object):
    facts = node(stall=Stall(waited, 2, after, (at(9),)), **more)
    return replace(facts, identity=replace(facts.identity, engine=replace(facts.identity.engine, value="vllm")))


def test_an_excerpt_of_waits_is_told_with_low_confidence():
    finding = found(stb007.check(_facts(), None))
    assert "stood still for 5 min" in finding.title
    assert finding.confidence is Confidence.LOW
    assert any("idle" in rival for rival in finding.rivals)


def test_a_server_that_served_and_then_stood_still_hangs():
    finding = found(stb007.check(_facts(windows=served()), None))
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.MEDIUM)


def test_a_server_that_went_on_is_a_warning():
    finding = found(stb007.check(_facts(after=True, windows=served()), None))
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)


@pytest.mark.parametrize(
    "facts",
    [
        _facts(waited=120.0, windows=served()),
        _facts(windows=served(), incidents=(incident("exception", "TimeoutError: RPC call to x timed out."),)),
    ],
)
def test_two_minutes_are_no_hang_and_an_error_tells_more(facts):
    assert isinstance(stb007.check(facts, None), Clear)


def test_a_start_is_left_to_the_rule_for_starts():
    facts = replace(_facts(), settings=Settings((setting("tensor_parallel_size", 2),)))
    assert isinstance(stb007.check(facts, None), NotApplicable)
