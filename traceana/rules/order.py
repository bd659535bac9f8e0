"""The order of findings, which is what a user acts on: the only place that decides it.

Most severe first, then by the time they can explain, then by confidence; and a finding comes after what explains it:

- a symptom (`shown_by` in causes.toml) after the causes of it that are stated with medium confidence or more and are
  worth acting on (no info), and after a finding that puts the measurement itself in doubt (`doubted_by`);
- what holds for a run without speculation as well (`background`) after a specific cause of the same symptom;
- a finding that shows a cause from another side (`seen_in`), or is excluded by it (`excludes`), after that cause.

A guess displaces nothing: low confidence never puts a finding before one that it would explain.
"""

from __future__ import annotations

from traceana.rules.causes import cause_rows, symptom_rows
from traceana.rules.interface import Confidence, Finding, Rule, Severity

_SEVERITY = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_CONFIDENCE = {Confidence.HIGH: 0, Confidence.MEDIUM: 1, Confidence.LOW: 2}


def ordered(findings: list[tuple[Rule, Finding]]) -> list[tuple[Rule, Finding]]:
    """The findings as they are listed: see the module's text."""
    waiting = sorted(findings, key=lambda item: _key(item[1]))
    found: list[tuple[Rule, Finding]] = []
    while waiting:
        # a table in which two findings explain each other would leave none: then the first
        free = next((item for item in waiting if not _waits(item, waiting)), waiting[0])
        waiting.remove(free)
        found.append(free)
    return found


def _key(finding: Finding) -> tuple[float, ...]:
    part = finding.explains_ms_per_token or finding.explains_ms_per_cycle
    return _SEVERITY[finding.severity], -(part.high_ms if part else 0.0), _CONFIDENCE[finding.confidence]


def _waits(item: tuple[Rule, Finding], others: list[tuple[Rule, Finding]]) -> bool:
    return any(_explains(other, item[1].code) for _, other in others if other.code != item[1].code)


def _explains(earlier: Finding, later: str) -> bool:
    """Whether one finding explains another, and so comes before it."""
    if earlier.confidence is Confidence.LOW:
        return False
    causes = {row.code: row for row in cause_rows()}
    cause, other = causes.get(earlier.code), causes.get(later)
    if any(later in row.shown_by and earlier.code in row.doubted_by for row in symptom_rows()):
        return True
    if cause is None or cause.background:
        return False
    if earlier.severity is not Severity.INFO:
        shown = {row.key for row in symptom_rows() if later in row.shown_by}
        if shown & set(cause.symptoms):
            return True
    if later in cause.excludes:
        return True
    return other is not None and (
        earlier.code in other.seen_in or (other.background and bool(set(cause.symptoms) & set(other.symptoms)))
    )
