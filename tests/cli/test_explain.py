"""`traceana explain`: the catalogue on the terminal, as Markdown and as JSON."""

import json

import pytest
import typer
from typer.testing import CliRunner

from traceana.cli.explain import explain
from traceana.errors import TraceanaError
from traceana.rules.registry import HEADINGS, rules

app = typer.Typer()
app.command()(explain)
runner = CliRunner()


def said(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_without_a_code_every_rule_is_listed_once():
    lines = said().splitlines()
    for rule in rules():
        assert sum(line.startswith(rule.code) for line in lines) == 1
    assert "traceana explain CODE" in lines[-1]


def test_json_lists_all_rules_with_their_text_and_limits():
    listed = json.loads(said("--format", "json"))
    assert [item["code"] for item in listed] == [rule.code for rule in rules()]
    for item in listed:
        assert {"code", "name", "severity", "summary", "sections", "thresholds"} <= set(item)
        assert tuple(item["sections"]) == HEADINGS
    limits = next(item for item in listed if item["code"] == "COM004")["thresholds"]
    assert limits[0]["name"] == "slow_graph"
    assert limits[0]["source"]


@pytest.mark.parametrize("wanted", ["COM001", "com001", "custom-allreduce-refused-on-pcie"])
def test_one_rule_is_found_by_code_or_name(wanted):
    text = said(wanted)
    assert text.startswith("COM001 custom-allreduce-refused-on-pcie")
    for heading in HEADINGS:
        assert f"\n{heading}\n" in text


def test_one_rule_in_json_is_a_list_of_one():
    assert [item["code"] for item in json.loads(said("ENV001", "--format", "json"))] == ["ENV001"]


def test_markdown_has_headings_and_a_table_of_limits():
    page = said("STB001", "--format", "markdown")
    assert page.startswith("# STB001 graph-capture-never-ended")
    assert "\n## Why it matters\n" in page
    assert "| long_silence | 10 x |" in page
    assert "| COM001 | custom-allreduce-refused-on-pcie |" in said("--format", "markdown")


@pytest.mark.parametrize(
    ("wrong", "hint"), [("STB01", "STB001"), ("custom-allreduce-refused", "custom-allreduce-refused-on-pcie")]
)
def test_an_unknown_code_suggests_the_nearest(wrong, hint):
    with pytest.raises(TraceanaError, match=f"did you mean {hint}") as caught:
        explain(wrong)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message


def test_nonsense_is_sent_to_the_list():
    with pytest.raises(TraceanaError, match="lists all"):
        explain("Q")
