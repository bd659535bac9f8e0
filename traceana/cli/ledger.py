"""`traceana ledger`: the cycle table of a run's traces, without the rest of the report."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from traceana.cli import output
from traceana.errors import TraceanaError


class LedgerFormat(str, Enum):
    """How the ledger is written."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


def ledger(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Traces of one run, folders, globs, or a store.")
    ],
    output_format: Annotated[
        LedgerFormat, typer.Option("--format", help="terminal, markdown (safe to paste) or json.")
    ] = LedgerFormat.TERMINAL,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the ledger to a file.")
    ] = None,
) -> None:
    """Print where each cycle's time goes, from profiler traces: by phase, rank and bucket.

    The same as what `traceana diagnose` says of the traces, without findings.

    Example: traceana ledger traces/
    """
    from traceana import api
    from traceana.report.interface import TRACE_FORMATS, render

    result = api.diagnose(paths)
    for entry in result.inputs:
        output.keep(entry.path, out)
        if entry.problem:
            output.note(f"{entry.path}: {entry.problem}")
    if result.trace is None:
        raise TraceanaError("none of the inputs is a profiler trace; give the traces of each rank, or their folder")
    width = output.width() if out is None else None
    color = output.color(out)
    output.write(render(result, output_format.value, width=width, color=color, formats=TRACE_FORMATS), out)
