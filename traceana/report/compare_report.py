"""The document of `traceana compare`: plain data, schema traceana/compare/1. Field names are the contract."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from traceana.facts.compare_model import Comparison, PairComparison, PredictedSide, SideFinding, SideInfo
from traceana.rules.interface import Finding

SCHEMA = "traceana/compare/1"


@dataclass(frozen=True, slots=True)
class CompareReport:
    """Every side against the first one. Absent knowledge is null, never 0; texts from inputs are untrusted."""

    sides: tuple[SideInfo, ...]
    pairs: tuple[PairComparison, ...]
    predicted: tuple[PredictedSide, ...] = ()  # where predictions were given
    schema: str = SCHEMA


def compare_report(
    found: Comparison, findings: Sequence[Sequence[Finding]], predicted: Sequence[PredictedSide] = ()
) -> CompareReport:
    """The document of a comparison; `findings` are those of each side's first run."""
    sides = (replace(side, findings=tuple(map(_finding, own))) for side, own in zip(found.sides, findings, strict=True))
    return CompareReport(tuple(sides), found.pairs, tuple(predicted))


def _finding(found: Finding) -> SideFinding:
    return SideFinding(found.code, found.title, found.severity.value, found.confidence.value)
