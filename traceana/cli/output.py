"""Where results go: a file, written whole or not at all, or standard output."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from traceana.report.page import Page

T = TypeVar("T")


def write(text: str, output: str | None) -> None:
    """Writes to `output` (temporary file beside it, synced, renamed) or to standard output when it is None or `-`.

    Raises TraceanaError when the file cannot be written.
    """
    if not text.endswith("\n"):
        text += "\n"
    if output is None or output == "-":
        _to_stdout(text)
        return
    target = Path(output)
    try:
        if target.exists() and not target.is_file():  # /dev/null, a pipe: nothing to replace; a folder says so itself
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
            return
        target = target.resolve()  # a link stays a link
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise TraceanaError(f"{output}: cannot be written: {error.strerror or error}") from error


def keep(input_path: str, output: str | None) -> None:
    """Raises TraceanaError when `output` is the input file itself: inputs are never touched."""
    if output in (None, "-", os.devnull):
        return
    with suppress(OSError, ValueError):
        if Path(input_path).samefile(output):
            raise TraceanaError(f"{output}: is one of the inputs; write the report to another file")


class Read(Protocol):
    """What became of an input: its path, and what is wrong with it in one line."""

    @property
    def path(self) -> str:
        """The path as given."""

    @property
    def problem(self) -> str | None:
        """What is wrong, or None."""


def inputs(entries: Iterable[Read], *outputs: str | None) -> None:
    """Keeps every input from being overwritten by an output, and says on standard error what is wrong with it."""
    for entry in entries:
        for output in outputs:
            keep(entry.path, output)
        if entry.problem:
            note(f"{entry.path}: {entry.problem}")


def document(
    found: T, compose: Callable[[T], Page], fmt: str, output: str | None, *, redact: bool | None = None
) -> None:
    """Writes a document in the format, as wide as the terminal where it goes there; see report.documents."""
    from traceana.report.documents import render_document

    columns = width() if output is None else None
    write(render_document(found, compose, fmt, redact=redact, width=columns, color=color(output)), output)


def _to_stdout(text: str) -> None:
    if sys.stdout is None:
        raise TraceanaError("standard output is closed; write the report to a file with -o")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader (head, less) went away: nothing to say, and nothing may be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise TraceanaError(f"standard output: {error.strerror or error}") from error


def width() -> int:
    """Columns to draw for: the terminal's, COLUMNS where set, else 100."""
    return shutil.get_terminal_size(fallback=(100, 40)).columns


def color(output: str | None) -> bool:
    """True when the report goes to a terminal and NO_COLOR is not set."""
    return output is None and sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def note(text: str) -> None:
    """A line for the user beside the report: standard error, control characters made visible."""
    from traceana.report.escape import one_line

    if sys.stderr is not None:
        with suppress(OSError):  # nobody listens
            sys.stderr.write(one_line(text) + "\n")
