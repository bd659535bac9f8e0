"""What a reader of a GitHub issue sees, as a CommonMark parser with GFM tables reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.report.examples import CLIFF_FINDING, cliff, crash, healthy, ranks
from tests.report.golden import check_golden
from tests.report.hostile import ANY_TEXT, TEXTS, spoil
from traceana.facts.model import Evidence
from traceana.report.diagnosis import Diagnosis, NotChecked
from traceana.report.escape import code, markdown
from traceana.report.interface import render

GITHUB_LIMIT = 65_536
OURS = {"<details><summary>Evidence</summary>", "</details>"}


def _draw(diagnosis: Diagnosis, *, redact: bool = False) -> str:
    return render(diagnosis, "markdown", redact=redact)


def _tokens(text: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)


def _flat(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _flat(token.children or [])


def _assert_harmless(text: str) -> None:
    tokens = _tokens(text)
    for token in _flat(tokens):
        if token.type in ("html_block", "html_inline"):
            assert token.content.strip() in OURS, token.content
        assert token.type not in (
            "link_open",
            "image",
            "em_open",
            "s_open",
            "blockquote_open",
            "ordered_list_open",
            "hr",
        )
        assert token.type != "code_block"
        if token.type == "text":  # what GitHub looks through for mentions, references and addresses
            assert not re.search(
                r"@\w|#\w|://|(?i:www\.|\bgh-\d)|<|(?<!-)>|[$|]|:\w+:|\b[0-9a-f]{40}\b", token.content
            ), token.content
    blocks = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert blocks[0::2] == ["<details><summary>Evidence</summary>"] * (len(blocks) // 2)
    assert blocks[1::2] == ["</details>"] * (len(blocks) // 2)
    headings = [token.tag for token in tokens if token.type == "heading_open"]
    assert headings[:1] == ["h3"]
    assert set(headings[1:]) == {"h4"}
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["cliff", "healthy", "crash", "ranks"])
def test_the_report_looks_as_reviewed(name: str) -> None:
    example = {"cliff": cliff, "healthy": healthy, "crash": crash, "ranks": ranks}[name]()
    check_golden(f"{name}.md", render(example, "markdown"))


@pytest.mark.parametrize("example", [cliff, healthy, crash, ranks])
def test_our_own_reports_are_clean(example: object) -> None:
    _assert_harmless(_draw(example()))  # type: ignore[operator]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_hostile_text_is_neither_markup_nor_link_nor_mention(text: str) -> None:
    for example in (cliff(), crash(), ranks()):
        shown = _draw(spoil(example, [text]))
        _assert_harmless(shown)
        assert len(shown) <= GITHUB_LIMIT


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ANY_TEXT, min_size=1, max_size=5))
def test_no_text_in_any_field_becomes_markup(texts: list[str]) -> None:
    shown = _draw(spoil(cliff(), texts))
    _assert_harmless(shown)
    outside = re.sub(r"(?s)^(`{3,}).*?^\1$", "", shown, flags=re.MULTILINE)
    for tag in re.findall(r"<[^>\n]*>?", _without_spans(outside)):
        assert tag in ("<details>", "<summary>", "</summary>", "</details>")


def _without_spans(text: str) -> str:
    return re.sub(r"(?s)(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)


@settings(max_examples=200, deadline=None)
@given(ANY_TEXT)
def test_a_code_span_holds_exactly_its_text(text: str) -> None:
    line = re.sub(r"\s+", " ", "".join(c for c in text if c.isprintable())).strip()
    if line:
        (inline,) = [t for t in _tokens(f"see {code(line)} here") if t.type == "inline"]
        assert [t.content for t in inline.children or [] if t.type == "code_inline"] == [line]


def test_plain_prose_stays_readable() -> None:
    prose = "The cycle grows from 42.9 to 100.6 ms (2.3x), so the forward itself is at fault: 61.7 tok/s, 5 %."
    assert markdown(prose) == prose
    assert markdown("set num_draft_tokens, then NCCL_P2P_LEVEL=SYS (see #8393).") == (
        "set `num_draft_tokens`, then `NCCL_P2P_LEVEL=SYS` (see `#8393`)."
    )
    assert markdown("--tp 8 --host_name x") == "`--tp` 8 `--host_name` x"


@pytest.mark.parametrize("opening", ["-", "+", "1.", "2)", "---", "=="])
def test_a_text_that_opens_with_a_list_mark_stays_in_its_line(opening: str) -> None:
    (paragraph, inline, _) = _tokens(markdown(f"{opening} item"))
    assert paragraph.type == "paragraph_open"
    assert "".join(child.content for child in inline.children or []) == f"{opening} item"


def test_excerpts_are_folded_and_complete() -> None:
    shown = _draw(crash())
    assert "<details><summary>Evidence</summary>\n\n```text\nserver.log:301-318  torch.OutOfMemoryError" in shown
    assert "\n  at capture_model\n```\n\n</details>" in shown


def test_a_report_too_long_for_github_drops_excerpts_first_and_says_how_many() -> None:
    long = tuple(Evidence("a.log", n, text=f"line {n} " + "x" * 1900) for n in range(6))
    many = tuple(replace(CLIFF_FINDING, evidence=long) for _ in range(20))
    shown = _draw(replace(cliff(), findings=many))
    assert len(shown) <= GITHUB_LIMIT
    assert shown.count("**20. `CYC004`**") == 1  # every finding is still there
    left = re.search(r"Left out to fit into one comment: (\d+) log excerpts\.", shown)
    assert left is not None
    assert int(left[1]) == 120 - len(re.findall(r"^a\.log:\d  line", shown, re.MULTILINE))


def test_even_a_thousand_findings_fit_and_are_counted() -> None:
    many = tuple(replace(CLIFF_FINDING, why="w " * 3000, fix=("f " * 3000,) * 9) for _ in range(1000))
    rows = tuple(NotChecked(f"w{n}" * 50, "r" * 300, f"c{n}" * 300) for n in range(500))
    shown = _draw(replace(cliff(), findings=many, not_checked=rows))
    assert len(shown) <= GITHUB_LIMIT
    assert re.search(r"Left out to fit into one comment: .*\d+ findings\.", shown)
    _assert_harmless(shown)


def test_markdown_is_redacted_unless_told_not_to_and_says_so() -> None:
    private = replace(cliff(), inputs=(replace(cliff().inputs[0], path="/home/mallory/server.log"),))
    assert "mallory" not in render(private, "markdown")
    assert "Redacted by traceana" in render(private, "markdown")
    assert "/home/mallory/server.log" in _draw(private)
    assert "Redacted" not in _draw(private)
