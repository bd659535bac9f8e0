"""Python reprs of engine arguments to (name, value text) pairs: ServerArgs(...), Namespace(...), dicts, `k=v, k=v`.

The text may be cut off, hold objects that are no literals, and come from strangers: it is split, never evaluated.
"""

from __future__ import annotations

import re

_OPEN, _CLOSE = "([{", ")]}"
_CALL = re.compile(r"^(?:[A-Za-z_][\w.]*)?[({]")
_NAME = re.compile(r"^[A-Za-z_][\w.\-]*$")
MAX_SETTINGS = 2000


def split_top_level(text: str, separator: str = ",") -> list[str]:
    """The text cut at separators that stand outside quotes and brackets."""
    parts: list[str] = []
    depth, start, quote, escaped = 0, 0, "", False
    for index, char in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:  # the closing bracket of the whole: what follows is not ours
                parts.append(text[start:index])
                return parts
        elif char == separator and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts


def pairs(text: str) -> list[tuple[str, str]]:
    """(name, value text) pairs of an argument repr; one level of nesting is flattened as `outer.inner`.

    Returns at most `MAX_SETTINGS` pairs; what is no pair is skipped.
    """
    found: list[tuple[str, str]] = []
    for name, value in _flat(text):
        found.append((name, value))
        if _CALL.match(value) and not value.startswith("("):
            found.extend((f"{name}.{inner}", v) for inner, v in _flat(value))
        if len(found) >= MAX_SETTINGS:
            break
    return found[:MAX_SETTINGS]


def _flat(text: str) -> list[tuple[str, str]]:
    body = text.strip()
    opening = _CALL.match(body)
    if opening:
        body = body[opening.end() :]
    found = []
    for part in split_top_level(body):
        pair = part.strip()
        for separator in ("=", ":"):
            name, cut, value = pair.partition(separator)
            name = name.strip().strip("'\"")
            if cut and _NAME.match(name):
                found.append((name, value.strip()))
                break
    return found
