"""One row of the tables of last words."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.rules.interface import Confidence


@dataclass(frozen=True, slots=True)
class KnownText:
    """One known end. `texts`: any of them (lower case) marks it. `kind`: the incident kind that means the same.

    `vague`: it only says that another line tells more.
    """

    texts: tuple[str, ...]
    title: str
    meaning: str
    fix: tuple[str, ...]
    rivals: tuple[str, ...]
    confidence: Confidence
    source: str
    kind: str | None = None
    vague: bool = False
