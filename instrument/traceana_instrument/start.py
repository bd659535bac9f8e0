"""The line a process prints once: which engine, what is timed, what is missing, and the variables it sees. And the
switch file, whose removal stops the timers of every process that inherited its name."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceana_instrument.emit import START
from traceana_instrument.hook import TWIN, Hook, expected
from traceana_instrument.readers import sglang_k, vllm_k
from traceana_instrument.settings import SWITCH, Settings

if TYPE_CHECKING:
    from traceana_instrument.install import Installed

_LISTED = 60  # hooks named in a line


def with_switch(wanted: Settings) -> Settings:
    """The settings with a switch file: the one named, else one made here and handed on to children."""
    if wanted.switch_file:
        return wanted
    try:
        handle, path = tempfile.mkstemp(prefix="eagle3-profile-", suffix=".on")
        os.write(handle, f"{os.getpid()}: remove this file and the timers stop\n".encode())
        os.close(handle)
    except OSError:
        return wanted
    os.environ[SWITCH + "_SWITCH"] = path
    atexit.register(_remove, path, os.getpid())
    return wanted._replace(switch_file=path)


def _remove(path: str, maker: int) -> None:
    if os.getpid() == maker:
        with contextlib.suppress(OSError):
            Path(path).unlink()


def announce(installed: Installed, made: Any) -> None:
    """Print the start line, once per process, when the first object with a cycle has been built. Never raises."""
    state = installed.state
    try:
        if state.started or not state.on:
            return
        state.run()
        state.known_rank()
        state.emitter.say(f"{START} {json.dumps(describe(installed, made), separators=(',', ':'))}")
    except Exception as error:
        state.fault(error)


def describe(installed: Installed, made: Any) -> dict[str, Any]:
    """The values of the start line."""
    state, engine = installed.state, installed.state.engine
    out: dict[str, Any] = {
        "v": 1,
        "engine": engine,
        "version": version(engine),
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "process": _process_name(),
        "rank": state.known_rank(),
        "python": ".".join(map(str, sys.version_info[:3])),
        **speculation(made),
    }
    out["hooks"] = [_name(hook) for hook in installed.applied][:_LISTED]
    out["missing"] = [
        f"{_name(hook)} ({why})" for hook, why in installed.missing if why != TWIN and expected(hook, out["version"])
    ][:_LISTED]
    out["nvtx"] = state.nvtx
    out["switch"] = state.settings.switch_file or None
    out["per_cycle_files"] = bool(state.settings.directory)
    out["env"] = _environment()
    return out


def _name(hook: Hook) -> str:
    return f"{'.'.join(hook.module.split('.')[-2:])}.{hook.target}:{hook.phase}"


def speculation(made: Any) -> dict[str, Any]:
    """Method and draft tokens as the engine's own object has them; "none" where it does not speculate."""
    config = getattr(made, "speculative_config", None)
    if config is not None:
        return {"method": str(getattr(config, "method", None)), "k": vllm_k(made)}
    arguments = getattr(made, "server_args", None)
    if arguments is not None:
        method = getattr(arguments, "speculative_algorithm", None)
        return {"method": str(method), "k": sglang_k(made)}
    return {"method": "none", "k": None}


def version(engine: str) -> str | None:
    """Version the engine's own module names; None where it names none."""
    found = getattr(sys.modules.get(engine), "__version__", None)
    return str(found) if found is not None else None


def _process_name() -> str:
    process = sys.modules.get("multiprocessing.process")
    return str(process.current_process().name) if process is not None else "MainProcess"


def _environment() -> dict[str, str]:
    from traceana_instrument.envreport import environment

    return environment()
