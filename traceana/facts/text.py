"""Numbers with their nouns, written alike by facts, rules and reports."""

from __future__ import annotations

_HISSING = ("s", "x", "ch", "sh")


def count(n: int, noun: str) -> str:
    """A number with its noun: `1 window`, `1,204 windows`, `2 launches`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}{'es' if noun.endswith(_HISSING) else 's'}"
