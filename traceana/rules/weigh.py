"""Weighs causes: for each symptom the causes that can produce it, for and against, sized against what is missing.

A cause *fits* when its rule found it, is *open* when the inputs do not show it, and is *ruled out* when its rule looked
and it is not there. Open causes come after those that fit. What is stated stays what the rules stated: weighing orders
and sizes, it never makes a cause surer than its rule did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from traceana.facts.model import Facts
from traceana.rules.causes import CauseRow, SymptomRow, cause_rows, settle_rows, symptom_rows
from traceana.rules.interface import CannotTell, Clear, Confidence, Explains, Finding, Outcome, Rule
from traceana.rules.sizes import sized

FITS, OPEN, RULED_OUT = "fits", "open", "ruled out"
_SURE = {Confidence.HIGH: 3, Confidence.MEDIUM: 2, Confidence.LOW: 1}
#: an open cause that cannot explain this share of what is missing is not worth a row (a choice, not calibrated)
_LEAST_SHARE = 0.05
#: causes at the top of the ranking for which an observation is looked for
_LEADERS = 2


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
    """The observation that separates the leading causes; what each outcome would mean, where that can be said."""

    between: tuple[str, ...]
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
    fitting = {c.code for c in found if c.standing == FITS}
    excluded = {code for cause in cause_rows() if cause.code in fitting for code in cause.excludes}
    later = {c.code for c in cause_rows() if c.background or fitting & set(c.seen_in)}
    ranked = sorted((c for c in found if c.code not in excluded), key=lambda c: _rank(c, c.code in later))
    live = [c for c in ranked if c.standing != RULED_OUT]
    settle = _settle([c for c in live if c.code not in later], by_code)
    return Weighed(row.key, row.title, missing, tuple(ranked), _unexplained(missing, ranked), settle)


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


def _rank(candidate: Candidate, later: bool) -> tuple[int, bool, float, float, str]:
    order = {FITS: 0, OPEN: 1, RULED_OUT: 2}[candidate.standing]
    sure = _SURE[Confidence(candidate.confidence)] if candidate.confidence else 0
    share = sum(candidate.share) / 2 if candidate.share is not None else 0.0
    return order, later, -sure, -share, candidate.code


def _unexplained(missing: Explains | None, ranked: Sequence[Candidate]) -> tuple[float, float] | None:
    """What of the missing time the fitting causes leave; None where nothing is known to be missing or none is sized."""
    sizes = [c.explains for c in ranked if c.standing == FITS and c.explains is not None]
    if missing is None or not sizes:
        return None
    # causes overlap: together they explain at least what the largest explains, at most the sum
    least, most = max(e.low_ms for e in sizes), sum(e.high_ms for e in sizes)
    return max(0.0, missing.low_ms - most), max(0.0, missing.high_ms - least)


def _settle(live: Sequence[Candidate], by_code: dict[str, tuple[Rule, Outcome]]) -> Settle | None:
    """The cheapest observation of the table that separates the leading cause from another that is still possible.

    Without such a row, what would answer most of the open ones at once. None where one cause is found for sure and
    nothing else fits: then nothing needs to be settled.
    """
    fitting = [c for c in live if c.standing == FITS]
    if not live or (len(fitting) == 1 and fitting[0].confidence == Confidence.HIGH.value):
        return None
    codes = {c.code for c in live}
    still_open = {c.code for c in live if c.standing == OPEN}
    for leader in live[:_LEADERS]:
        for row in settle_rows():
            useful = not row.answers or still_open & set(row.answers)
            if useful and leader.code in row.between and codes.issuperset(row.between):
                return Settle(row.between, row.look, row.how, row.outcomes)
    captures = Counter((o.reason, o.capture) for c in live if isinstance(o := by_code[c.code][1], CannotTell))
    if not captures:
        return None
    (reason, capture), _ = captures.most_common(1)[0]
    told = tuple(c.code for c in live if isinstance(o := by_code[c.code][1], CannotTell) and o.capture == capture)
    return Settle(told, reason, capture, ())
