"""The section *What if*: the few changes of the run that may well gain, as ranges; nothing where none does."""

from __future__ import annotations

from traceana.facts.whatif_model import Prediction
from traceana.report.page import Row, Section, Table
from traceana.report.text import LETTERS, figure, legend
from traceana.report.whatif_page import span_text
from traceana.report.whatif_report import WhatIfReport

_WEAKEST = list(LETTERS)


def whatif_section(report: WhatIfReport | None) -> Section | None:
    """The section; None where the report has none."""
    if report is None or report.base is None:
        return None
    base = report.base
    at = "the traced cycles" if base.running is None else f"{base.running} running"
    now = "" if base.tps is None else f", now {span_text(base.tps, 1)} tok/s"
    lead = f"at {at}{now} and {figure(base.cycle_ms)} ms per cycle; modelled: a run decides (traceana whatif)"
    known = [p for p in report.predictions if p.speedup is not None]
    rows = tuple(
        Row(p.change, (span_text(p.tps, 1), span_text(p.speedup, 2), span_text(p.cycle_ms, 1)), _letter(p))
        for p in known
    )
    without = tuple(f"no number for {p.change}: {p.reason}" for p in report.predictions if p.speedup is None)
    remark = legend(row.letter for row in rows)
    table = Table("change", ("tok/s", "against now", "cycle ms"), rows, (remark,))
    return Section("What if", lead=(lead, *without), tables=(table,) if rows else ())


def _letter(p: Prediction) -> str:
    """Modelled, or assumed where an input was."""
    words = ["modelled", *(i.provenance.value for i in p.inputs)]
    return LETTERS[max(words, key=_WEAKEST.index)]
