"""The form of one row of the hook tables: which method of an engine is timed, and as what."""

from __future__ import annotations

import re
from typing import NamedTuple

PHASES = ("draft", "verify", "re_extend")
TWIN = "timed by another row"  # why a row without an ender is not used where its twin with one is


class Hook(NamedTuple):
    """One method to wrap. Rows are tried by existence, in every version; `versions` is what the wheels showed.

    Phases: `cycle` bounds a cycle; `draft`, `verify`, `re_extend` are its parts (a part nested in another is taken out
    of it, the same part nested in itself is not counted twice); `comm` is a collective; `count` takes no time and only
    reads how much was accepted. Several rows may name one method. Only a method defined by the class itself is wrapped.
    """

    module: str  # "sglang.srt.speculative.eagle_worker"
    target: str  # "EAGLEWorker.draft"
    phase: str  # cycle, draft, verify, re_extend, comm or count
    versions: str  # where it was seen: "0.4.6..0.5.12", "0.5.13..", several joined by ", "
    methods: str = ""  # speculative methods it times, "" is all
    when: str = ""  # a condition of readers.py; the call is timed only where it holds
    read: str = ""  # a reader of readers.py: what the call says of batch, k and acceptance
    until: str = ""  # the span outlives the call and ends when this method of the class returns
    before: str = ""  # the span outlives the call and ends when one of these methods is entered ("a, b")
    note: str = ""  # for the reader of the table

    @property
    def owner(self) -> str:
        """Name of the class."""
        return self.target.rpartition(".")[0]

    @property
    def method(self) -> str:
        """Name of the method."""
        return self.target.rpartition(".")[2]

    @property
    def enders(self) -> tuple[str, ...]:
        """Methods that end a span which outlives its call."""
        return tuple(name.strip() for name in (self.until or self.before).split(",") if name.strip())


def expected(hook: Hook, version: str | None) -> bool:
    """Whether the row was seen in this version of the engine; True where the version is not known."""
    numbers = _numbers(version or "")
    if not numbers:
        return True
    for part in hook.versions.split(","):
        low, dots, high = part.strip().partition("..")
        if _numbers(low) <= numbers and (not (high or not dots) or numbers <= _numbers(high or low)):
            return True
    return False


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))
