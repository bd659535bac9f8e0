"""What a renderer is, the table of formats, and the one entry point.

Adding a format: write one function with the signature of `Renderer`, and add one row to `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from traceana.errors import TraceanaError
from traceana.report.diagnosis import Diagnosis


class Renderer(Protocol):
    """Draws a Diagnosis, or what it says of traces. Pure: no files, no environment, no clock."""

    def __call__(self, diagnosis: Diagnosis, *, width: int | None, color: bool, redacted: bool) -> str:
        """The whole report, ending with a newline.

        `width` in columns (None: 80) and `color` matter to the terminal only. `redacted` says whether
        `diagnosis` went through the redactor, so that the report can say so.
        """


def _terminal() -> tuple[Renderer, Renderer]:
    from traceana.report import terminal

    return terminal.render, terminal.render_trace


def _markdown() -> tuple[Renderer, Renderer]:
    from traceana.report import markdown

    return markdown.render, markdown.render_trace


def _json() -> tuple[Renderer, Renderer]:
    from traceana.report import jsonout

    return jsonout.render, jsonout.render_trace


@dataclass(frozen=True, slots=True)
class Format:
    """One output format: how to load its renderers (all of it; traces alone), and whether it is redacted by default."""

    load: Callable[[], tuple[Renderer, Renderer]]
    redact: bool


#: Markdown is made to be shown to strangers, so it is redacted unless told not to.
FORMATS: dict[str, Format] = {
    "terminal": Format(_terminal, redact=False),
    "markdown": Format(_markdown, redact=True),
    "json": Format(_json, redact=False),
}


def render(
    diagnosis: Diagnosis,
    fmt: str,
    *,
    redact: bool | None = None,
    width: int | None = None,
    color: bool = False,
    traces_alone: bool = False,
) -> str:
    """The report of a Diagnosis as text, ending with a newline.

    Args:
        diagnosis: what to draw; it is not changed.
        fmt: a key of `FORMATS`.
        redact: True or False; None takes the format's default (markdown on, terminal and json off).
        width: columns of the terminal report; None means 80.
        color: ANSI colours in the terminal report. The caller looks at NO_COLOR and whether stdout is a terminal.
        traces_alone: only what the traces say (`traceana ledger`).

    Raises:
        TraceanaError: the format is not known.
    """
    if fmt not in FORMATS:
        raise TraceanaError(f"no format called {fmt!r}: use one of {', '.join(FORMATS)}")
    row = FORMATS[fmt]
    redacted = row.redact if redact is None else redact
    if redacted:
        from traceana.report.redact import Redactor

        diagnosis = Redactor().diagnosis(diagnosis)
    whole, traces = row.load()
    return (traces if traces_alone else whole)(diagnosis, width=width, color=color, redacted=redacted)
