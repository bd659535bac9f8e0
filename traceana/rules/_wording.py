"""Excerpts of the input in findings, and enumerations of names and ranks. Numbers are written by `_text`."""

from __future__ import annotations

from collections.abc import Iterable


def names(items: Iterable[str], limit: int = 5) -> str:
    """ "A, B, C and 4 more": names in their order, each once; "" for none."""
    unique = list(dict.fromkeys(items))
    shown = ", ".join(unique[:limit])
    return shown if len(unique) <= limit else f"{shown} and {len(unique) - limit} more"


def ranks(numbers: Iterable[int]) -> str:
    """ "rank 3", "ranks 0-3, 7": rank numbers, runs joined."""
    ordered = sorted(set(numbers))
    runs: list[list[int]] = []
    for number in ordered:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    text = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"rank {text}" if len(ordered) == 1 else f"ranks {text}"


def clip(text: str, limit: int = 140) -> str:
    """An excerpt of the input on one line, without control characters, at most `limit` characters. Still untrusted."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def words(*parts: str | None) -> str:
    """Texts to search in: joined, in lower case, absent ones left out."""
    return " ".join(part for part in parts if part).lower()


def upper_first(text: str) -> str:
    """The text with a capital first letter, the rest untouched."""
    return text[:1].upper() + text[1:]


def kernel(name: str) -> str:
    """A kernel's name without `void`, template values and arguments, at most 60 characters. Still untrusted."""
    bare = clip(name.removeprefix("void "), 200)
    cut = min((at for at in (bare.find("<"), bare.find("(")) if at > 0), default=len(bare))
    return clip(bare[:cut], 60)
