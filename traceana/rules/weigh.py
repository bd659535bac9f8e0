"""Weighs causes: for each symptom the causes that can produce it, for and against, sized against what is missing.

A cause *fits* when its rule found it, is *open* when the inputs do not show it, and is *ruled out* when its rule looked
and it is not there. Open causes come after those that fit. What is stated stays what the rules stated: weighing orders
and sizes, it never makes a cause surer than its rule did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceana.facts.model import Facts
from traceana.rules.causes import CauseRow, SettleRow, SymptomRow, cause_rows, settle_rows, symptom_rows
from traceana.rules.interface import CannotTell, Clear, Confidence, Explains, Finding, Outcome, Rule
from traceana.rules.sizes import sized

FITS, OPEN, RULED_OUT = "fits", "open", "ruled out"
_SURE = {Confidence.HIGH: 3, Confidence.MEDIUM: 2, Confidence.LOW: 1}
#: an open cause that cannot explain this share of what is missing is not worth a row (a choice, not calibrated)
_LEAST_SHARE = 0.05
#: causes at the top of the ranking among which an observation is looked for
_LEADERS = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cause of a symptom. `share`: of the missing time, low and high; None where either is not known."""

    code: str
    name: str
    standing: str  # fits | open | ruled out
    confidence: str | None  # of the finding; None when it did not fire
    explains: Explains | None  # ms per token
    share: tuple[float, float] | None
    note: str  # what speaks for it or against it, or what is missing


@dataclass(frozen=True, slots=True)
class Settle:
    """The observation that separates the leading two, and what each outcome would mean."""

    between: tuple[str, str]
    look: str
    how: str
    outcomes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Weighed:
    """A symptom with its candidates, most likely first. `missing`: the time per token that it costs."""

    symptom: str
    title: str
    missing: Explains | None
    candidates: tuple[Candidate, ...]
    unexplained: tuple[float, float] | None  # of the missing ms per token, beyond what the fitting causes explain
    settle: Settle | None


def weigh(facts: Facts, outcomes: Sequence[tuple[Rule, Outcome]]) -> tuple[Weighed, ...]:
    """Every symptom that the run shows, with its candidates. Empty for a healthy run."""
    by_code = {rule.code: (rule, outcome) for rule, outcome in outcomes}
    return tuple(found for row in symptom_rows() if (found := _symptom(row, facts, by_code)) is not None)


def _symptom(row: SymptomRow, facts: Facts, by_code: dict[str, tuple[Rule, Outcome]]) -> Weighed | None:
    shown = [o for code in row.shown_by if isinstance(o := by_code.get(code, (None, None))[1], Finding)]
    if not shown:
        return None
    missing = next((f.explains_ms_per_token for f in reversed(shown) if f.explains_ms_per_token is not None), None)
    found = [
        candidate
        for cause in cause_rows()
        if row.key in cause.symptoms and cause.code in by_code and cause.code not in row.shown_by
        if (candidate := _candidate(cause, facts, by_code[cause.code], missing)) is not None
    ]
    excluded = {
        code: cause.code
        for cause in cause_rows()
        for code in cause.excludes
        if any(c.code == cause.code and c.standing == FITS for c in found)
    }
    ranked = sorted((c for c in found if c.code not in excluded), key=_rank)
    live = [c for c in ranked if c.standing != RULED_OUT]
    return Weighed(row.key, row.title, missing, tuple(ranked), _unexplained(missing, ranked), _settle(live))


def _candidate(
    cause: CauseRow, facts: Facts, answer: tuple[Rule, Outcome], missing: Explains | None
) -> Candidate | None:
    rule, outcome = answer
    if cause.ranks and facts.parallelism.tp.value == 1:
        return None
    if isinstance(outcome, Finding):
        explains = outcome.explains_ms_per_token or sized(cause.size, facts)
        share = _share(explains, missing)
        return Candidate(rule.code, rule.name, FITS, outcome.confidence.value, explains, share, outcome.title)
    if isinstance(outcome, Clear):
        return Candidate(rule.code, rule.name, RULED_OUT, None, None, None, outcome.note)
    if isinstance(outcome, CannotTell):
        explains = sized(cause.size, facts)
        share = _share(explains, missing)
        if share is not None and share[1] < _LEAST_SHARE:
            return Candidate(rule.code, rule.name, RULED_OUT, None, explains, share, "too small to matter here")
        return Candidate(rule.code, rule.name, OPEN, None, explains, share, outcome.reason)
    return None


def _share(explains: Explains | None, missing: Explains | None) -> tuple[float, float] | None:
    if explains is None or missing is None or missing.high_ms <= 0:
        return None
    middle = (missing.low_ms + missing.high_ms) / 2
    low, high = (min(1.0, max(0.0, ms / middle)) for ms in (explains.low_ms, explains.high_ms))
    return low, high


def _rank(candidate: Candidate) -> tuple[int, float, float, str]:
    order = {FITS: 0, OPEN: 1, RULED_OUT: 2}[candidate.standing]
    sure = _SURE[Confidence(candidate.confidence)] if candidate.confidence else 0
    share = sum(candidate.share) / 2 if candidate.share is not None else 0.0
    return order, -sure, -share, candidate.code


def _unexplained(missing: Explains | None, ranked: Sequence[Candidate]) -> tuple[float, float] | None:
    """What of the missing time the fitting causes leave; None where nothing is known to be missing or none is sized."""
    sizes = [c.explains for c in ranked if c.standing == FITS and c.explains is not None]
    if missing is None or not sizes:
        return None
    # causes overlap: together they explain at least what the largest explains, at most the sum
    least, most = max(e.low_ms for e in sizes), sum(e.high_ms for e in sizes)
    return max(0.0, missing.low_ms - most), max(0.0, missing.high_ms - least)


def _settle(live: Sequence[Candidate]) -> Settle | None:
    """The first observation of the table that separates two of the leading causes, leaders first.

    None where one cause is found for sure and nothing else fits: then nothing needs to be settled.
    """
    fitting = [c for c in live if c.standing == FITS]
    if len(fitting) == 1 and fitting[0].confidence == Confidence.HIGH.value:
        return None
    codes = [c.code for c in live[:_LEADERS]]
    pairs = [(a, b) for j, b in enumerate(codes) for a in codes[:j]]
    for a, b in pairs:
        row: SettleRow | None = next((r for r in settle_rows() if set(r.between) == {a, b}), None)
        if row is not None:
            return Settle((a, b), row.look, row.how, row.outcomes)
    return None
