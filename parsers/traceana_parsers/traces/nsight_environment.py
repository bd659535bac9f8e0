"""What an Nsight export tells of the environment: the variables a report may use, and the captured output.

Exports hold whole environments, credentials included. A value leaves this module only when its name begins with one of
`PREFIXES` and has no word of `SECRET` in it; a few launcher variables are read as numbers. Nothing else is read out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana_parsers.interface import Sink
from traceana_parsers.traces.nsight_common import StoreError, TableStore, pid_of

if TYPE_CHECKING:
    import polars as pl

#: given the name and the bytes of a captured output
OnText = Callable[[str, bytes], None]

PREFIXES = ("NCCL_", "CUDA_", "TORCH_NCCL_", "VLLM_", "SGLANG_", "SGL_")
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_VALUE_LIMIT = 1_000  # characters
_REMOVED = "[removed]"  # what scrubbing tools leave


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable as the launcher's or a worker's environment had it; `pid` where the export says whose."""

    name: str
    value: str
    pid: int | None = None


def allowed(name: str) -> bool:
    """True when the value of the variable may be read."""
    return name.startswith(PREFIXES) and _NAME.fullmatch(name) is not None and not SECRET.search(name)


def variables(store: TableStore) -> list[Variable]:
    """The allowed variables of all environments in the export, each once, in order of first appearance."""
    found: dict[Variable, None] = {}
    for text, pid in _assignments(store):
        name, separator, value = text.partition("=")
        if separator and allowed(name) and value != _REMOVED:
            found.setdefault(Variable(name, value[:_VALUE_LIMIT], pid))
    unplaced = {(v.name, v.value) for v in found if v.pid is not None}
    return [v for v in found if v.pid is not None or (v.name, v.value) not in unplaced]


def launch_number(store: TableStore, name: str) -> int | None:
    """A launcher's variable (RANK, WORLD_SIZE ...) of the profiled command as a number; None when it is none."""
    for text, _ in _launched(store):
        found, _, value = text.partition("=")
        if found == name:
            return int(value) if value.isascii() and value.isdigit() and len(value) < 8 else None
    return None


def settings_frame(store: TableStore, file_id: int) -> pl.DataFrame:
    """The allowed variables as rows of the `settings` table, origin `launch_env`; they come from no line."""
    import polars as pl

    from traceana_parsers.schema import polars_schema

    rows = [
        {"file_id": file_id, "name": v.name, "value": v.value, "pid": v.pid, "origin": "launch_env"}
        for v in variables(store)
    ]
    return pl.DataFrame(rows, schema=polars_schema("settings"), orient="row")


def add_settings(store: TableStore, file_id: int, sink: Sink) -> int:
    """Adds `settings_frame` to the sink. Returns the number of rows."""
    frame = settings_frame(store, file_id)
    if frame.height:
        sink.add("settings", frame)
    return frame.height


def captured_output(store: TableStore) -> Iterator[tuple[str, bytes]]:
    """(name, content) of what the profiled program wrote to stdout and stderr: server and NCCL logs."""
    for name, content_id, _ in _streams(store):
        if _OUTPUT.search(name):
            content = store.content(content_id)
            if content.strip():
                yield name, content


_OUTPUT = re.compile(r"std(?:out|err)", re.IGNORECASE)
_ENVIRON = re.compile(r"(?:^|/)environ$")


def _streams(store: TableStore) -> list[tuple[str, int, int | None]]:
    """(file name, StringIds id of the content, pid) of the files kept in the export."""
    found: list[tuple[str, int, int | None]] = []
    streams = [
        (serial, name_id, content_id)
        for serial, name_id, content_id in store.rows("ProcessStreams", ("globalPid", "filenameId", "contentId"))
        if isinstance(name_id, int) and isinstance(content_id, int)
    ]
    names = store.strings(sorted({name_id for _, name_id, _ in streams}))
    for serial, name_id, content_id in streams:
        found.append((names.get(name_id, ""), content_id, pid_of(serial) if isinstance(serial, int) else None))
    return found


def _assignments(store: TableStore) -> Iterator[tuple[str, int | None]]:
    """`NAME=value` texts of every place that holds an environment, and the process it is of."""
    for source in (_launched, _kept, _device, _blocks):
        try:
            yield from source(store)
        except StoreError:  # a damaged place; the reader of that table reports it
            continue


def _launched(store: TableStore) -> Iterator[tuple[str, int | None]]:
    """The environment nsys gave to the command: `NAME="value"`, one per row."""
    for name, value in store.rows("META_DATA_CAPTURE", ("name", "value")):
        if isinstance(name, str) and name.endswith("ENVIRONMENT_VARIABLE") and isinstance(value, str):
            variable, separator, text = value.partition("=")
            if len(text) > 1 and text[0] == text[-1] == '"':
                text = text[1:-1]
            yield variable + separator + text, None


def _kept(store: TableStore) -> Iterator[tuple[str, int | None]]:
    """A process' /proc/PID/environ, where the export keeps it."""
    for name, content_id, pid in _streams(store):
        if _ENVIRON.search(name):
            for text in store.content(content_id).decode("utf-8", "replace").split("\0"):
                yield text, pid


def _device(store: TableStore) -> Iterator[tuple[str, int | None]]:
    """The environment of nsys itself: `A=b;C=d`. Values with a semicolon in them end there."""
    for name, value in store.rows("TARGET_INFO_SYSTEM_ENV", ("name", "value")):
        if name == "DeviceEnvironment" and isinstance(value, str):
            for text in value.split(";"):
                yield text, None


def _blocks(store: TableStore) -> Iterator[tuple[str, int | None]]:
    """Environments among the strings: `A=b`, NUL, `C=d`."""
    for block in store.blocks():
        for text in block.split("\0"):
            yield text, None
