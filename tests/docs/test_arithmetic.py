"""The numbers on docs/arithmetic.md come out, and no formula is missing from it."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

from tests.docs.pages import DOCS, text_of
from traceana import speculation

MODULES = [
    importlib.import_module(f"traceana.speculation.{info.name}") for info in pkgutil.iter_modules(speculation.__path__)
]
FUNCTIONS = [
    name
    for module in MODULES
    for name, function in inspect.getmembers(module, inspect.isfunction)
    if function.__module__ == module.__name__ and "docs/arithmetic.md" in (function.__doc__ or "")
]


def test_every_example_gives_the_printed_number() -> None:
    result = doctest.testfile(str(DOCS / "arithmetic.md"), module_relative=False)
    assert result.failed == 0
    assert result.attempted >= 50


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_cites_the_page_is_on_it(name: str) -> None:
    assert name in text_of(DOCS / "arithmetic.md")


def test_some_functions_cite_it() -> None:
    assert len(FUNCTIONS) > 8
