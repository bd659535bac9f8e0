"""Processes as Linux's /proc shows them. Everything may vanish, be denied or be made up: nothing here raises for that.

All text is as the processes wrote it (untrusted); it is made safe where it is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

#: kernel limits make an environment or a command line longer than this impossible on a usual machine
_MOST_BYTES = 4 << 20
_MOST_ARGUMENTS = 1000


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `title`: its command line as it is now; programs overwrite it (setproctitle).

    `started` (clock ticks since boot) tells a process from a later one with the same pid.
    """

    pid: int
    parent: int
    started: int
    state: str  # R, S, D, Z (zombie), ...
    name: str  # comm, at most 15 bytes
    argv: tuple[str, ...]

    @property
    def title(self) -> str:
        """Command line or title on one string; the name in brackets where there is none (zombies, kernel threads)."""
        return " ".join(self.argv) or f"[{self.name}]"

    @property
    def zombie(self) -> bool:
        """Whether it has ended and waits to be collected."""
        return self.state in ("Z", "X")


@dataclass(frozen=True, slots=True)
class Environ:
    """The environment block of a process at its exec. `state`: read | blanked | empty | denied | gone.

    blanked: the process overwrote the block, or its beginning (setproctitle does): what is still there counts, what is
    not says nothing.
    """

    state: str
    variables: dict[str, str]


def available(proc: Path = PROC) -> bool:
    """Whether there is a /proc to read."""
    return (proc / "self" / "stat").exists() or (proc.is_dir() and any(p.name.isdigit() for p in proc.iterdir()))


def processes(proc: Path = PROC) -> dict[int, Process]:
    """All processes that can be seen now, by pid."""
    try:
        pids = [int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit()]
    except OSError:
        return {}
    return {pid: found for pid in sorted(pids) if (found := process(pid, proc)) is not None}


def process(pid: int, proc: Path = PROC) -> Process | None:
    """One process, or None when there is none (any more)."""
    stat = _bytes(proc / str(pid) / "stat")
    if stat is None:
        return None
    head, _, tail = stat.decode("utf-8", "replace").rpartition(")")  # the name may hold blanks and brackets
    fields = tail.split()
    try:
        parent, started = int(fields[1]), int(fields[19])
    except (IndexError, ValueError):
        return None
    raw = _bytes(proc / str(pid) / "cmdline") or b""
    words = raw.rstrip(b"\0").split(b"\0", _MOST_ARGUMENTS)[:_MOST_ARGUMENTS] if raw.strip(b"\0") else []
    name = head.partition("(")[2]
    return Process(pid, parent, started, fields[0], name, tuple(word.decode("utf-8", "replace") for word in words))


def environ(found: Process, proc: Path = PROC) -> Environ:
    """The process's environment as it was at its exec: what it set in itself later is not there."""
    try:
        with (proc / str(found.pid) / "environ").open("rb") as stream:
            raw = stream.read(_MOST_BYTES)
    except PermissionError:
        return Environ("denied", {})
    except OSError:
        return Environ("gone", {})
    now = process(found.pid, proc)
    if now is None or now.started != found.started or now.zombie:
        return Environ("gone", {})
    if not raw:
        return Environ("empty", {})
    return Environ("blanked" if _overwritten(raw) else "read", parse(raw))


def _overwritten(block: bytes) -> bool:
    """Whether a block is no longer as exec() laid it out: names and values, one behind the other, without gaps.

    setproctitle fills it with zeros behind the title, up to the first variable that Python has set itself since.
    """
    body = block.rstrip(b"\0")
    name, separator, _ = body.partition(b"\0")[0].partition(b"=")
    return not separator or b"\0\0" in body or b" " in name


def parse(block: bytes) -> dict[str, str]:
    """NAME -> value of an environment block; the first of two equal names wins, as for getenv()."""
    variables: dict[str, str] = {}
    for entry in block.split(b"\0"):
        name, separator, value = entry.partition(b"=")
        if separator and name.strip() and b" " not in name:
            variables.setdefault(name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))
    return variables


def descendants(top: int, all_processes: Mapping[int, Process]) -> list[Process]:
    """The process `top` and everything below it, parents before children, each once."""
    children: dict[int, list[int]] = {}
    for found in all_processes.values():
        children.setdefault(found.parent, []).append(found.pid)
    order, waiting, seen = [], [top], set()
    while waiting:
        pid = waiting.pop(0)
        if pid in seen or pid not in all_processes:
            continue
        seen.add(pid)
        order.append(all_processes[pid])
        waiting += sorted(children.get(pid, []))
    return order


def ancestors(pid: int, all_processes: Mapping[int, Process]) -> list[Process]:
    """Parents of a process, nearest first; ends at a loop (pids that were used again while they were read)."""
    found, seen = [], {pid}
    while (here := all_processes.get(pid)) is not None and here.parent not in seen:
        pid = here.parent
        seen.add(pid)
        if pid in all_processes:
            found.append(all_processes[pid])
    return found


def owner(pid: int, proc: Path = PROC) -> int | None:
    """Numeric user of a process, or None."""
    try:
        return (proc / str(pid)).stat().st_uid
    except OSError:
        return None


def mapped_files(pid: int, proc: Path = PROC) -> list[str]:
    """Paths of the files mapped into a process (its libraries), each once; empty when they cannot be read."""
    raw = _bytes(proc / str(pid) / "maps") or b""
    paths = (line[line.find(b"/") :].decode("utf-8", "replace") for line in raw.splitlines() if b"/" in line)
    return list(dict.fromkeys(paths))


def root(pid: int, proc: Path = PROC) -> Path:
    """The root directory as the process sees it: a container's own where it runs in one."""
    return proc / str(pid) / "root"


def inner_pids(pid: int, proc: Path = PROC) -> tuple[int, ...]:
    """The pid as seen here and in each namespace below: a log written in a container names the last of them."""
    for line in (_bytes(proc / str(pid) / "status") or b"").splitlines():
        name, _, value = line.partition(b":")
        if name == b"NSpid":
            return tuple(int(word) for word in value.split() if word.isdigit()) or (pid,)
    return (pid,)


def _bytes(path: Path) -> bytes | None:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES)
    except OSError:
        return None
