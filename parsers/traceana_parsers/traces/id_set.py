"""Which ids were seen: a bit each where they lie close together, as ids that are handed out in order do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
#: values per id up to which a bit for every value takes less than the ids themselves
_SPREAD = 64
_LAST = (1 << 63) - 1


class IdSet:
    """Takes ids block by block."""

    def __init__(self) -> None:
        self._dense: list[tuple[int, npt.NDArray[np.uint8]]] = []  # least value, and a bit for each from there on
        self._sparse: list[Ints] = []

    def add(self, ids: Ints) -> None:
        """Take distinct ids in order."""
        if not ids.size:
            return
        low, span = int(ids[0]), int(ids[-1]) - int(ids[0]) + 1
        if span > _SPREAD * ids.size:
            self._sparse.append(ids)
            return
        present = np.zeros(span, np.bool_)
        present[ids - low] = True
        self._dense.append((low, np.packbits(present)))

    def holds(self, ids: Ints) -> npt.NDArray[np.bool_]:
        """Which of some ids were taken."""
        found = np.isin(ids, np.concatenate(self._sparse)) if self._sparse else np.zeros(ids.size, np.bool_)
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        for low, bits in self._dense:
            first = np.searchsorted(ordered, low)
            stop = np.searchsorted(ordered, min(low + 8 * bits.size - 1, _LAST), side="right")
            at = ordered[first:stop] - low
            found[order[first:stop]] |= (bits[at >> 3] >> (7 - (at & 7)).astype(np.uint8)) & 1 == 1
        return found
