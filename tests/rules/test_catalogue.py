"""The catalogue as a whole: every rule is documented, its limits have sources, and it has its two fixtures."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

from traceana import rules as package
from traceana.rules import registry
from traceana.rules.interface import Rule, Severity

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"

#: rules whose fixtures are still to be written; this list may only shrink
WITHOUT_FIXTURES: frozenset[str] = frozenset()

ALL = registry.rules()


@pytest.fixture(params=ALL, ids=lambda rule: rule.code)
def rule(request):
    return request.param


def test_every_module_of_a_rule_is_found_once():
    modules = [info.name for info in pkgutil.iter_modules(package.__path__) if re.match(r"[a-z]{3}\d{3}_", info.name)]
    assert len(modules) == len(ALL)
    assert len({rule.code for rule in ALL}) == len(ALL)
    assert len({rule.name for rule in ALL}) == len(ALL)


def test_a_code_is_three_letters_and_three_digits_and_the_name_is_the_module(rule: Rule):
    assert re.fullmatch(r"[A-Z]{3}\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    module = rule.check.__module__.rsplit(".", 1)[-1]
    assert module == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
    assert importlib.import_module(rule.check.__module__).RULE is rule


def test_every_heading_is_there_in_order_and_has_text(rule: Rule):
    text = importlib.import_module(rule.check.__module__).__doc__
    places = [text.find(f"\n{heading}:\n") for heading in registry.HEADINGS]
    assert all(place > 0 for place in places), dict(zip(registry.HEADINGS, places, strict=True))
    assert places == sorted(places)
    doc = registry.doc(rule)
    assert tuple(doc.sections) == registry.HEADINGS
    assert all(len(section) > 10 for section in doc.sections.values())


def test_the_summary_is_one_sentence(rule: Rule):
    summary = registry.doc(rule).summary
    assert summary.endswith(".")
    assert 20 < len(summary) < 120


def test_no_section_runs_wide_or_swallows_a_heading(rule: Rule):
    for heading, body in registry.doc(rule).sections.items():
        assert all(len(line) <= 120 for line in body.splitlines()), heading
        assert not any(line.rstrip(":") in registry.HEADINGS and line.endswith(":") for line in body.splitlines())


def test_thresholds_say_where_they_come_from(rule: Rule):
    names = [threshold.name for threshold in rule.thresholds]
    assert len(set(names)) == len(names)
    for threshold in rule.thresholds:
        assert threshold.source.strip(), threshold
        assert threshold.meaning, threshold
        assert threshold.unit, threshold


def test_engines_and_severity_are_known_words(rule: Rule):
    assert set(rule.engines) <= {"sglang", "vllm", "trtllm", "llamacpp"}
    assert rule.engines
    assert rule.severity in Severity


@pytest.mark.parametrize("kind", ["fires", "healthy"])
def test_an_input_that_fires_it_and_a_healthy_twin_exist(rule: Rule, kind: str):
    pattern = "traces/*.json.gz" if rule.needs == "trace" else "*.log"
    given = list((FIXTURES / rule.code / kind).glob(pattern))
    if rule.code in WITHOUT_FIXTURES:
        assert not given, f"{rule.code} has its fixtures now: take it off the list"
    else:
        assert given, f"fixtures/rules/{rule.code}/{kind}/{pattern} is missing"
        assert all(path.stat().st_size > 0 for path in given)


def test_every_rule_says_what_stays_open_when_it_cannot_tell(rule: Rule):
    assert rule.asks.startswith(("whether ", "which "))
    assert not re.search(r"[A-Z]{3}\d{3}", rule.asks)
    assert rule.needs in ("log", "trace", "any")


def test_the_list_of_missing_fixtures_names_rules_only():
    assert {rule.code for rule in ALL} >= WITHOUT_FIXTURES


def test_fixtures_belong_to_rules():
    folders = {path.name for path in FIXTURES.iterdir() if path.is_dir()} if FIXTURES.is_dir() else set()
    assert folders <= {rule.code for rule in ALL}
