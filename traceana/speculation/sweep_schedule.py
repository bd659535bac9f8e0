"""From the best draft setting at each measured load to a schedule over all loads up to the highest of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """The draft setting that is best at a load, named by the caller; `use` is None where the figures do not decide."""

    load: float
    use: str | None


@dataclass(frozen=True, slots=True)
class Span:
    """Loads `first` to `last`, in whole requests, and the draft setting to use there.

    `measured` are the loads within it that decided; the loads between them were not measured.
    """

    first: int
    last: int
    use: str
    measured: tuple[float, ...]


def schedule(choices: Sequence[Choice]) -> tuple[Span, ...]:
    """Spans from 1 to the highest load that decides, neighbours of one setting together; empty when no load decides.

    A load that was not measured takes the choice of the next one above that was: where speculation stops paying it is
    off from just above the last load at which it pays. A load that does not decide keeps what its neighbours use.
    """
    decided = sorted((choice for choice in choices if choice.use is not None), key=lambda choice: choice.load)
    spans: list[Span] = []
    first = 1
    for choice in decided:
        assert choice.use is not None
        last = max(math.floor(choice.load), first)
        if spans and spans[-1].use == choice.use:
            before = spans.pop()
            spans.append(Span(before.first, last, choice.use, (*before.measured, choice.load)))
        else:
            spans.append(Span(first, last, choice.use, (choice.load,)))
        first = last + 1
    return tuple(spans)
