"""What a row of the hook tables is, and which engine versions a row claims."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional


class Hook(NamedTuple):
    """One method that is wrapped. Where it exists it is wrapped; `versions` is the claim that tests prove."""

    module: str
    target: str  # "Class.method", defined in that class itself
    phase: str  # cycle | draft | verify | re_extend | comm | count (count: no time, only acceptance)
    versions: str  # "0.4.6..0.5.12", "0.5.13.." (to the newest), "0.5.3", several joined by ", "
    methods: str = ""  # speculative methods that it times; "": all
    when: str = ""  # name of a condition: only calls that meet it are timed
    read: str = ""  # name of a reader of the call: batch, k, accepted, bytes
    until: str = ""  # method of the same class at whose end a span ends that outlives the call; "" or missing: the call
    note: str = ""  # one sentence for the reader of the table

    @property
    def cls(self) -> str:
        """The class."""
        return self.target.rpartition(".")[0]

    @property
    def method(self) -> str:
        """The method."""
        return self.target.rpartition(".")[2]


def claims(versions: str, version: str) -> Optional[bool]:  # noqa: UP045 - evaluated by Python 3.9
    """Whether the ranges `versions` hold an engine version; None when the version cannot be read.

    A development or pre-release build counts as the release it leads to, local parts are ignored.
    """
    here = _key(version)
    if here is None:
        return None
    for part in versions.split(","):
        first, dots, last = part.strip().partition("..")
        low, high = _key(first), _key(last)
        if not dots and low == here:
            return True
        if dots and (low is None or low <= here) and (high is None or here <= high):
            return True
    return False


def _key(version: str) -> Optional[tuple[int, ...]]:  # noqa: UP045
    """A version as numbers that compare: four of the release, one of the post-release (none is 0)."""
    found = re.match(r"\s*v?(\d+(?:\.\d+){0,3})", version)
    if found is None:
        return None
    release = [int(part) for part in found[1].split(".")]
    post = re.match(r"(?:[._-]?(?:a|b|rc)\d+)?\.?post(\d+)", version[found.end() :])
    return (*release, *[0] * (4 - len(release)), int(post[1]) + 1 if post else 0)
