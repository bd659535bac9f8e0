"""What a user sees in a terminal or in a pipe."""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.report.examples import cliff, crash, healthy, ranks
from tests.report.golden import check_golden
from tests.report.hostile import ANY_TEXT, TEXTS, spoil
from traceana.report.diagnosis import Diagnosis
from traceana.report.escape import visible
from traceana.report.interface import render

EXAMPLES = {
    "cliff": cliff,
    "cliff_alone": lambda: cliff(paired=False),
    "healthy": healthy,
    "crash": crash,
    "ranks": ranks,
}


def _draw(diagnosis: Diagnosis, width: int = 80, *, color: bool = False) -> str:
    return render(diagnosis, "terminal", width=width, color=color)


def _harmful(text: str) -> set[str]:
    return {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_report_looks_as_reviewed(name: str, width: int) -> None:
    check_golden(f"{name}_{width}.txt", _draw(EXAMPLES[name](), width))


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160])
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_line_is_wider_than_the_terminal_and_none_ends_in_blanks(name: str, width: int) -> None:
    lines = _draw(EXAMPLES[name](), width).splitlines()
    assert [line for line in lines if cell_len(line) > width] == []
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_pipe_gets_no_escape_sequence_and_a_terminal_gets_the_same_text_in_colour() -> None:
    plain, colored = _draw(cliff()), _draw(cliff(), color=True)
    assert "\x1b" not in plain
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_the_environment_does_not_change_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = _draw(cliff())
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "50", "TERM": "dumb", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    assert _draw(cliff()) == plain
    assert "\x1b[" in _draw(cliff(), color=True)  # NO_COLOR is the caller's business


def test_the_answer_stands_in_the_first_lines() -> None:
    top = "\n".join(_draw(cliff()).splitlines()[:9])
    for words in ("vLLM 0.20.2rc1", "TP8", "k=3", "3 unread", "Verdict", "loses", "0.80x (0.78-0.83) at 8 running"):
        assert words in top.replace("\n         ", " ").replace("\nk=3", " k=3"), words


def test_a_healthy_run_says_so_and_what_was_looked_at() -> None:
    shown = _draw(healthy(), 160)
    assert "No findings. 7 rules looked and found nothing: acceptance 2 · capacity 1" in shown


def test_without_findings_and_without_any_rule_that_could_look_it_is_not_called_healthy() -> None:
    shown = _draw(replace(crash(), findings=(), clear=()), 160)
    assert "No findings. No rule could look: see Not checked." in shown


def test_a_crash_shows_the_start_up_stages_and_why_there_is_no_load_table() -> None:
    shown = _draw(crash())
    assert "Load levels  none: no stats line of the engine in the inputs" in shown
    assert "capture CUDA graphs           -     3" in shown
    waiting = replace(crash(), windows_total=12)
    assert "none of 12 windows is steady" in _draw(waiting)


def test_start_up_stages_are_left_out_when_they_are_not_the_story() -> None:
    assert "Start-up" not in _draw(replace(cliff(), startup=crash().startup))


def test_more_levels_than_fit_are_counted_and_the_table_is_split() -> None:
    shown = _draw(ranks(), 80)
    assert "12 of 20 levels shown" in shown
    assert shown.count("\n  running ") == 2
    assert _draw(ranks(), 160).count("\n  running ") == 1


def test_unread_lines_and_broken_files_are_named_with_an_example() -> None:
    shown = _draw(cliff())
    assert "bench.log: vllm, 412 lines, 118 recognised, 1 read in part, 3 unread" in shown
    assert "gzip stream ends early: kept 412 lines" in shown
    assert "unread, e.g. line 77: Decode batch? #running-req 8 throughput ---" in shown


def test_questions_with_one_cure_stand_together() -> None:
    shown = _draw(cliff(), 160)
    assert "nccl settings per rank (no NCCL_DEBUG lines) · p2p not used (no NCCL transport lines)" in shown
    assert shown.count("capture: NCCL_DEBUG=INFO") == 1


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_hostile_text_neither_moves_the_cursor_nor_sets_a_colour(text: str, color: bool) -> None:
    for example in (cliff(), crash(), ranks()):
        shown = _draw(spoil(example, [text]), color=color)
        if color:
            shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)  # our own colours
            assert "\x1b[31mred" not in shown
        assert _harmful(shown) == set()
        assert len(shown) < 400_000


def test_every_character_that_cannot_be_seen_is_written_out() -> None:
    hidden = [
        c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    assert [hex(ord(c)) for c in hidden if visible(c) == c] == []
    assert visible("naïve 宽 😀 é ½ ·") == "naïve 宽 😀 é ½ ·"


def test_hostile_text_is_shown_for_what_it_is() -> None:
    shown = _draw(spoil(cliff(), ["\x1b[31mred \u202egnp [bold]x[/bold]"]), 160)
    assert r"\x1b[31mred \u202egnp [bold]x[/bold]" in shown


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ANY_TEXT, min_size=1, max_size=5), st.sampled_from([40, 80, 160]))
def test_no_text_in_any_field_reaches_the_terminal_as_control(texts: list[str], width: int) -> None:
    for example in (cliff(), ranks()):
        shown = _draw(spoil(example, texts), width)
        assert _harmful(shown) == set()
        assert [line for line in shown.splitlines() if cell_len(line) > width] == []
