"""The page of a comparison and of a check: figures, sums as printed, hostile texts."""

import json
import re
from dataclasses import replace
from decimal import Decimal

import pytest

from tests.facts.compare_builders import conditions, facts, point, run, side
from tests.report.hostile import TEXTS
from traceana.facts.check import check
from traceana.facts.compare import compare
from traceana.report.check import compose as compose_check
from traceana.report.check import junit
from traceana.report.check_report import check_report
from traceana.report.compare_page import compose
from traceana.report.compare_report import compare_report
from traceana.report.documents import render_document

SPREAD = (0.97, 1.0, 1.03, 0.99, 1.01, 1.02, 0.98)


def report(**settings: str):
    before = facts(
        point(92, cycle=22.2, e=2.05, spread=SPREAD),
        parts={"draft": 1.9, "verify": 19.05, "other": 1.2},
        settings={"a": "1"},
    )
    after = facts(
        point(58, cycle=33.1, e=1.92, spread=SPREAD),
        parts={"draft": 1.91, "verify": 29.97, "other": 1.2},
        settings={"a": "1", **settings},
    )
    sides = [side("A", run(before, conditions())), side("B", run(after, conditions()))]
    return compare_report(compare(sides), [(), ()])


def test_printed_parts_add_up_to_the_printed_times() -> None:
    text = render_document(report(), compose, "terminal", width=100)
    section = text.split("Time per token")[1].split("difference")[0]
    times = [Decimal(line.split()[-1]) for line in section.splitlines()[2:] if line.strip()]
    assert sum(times[:-1]) == times[-1]


def test_terminal_markdown_and_json_carry_the_same_figures() -> None:
    found = report()
    terminal = render_document(found, compose, "terminal", width=120)
    markdown = render_document(found, compose, "markdown")
    (level,) = json.loads(render_document(found, compose, "json"))["pairs"][0]["levels"]
    for number in (f"{level['factors']['cycle']:.2f}", f"{level['factors']['acceptance']:.2f}", "19.05", "29.97"):
        assert number in terminal
        assert number in markdown


@pytest.mark.parametrize("width", [40, 80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = render_document(report(moe_backend="x" * 300), compose, "terminal", width=width)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_of_inputs_stay_texts(text: str) -> None:
    found = report(moe_backend=text)
    found = replace(found, sides=tuple(replace(s, paths=((text,),), model=text, notes=(text,)) for s in found.sides))
    drawn = [render_document(found, compose, fmt) for fmt in ("terminal", "markdown", "json")]
    for shown in drawn:
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\u200b]", shown)
    json.loads(drawn[2])
    assert "<script" not in re.sub(r"`+[^`]*`+", "", drawn[1])


def test_several_sides_are_named_in_their_sections() -> None:
    sides = [side(name, run(facts(point(tps)), conditions())) for name, tps in (("A", 50), ("B", 60), ("C", 70))]
    text = render_document(compare_report(compare(sides), [(), (), ()]), compose, "terminal", width=100)
    assert "B against A: Loads" in text
    assert "C against A: Loads" in text


def test_junit_is_xml_whatever_the_names_are() -> None:
    import xml.etree.ElementTree as ET

    found = check_report(
        check(side("b", run(facts(point(50)))), side("n", run(facts(point(20)))), {}, None, "\x1b[31m<&>\x00")
    )
    found = replace(found, sentence="\x00<b>", notes=("]]>\x0b",))
    suite = ET.fromstring(junit(found))
    assert suite.get("tests") == str(len(found.lines))
    assert "\\x1b" in render_document(found, compose_check, "terminal")
