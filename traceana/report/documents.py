"""Any document of plain data as text: JSON as it is, terminal and Markdown by the page it is composed to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from traceana.report.interface import FORMATS
from traceana.report.page import Page

T = TypeVar("T")


def render_document(
    document: T,
    compose: Callable[[T], Page],
    fmt: str,
    *,
    redact: bool | None = None,
    width: int | None = None,
    color: bool = False,
) -> str:
    """The document as text, ending with a newline.

    Args:
        document: a dataclass of plain data; it is not changed.
        compose: the document's page.
        fmt: `terminal`, `markdown` or `json`.
        redact: True or False; None takes the format's default.
        width: columns of the terminal report; None means 80.
        color: ANSI colours in the terminal report.
    """
    redacted = FORMATS[fmt].redact if redact is None else redact
    if redacted:
        from traceana.report.redact import Redactor

        document = Redactor().document(document)
    if fmt == "json":
        from traceana.report import jsonout

        return jsonout.render_document(document)
    if fmt == "markdown":
        from traceana.report import markdown

        return markdown.render_page(compose(document), redacted=redacted)
    from traceana.report import terminal

    return terminal.render_page(compose(document), width=width, color=color, redacted=redacted)
