"""`traceana ledger`: the cycle table of a run's traces, without the rest of the report."""

from __future__ import annotations

from typing import Annotated

import typer

from traceana.cli import output
from traceana.cli.options import FormatOption, OutputOption, ReportFormat
from traceana.errors import TraceanaError


def ledger(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Traces of one run, folders, globs, or a store.")
    ],
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
) -> None:
    """Print where each cycle's time goes, from profiler traces: by phase, rank and bucket.

    The same as what `traceana diagnose` says of the traces, without findings.

    Example: traceana ledger traces/
    """
    from traceana import api
    from traceana.report.interface import TRACE_FORMATS, render

    result = api.diagnose(paths)
    output.inputs(result.inputs, out)
    if result.trace is None:
        raise TraceanaError("none of the inputs is a profiler trace; give the traces of each rank, or their folder")
    width = output.width() if out is None else None
    color = output.color(out)
    output.write(render(result, output_format.value, width=width, color=color, formats=TRACE_FORMATS), out)
