"""`traceana explain`: the catalogue on the terminal, as Markdown and as JSON."""

import json

import pytest
import typer
from typer.testing import CliRunner

from traceana.cli.explain import explain, find_rule
from traceana.errors import TraceanaError
from traceana.rules.inputs import input_rows, inputs_of
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
    ("wrong", "hint"), [("STB01", "STB001"), ("custom-allreduce-refused", "COM001 custom-allreduce-refused-on-pcie")]
)
def test_an_unknown_code_suggests_the_nearest(wrong, hint):
    with pytest.raises(TraceanaError, match=f"did you mean {hint}") as caught:
        explain(wrong)
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message


def test_several_codes_that_are_near_are_all_named():
    with pytest.raises(TraceanaError) as caught:
        find_rule("COM03")
    assert "COM003 p2p-not-used" in caught.value.message
    assert " or " in caught.value.message


def test_the_list_says_what_each_rule_needs_and_fits_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = said().splitlines()
    assert max(map(len, lines)) <= 80
    at = next(i for i, line in enumerate(lines) if line.startswith("COM003"))
    assert lines[at].split() == ["COM003", "p2p-not-used", "warning", "NCCL", "lines"]
    assert lines[at + 1].strip().startswith("GPUs of one node")


def test_one_rule_fits_80_columns_and_says_needs_rivals_and_releases(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = said("ACC010")
    assert max(map(len, text.splitlines())) <= 80
    for heading in ("Thresholds", "Needs at the least", "Can be the cause of", "Told from its rivals by"):
        assert f"\n{heading}\n" in text
    assert "fixed in 0.5.11" in text
    assert "Known from:" in text


def test_json_and_markdown_carry_the_same_tables():
    (item,) = json.loads(said("ACC010", "--format", "json"))
    assert item["needs"][0]["input"] == "stats"
    assert {row["fixed"] for row in item["releases"]} >= {"0.5.3", "0.5.11"}
    assert all(row["checked"] for row in item["releases"])
    assert [row["key"] for row in item["symptoms"]] == ["acceptance_too_low"]
    assert any("ACC008" in row["between"] for row in item["settle"])
    page = said("ACC010", "--format", "markdown")
    assert "\n## Known bugs that look like it\n" in page
    assert page.count("Known from:") == len(item["releases"])
    (none,) = json.loads(said("CYC001", "--format", "json"))
    assert none["releases"] == []


def test_inputs_name_rules_that_exist():
    codes = {rule.code for rule in rules()}
    for row in input_rows():
        assert set(row.rules) <= codes, row.key
    assert all(inputs_of(rule) for rule in rules())


def test_nonsense_is_sent_to_the_list():
    with pytest.raises(TraceanaError, match="lists all"):
        explain("Q")
