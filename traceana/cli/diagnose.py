"""`traceana diagnose`: why is this run slow. The command people need; the others are its parts."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from traceana.cli import output
from traceana.cli.options import (
    ColumnsOption,
    FormatOption,
    GpuOption,
    HiddenOption,
    LayersOption,
    OutputOption,
    RedactOption,
    ReportFormat,
    columns_of,
)
from traceana.errors import EXIT_FAILED_CHECK

if TYPE_CHECKING:
    from traceana.report.diagnosis import Diagnosis


class FailOn(str, Enum):
    """Severity from which `--fail-on` makes the exit code 1."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


_RANK = {"critical": 3, "warning": 2, "info": 1}


def diagnose(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Logs, traces, folders, globs, a store, or - for standard input."),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="The same load without speculation; give it again for more files."),
    ] = None,
    gpu: GpuOption = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    columns: ColumnsOption = None,
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
    redact: RedactOption = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit 1 when a finding is at least this severe (for scripts).")
    ] = None,
) -> None:
    """Say why a run is slow: where the cycle goes, what acceptance earns, which cause fits, what to change.

    Several files of one run go together (rotated logs, NCCL logs, traces, the config.json of target and drafter). Exit
    code 0 with or without findings, 2 when the input cannot be used.

    Example: traceana diagnose server.log --baseline plain.log --format markdown -o report.md
    """
    from traceana import api
    from traceana.report.interface import render

    result = api.diagnose(paths, baseline or (), columns_of(columns), api.Said(gpu, layers, hidden))
    output.inputs((*result.inputs, *(result.baseline.inputs if result.baseline else ())), out)
    width = output.width() if out is None else None
    output.write(render(result, output_format.value, redact=redact, width=width, color=output.color(out)), out)
    raise typer.Exit(_code(result, fail_on))


def _code(result: Diagnosis, fail_on: FailOn | None) -> int:
    if fail_on is None:
        return 0
    worst = max((_RANK[f.severity] for f in result.findings), default=0)
    return EXIT_FAILED_CHECK if worst >= _RANK[fail_on.value] else 0
