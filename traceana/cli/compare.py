"""`traceana compare`: what changed between two or more runs, whether it is real, and what could explain it."""

from __future__ import annotations

from typing import Annotated

import typer

from traceana.cli import output
from traceana.cli.options import ColumnsOption, FormatOption, OutputOption, RedactOption, ReportFormat, columns_of
from traceana.cli.sides import runs_of, with_words
from traceana.errors import TraceanaError


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C...]",
            help="Set-ups to compare: a file, folder or store each; FILE+FILE is one run, RUN,RUN repeats of it, "
            "FILE#WORDS one series of a table.",
        ),
    ],
    predicted: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Predictions that `traceana whatif` stored as JSON for the first side."),
    ] = None,
    columns: ColumnsOption = None,
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
    redact: RedactOption = None,
) -> None:
    """Say what changed between runs: acceptance or the cycle, whether it is real or noise, and what could explain it.

    Every side is compared with the first one, load by load. Repeated runs make the answer sure.

    Example: traceana compare old.log+old.json new1.json,new2.json --format markdown -o post-mortem.md
    """
    from traceana import api_compare
    from traceana.report.compare_page import compose

    if len(sides) < 2:
        raise TraceanaError("give at least two sides to compare, e.g. traceana compare old.log new.log")
    parsed = [[[with_words(path) for path in run] for run in runs_of(side)] for side in sides]
    if predicted is not None:
        output.keep(predicted, out)
    found, reports = api_compare.compare(parsed, columns_of(columns), predicted)
    output.inputs(reports, out)
    output.document(found, compose, output_format.value, out, redact=redact)
