"""The templates of docs/add-a-benchmark.md read the results they are for."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import DOCS, template
from tests.parsers.bench.results import attrs, got
from traceana_parsers.bench import catalog, json_reader
from traceana_parsers.bench.form import Field, JsonForm, statistics
from traceana_parsers.schema import TABLES

PAGE = DOCS / "add-a-benchmark.md"


def defined(name: str) -> Any:
    """What the template defines."""
    found: dict[str, Any] = {"Field": Field, "JsonForm": JsonForm, "statistics": statistics}
    exec(template(PAGE, name), found)
    (value,) = (value for key, value in found.items() if key.isupper())
    return value


def known(monkeypatch: pytest.MonkeyPatch, *forms: JsonForm) -> None:
    monkeypatch.setattr(json_reader, "forms", lambda: (*forms, *catalog.forms()))


def test_the_new_form_reads_its_own_example_among_all_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    form = defined("form")
    known(monkeypatch, form)
    read = got(tmp_path, form.example)
    point = read.point
    assert {name: point[name] for name in form.gives} == form.gives
    assert attrs(point) == {"acme_version": "1.2", "seed": 7}  # what no field takes is kept
    assert (read.report.format, read.report.unread) == ("acme_bench", 0)


def test_without_the_form_the_file_is_not_known(tmp_path: Path) -> None:
    assert got(tmp_path, defined("form").example).rows() == []


def test_the_new_field_keeps_the_value_of_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    field = defined("field")
    assert field.column in {column.name for column in TABLES["bench_points"]}
    form = defined("form")
    old = replace(form, fields=tuple(f for f in form.fields if f.column != field.column))
    known(monkeypatch, old)
    assert field.column not in got(tmp_path, form.example).point
    known(monkeypatch, replace(old, fields=(*old.fields, field)))
    assert got(tmp_path, form.example).point[field.column] == 12.5


def test_the_modules_it_names_are_there() -> None:
    folder = Path(catalog.__file__).parent
    for name in (
        "vllm.py",
        "sglang.py",
        "clients.py",
        "matrix.py",
        "checks.py",
        "printed.py",
        "run_list.py",
        "text.py",
    ):
        assert f"`{name}`" in PAGE.read_text(encoding="utf-8")
        assert (folder / name).is_file()
