"""The document of `traceana check`: plain data, schema traceana/check/1. Field names are the contract."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.errors import EXIT_FAILED_CHECK, EXIT_INCONCLUSIVE, EXIT_OK
from traceana.facts.check_model import Check, CheckLine

SCHEMA = "traceana/check/1"
EXIT_CODES = {
    "pass": EXIT_OK,
    "first": EXIT_OK,
    "regression": EXIT_FAILED_CHECK,
    "inconclusive": EXIT_INCONCLUSIVE,
}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """One check. Absent knowledge is null, never 0; texts from inputs are untrusted."""

    result: str
    exit_code: int
    sentence: str
    lines: tuple[CheckLine, ...]
    path: str  # the baseline
    baseline_runs: int
    paths: tuple[tuple[str, ...], ...]  # the inputs of each new run
    unfair: tuple[str, ...]
    notes: tuple[str, ...]
    recorded: tuple[str, ...]
    schema: str = SCHEMA


def check_report(found: Check) -> CheckReport:
    """The document of a check."""
    return CheckReport(
        result=found.result,
        exit_code=EXIT_CODES[found.result],
        sentence=found.sentence,
        lines=found.lines,
        path=found.baseline,
        baseline_runs=found.baseline_runs,
        paths=found.new,
        unfair=found.unfair,
        notes=found.notes,
        recorded=found.recorded,
    )
