"""The sweep as text: terminal, Markdown or JSON."""

from __future__ import annotations

from traceana.facts.sweep_model import Sweep
from traceana.report.interface import FORMATS
from traceana.report.sweep_page import compose


def render(sweep: Sweep, fmt: str, *, redact: bool | None = None, width: int | None = None, color: bool = False) -> str:
    """The report as text, ending with a newline; the arguments are those of `interface.render`."""
    redacted = FORMATS[fmt].redact if redact is None else redact
    if redacted:
        from traceana.report.redact import Redactor

        sweep = Redactor().document(sweep)
    if fmt == "json":
        from traceana.report.jsonout import render_document

        return render_document(sweep)
    if fmt == "markdown":
        from traceana.report import markdown

        return markdown.render_page(compose(sweep), redacted=redacted)
    from traceana.report import terminal

    return terminal.render_page(compose(sweep), width=width, color=color, redacted=redacted)
