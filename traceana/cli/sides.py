"""How the command line names a set-up: `,` between repeated runs, `+` between files of one run, `#` before words."""

from __future__ import annotations

from pathlib import Path

from traceana.errors import TraceanaError


def runs_of(side: str) -> list[list[str]]:
    """The runs of a side, each a list of paths. A name that exists as it is counts as one path, whatever is in it.

    TraceanaError for an empty piece.
    """
    if _exists(side):
        return [[side]]
    runs = [[run] if _exists(run) else run.split("+") for run in side.split(",")]
    if any(not path.strip() for run in runs for path in run):
        raise TraceanaError(
            f"{side!r}: an empty name; write FILE+FILE for files of one run and RUN,RUN for repeats of it"
        )
    return runs


def with_words(path: str) -> tuple[str, str | None]:
    """A path and the words after its `#`; None where there are none or the name exists with its `#`."""
    if "#" not in path or _exists(path):
        return path, None
    name, _, words = path.partition("#")
    return name, words.strip() or None


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long for a name: no file at least
        return False
