"""The events of one process, read slab by slab: memory is that of a slab, however long the capture.

Kept whole are only the graph launches and the replays that were traced as a whole: a few per cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceana.attribution.intervals import IntArray
from traceana.attribution.model import TIMELINE, Process
from traceana.attribution.ops import OPS, THREAD, hidden_graphs, recorded_ops, timed
from traceana.store.parts import Within, picked
from traceana.store.tables import STORED

if TYPE_CHECKING:
    from traceana.attribution.names import FileNames
    from traceana.store.dataset import Tables
    from traceana.store.parts import Mark, Only

#: rows of a slab, about: fewer take less memory and more time
SLAB_ROWS = 1 << 16
#: a table may be read so many times, about
_READINGS = 8

_SPAN = [*TIMELINE, "start_ns", "end_ns"]
_KERNELS = [*_SPAN, "stream", "name_id", "correlation", "grid_x", "block_x"]
_SHAPES = [*TIMELINE, "stream", "start_ns", "grid_x", "block_x"]
_CALLS = [*THREAD, "start_ns", "end_ns", "correlation", "is_graph"]
_COLLECTIVES = [*_SPAN, "stream", "name_id", "collective", "bytes", "group_name", "group_size"]
_MEMOPS = [column.name for column in STORED["memops"]]


@dataclass(frozen=True, slots=True)
class Piece:
    """What starts within one stretch of time: operations (see ops.device_ops), and the rows of tables behind them."""

    ops: pl.DataFrame
    kernels: pl.DataFrame
    memops: pl.DataFrame
    collectives: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Launched:
    """Some cycles: their scopes (`own`), all scopes that their time touches, the calls in it, what these launched."""

    own: pl.DataFrame
    scopes: pl.DataFrame
    launches: pl.DataFrame
    ops: pl.DataFrame


class Events:
    """Reads the events of one process from the tables of a run."""

    def __init__(self, tables: Tables, who: Process, names: FileNames) -> None:
        self._tables, self._only = tables, who.only()
        self.kinds = names.kinds(self._distinct("kernels", "name_id"))
        self.graphs = tables.frame("graphs", only=self._only)
        self.graph_calls = tables.frame("launches", [*_CALLS, "name_id"], {**self._only, "is_graph": True})
        whole = timed(self.graphs)
        replayed = _ids([self.graph_calls, whole])
        seen = self._among("kernels", replayed) | self._among("memops", replayed)
        self._replays = whole.filter(_none_of(replayed[seen]))
        id_known = pl.col("correlation").is_not_null()
        self.hidden_calls = self.graph_calls.filter(id_known & _none_of(replayed[seen]) & _none_of(_ids([whole])))
        self._hidden = pl.DataFrame(schema=OPS)
        largest = max(("kernels", "memops", "collectives"), key=self._rows)
        borders = self._borders(largest, SLAB_ROWS, "launches")
        self._stretches = [Within(low, below) for low, below in zip([None, *borders], [*borders, None], strict=True)]
        self.count = len(self._stretches)
        if self.hidden_calls.height:
            self._hidden = hidden_graphs(self.hidden_calls, self.ops())

    def by_start(self) -> Iterator[Piece]:
        """`count` pieces in order of time: each operation in the one in which it starts."""
        return map(self._piece, self._stretches)

    def _piece(self, within: Within) -> Piece:
        only: Only = {**self._only, "start_ns": within}
        kernels = self._tables.frame("kernels", _KERNELS, only)
        memops = self._tables.frame("memops", _MEMOPS, only)
        collectives = self._tables.frame("collectives", _COLLECTIVES, only)
        replays, hidden = (rows.filter(picked({"start_ns": within})) for rows in (self._replays, self._hidden))
        ids = _ids([kernels, memops, replays])
        calls = [name for name in _CALLS if name != "tid"]
        launches = self._tables.frame("launches", calls, {**self._only, "correlation": _span(ids)})
        ops = recorded_ops(kernels, memops, replays, launches, self.kinds, collectives)
        return Piece(pl.concat([ops, hidden]) if hidden.height else ops, kernels, memops, collectives)

    def ops(self) -> Iterator[pl.DataFrame]:
        """The operations of `by_start` alone."""
        return (self._piece(within).ops for within in self._stretches)

    def spans(self) -> Iterator[pl.DataFrame]:
        """The same operations with timeline, start, end and kind alone, which is far cheaper."""
        return (self._read(_SPAN, {"start_ns": within}) for within in self._stretches)

    def collectives(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """The collectives of `by_start`, and where they do not say their size the kernels that are communication."""
        return map(self._talk, self._stretches)

    def _talk(self, within: Within) -> tuple[pl.DataFrame, pl.DataFrame]:
        only: Only = {**self._only, "start_ns": within}
        found = self._tables.frame("collectives", _COLLECTIVES, only)
        talking = self.talking() if found["bytes"].null_count() else []
        return found, self._tables.frame("kernels", _SHAPES, {**only, "name_id": talking})

    def talking(self) -> list[int]:
        """Names of the kernels that are communication."""
        return self.kinds.filter(pl.col("family") == "communication")["name_id"].to_list()

    def by_launch(self, scopes: pl.DataFrame) -> Iterator[Launched]:
        """`scopes` (scopes.SCOPES and `row`) slab by slab, each cycle in one, with what they launched; one at least."""
        starts = pl.col("host_start_ns")
        first = pl.when(pl.col("cycle").is_null()).then(starts).otherwise(starts.min().over("cycle"))
        borders = np.array(self._borders("launches", 2 * SLAB_ROWS, "kernels"), np.int64)  # calls have few columns
        slab = pl.Series("slab", np.searchsorted(borders, scopes.select(first).to_series().to_numpy(), side="right"))
        parts = scopes.with_columns(slab).partition_by("slab", include_key=False) or [scopes]
        return (self._launched(scopes, own) for own in parts)

    def _launched(self, scopes: pl.DataFrame, own: pl.DataFrame) -> Launched:
        starts, ends = pl.col("host_start_ns"), pl.col("host_end_ns")
        low, high = own.select(starts.min().fill_null(0), ends.max().fill_null(0)).row(0)
        near = scopes.filter((starts <= high) & (ends >= low))
        launches = self._tables.frame("launches", _CALLS, {**self._only, "start_ns": Within(low, high + 1)})
        return Launched(
            own, near, launches, self._read([*_SPAN, "correlation"], {"correlation": _span(_ids([launches]))})
        )

    def _read(self, columns: list[str], only: Only) -> pl.DataFrame:
        """Some columns of some operations, with their kind."""
        kept = {
            "kernel": self._tables.frame("kernels", columns, {**self._only, **only}),
            "memop": self._tables.frame("memops", columns, {**self._only, **only}),
            "graph": self._replays.filter(picked(only)).select(columns),
        }
        kind = OPS["kind"]
        parts = [rows.with_columns(pl.lit(name).cast(kind).alias("kind")) for name, rows in kept.items()]
        return pl.concat([*parts, self._hidden.filter(picked(only)).select(*columns, "kind")])

    def _borders(self, table: str, size: int, other: str) -> list[int]:
        """Instants that cut a table into slabs of about `size` rows; each is read with what `other` has of its ids."""
        by_id = self._tables.marks(other, "correlation", self._only, size)
        if sum(mark.rows for mark in by_id) > 2 * size and not _borders(by_id, size):
            size = max(size, self._rows(table) // _READINGS)  # ids in no order: each slab reads all of the other table
        return _borders(self._tables.marks(table, "start_ns", self._only, size), size)

    def _rows(self, table: str) -> int:
        return sum(mark.rows for mark in self._tables.marks(table, "start_ns", self._only, SLAB_ROWS))

    def _distinct(self, table: str, column: str) -> pl.Series:
        pieces = [piece.unique() for piece in self._tables.pieces(table, [column], self._only)]
        return pl.concat(pieces)[column].unique() if pieces else pl.Series(column, [], pl.Int32)

    def _among(self, table: str, ids: IntArray) -> np.typing.NDArray[np.bool_]:
        """Which of some correlation ids a table has."""
        found = np.zeros(len(ids), np.bool_)
        if len(ids):
            for piece in self._tables.pieces(table, ["correlation"], self._only):
                found |= np.isin(ids, piece["correlation"].drop_nulls().to_numpy())
        return found


def _ids(frames: Iterable[pl.DataFrame]) -> IntArray:
    """Their correlation ids in order, each once."""
    ids = pl.concat([frame["correlation"].drop_nulls() for frame in frames])
    found: IntArray = ids.unique().sort().to_numpy()
    return found


def _span(ids: IntArray) -> IntArray | Within:
    """Where these ids lie, if they lie close together: a few rows too many cost less than to look each of them up."""
    close = len(ids) > 0 and int(ids[-1]) - int(ids[0]) < 4 * len(ids)
    return Within(int(ids[0]), int(ids[-1]) + 1) if close else ids


def _none_of(ids: IntArray) -> pl.Expr:
    """Rows without a correlation id, or with another one."""
    known = pl.col("correlation").is_in(pl.Series(ids, dtype=pl.Int64).implode())
    return ~known.fill_null(value=False)


def _borders(marks: list[Mark], size: int) -> list[int]:
    """Values that cut rows into slabs of about `size`; none where that would mean to read many rows again and again.

    What lies on both sides of a border is read twice. Rows that are in no order at all are one slab.
    """
    low, high, rows = (
        (np.array(values, np.int64) for values in zip(*marks, strict=True)) if marks else [np.zeros(0)] * 3
    )
    ended = np.concatenate(([0], np.cumsum(rows[np.argsort(high, kind="stable")])))
    across = np.cumsum(rows) - rows - ended[np.searchsorted(np.sort(high), low, side="left")]
    found: list[int] = []
    held = 0
    for start, n, both in zip(low.tolist(), rows.tolist(), across.tolist(), strict=True):
        if held >= size and both <= size and start not in found[-1:]:
            found.append(start)
            held = 0
        held += n
    return found
