"""The templates of docs/add-a-log-line.md read the lines they are for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.docs.pages import DOCS, template
from traceana_parsers.interface import MemorySink
from traceana_parsers.logs import catalog, scan, sglang
from traceana_parsers.logs.grammar import Example, Field, PatternGrammar
from traceana_parsers.read import read_run
from traceana_parsers.schema import TABLES

PAGE = DOCS / "add-a-log-line.md"
NAMES = {"Example": Example, "Field": Field, "PatternGrammar": PatternGrammar}


def defined(name: str) -> dict[str, Any]:
    """What the template defines."""
    found: dict[str, Any] = dict(NAMES)
    exec(template(PAGE, name), found)
    return {key: value for key, value in found.items() if key.isupper()}


def read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, catalogue: dict[str, Any], text: str
) -> tuple[MemorySink, dict[str, Any]]:
    monkeypatch.setattr(scan, "grammars", lambda: catalogue)
    log = tmp_path / "server.log"
    log.write_text(text)
    sink = MemorySink()
    read_run([str(log)], sink)
    return sink, sink.tables["inputs"][0].row(0, named=True)


def test_the_new_grammar_reads_its_own_example_among_all_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (grammar,) = defined("grammar").values()
    assert grammar.anchor not in catalog.grammars()
    example = grammar.examples[0]
    sink, report = read(
        monkeypatch,
        tmp_path,
        {**catalog.grammars(), grammar.anchor: grammar},
        f"{example.line}\n{grammar.anchor}oops\n",
    )
    assert (report["recognised"], report["unread"], report["unread_line"]) == (1, 1, 2)
    row = pl.concat(sink.tables["events"]).row(0, named=True)
    attrs = pl.Series([row["attrs"]]).str.json_decode(pl.Struct({"before": pl.String, "after": pl.String}))[0]
    got = {**attrs, **{key: value for key, value in row.items() if value is not None}}
    assert row["kind"] == grammar.kind
    assert {key: got[key] for key in example.gives} == example.gives


def test_without_the_grammar_the_line_is_not_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (grammar,) = defined("grammar").values()
    _, report = read(monkeypatch, tmp_path, catalog.grammars(), grammar.examples[0].line + "\n")
    assert report["recognised"] == 0


def test_the_new_field_keeps_the_value_of_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (field,) = defined("field").values()
    assert field.column in {column.name for column in TABLES["decode_samples"]}
    line = f"[2026-02-03 09:15:20] Decode batch, #running-req: 4, {field.key}: 0.25, gen throughput (token/s): 402.11\n"
    before, report = read(monkeypatch, tmp_path, catalog.grammars(), line)
    assert report["unknown_keys"] == field.key
    assert before.tables["decode_samples"][0][field.column].item() is None
    decode = replace(sglang.DECODE, fields=(*sglang.DECODE.fields, field))
    after, report = read(monkeypatch, tmp_path, {**catalog.grammars(), decode.anchor: decode}, line)
    assert report["unknown_keys"] is None
    assert after.tables["decode_samples"][0][field.column].item() == 0.25
