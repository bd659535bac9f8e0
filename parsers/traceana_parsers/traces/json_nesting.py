"""Where values of a JSON text begin and end, by counting brackets: for texts that come in pieces or are broken."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Nesting:
    """Counts brackets outside strings, over any number of pieces of one text."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self._escaped = False  # the piece before ended in a backslash that escapes the next byte

    def feed(self, data: bytes | bytearray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Positions of the brackets outside strings, and the depth after each."""
        text = np.frombuffer(data, np.uint8)
        if not text.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        quotes = self.quotes(text)
        folded = text | 0x20  # [ and { become 0x7b, ] and } become 0x7d
        at = np.flatnonzero((folded == 0x7B) | (folded == 0x7D))
        inside = (np.searchsorted(quotes, at) + int(self.in_string)) & 1
        at = at[inside == 0]
        depth = self.depth + np.cumsum(np.where(folded[at] == 0x7B, 1, -1))
        if at.size:
            self.depth = int(depth[-1])
        self.in_string = bool((quotes.size + int(self.in_string)) & 1)
        return at, depth

    def quotes(self, text: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        """Positions of quotes that no backslash escapes."""
        quotes = np.flatnonzero(text == 0x22)
        slashes = np.flatnonzero(text == 0x5C)
        carried, self._escaped = self._escaped, False
        if slashes.size:
            first = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
            starts = slashes[first].copy()
            lengths = np.diff(np.append(first, slashes.size))
            ends = starts + lengths  # the byte after each run
            if carried and starts[0] == 0:
                lengths[0] -= 1
            odd = ends[(lengths & 1) == 1]
            self._escaped = bool(odd.size) and int(odd[-1]) == text.size
            quotes = quotes[~np.isin(quotes, odd)]
        if carried and quotes.size and quotes[0] == 0:
            quotes = quotes[1:]
        return quotes


def event_ends(data: bytes | bytearray) -> tuple[list[int], int | None]:
    """Where each whole event of `data` ends, and where the list ends (position of its `]`), if it does.

    `data` starts between two events.
    """
    at, depth = Nesting().feed(data)
    below = np.flatnonzero(depth < 0)
    close = int(at[below[0]]) if below.size else None
    ends = at[: below[0]] if below.size else at
    return [int(p) + 1 for p in ends[depth[: ends.size] == 0]], close
