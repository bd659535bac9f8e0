"""The `traceana` program: the table of commands, and how errors become one line and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from traceana import __version__
from traceana.cli.breakeven import breakeven
from traceana.cli.diagnose import diagnose
from traceana.cli.explain import explain
from traceana.cli.ingest import ingest
from traceana.errors import EXIT_INTERRUPTED, EXIT_UNUSABLE, TraceanaError

app = typer.Typer(
    name="traceana",
    help="Why is speculative decoding slow? Reads SGLang and vLLM logs, weighs the causes, shows the evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: drawing it with rich doubles the start-up time
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (diagnose, breakeven, ingest, explain):
    app.command()(command)
app.command(
    "report",
    help="Draw the report of a store; the same as `traceana diagnose STORE`.\n\nExample: traceana report store",
)(diagnose)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"traceana {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of internal errors.")] = False,
) -> None:
    if debug:
        os.environ["TRACEANA_DEBUG"] = "1"


def main() -> None:
    """Runs the program. Errors the user can act on are one line on standard error; exit codes as in docs/cli.md."""
    try:
        app()
    except TraceanaError as error:
        _fail(error.message, error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # the reader (head, less) went away: nothing to say, and nothing may be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        if os.environ.get("TRACEANA_DEBUG"):
            raise
        _fail(
            f"internal error: {type(error).__name__}: {error}; run again with --debug before the command and report it",
            EXIT_UNUSABLE,
        )


def _fail(text: str, code: int) -> None:
    from traceana.report.escape import one_line

    sys.stderr.write(f"traceana: {one_line(text)}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
