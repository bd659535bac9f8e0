"""Floors as text: terminal, Markdown or JSON."""

from __future__ import annotations

from traceana.report.floor_page import compose
from traceana.report.floor_report import FloorReport
from traceana.report.interface import FORMATS


def render(
    report: FloorReport, fmt: str, *, redact: bool | None = None, width: int | None = None, color: bool = False
) -> str:
    """The report as text, ending with a newline; the arguments are those of `interface.render`."""
    redacted = FORMATS[fmt].redact if redact is None else redact
    if redacted:
        from traceana.report.redact import Redactor

        report = Redactor().document(report)
    if fmt == "json":
        from traceana.report.jsonout import render_document

        return render_document(report)
    if fmt == "markdown":
        from traceana.report import markdown

        return markdown.render_page(compose(report), redacted=redacted)
    from traceana.report import terminal

    return terminal.render_page(compose(report), width=width, color=color, redacted=redacted)
