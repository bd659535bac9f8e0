"""`inputs.toml`: what a rule needs to see at the least, and how to capture it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from traceana.rules.interface import Rule
from traceana.toml_table import toml_table


@dataclass(frozen=True, slots=True)
class InputRow:
    """One kind of input: a short label, what it is in words, and how to get it."""

    key: str
    label: str
    words: str
    how: str
    rules: tuple[str, ...]


@cache
def input_rows() -> tuple[InputRow, ...]:
    """All kinds of input, in the order of the table."""
    table = toml_table("traceana.rules", "inputs.toml")["input"]
    return tuple(InputRow(r["key"], r["label"], r["words"], r["how"], tuple(r["rules"])) for r in table)


def inputs_of(rule: Rule) -> tuple[InputRow, ...]:
    """What the rule needs at the least; stats lines, or a trace, where no row names it."""
    named = tuple(row for row in input_rows() if rule.code in row.rules)
    usual = "trace" if rule.needs == "trace" else "stats"
    return named or tuple(row for row in input_rows() if row.key == usual)
