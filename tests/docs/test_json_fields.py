"""docs/cli.md lists every field of the JSON documents, with its type, and none that is not there."""

import dataclasses
import types
import typing

import pytest

from tests.docs.pages import DOCS, rows, section
from traceana.environment.hooks import HooksReport
from traceana.environment.model import EnvReport
from traceana.facts.sweep_model import Sweep
from traceana.report.check_report import CheckReport
from traceana.report.compare_report import CompareReport
from traceana.report.diagnosis import Diagnosis

WORDS = {str: "text", int: "integer", float: "number", bool: "true/false"}


def classes(kind: type, seen: dict[str, type]) -> dict[str, type]:
    """The dataclass and every dataclass inside it, by name."""
    if kind.__name__ not in seen:
        seen[kind.__name__] = kind
        for hint in typing.get_type_hints(kind).values():
            for part in parts(hint):
                if dataclasses.is_dataclass(part):
                    classes(part, seen)
    return seen


def parts(hint: object) -> list[type]:
    inner = typing.get_args(hint)
    return [part for arg in inner for part in parts(arg)] if inner else [hint]


def word(hint: object) -> str:
    """The type as the page writes it."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (inner,) = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        return f"{word(inner)}?"
    if typing.get_origin(hint) is tuple:
        inner = word(typing.get_args(hint)[0])
        return f"list of {inner}s" if inner == "object" else f"list of {inner}"
    if typing.get_origin(hint) is dict:
        return "object"
    return WORDS.get(hint) or hint.__name__


DOCUMENTS = (Diagnosis, CompareReport, Sweep, CheckReport, EnvReport, HooksReport)
KINDS = {name: kind for document in DOCUMENTS for name, kind in classes(document, {}).items()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.__name__)
def test_every_field_is_documented_with_its_type(kind: type) -> None:
    table = rows(section(DOCS / "cli.md", f"### {kind.__name__}"))
    hints = typing.get_type_hints(kind)
    documented = [(row[0].strip("`"), row[1]) for row in table]
    assert documented == [(field.name, word(hints[field.name])) for field in dataclasses.fields(kind)]
    assert all(len(row) == 3 and row[2] for row in table)
