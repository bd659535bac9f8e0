"""`traceana sweep`: speculation against none over the load, from benchmark results and logs."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperCommand

from traceana.cli import output
from traceana.cli.options import ColumnsOption, FormatOption, OutputOption, RedactOption, ReportFormat, columns_of

_BASELINE = "--baseline"


class BaselineTakesMany(TyperCommand):
    """`--baseline` takes all paths that follow it, as a glob that the shell expands gives them."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """The usual parsing, with `--baseline` before each of its paths."""
        return super().parse_args(ctx, self.spread(args))

    def spread(self, args: list[str]) -> list[str]:
        """Arguments with the option before each of its paths; as they are where no path would be left for SPEC."""
        flags = {name for p in self.params if getattr(p, "is_flag", False) for name in (*p.opts, *p.secondary_opts)}
        out: list[str] = []
        own_paths, taking = 0, False
        rest = iter(args)
        for arg in rest:
            if arg == _BASELINE:
                taking = True
            elif arg.startswith("-") and arg != "-":
                taking = False
                out.append(arg)
                if arg not in flags and "=" not in arg:
                    out += [value for value in (next(rest, None),) if value is not None]
            elif taking:
                out += [_BASELINE, arg]
            else:
                own_paths += 1
                out.append(arg)
        return out if own_paths and _BASELINE not in (args[-1:] or [""]) else args


def sweep(
    spec: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC...",
            help="With speculation: benchmark results, tables, server logs. One file may hold both sides.",
        ),
    ],
    baseline: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH...", help="The same loads without speculation: all paths that follow."),
    ] = None,
    series: Annotated[
        str | None, typer.Option(metavar="NAME", help="Series with speculation, where a file holds several.")
    ] = None,
    baseline_series: Annotated[
        str | None, typer.Option(metavar="NAME", help="Series without speculation, where a file holds several.")
    ] = None,
    columns: ColumnsOption = None,
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
    redact: RedactOption = None,
) -> None:
    """Say at which loads speculation pays, where it stops, how sure that is, and what to set.

    A sweep without speculation alone tells which accept length a drafter would need.

    Example: traceana sweep eagle_c*.json --baseline plain_c*.json
    """
    from traceana import api_sweep
    from traceana.report.sweep_page import compose

    found = api_sweep.sweep(
        spec, baseline or (), series=series, baseline_series=baseline_series, columns=columns_of(columns)
    )
    output.inputs([entry for who in (found.spec, found.baseline) if who is not None for entry in who.inputs], out)
    output.document(found, compose, output_format.value, out, redact=redact)
