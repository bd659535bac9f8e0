"""Options that several commands have, each defined once."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer


class ReportFormat(str, Enum):
    """How a report is written."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


FormatOption = Annotated[ReportFormat, typer.Option("--format", help="terminal, markdown (safe to paste) or json.")]
OutputOption = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to a file.")]
RedactOption = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact", help="Hide addresses, names, tokens, prompts. On for markdown.", show_default=False
    ),
]
