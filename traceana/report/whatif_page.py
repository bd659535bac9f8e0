"""A WhatIfReport as a page of blocks: predictions with their ranges, then what could not be predicted and why."""

from __future__ import annotations

from traceana.facts.whatif_choice import ADVICE
from traceana.facts.whatif_model import Prediction, Score, Scored
from traceana.report.page import Page, Row, Section, Table
from traceana.report.whatif_report import WhatIfReport
from traceana.speculation.whatif import Span

_SAME = 0.005  # printed with two decimals: a range narrower than this is one number


def compose(report: WhatIfReport) -> Page:
    """The page."""
    base = report.base
    numbers = [p for p in report.predictions if p.speedup is not None]
    without = [p for p in report.predictions if p.speedup is None]
    sections = []
    if numbers:
        rows = tuple(
            Row(
                p.change,
                (span_text(p.tps, 1), span_text(p.speedup, 2), span_text(p.accept_length, 2), span_text(p.cycle_ms, 1)),
                "M",
            )
            for p in numbers
        )
        table = Table("change", ("tok/s", "against now", "accept length", "cycle ms"), rows, ("M modelled",))
        sections.append(Section("Predicted", aside="ranges, low-high", tables=(table,)))
        sections.append(Section("From what", lead=tuple(_because(p) for p in numbers)))
    if without:
        sections.append(Section("No number", lead=tuple(f"{p.change}: {p.reason}" for p in without)))
    return Page(
        header=(f"What if · {base.source}" if base is not None else "What if",),
        below_header=(),
        verdict=_verdict(report, numbers),
        tone="unknown",
        verdict_figures=()
        if base is None
        else (
            f"now: cycle {base.cycle_ms:.1f} ms, {base.tokens_per_cycle:.2f} tokens per cycle"
            + ("" if base.tps is None else f", {span_text(base.tps, 1)} tok/s (p10-p90)"),
        ),
        sections=tuple(sections),
    )


def compose_scores(found: Scored) -> Page:
    """The page of stored predictions and what became of them."""
    sections = (Section("Predictions", lead=tuple(map(score_line, found.scores))),)
    told = sum(score.inside is not None for score in found.scores)
    inside = sum(score.inside is True for score in found.scores)
    verdict = f"{inside} of {told} predictions that can be scored hold." if told else "No prediction can be scored."
    return Page(("What if · scored",), (), verdict, "unknown", (), sections)


def answer(score: Score) -> str:
    """What became of a prediction: inside, below or above its range, not made, or not known to be made."""
    if score.inside is None:
        return "not made" if score.made == "no" else "made?"
    if score.inside:
        return "inside"
    return "below" if score.measured_tps < score.predicted_low_tps else "above"


def score_line(score: Score) -> str:
    """A prediction and what became of it in a sentence."""
    low, high = score.predicted_low_tps, score.predicted_high_tps
    found = answer(score)
    words = f"{found} the range" if found in ("below", "above") else found
    text = (
        f"{score.change}: predicted {span_text(Span(low, high), 1)} tok/s, measured {score.measured_tps:.1f}: {words}"
    )
    return text if score.made == "yes" else f"{text} ({score.why})"


def span_text(span: Span | None, digits: int) -> str:
    """A range, or one number where both ends read the same; `-` for none."""
    if span is None:
        return "-"
    if span.high - span.low < max(_SAME, 10**-digits / 2):
        return f"{span.high:.{digits}f}"
    return f"{span.low:.{digits}f}-{span.high:.{digits}f}"


def _because(p: Prediction) -> str:
    inputs = "; ".join(f"{i.name} {i.value} ({i.provenance.value})" for i in p.inputs)
    return f"{p.change}: " + " · ".join(text for text in (p.model, f"from {inputs}", *p.caveats) if text)


def _verdict(report: WhatIfReport, numbers: list[Prediction]) -> str:
    """The change whose worst case gains most, in a sentence; a range that includes no gain is not called a gain."""
    if report.base is None:
        return f"Nothing can be predicted: {report.reason}."
    # another drafter and another box are questions, not advice
    sure = [p for p in numbers if p.key in ADVICE and p.speedup is not None and p.speedup.low > 1]
    if not sure:
        return "No change looked at is sure to gain: each range includes no gain, or the inputs carry no number."
    best = max(sure, key=lambda p: p.speedup.low if p.speedup is not None else 0.0)
    gain = span_text(best.speedup, 2)
    return f"Gains over its whole range: {best.change}, {gain}x by the model. Nothing here was measured: a run decides."
