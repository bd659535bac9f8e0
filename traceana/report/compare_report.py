"""The document of `traceana compare`: plain data, schema traceana/compare/1. Field names are the contract."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.compare_model import Comparison, PairComparison, SideInfo

SCHEMA = "traceana/compare/1"


@dataclass(frozen=True, slots=True)
class CompareReport:
    """Every side against the first one. Absent knowledge is null, never 0; texts from inputs are untrusted."""

    sides: tuple[SideInfo, ...]
    pairs: tuple[PairComparison, ...]
    schema: str = SCHEMA


def compare_report(found: Comparison) -> CompareReport:
    """The document of a comparison."""
    return CompareReport(found.sides, found.pairs)
