"""`traceana ingest`: logs and traces to a store of Parquet tables."""

from __future__ import annotations

from typing import Annotated

import typer

from traceana.cli import output


def ingest(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Logs, traces, folders, globs, or - for standard input; one run."),
    ],
    out: Annotated[str, typer.Option("--out", metavar="STORE", help="Folder of the store; made when missing.")],
    run: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the run; else the first file's name and a hash.")
    ] = None,
) -> None:
    """Read the logs and traces of one run into a store: Parquet tables with documented columns (docs/tables.md).

    `traceana diagnose STORE` gives the same answer as the inputs did. The same inputs give the same run again; nothing
    is visible before it is complete, and inputs are never touched.

    Example: traceana ingest logs/ --out store && traceana diagnose store
    """
    from traceana import api
    from traceana.report.escape import one_line

    done = api.ingest(paths, out, run)
    said = [f"{done.folder}"]
    said += [f"  {name:<16} {count:>12,} rows" for name, count in done.rows.items() if count]
    for report in done.reports:
        lines = (
            f"{report.lines:,} lines, {report.recognised:,} recognised"
            if report.lines
            else f"{report.recognised:,} read"
        )
        counts = f"{lines}, {report.unread:,} unread"
        cut = f", {report.partial:,} cut off" if report.partial else ""
        said.append(f"  {one_line(report.path)}: {counts}{cut}")
        if report.problem:
            output.note(f"{report.path}: {report.problem}")
    output.write("\n".join(said), None)
