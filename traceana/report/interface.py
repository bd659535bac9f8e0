"""What a renderer is, the table of formats, and the one entry point.

Adding a format: write one function with the signature of `Renderer`, and add one row to `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from traceana.errors import TraceanaError
from traceana.report.diagnosis import Diagnosis


class Renderer(Protocol):
    """Draws a Diagnosis. Pure: no files, no environment, no clock."""

    def __call__(self, diagnosis: Diagnosis, *, width: int | None, color: bool, redacted: bool) -> str:
        """The whole report, ending with a newline.

        `width` in columns (None: 80) and `color` matter to the terminal only. `redacted` says whether
        `diagnosis` went through the redactor, so that the report can say so.
        """


def _terminal() -> Renderer:
    from traceana.report.terminal import render

    return render


def _markdown() -> Renderer:
    from traceana.report.markdown import render

    return render


def _json() -> Renderer:
    from traceana.report.jsonout import render

    return render


def _terminal_trace() -> Renderer:
    from traceana.report.terminal import render_trace

    return render_trace


def _markdown_trace() -> Renderer:
    from traceana.report.markdown import render_trace

    return render_trace


def _json_trace() -> Renderer:
    from traceana.report.jsonout import render_trace

    return render_trace


@dataclass(frozen=True, slots=True)
class Format:
    """One output format: how to load its renderer, and whether it is redacted unless told otherwise."""

    load: Callable[[], Renderer]
    redact: bool


#: Markdown is made to be shown to strangers, so it is redacted unless told not to.
FORMATS: dict[str, Format] = {
    "terminal": Format(_terminal, redact=False),
    "markdown": Format(_markdown, redact=True),
    "json": Format(_json, redact=False),
}
#: what the traces say alone (`traceana ledger`), in the same formats
TRACE_FORMATS: dict[str, Format] = {
    "terminal": Format(_terminal_trace, redact=False),
    "markdown": Format(_markdown_trace, redact=True),
    "json": Format(_json_trace, redact=False),
}


def render(
    diagnosis: Diagnosis,
    fmt: str,
    *,
    redact: bool | None = None,
    width: int | None = None,
    color: bool = False,
    formats: Mapping[str, Format] | None = None,
) -> str:
    """The report of a Diagnosis as text, ending with a newline.

    Args:
        diagnosis: what to draw; it is not changed.
        fmt: a key of `formats`.
        redact: True or False; None takes the format's default (markdown on, terminal and json off).
        width: columns of the terminal report; None means 80.
        color: ANSI colours in the terminal report. The caller looks at NO_COLOR and whether stdout is a terminal.
        formats: TRACE_FORMATS for what the traces say alone; None means `FORMATS`.

    Raises:
        TraceanaError: the format is not known.
    """
    formats = FORMATS if formats is None else formats
    if fmt not in formats:
        raise TraceanaError(f"no format called {fmt!r}: use one of {', '.join(formats)}")
    row = formats[fmt]
    redacted = row.redact if redact is None else redact
    if redacted:
        from traceana.report.redact import Redactor

        diagnosis = Redactor().diagnosis(diagnosis)
    return row.load()(diagnosis, width=width, color=color, redacted=redacted)
