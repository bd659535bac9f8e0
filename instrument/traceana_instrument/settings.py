"""What the environment asks for: EAGLE3_PROFILE and its companions."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

SWITCH = "EAGLE3_PROFILE"
_OFF = frozenset({"", "0", "off", "no", "false", "none"})


class Settings(NamedTuple):
    """How the timers run in this process; limits keep a typing mistake from filling memory or a disk."""

    on: bool = False
    comm: bool = False  # each eager collective too
    nvtx: bool = True
    cycles: int = 200  # cycles per line
    seconds: float = 10.0  # and at the latest after these seconds
    directory: str = ""  # every cycle to a file per rank, in this folder
    file_mb: float = 16.0  # size at which such a file is rotated
    files: int = 4  # files kept per rank
    switch_file: str = ""  # timers stop when it is removed
    to: str = "auto"  # auto (the engine's logger, else stderr) or stderr


def read(environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of an environment; what cannot be read keeps its default: a typing mistake stops no server."""
    env = os.environ if environ is None else environ
    words = {word.strip().lower() for word in env.get(SWITCH, "").split(",")}
    if words <= _OFF:
        return Settings()
    default = Settings()
    return Settings(
        on=True,
        comm="comm" in words,
        nvtx=env.get(SWITCH + "_NVTX", "1").strip().lower() not in _OFF,
        cycles=int(_number(env, "_CYCLES", default.cycles, 1, 100_000)),
        seconds=_number(env, "_SECONDS", default.seconds, 0.1, 86_400),
        directory=env.get(SWITCH + "_DIR", ""),
        file_mb=_number(env, "_FILE_MB", default.file_mb, 0.01, 10_000),
        files=int(_number(env, "_FILES", default.files, 1, 1000)),
        switch_file=env.get(SWITCH + "_SWITCH", ""),
        to="stderr" if env.get(SWITCH + "_TO", "").strip().lower() == "stderr" else "auto",
    )


def _number(env: Mapping[str, str], name: str, default: float, low: float, high: float) -> float:
    try:
        value = float(env.get(SWITCH + name, ""))
    except ValueError:
        return default
    return min(max(value, low), high) if not math.isnan(value) else default
