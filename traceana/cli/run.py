"""`traceana run -- CMD...`: start a server with the timers on, in place of this process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated

import typer

from traceana.cli import output
from traceana.errors import TraceanaError

#: programs into whose children an environment does not pass by itself -> what to do instead
_WALLS = {
    "docker": "pass -e EAGLE3_PROFILE=1 and bake the timers in with `traceana instrument export`",
    "podman": "pass -e EAGLE3_PROFILE=1 and bake the timers in with `traceana instrument export`",
    "kubectl": "set the variables in the pod and bake the timers in with `traceana instrument export`",
    "ssh": "run traceana on the machine that runs the server",
    "sudo": "put `traceana run` behind sudo: sudo traceana run -- ...",
}


def run(
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="The server's command, as you start it.")],
    *,
    python: Annotated[
        str | None, typer.Option(metavar="PY", help="The server's Python, where the command names none or another.")
    ] = None,
    comm: Annotated[bool, typer.Option("--comm", help="Time each eager collective too, by size.")] = False,
    every: Annotated[
        int | None, typer.Option(metavar="CYCLES", min=1, max=100_000, help="Cycles per line; 200 when not given.")
    ] = None,
    cycles: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write every cycle to a file per rank, in this folder.")
    ] = None,
    nvtx: Annotated[
        bool | None, typer.Option("--nvtx/--no-nvtx", help="NVTX ranges; on where the server has them.")
    ] = None,
) -> None:
    """Start a server with timers around draft, verify and re-extend; nothing is installed or patched.

    The server takes the place of this process: signals and the exit code are its own. Its log gets EAGLE3_PROFILE
    lines, which `traceana diagnose` reads.

    Example: traceana run -- vllm serve MODEL
    """
    argv = server_command(command, python)
    program = shutil.which(argv[0])
    if program is None:
        raise TraceanaError(f"{argv[0]}: no such program; give the command as you start the server")
    variables = profile_variables(os.environ, comm=comm, every=every, cycles=cycles, nvtx=nvtx)
    for line in notes(argv, variables):
        output.note(f"traceana run: {line}")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    try:
        os.execve(program, argv, {**os.environ, **variables})
    except OSError as error:
        raise TraceanaError(f"{program}: cannot be started: {error.strerror or error}") from error


def server_command(command: list[str], python: str | None) -> list[str]:
    """The command with `python` in place of its own, or the script of that name beside `python`.

    Raises TraceanaError where `python` and the command do not fit.
    """
    argv = command[1:] if command[:1] == ["--"] else list(command)
    if not argv:
        raise TraceanaError("no command: write it behind --, as in `traceana run -- vllm serve MODEL`")
    if python is None:
        return argv
    chosen = shutil.which(python)
    if chosen is None:
        raise TraceanaError(f"--python {python}: no such program")
    if PurePath(argv[0]).name.startswith("python"):
        return [chosen, *argv[1:]]
    if argv[0].startswith("-"):  # -m sglang.launch_server ...
        return [chosen, *argv]
    script = Path(chosen).parent / PurePath(argv[0]).name
    if not script.is_file():
        raise TraceanaError(f"--python {python}: there is no {script.name} beside it; write `-- python -m ...`")
    return [str(script), *argv[1:]]


def profile_variables(
    environ: Mapping[str, str], *, comm: bool, every: int | None, cycles: str | None, nvtx: bool | None
) -> dict[str, str]:
    """The variables that switch the timers on in every process of the server; what the user has set is kept.

    Raises TraceanaError when the folder for cycles cannot be made.
    """
    from traceana.environment.package import bootstrap_folder

    own = str(bootstrap_folder())
    kept = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != own]
    variables = {"PYTHONPATH": os.pathsep.join([own, *kept]), "EAGLE3_PROFILE": "comm" if comm else "1"}
    if every is not None:
        variables["EAGLE3_PROFILE_CYCLES"] = str(every)
    if nvtx is not None:
        variables["EAGLE3_PROFILE_NVTX"] = "1" if nvtx else "0"
    if cycles is not None:
        folder = Path(cycles).absolute()  # the server may change its folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceanaError(f"--cycles {cycles}: {error.strerror or error}") from error
        variables["EAGLE3_PROFILE_DIR"] = str(folder)
    if "SPT_NOENV" not in environ:
        variables["SPT_NOENV"] = "1"  # setproctitle leaves /proc/PID/environ readable
    return variables


def notes(argv: list[str], variables: Mapping[str, str]) -> list[str]:
    """What was done, in a line, and what stands in its way."""
    what = "timers and collectives" if variables["EAGLE3_PROFILE"] == "comm" else "timers"
    where = f", every cycle in {variables['EAGLE3_PROFILE_DIR']}" if "EAGLE3_PROFILE_DIR" in variables else ""
    lines = [f"{what} on for {argv[0]} (EAGLE3_PROFILE={variables['EAGLE3_PROFILE']}, PYTHONPATH){where}; see its log"]
    name = PurePath(argv[0]).name
    if name in _WALLS:
        lines.append(f"{name} does not hand its environment on: {_WALLS[name]}")
    if name.startswith("python") and _isolated(argv[1:]):
        lines.append("python -I, -E and -S leave the timers out: start without them")
    return lines


def _isolated(arguments: list[str]) -> bool:
    """Whether Python's own options ignore PYTHONPATH or sitecustomize; behind -c, -m or a script none is its own."""
    for word in arguments:
        if not word.startswith("-") or word.startswith("--") or word == "-":
            return False
        letters = word[1:]
        cut = min((letters.find(stop) for stop in "cmXW" if stop in letters), default=len(letters))
        if set(letters[:cut]) & set("IES"):
            return True
        if cut < len(letters) and letters[cut] in "cm":
            return False
    return False
