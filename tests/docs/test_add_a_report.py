"""The templates of docs/add-a-report.md make a format that renders, escapes and redacts."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest

from tests.docs.pages import DOCS, ROOT, template
from tests.report.hostile import TEXTS
from traceana import api
from traceana.cli.options import ReportFormat
from traceana.report import interface
from traceana.report.diagnosis import Diagnosis

PAGE = DOCS / "add-a-report.md"
DEMO = ROOT / "fixtures" / "demo"


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's format, in the table for the length of a test."""
    module = ModuleType("traceana.report.brief")
    exec(template(PAGE, "renderer"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(interface, "FORMATS", dict(interface.FORMATS))
    exec(template(PAGE, "format"), interface.__dict__ | {"FORMATS": interface.FORMATS})


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return api.diagnose([str(DEMO / "server.log")], [str(DEMO / "plain.log")])


@pytest.mark.usefixtures("brief")
def test_the_new_format_says_the_verdict_and_the_findings(diagnosis: Diagnosis) -> None:
    lines = interface.render(diagnosis, "brief").splitlines()
    assert lines[0] == diagnosis.verdict.sentence
    assert [line.split()[0] for line in lines[1:]] == [finding.code for finding in diagnosis.findings]


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_inputs_cannot_break_a_line_of_it(diagnosis: Diagnosis, text: str) -> None:
    spoilt = replace(diagnosis, findings=(replace(diagnosis.findings[0], title=text),))
    shown = interface.render(spoilt, "brief", redact=False)
    assert len(shown.splitlines()) == 2
    assert "\x1b" not in shown


@pytest.mark.usefixtures("brief")
def test_it_is_redacted_unless_told_otherwise(diagnosis: Diagnosis) -> None:
    named = replace(diagnosis, findings=(replace(diagnosis.findings[0], title="seen from 10.20.30.40"),))
    assert "10.20.30.40" not in interface.render(named, "brief")
    assert "10.20.30.40" in interface.render(named, "brief", redact=False)


def test_the_command_line_offers_every_format_there_is() -> None:
    assert {item.value for item in ReportFormat} == set(interface.FORMATS)
