"""Options that several commands have, each defined once."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from traceana.errors import TraceanaError


class ReportFormat(str, Enum):
    """How a report is written."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


FormatOption = Annotated[ReportFormat, typer.Option("--format", help="terminal, markdown (safe to paste) or json.")]
OutputOption = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")]
LayersOption = Annotated[int | None, typer.Option(min=1, max=10_000, help="Transformer layers of the model.")]
HiddenOption = Annotated[int | None, typer.Option(min=1, max=1 << 20, help="Hidden size of the model.")]
GpuOption = Annotated[str | None, typer.Option(help="GPU of the run, where the inputs do not name it.")]
RedactOption = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact", help="Hide addresses, names, tokens, prompts. On for markdown.", show_default=False
    ),
]
ColumnsOption = Annotated[
    list[str] | None,
    typer.Option(metavar="HEADING=COLUMN", help="What a table's heading means, where asked for; may be repeated."),
]


def columns_of(said: list[str] | None) -> dict[str, str]:
    """Heading -> column of `bench_points` from `HEADING=COLUMN`. TraceanaError for what is not of that form."""
    from traceana.api import columns_of_results

    known = columns_of_results()
    found = {}
    for text in said or ():
        heading, _, column = text.rpartition("=")
        if not heading.strip() or column.strip() not in known:
            raise TraceanaError(f"--columns is {text!r}: give HEADING=COLUMN, COLUMN as the question names it")
        found[heading.strip()] = column.strip()
    return found
