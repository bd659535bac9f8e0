"""The `traceana` program: the table of commands, and how errors become one line and an exit code."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, NoReturn

import typer

from traceana import __version__
from traceana.cli import instrument
from traceana.cli.breakeven import breakeven
from traceana.cli.check import check
from traceana.cli.compare import compare
from traceana.cli.diagnose import diagnose
from traceana.cli.env import env
from traceana.cli.explain import explain
from traceana.cli.floor import floor
from traceana.cli.ingest import ingest
from traceana.cli.ledger import ledger
from traceana.cli.run import run
from traceana.cli.sweep import BaselineTakesMany, sweep
from traceana.cli.whatif import whatif
from traceana.errors import EXIT_INTERRUPTED, EXIT_UNUSABLE, TraceanaError

app = typer.Typer(
    name="traceana",
    help="Why is speculative decoding slow? Reads SGLang and vLLM logs and traces, weighs causes, shows evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: drawing it with rich doubles the start-up time
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (diagnose, compare, sweep, check, ledger, breakeven, floor, whatif, ingest, explain, env):
    app.command(cls=BaselineTakesMany if command is sweep else None)(command)
# what follows the first word that is no option belongs to the server
app.command(context_settings={"allow_interspersed_args": False})(run)
app.add_typer(instrument.app, name="instrument")
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
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # its own keep tens of MB, and are no faster here
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale that lacks a character must not end the report
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="traceana", standalone_mode=False)
    except TraceanaError as error:
        _fail(error.message, error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = EXIT_INTERRUPTED
    except BaseException as error:  # polars reports a panic beside Exception
        if isinstance(error, SystemExit) or os.environ.get("TRACEANA_DEBUG"):
            raise
        _fail(_usage(error) or f"{_internal(error)}; run again with --debug before the command and report it")
    if code == EXIT_INTERRUPTED:
        _fail("interrupted", EXIT_INTERRUPTED)
    raise SystemExit(code if isinstance(code, int) else 0)


def _usage(error: BaseException) -> str | None:
    """What is wrong with the arguments, when the command line's parser says so (typer brings its own click or not)."""
    message = getattr(error, "format_message", None)
    if message is None:
        return None
    context = getattr(error, "ctx", None)
    return f"{str(message()).rstrip('. ')}; see {context.command_path if context else 'traceana'} --help"


def _internal(error: BaseException) -> str:
    return f"internal error: {type(error).__name__}: {error}"


def _fail(text: str, code: int = EXIT_UNUSABLE) -> NoReturn:
    from traceana.cli.output import note

    note(f"traceana: {text}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
