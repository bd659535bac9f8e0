"""The section *Predicted*: stored predictions beside what a side measured, and whether the change was made at all."""

from __future__ import annotations

from traceana.facts.compare_model import PredictedSide
from traceana.facts.whatif_model import Score
from traceana.report.page import Row, Section, Table
from traceana.report.text import figure, span
from traceana.report.whatif_page import answer


def predicted_section(found: PredictedSide, named: bool) -> Section:
    """The section of one side; `named` where several sides are compared."""
    title = f"{found.side}: predicted" if named else "Predicted"
    start = span(figure(found.from_low_tps), figure(found.from_high_tps))
    lead = [f"at {found.running} running, from {start} tok/s; scored where the change was made"]
    rows = tuple(Row(score.change, _cells(score)) for score in found.scores)
    table = Table("change", ("tok/s predicted (M)", "measured (m)", "answer"), rows)
    lead += _whys(found.scores)
    return Section(title, lead=(*lead, *found.notes), tables=(table,) if rows else ())


def _cells(score: Score) -> tuple[str, ...]:
    predicted = span(figure(score.predicted_low_tps), figure(score.predicted_high_tps))
    return predicted, figure(score.measured_tps), answer(score)


def _whys(scores: tuple[Score, ...]) -> list[str]:
    """Why changes were not made, or nobody can tell: those with one reason together."""
    found: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        if score.made != "yes":
            found.setdefault((answer(score), score.why), []).append(score.change)
    return [f"{word} ({why}): {', '.join(changes)}" for (word, why), changes in found.items()]
