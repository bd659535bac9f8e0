"""NCCL's own configuration files, which set variables without any environment: /etc/nccl.conf and its like.

NCCL reads $NCCL_CONF_FILE, else ~/.nccl.conf, then /etc/nccl.conf, and sets what is not set yet. NAME=value, one a
line; blanks and quotes belong to the value or the name, a # in the first column is a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from traceana.environment import procfs
from traceana.environment.procfs import PROC, Process
from traceana.facts.versions import parse_version

SYSTEM_FILE = "/etc/nccl.conf"
_LARGEST = 1 << 20
_CONF_FILE_SINCE = (2, 23)


@dataclass(frozen=True, slots=True)
class ConfFile:
    """One file as a process sees it. `state`: read | denied. `odd`: lines that set nothing, by number, with why."""

    path: str
    state: str
    variables: dict[str, str]
    odd: tuple[tuple[int, str], ...] = ()


def files(
    found: Process, variables: Mapping[str, str] | None, nccl: str | None = None, proc: Path = PROC
) -> list[ConfFile]:
    """The files that NCCL reads in this process, the stronger first; absent ones are left out.

    Args:
        found: the process; files are looked up below its own root.
        variables: its environment, None where it cannot be read (then NCCL_CONF_FILE and HOME are not known and the
            home folder of its user is taken).
        nccl: NCCL's version; NCCL_CONF_FILE counts since 2.23.
    """
    root = procfs.root(found.pid, proc)
    named = (variables or {}).get("NCCL_CONF_FILE")
    version = parse_version(nccl or "")
    own = named if named and (version is None or version.release[:2] >= _CONF_FILE_SINCE) else None
    home = (variables or {}).get("HOME") or _home(procfs.owner(found.pid, proc))
    paths = [own or (f"{home.rstrip('/')}/.nccl.conf" if home else None), SYSTEM_FILE]
    read = [_read(path, root) for path in paths if path and path.startswith("/")]
    return [file for file in read if file is not None]


def parse(text: str) -> tuple[dict[str, str], tuple[tuple[int, str], ...]]:
    """(NAME -> value, odd lines) as NCCL reads the text: the first setting of a name wins."""
    variables: dict[str, str] = {}
    odd = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator:
            odd.append((number, "no = in it"))
        elif name != name.strip() or " " in name:
            odd.append((number, "blanks around or in the name: NCCL takes them as part of it"))
        else:
            variables.setdefault(name, value)
            if value != value.strip() or value[:1] in "\"'":
                odd.append((number, "blanks or quotes around the value: NCCL takes them as part of it"))
    return variables, tuple(odd)


def _read(path: str, root: Path) -> ConfFile | None:
    try:
        with (root / path.lstrip("/")).open("rb") as stream:
            text = stream.read(_LARGEST).decode("utf-8", "replace")
    except PermissionError:
        return ConfFile(path, "denied", {})
    except (OSError, ValueError):
        return None
    variables, odd = parse(text)
    return ConfFile(path, "read", variables, odd)


def _home(user: int | None) -> str | None:
    """Home folder of a user of this machine; a container's users may have others."""
    if user is None:
        return None
    try:
        import pwd

        return pwd.getpwuid(user).pw_dir
    except (ImportError, KeyError):
        return None
