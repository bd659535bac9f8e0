"""What the modules of this room share: checks of numbers, version order, the result of a normalisation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

#: printed with two decimals: the true value lies within this of the printed one
HALF_OF_TWO_DECIMALS = 0.005
#: printed with three decimals (vLLM's per-position rates)
HALF_OF_THREE_DECIMALS = 0.0005
_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)(?:(?:a|b|rc)\d+)?(?:\.?post(\d+))?", re.IGNORECASE)

#: room for binary fractions when two rounded values touch at the edge
EDGE = 1e-9


class Normalised(NamedTuple):
    """A printed value brought to the house's definition, and what the printed one meant.

    `value is None` means that it could not be told; `definition` then says why.
    """

    value: float | None
    definition: str


def positive(name: str, value: float) -> float:
    """`value` when it is a finite number above zero, else ValueError naming it."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a finite number above zero, not {value!r}")
    return float(value)


def not_negative(name: str, value: float) -> float:
    """`value` when it is a finite number of zero or more, else ValueError naming it."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be a finite number of zero or more, not {value!r}")
    return float(value)


def share(name: str, value: float) -> float:
    """`value` when it lies in 0 ... 1, else ValueError naming it."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")
    return float(value)


def shares(name: str, values: Sequence[float]) -> list[float]:
    """`values` when each lies in 0 ... 1, else ValueError naming the first that does not."""
    return [share(f"{name}[{i}]", value) for i, value in enumerate(values)]


def accept_length_of(value: float) -> float:
    """`value` when it is an accept length (1 or more, bonus token included), else ValueError."""
    if not (math.isfinite(value) and value >= 1):
        raise ValueError(f"an accept length counts the bonus token and is never below 1, not {value!r}")
    return float(value)


def whole_drafts(k: float | None) -> float:
    """k as a number of draft tokens; None means an unlimited chain and comes back as math.inf. Else ValueError."""
    if k is None:
        return math.inf
    if not k >= 0 or (math.isfinite(k) and k != int(k)):
        raise ValueError(f"k must be a whole number of draft tokens, 0 or more, not {k!r}")
    return k


def version_order(version: str | None) -> tuple[tuple[int, ...], int] | None:
    """A key that orders releases: (release numbers, post-release or -1); None for an absent or unreadable version.

    Development and candidate builds and local parts count as the release they lead to: it is the code they run.
    """
    match = _VERSION.match(version.strip()) if version else None
    if match is None:
        return None
    return tuple(int(part) for part in match[1].split(".")), -1 if match[2] is None else int(match[2])
