"""`traceana instrument`: what of an installed engine can be timed, and a folder with the timers for an image."""

from __future__ import annotations

import re
import sysconfig
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from traceana.cli import output
from traceana.errors import TraceanaError

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="The timers of a live server: what of an installed engine they time, and a folder to bake into an image.",
)


class HooksFormat(str, Enum):
    """How the hooks are written."""

    TERMINAL = "terminal"
    JSON = "json"


@app.command()
def hooks(
    engine_path: Annotated[
        str | None,
        typer.Option(metavar="SITE_PACKAGES", help="Folder that holds sglang or vllm; left out: this Python's own."),
    ] = None,
    output_format: Annotated[HooksFormat, typer.Option("--format", help="terminal or json.")] = HooksFormat.TERMINAL,
) -> None:
    """Say which methods of an installed engine are timed, per phase, and what a report lacks. Nothing is imported.

    Example: traceana instrument hooks --engine-path venv/lib/python3.11/site-packages
    """
    from traceana.environment.engine_source import open_engines
    from traceana.environment.hooks import coverage
    from traceana.report import jsonout, terminal

    found = [coverage(source) for source in open_engines(engine_path or sysconfig.get_path("purelib"))]
    if output_format is HooksFormat.JSON:
        from traceana.environment.hooks import document

        output.write(jsonout.render_document(document(found)), None)
        return
    from traceana.environment.text import hook_sections

    text = terminal.render_sections(hook_sections(found), width=output.width(), color=output.color(None))
    output.write(text, None)


@app.command()
def export(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Folder to make; it must not exist, or be empty.")],
) -> None:
    """Write the timers into a folder that needs nothing else, and print the two lines of a Dockerfile that use it.

    Example: traceana instrument export timers
    """
    from traceana.environment.package import BOOTSTRAP, copy_to

    name = Path(folder).absolute().name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise TraceanaError(f"{folder}: choose a name of letters and digits, it goes into a Dockerfile")
    copy_to(Path(folder))
    output.write(
        f"COPY {name} /opt/traceana\nENV PYTHONPATH=/opt/traceana/{BOOTSTRAP}${{PYTHONPATH:+:$PYTHONPATH}}\n",
        None,
    )
    output.note("timers stay off until the container runs with -e EAGLE3_PROFILE=1")
