"""Paths without the directories that tell who and where: `~/…/server.log`, `…/server.log`."""

from __future__ import annotations

import re
from collections.abc import Callable

from traceana.report import secret_shapes as known


class PathShortener:
    """Keeps the last component of absolute paths. Files of one name in two directories stay apart: `…2/server.log`."""

    def __init__(self, learn_user: Callable[[str], None]) -> None:
        self._learn_user = learn_user
        self._directories: dict[str, list[str]] = {}  # last component -> directories seen with it

    def whole(self, text: str) -> str:
        """A text that is one path; a relative path is left as it is."""
        if re.match(r"/(?!/)|~|[A-Za-z]:[\\/]|\\\\", text):
            return self._short(text)
        return text

    def last(self, path: str) -> str:
        """`/…/last` of the path of a bucket."""
        parts = [part for part in path.split("/") if part]
        return f"/…/{parts[-1]}" if len(parts) > 1 else path

    def inside(self, text: str) -> str:
        """A text with its absolute paths shortened."""
        text = known.QUOTED_PATH.sub(lambda m: f"{m['quote']}{self._short(m['path'])}{m['quote']}", text)
        text = known.WINDOWS_PATH.sub(lambda m: self._short(m["path"]), text)
        return known.PATH.sub(lambda m: self._short(m["path"]), text)

    def _short(self, path: str) -> str:
        for user in known.ANY_HOME.finditer(path):
            self._learn_user(user["user"])
        windows = re.match(r"[A-Za-z]:[\\/]|\\\\", path) is not None
        unix = re.sub(r"\\+", "/", path[2:]) if windows else path
        home = known.HOME.match(unix)
        if home is not None and home["tilde"]:
            self._learn_user(home["tilde"])
        parts = [part for part in (unix[home.end() :] if home else unix).split("/") if part]
        short_already = bool(parts) and parts[0].startswith("…")
        if short_already or (home is None and not windows and self._tells_nothing(path, parts)):
            return path
        lead = "~" if home is not None else ""
        if not parts:
            return lead or path
        if len(parts) == 1 and home is not None:
            return f"~/{parts[0]}"
        directory = "/".join(parts[:-1])
        seen = self._directories.setdefault(lead + parts[-1], [])
        if directory not in seen:
            seen.append(directory)
        number = seen.index(directory) + 1
        return f"{lead and '~/'}…{'' if number == 1 else number}/{parts[-1]}"

    @staticmethod
    def _tells_nothing(path: str, parts: list[str]) -> bool:
        if len(parts) < 2 or known.API_PATH.fullmatch(path):
            return True
        return parts[0] in known.SHARED_ROOTS
