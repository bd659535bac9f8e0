"""The program as a user runs it, in this process or in one of its own, and what must hold of whatever it says."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from traceana.cli.app import main

#: what a terminal would act on; line ends apart
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Said:
    """What a run of the program left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def traceana(*arguments: object, stdin: bytes = b"") -> Said:
    """The program in this process; no traceback and no control character may come out of it."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["traceana", *map(str, arguments)]
    code: object = None
    with (
        patch.object(sys, "argv", argv),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as done:
            code = done.code
    return checked(Said(int(code or 0), out.getvalue(), err.getvalue()))  # type: ignore[call-overload]


def process(*arguments: object, **options: Any) -> Said:
    """The program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "traceana", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
        **options,
    )
    return checked(Said(done.returncode, done.stdout, done.stderr))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUTF8": "1", "PYTHONWARNINGS": "ignore"}


def checked(said: Said) -> Said:
    assert "Traceback" not in said.err
    assert "internal error" not in said.err, said.err
    assert not CONTROL.search(said.out + said.err), ascii(said.out + said.err)
    return said


def refused(said: Said, *words: str) -> None:
    """Unusable: exit code 2, one line on standard error that holds the words, nothing on standard output."""
    assert said.code == 2, said
    assert said.out == ""
    assert said.err.startswith("traceana: ")
    assert said.err.count("\n") == 1, said.err
    assert said.err.endswith("\n")
    assert len(said.err) < 5000
    for word in words:
        assert word in said.err, said.err


def diagnosed(*arguments: object, stdin: bytes = b"", drawn: bool = False) -> Any:
    """The diagnosis as JSON; with `drawn` the terminal's and Markdown's reports are drawn too."""
    said = traceana("diagnose", *arguments, "--format", "json", stdin=stdin)
    assert said.code == 0, said.err
    assert not re.search(r"\b(NaN|-?Infinity)\b", re.sub(r'"(?:[^"\\]|\\.)*"', "", said.out))
    for form in ("terminal", "markdown") if drawn else ():
        report = traceana("diagnose", *arguments, "--format", form, stdin=stdin)
        assert report.code == 0, report.err
        assert report.out
    return said.json


def only_input(diagnosis: Any) -> Any:
    (one,) = diagnosis["inputs"]
    return one
