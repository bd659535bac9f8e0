"""The section *What if*: the few changes of the run that may well gain, as ranges; nothing where none does."""

from __future__ import annotations

from traceana.report.page import Row, Section, Table
from traceana.report.text import figure, legend, weakest
from traceana.report.whatif_page import span_text
from traceana.report.whatif_report import WhatIfReport


def whatif_section(report: WhatIfReport | None) -> Section | None:
    """The section; None where the report has none."""
    if report is None or report.base is None:
        return None
    base = report.base
    now = "" if base.tps is None else f"{span_text(base.tps, 1)} tok/s and "
    at = "traced cycles" if base.running is None else f"at {base.running} running"
    lead = f"{at}, now {now}{figure(base.cycle_ms)} ms per cycle; modelled: a run decides (traceana whatif)"
    known = [p for p in report.predictions if p.speedup is not None]
    rows = tuple(
        Row(
            p.change,
            (span_text(p.tps, 1), span_text(p.speedup, 2), span_text(p.cycle_ms, 1)),
            weakest(["modelled", *(i.provenance for i in p.inputs)]),
        )
        for p in known
    )
    without = tuple(f"no number for {p.change}: {p.reason}" for p in report.predictions if p.speedup is None)
    remark = legend(row.letter for row in rows)
    table = Table("change", ("tok/s", "against now", "cycle ms"), rows, (remark,))
    return Section("What if", lead=(lead, *without), tables=(table,) if rows else ())
