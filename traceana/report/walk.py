"""One walk over all texts of a Diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

T = TypeVar("T")


def map_texts(value: T, change: Callable[[str, str], str], name: str = "") -> T:
    """A copy of `value` with every text replaced by `change(name of its field, text)`.

    Walks dataclasses, tuples and dicts in field order; the name of a text in a tuple is that of the tuple's field, of a
    text in a dict its key. Keys are texts too (their name is that of the field).
    """
    if isinstance(value, str):
        return cast(T, change(name, value))
    if isinstance(value, tuple):
        return cast(T, tuple(map_texts(item, change, name) for item in value))
    if isinstance(value, dict):
        return cast(T, {change(name, key): map_texts(item, change, key) for key, item in value.items()})
    if is_dataclass(value) and not isinstance(value, type):
        changes = {part.name: map_texts(getattr(value, part.name), change, part.name) for part in fields(value)}
        return cast(T, replace(value, **changes))
    return value
