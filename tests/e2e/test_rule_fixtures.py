"""Every rule, from log lines or traces to the report: its fixture fires it, its healthy twin yields no finding."""

from pathlib import Path

import pytest

from traceana import api
from traceana.rules.registry import rules

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
CODES = [rule.code for rule in rules()]

#: findings that a fixture rightly raises beside its own: the same evidence seen from another side
COMPANIONS = {
    "CAP002": {"CAP001"},  # a retraction happens because the pool is full
    "CYC004": {"CYC002"},  # past the cliff the run is below break-even
    "ACC007": {"STB003"},  # the engine's own word on NaN is an error as well
    "ACC009": {"ACC003"},  # wrong sums show as low acceptance
    "COM009": {"COM006"},  # exchanges that stand alone are communication that takes a part of the cycle
}


def runs(kind: str) -> list[object]:
    """Each log of a fixture folder is a run of its own, `baseline.log` goes with the others; a folder `traces` is one."""
    return [
        pytest.param(code, given, id=f"{code}-{given.stem}")
        for code in CODES
        for given in sorted((*(FIXTURES / code / kind).glob("*.log"), *(FIXTURES / code / kind).glob("traces")))
        if given.name != "baseline.log"
    ]


def diagnose(given: Path) -> set[str]:
    baseline = given.with_name("baseline.log")
    result = api.diagnose([str(given)], [str(baseline)] if baseline.exists() else ())
    assert all(entry.unread == 0 for entry in result.inputs), [e.unread_example for e in result.inputs]
    return {finding.code for finding in result.findings}


@pytest.mark.parametrize(("code", "given"), runs("fires"))
def test_the_fixture_fires_its_rule_and_only_known_companions(code: str, given: Path) -> None:
    found = diagnose(given)
    assert code in found
    assert found - {code} <= COMPANIONS.get(code, set())


@pytest.mark.parametrize(("code", "given"), runs("healthy"))
def test_the_healthy_twin_yields_no_finding(code: str, given: Path) -> None:
    assert diagnose(given) == set()


def test_every_rule_has_both_fixtures() -> None:
    for kind in ("fires", "healthy"):
        assert {param.values[0] for param in runs(kind)} == set(CODES)
