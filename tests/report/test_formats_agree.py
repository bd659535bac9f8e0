"""The three formats show the same figures, the same sections, and survive what other tools do with them."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.report.examples import cliff, crash, healthy, level, ranks
from tests.report.hostile import ANY_TEXT, TEXTS, spoil
from traceana.errors import TraceanaError
from traceana.facts.model import Evidence
from traceana.report import jsonout
from traceana.report.diagnosis import AcceptanceReport, Diagnosis
from traceana.report.interface import FORMATS, render
from traceana.report.text import MAX_LEVELS, duration, figure, places, share, shown_levels, two
from traceana.report.walk import map_texts

#: label in the tables -> field of a level in the JSON, and how many decimals the tables show
ROWS = {
    "running": ("running", 0),
    "tok/s with": ("gen_tps", 1),
    "p10 of windows": ("gen_tps_low", 1),
    "p90 of windows": ("gen_tps_high", 1),
    "tok/s without": ("baseline_gen_tps", 1),
    "speed-up": ("speedup", 2),
    "accept length": ("accept_length", 2),
    "break-even length": ("break_even_accept_length", 2),
    "cycle ms": ("cycle_ms", 1),
    "step ms without": ("baseline_step_ms", 1),
    "tokens/forward": ("tokens_per_forward", 0),
    "steady windows": ("windows", 0),
}


def _terminal_rows(text: str) -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r" {2,4}(\S.*?) {2,}((?:[\d.,-]+ *)+)[mdMa]?", line)
        if match and match[1] in ROWS:
            rows.setdefault(match[1], []).extend(match[2].split())
    return rows


def _markdown_rows(text: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: [c for c in cells[1:] if re.fullmatch(r"[\d.,-]+", c)] for cells in lines if cells[0] in ROWS}


@pytest.mark.parametrize("width", [50, 80, 160])
def test_the_load_table_has_the_same_numbers_in_all_three_formats(width: int) -> None:
    document = json.loads(render(cliff(), "json"))
    expected = {
        label: [f"{row[name]:,.{decimals}f}" for row in document["levels"]] for label, (name, decimals) in ROWS.items()
    }
    assert _terminal_rows(render(cliff(), "terminal", width=width)) == expected
    assert _markdown_rows(render(cliff(), "markdown")) == expected


@pytest.mark.parametrize("example", [cliff, healthy, crash, ranks])
def test_terminal_and_markdown_have_the_same_sections_in_the_same_order(example: object) -> None:
    diagnosis: Diagnosis = example()  # type: ignore[operator]
    titles = re.findall(r"^#### (.*)$", render(diagnosis, "markdown"), re.MULTILINE)
    lines = render(diagnosis, "terminal", width=160).splitlines()
    assert [next(t for t in titles if line.startswith(t)) for line in lines if line.startswith(tuple(titles))] == titles


def test_json_is_json_for_everybody_and_comes_back_the_same() -> None:
    for example in (cliff(), healthy(), crash(), ranks()):
        text = render(example, "json")
        assert jsonout.decode(text) == example
        assert json.loads(text)["schema"] == "traceana/diagnosis/1"
    done = subprocess.run([sys.executable, "-m", "json.tool"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '\n  "run": {\n    "engine": "vllm"' in text


def test_what_is_not_known_is_null_in_json_and_a_dash_in_tables() -> None:
    holed = replace(level((4, 1.0, 1.0, 1.0, 2.5, 9.0, 2.0, 3.0)), gen_tps=math.nan, cycle_ms=math.inf, speedup=None)
    diagnosis = replace(cliff(), levels=(holed, cliff().levels[3]), acceptance=AcceptanceReport(math.nan))
    row = json.loads(render(diagnosis, "json"))["levels"][0]
    assert (row["gen_tps"], row["cycle_ms"], row["speedup"]) == (None, None, None)
    assert _terminal_rows(render(diagnosis, "terminal"))["tok/s with"] == ["-", "201.5"]
    for fmt in FORMATS:
        assert not re.search(r"\b(nan|inf|None|Infinity)\b", render(diagnosis, fmt), re.IGNORECASE)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "other/1"}', "\ud800", b"\xff\xfe"], ids=ascii)
def test_a_document_that_is_not_ours_is_refused_in_one_line(text: str | bytes) -> None:
    with pytest.raises(TraceanaError) as caught:
        jsonout.decode(text)
    assert "\n" not in caught.value.message
    assert "traceana/diagnosis/1" in caught.value.message


def test_a_document_of_a_later_schema_is_refused() -> None:
    later = render(cliff(), "json").replace("traceana/diagnosis/1", "traceana/diagnosis/2")
    with pytest.raises(TraceanaError, match="diagnosis/2"):
        jsonout.decode(later)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_any_text_survives_json_and_never_controls_a_terminal(texts: list[str]) -> None:
    spoilt = replace(spoil(cliff(), texts), schema="traceana/diagnosis/1", baseline=None)
    shown = render(spoilt, "json")
    whole = map_texts(spoilt, lambda _name, text: re.sub("[\ud800-\udfff]", "\ufffd", text))
    assert jsonout.decode(shown) == whole
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", shown)


def test_half_a_surrogate_does_not_break_json() -> None:
    diagnosis = replace(cliff(), verdict=replace(cliff().verdict, sentence="bad \ud800 byte"))
    assert json.loads(render(diagnosis, "json"))["verdict"]["sentence"] == "bad \ufffd byte"
    for fmt in FORMATS:
        render(diagnosis, fmt).encode()


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("redact", [True, False])
def test_every_hostile_text_can_be_drawn_in_every_format(fmt: str, redact: bool) -> None:
    for text in TEXTS:
        huge = len(text) > 10_000  # once is enough
        diagnosis = replace(cliff(), findings=spoil(cliff(), [text]).findings[:1]) if huge else spoil(cliff(), [text])
        assert render(diagnosis, fmt, redact=redact).endswith("\n")


def test_an_unknown_format_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(TraceanaError, match="terminal, markdown, json"):
        render(cliff(), "pdf")


def test_the_levels_that_tell_most_are_the_ones_shown() -> None:
    rows = [level((n, 100.0, 90.0, 110.0, 2.5, 20.0, 50.0 if n < 20 else 200.0, 10.0)) for n in range(1, 41)]
    rows[6] = replace(rows[6], note="a cliff")
    rows = [replace(row, windows=0 if row.running % 2 else 5) if row.running > 25 else row for row in rows]
    diagnosis = replace(cliff(), levels=tuple(reversed(rows)))
    shown = [row.running for row in shown_levels(diagnosis)]
    assert len(shown) == MAX_LEVELS
    assert shown == sorted(shown)
    # lowest, highest, the verdict's, the one with a note, and both sides of the turn from paying to losing
    assert {1, 40, 8, 7, 19, 20} <= set(shown)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0"), (0.84, "0.84"), (0.999, "1.0"), (61.7, "61.7"), (405.64, "405.6"), (999.96, "1,000"),
     (1262.4, "1,262"), (None, "-"), (math.nan, "-"), (-0.5, "-0.50")],
)  # fmt: skip
def test_figures_are_rounded_the_same_way_everywhere(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_units_and_places_read_as_people_write_them() -> None:
    assert (
        two(2.6),
        share(0.056),
        share(0.9),
        duration(42.0),
        duration(1622.0),
        duration(11_520.0),
        duration(354_240.0),
    ) == (
        "2.60",
        "5.6 %",
        "90 %",
        "42 s",
        "27 min",
        "3.2 h",
        "4.1 days",
    )
    evidence = [Evidence("a.log", 9, 19), Evidence("a.log", 22, 22), Evidence("b.log", 3), Evidence("c.log")]
    assert places(evidence) == "a.log:9-19, 22 · b.log:3 · c.log"
    assert places(evidence, limit=2) == "a.log:9-19, 22 · 2 more"
    assert places(evidence, limit=1) == "a.log:9-19 · 3 more"
    assert places([Evidence("a.log", n) for n in (4, 5, 6, 9)]) == "a.log:4-6, 9"
