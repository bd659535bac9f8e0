"""The sweep's page: every figure in every format, within the width, and nothing from an input acts as markup."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest
from rich.cells import cell_len

from tests.facts.bench_rows import points, table
from tests.report.hostile import TEXTS
from traceana.facts.model import Fact, Facts, Identity, InputFacts
from traceana.facts.sweep import sweep
from traceana.facts.sweep_model import Sweep
from traceana.report.documents import render_document
from traceana.report.sweep_page import compose
from traceana.report.walk import map_texts

_STEPS = {1: 59.0, 2: 92.0, 4: 164.0, 8: 252.0, 16: 429.0, 32: 318.0}
_SPEC = {1: 95.6, 2: 148.5, 4: 247.3, 8: 201.5, 16: 313.3, 32: 405.6}


def _facts(rows: list[dict[str, Any]], path: str) -> Facts:
    return Facts(
        inputs=(InputFacts(path, "bench", 10, 10, 0, 0),),
        identity=Identity(engine=Fact("vllm"), version=Fact("0.32.0")),
        points=points(rows),
    )


@cache
def example() -> Sweep:
    """A sweep over six loads with a cliff, a schedule and a queueing load."""
    spec = table("mtp on", True, _SPEC, k=3, accept_length_printed=2.6, accept_scope="run")
    queueing = {
        "tool": "vllm_bench", "series": "mtp on", "speculative": True, "concurrency": 64, "requests": 100, "k": 3,
        "output_tokens": 10000, "output_tps": 300.0, "tpot_mean_ms": 60.0, "ttft_mean_ms": 30000.0,
    }  # fmt: skip
    base = {**queueing, "series": "off", "speculative": False, "k": None, "output_tps": 420.0}
    return sweep(
        _facts([*spec, queueing], "/srv/alice/runs/spec.md"),
        _facts([*table("off", False, _STEPS), base], "/srv/alice/runs/base.md"),
    )


def plain() -> Sweep:
    return sweep(_facts(table("off", False, _STEPS), "base.md"))


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("make", [example, plain])
def test_no_line_is_wider_than_asked(width: int, make: Any) -> None:
    text = render_document(make(), compose, "terminal", width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "\x1b" not in text


def test_terminal_and_markdown_show_the_same_figures() -> None:
    pages = [render_document(example(), compose, fmt, redact=False) for fmt in ("terminal", "markdown")]
    for text in pages:
        for figure in ("95.6", "59.0", "1.62", "0.80", "loses", "queueing", "k=3"):
            assert figure in text, figure
    assert "| tok/s with | 95.6 | 148.5 |" in pages[1]


def test_the_setting_can_be_copied_from_markdown() -> None:
    text = render_document(example(), compose, "markdown")
    (code,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    assert json.loads("{" + code + "}")["num_speculative_tokens_per_batch_size"] == [[1, 4, 3], [5, 16, 0], [17, 32, 3]]


def test_json_has_the_schema_and_null_for_what_is_not_known() -> None:
    document = json.loads(render_document(example(), compose, "json"))
    assert document["schema"] == "traceana/sweep/1"
    first = document["blocks"][0]["levels"][0]
    assert first["ratio"]["value"] == pytest.approx(95.6 / 59.0)
    assert first["spec"]["ttft_ms"] is None
    assert first["spec"]["provenance"]["gen_tps"] == "measured"
    assert "ttft_ms" not in first["spec"]["provenance"]


def test_markdown_is_redacted_unless_told_otherwise() -> None:
    assert "alice" not in render_document(example(), compose, "markdown")
    assert "/srv/alice/runs/spec.md" in render_document(example(), compose, "markdown", redact=False)


def test_a_page_without_speculation_shows_what_a_drafter_needs() -> None:
    text = render_document(plain(), compose, "terminal", width=100)
    assert "Without a drafter" in text
    assert "k=3" in text
    assert "tok/s with" not in text


@pytest.mark.parametrize("text", TEXTS[:-3])
def test_hostile_texts_do_nothing_but_show(text: str) -> None:
    spoilt = map_texts(example(), lambda name, old: old if name in ("verdict", "basis", "schema") else text)
    drawn = render_document(spoilt, compose, "terminal", width=80)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", drawn)
    page = render_document(spoilt, compose, "markdown", redact=False)
    assert "<script" not in re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", page, flags=re.DOTALL)
    json.loads(render_document(spoilt, compose, "json"))


def test_many_loads_are_thinned_and_it_is_said() -> None:
    loads = range(1, 101)
    found = sweep(
        _facts(table("on", True, {c: 50.0 * c for c in loads}, k=3), "a.md"),
        _facts(table("off", False, {c: 30.0 * c for c in loads}), "b.md"),
    )
    text = render_document(found, compose, "terminal", width=160)
    assert "76 loads between these are not shown" in text
    assert len(json.loads(render_document(found, compose, "json"))["blocks"][0]["levels"]) == 100
