"""Running `traceana env` in this process, and picking from its JSON document."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from traceana.cli.app import app


def command(*arguments: object, width: int = 100) -> tuple[int, str, str]:
    """(exit code, standard output, standard error or the error's message)."""
    done = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": str(width), "NO_COLOR": "1"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        return getattr(done.exception, "exit_code", 99), done.stdout, str(done.exception)
    return done.exit_code, done.stdout, done.stderr


def audit(*arguments: object) -> dict[str, Any]:
    """The first server of `traceana env ARGUMENTS --format json`."""
    code, out, error = command("env", *arguments, "--format", "json")
    assert code == 0, error
    document = json.loads(out)
    assert document["schema"] == "traceana/env/1"
    return dict(document["servers"][0])


def variable(server: dict[str, Any], name: str) -> dict[str, Any]:
    """One variable's verdict."""
    (found,) = [row for row in server["variables"] if row["name"] == name]
    return dict(found)


def states(server: dict[str, Any], name: str) -> tuple[str, str, str]:
    """(asked, reached, used) of a variable."""
    row = variable(server, name)
    return row["asked"]["state"], row["reached"]["state"], row["used"]["state"]


def titles(server: dict[str, Any], code: str) -> list[str]:
    """Titles of the findings with a code."""
    return [problem["title"] for problem in server["problems"] if problem["code"] == code]


def start_line(pid: int, rank: int | None, env: dict[str, str], **more: object) -> str:
    """A line as an instrumented process prints it."""
    row = {"v": 1, "engine": "sglang", "version": "0.5.9", "pid": pid, "process": "SpawnProcess-1", "rank": rank}
    return f"[2026-02-03 09:00:00 TP{rank}] EAGLE3_PROFILE_START {json.dumps({**row, **more, 'env': env})}\n"


def written(folder: Path, text: str, name: str = "server.log") -> Path:
    """A file with this text."""
    path = folder / name
    path.write_text(text)
    return path
