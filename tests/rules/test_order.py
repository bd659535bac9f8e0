"""The order in which findings are listed: what explains another finding comes before it."""

from __future__ import annotations

from itertools import permutations

import pytest

from traceana.facts.model import Provenance
from traceana.rules.interface import Confidence, Explains, Finding, Severity
from traceana.rules.order import ordered
from traceana.rules.registry import rules

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
RULES = {rule.code: rule for rule in rules()}


def finding(
    code: str, severity: Severity = WARNING, confidence: Confidence = HIGH, up_to_ms: float | None = None
) -> Finding:
    part = None if up_to_ms is None else Explains(0.0, up_to_ms, Provenance.DERIVED, "a test")
    return Finding(code, code, severity, confidence, "why", ("fix",), (), explains_ms_per_token=part)


def order(*findings: Finding) -> list[str]:
    found = [[f.code for _, f in ordered([(RULES[f.code], f) for f in some])] for some in permutations(findings)]
    assert all(codes == found[0] for codes in found), "the order does not depend on how the rules are called"
    return found[0]


def test_severity_time_and_confidence_decide_among_findings_that_do_not_explain_each_other() -> None:
    found = order(
        finding("BEN001", INFO), finding("GRF001", up_to_ms=2.0), finding("CAP001"), finding("CFG002", CRITICAL)
    )
    assert found == ["CFG002", "GRF001", "CAP001", "BEN001"]


def test_what_holds_on_every_pcie_box_comes_after_what_is_special_to_this_run() -> None:
    refused = finding("COM001", up_to_ms=30.0)
    assert order(refused, finding("COM003", confidence=MEDIUM)) == ["COM003", "COM001"]
    assert order(refused, finding("ENV001", INFO)) == ["ENV001", "COM001"]
    assert order(refused, finding("CAP001")) == ["COM001", "CAP001"]


def test_a_loss_comes_after_what_causes_it() -> None:
    loss = finding("CYC002", CRITICAL, up_to_ms=9.0)
    assert order(loss, finding("GRF001", confidence=MEDIUM)) == ["GRF001", "CYC002"]
    assert order(loss, finding("ACC003"), finding("ACC006", confidence=MEDIUM)) == ["ACC006", "ACC003", "CYC002"]


@pytest.mark.parametrize("weak", [finding("CYC004", WARNING, LOW), finding("ACC004", INFO)])
def test_neither_a_guess_nor_a_detail_displaces_a_measured_loss(weak: Finding) -> None:
    assert order(finding("CYC002", CRITICAL), weak) == ["CYC002", weak.code]


def test_a_throughput_that_swings_comes_before_the_cycle_that_swings_with_it() -> None:
    assert order(finding("CYC001", confidence=MEDIUM, up_to_ms=3.8), finding("STB004", confidence=MEDIUM)) == [
        "STB004",
        "CYC001",
    ]


def test_a_wrong_flag_comes_before_the_dead_head_it_makes() -> None:
    assert order(finding("ACC001", CRITICAL, MEDIUM), finding("ACC002", CRITICAL)) == ["ACC001", "ACC002"]
