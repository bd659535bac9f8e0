"""Every form of a result reads its own example, and no form takes another's."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.parsers.bench.results import Got, Row, attrs, got
from traceana_parsers.bench.beside import MARKS
from traceana_parsers.bench.catalog import form_of, forms
from traceana_parsers.bench.form import JsonForm
from traceana_parsers.bench.text import TextBench
from traceana_parsers.interface import MemorySink
from traceana_parsers.logs.catalog import grammars
from traceana_parsers.schema import TABLES

FORMS = [form for form in forms() if isinstance(form, JsonForm)]
NAMES = [form.tool for form in FORMS]


def same(point: Row, form: JsonForm) -> None:
    for name, value in form.gives.items():
        assert point.get(name) == (pytest.approx(value) if isinstance(value, float) else value), name


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_a_form_reads_its_example(form: JsonForm, tmp_path: Path) -> None:
    read = got(tmp_path, form.example + "\n")
    point = read.point
    assert point["tool"] == read.report.format == form.tool
    same(point, form)
    assert "doubt" not in point
    assert (read.report.recognised, read.report.unread, read.report.problem) == (1, 0, None)


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_an_example_is_taken_by_its_own_form(form: JsonForm) -> None:
    taken = form_of(json.loads(form.example), forms())
    assert taken is form


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_fields_go_to_columns_that_exist(form: JsonForm) -> None:
    known = {column.name for column in TABLES["bench_points"]}
    assert {field.column for field in form.fields} <= known
    assert form.gives.keys() <= known
    assert form.source


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_an_example_over_many_lines_is_the_same(form: JsonForm, tmp_path: Path) -> None:
    text = json.dumps(json.loads(form.example), indent=2)
    same(got(tmp_path, text).point, form)


def test_files_of_several_tools_one_after_the_other(tmp_path: Path) -> None:
    read = got(tmp_path, "".join(form.example + "\n" for form in FORMS))
    assert [row["tool"] for row in read.rows()] == NAMES
    assert [row["line"] for row in read.rows()] == list(range(1, len(FORMS) + 1))


def test_the_place_of_every_point_is_its_line_and_byte(tmp_path: Path) -> None:
    text = FORMS[0].example + "\n\n" + FORMS[1].example + "\r\n" + FORMS[2].example
    read = got(tmp_path, text)
    data = text.encode()
    for row, form in zip(read.rows(), FORMS, strict=False):
        assert data[row["byte_offset"] :].startswith(form.example.encode())
        assert row["line"] == 1 + data[: row["byte_offset"]].count(b"\n")
    assert [b["byte_offset"] - a["byte_offset"] > 0 for a, b in pairwise(read.rows())]


def test_no_secret_of_a_client_is_kept(tmp_path: Path) -> None:
    form = next(form for form in FORMS if form.tool == "vllm_bench")
    text = form.example[:-1] + ', "api_key": "sk-1", "Authorization": "Bearer x", "hf_token_secret": "y", "tag": "a"}'
    kept = attrs(got(tmp_path, text).point)
    assert kept["tag"] == "a"
    assert "sk-1" not in str(kept)
    assert "Bearer" not in str(kept)
    assert not {"api_key", "Authorization", "hf_token_secret"} & kept.keys()


def test_marks_of_results_hide_no_log_line() -> None:
    """Marks and anchors are looked for in one pass that takes what begins first, so they must not overlap."""
    for mark in MARKS:
        assert mark == mark.rstrip()
        for anchor in grammars():
            assert anchor not in mark
            assert not any(mark.endswith(anchor[:length]) for length in range(3, len(anchor)))


def test_every_reader_of_text_is_looked_for() -> None:
    assert set(MARKS) == TextBench(MemorySink(), 0, {}).marks
    assert len(set(MARKS)) == len(MARKS)


def test_results_are_found_in_compressed_files(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "results.json.gz"
    path.write_bytes(gzip.compress(FORMS[0].example.encode()))
    assert Got(path).point["tool"] == FORMS[0].tool
