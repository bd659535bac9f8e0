"""Names of one export as ids of the `names` table, given out at first use. Memory is 12 bytes per distinct name.

A name is known by a 64-bit hash of its text; two of ten million names share one with a probability of 3 in a million.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traceana_parsers.interface import Sink
from traceana_parsers.kernels import classify
from traceana_parsers.schema import polars_schema
from traceana_parsers.traces.nsight_common import (
    API_SUFFIX,
    NAME_LIMIT,
    RANGE_COUNTERS,
    UNNAMED,
    StoreError,
    TableStore,
)

if TYPE_CHECKING:
    import polars as pl

Ints = npt.NDArray[np.int64]
_GRAPH_LAUNCH = re.compile(r"(?:cuda|cu)GraphLaunch")
_UNSET = -1


class _Lookup:
    """Sorted keys and their name ids."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._keys: npt.NDArray[Any] = np.empty(0, dtype)
        self._values = np.empty(0, np.int32)

    def get(self, keys: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Name ids of keys, -1 where a key is unknown."""
        if not len(self._keys):
            return np.full(len(keys), _UNSET, np.int32)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._values[at], np.int32(_UNSET))

    def add(self, keys: npt.NDArray[Any], values: npt.NDArray[np.int32]) -> None:
        """Take new, distinct keys."""
        order = np.argsort(keys)
        at = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, at, keys[order])
        self._values = np.insert(self._values, at, values[order])


@dataclass(frozen=True, slots=True)
class Form:
    """How the names of a kind of event are written down: `cut` is dropped where `mark` occurs."""

    kind: str
    cut: str | None = None
    mark: str = ""

    def apply(self, texts: pl.Series) -> pl.Series:
        """The texts in this form, none longer than NAME_LIMIT."""
        if self.cut is not None and (not self.mark or texts.str.contains(self.mark, literal=True).any()):
            texts = texts.str.replace(self.cut, "")
        return texts.str.slice(0, NAME_LIMIT)


KERNEL_NAME = Form("kernel")
API_NAME = Form("api", API_SUFFIX)
RANGE_NAME = Form("range", RANGE_COUNTERS, " = ")


class Names:
    """Gives ids to names and writes each new one to the sink."""

    def __init__(self, file_id: int, store: TableStore | None, sink: Sink) -> None:
        self._file_id = file_id
        self._store = store
        self._sink = sink
        self._by_hash = _Lookup(np.uint64)
        self._by_string = {form.kind: _Lookup(np.int64) for form in (KERNEL_NAME, API_NAME, RANGE_NAME)}
        self._collective: dict[int, str] = {}  # of the kernels that communicate
        self._graph_launches: list[int] = []
        self._count = 0
        self.unresolved = 0  # string ids that StringIds does not have
        self.problem: str | None = None

    def of_strings(self, ids: pl.Series, form: Form) -> pl.Series:
        """Name ids of StringIds ids; null stays null."""
        import polars as pl

        known = self._by_string[form.kind]
        null = ids.is_null()
        keys = ids.fill_null(0).to_numpy()
        found = known.get(keys)
        new = np.unique(keys[(found == _UNSET) & ~null.to_numpy()])
        if len(new):
            known.add(new, self._strings(new, form))
            found = known.get(keys)
        made = pl.Series("name_id", found, pl.Int32)
        return made.set(null, None) if null.any() else made

    def of_texts(self, texts: pl.Series, form: Form) -> pl.Series:
        """Name ids of texts; null stays null."""
        import polars as pl

        null = texts.is_null()
        if not null.any():
            return pl.Series("name_id", self._intern(form.apply(texts), form), pl.Int32)
        made = np.zeros(len(texts), np.int32)
        made[~null.to_numpy()] = self._intern(form.apply(texts.drop_nulls()), form)
        return pl.Series("name_id", made, pl.Int32).set(null, None)

    def unnamed(self) -> int:
        """The id of events without a name."""
        import polars as pl

        return int(self._intern(pl.Series([UNNAMED]), RANGE_NAME)[0])

    def is_graph_launch(self, name_ids: pl.Series) -> pl.Series:
        """Which names are calls that launch a CUDA graph."""
        import polars as pl

        return pl.Series(np.isin(name_ids.to_numpy(), self._graph_launches), dtype=pl.Boolean)

    def collectives(self, name_ids: pl.Series) -> pl.Series | None:
        """The collective of each kernel, null for those that do not communicate; None when none of them does."""
        import polars as pl

        if not np.isin(name_ids.to_numpy(), list(self._collective)).any():
            return None
        return name_ids.replace_strict(self._collective, default=None, return_dtype=pl.String)

    def _strings(self, ids: Ints, form: Form) -> npt.NDArray[np.int32]:
        import polars as pl

        try:
            found = self._store.strings(ids.tolist()) if self._store is not None else {}
        except StoreError as error:
            self.problem, found = str(error), {}
        self.unresolved += len(ids) - len(found)
        texts = pl.Series([found.get(i, UNNAMED) for i in ids.tolist()], dtype=pl.String)
        return self._intern(form.apply(texts), form)

    def _intern(self, texts: pl.Series, form: Form) -> npt.NDArray[np.int32]:
        """Ids of texts without nulls."""
        hashes = texts.hash().to_numpy()
        found = self._by_hash.get(hashes)
        missing = np.flatnonzero(found == _UNSET)
        if len(missing):
            keys, first = np.unique(hashes[missing], return_index=True)
            made = np.arange(self._count, self._count + len(keys), dtype=np.int32)
            self._count += len(keys)
            self._by_hash.add(keys, made)
            self._learn(texts.gather(missing[first]), made, form)
            found = self._by_hash.get(hashes)
        return found

    def _learn(self, texts: pl.Series, ids: npt.NDArray[np.int32], form: Form) -> None:
        import polars as pl

        columns = {
            "file_id": pl.repeat(self._file_id, len(ids), dtype=pl.Int32, eager=True),
            "name_id": ids,
            "name": texts,
        }
        self._sink.add("names", pl.DataFrame(columns, schema=polars_schema("names")))
        if form is API_NAME:
            named = zip(texts.to_list(), ids.tolist(), strict=True)
            self._graph_launches += [i for text, i in named if _GRAPH_LAUNCH.match(text)]
        elif form is KERNEL_NAME:
            kinds = classify(texts)
            for i, family, collective in zip(ids.tolist(), kinds["family"], kinds["collective"], strict=True):
                if family == "communication":
                    self._collective[i] = collective or "unknown"
