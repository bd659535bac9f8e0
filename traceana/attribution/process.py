"""One process of one trace: what its own tables say. The only thing it needs of the others is whom it waited for.

Two walks over its events: cycle by cycle along the host's calls, for what each launched; then along the operations of
the devices in order of start, for where their time went. Neither holds more than a slab (see events and sweep).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.attribution.cycle_contents import added_comm_kernels, added_copies, comm_kernels, copies
from traceana.attribution.cycles import device_spans, on_devices, with_windows
from traceana.attribution.events import Events, Launched, Piece
from traceana.attribution.host_phases import host_phases
from traceana.attribution.host_waits import Waits, waiting, waiting_calls
from traceana.attribution.late import Arrivals
from traceana.attribution.ledger import Entries, captures, recorded_spans, with_transfer
from traceana.attribution.model import PROCESS, TIMELINE, Process, TraceCounts
from traceana.attribution.ops import THREAD, recorded
from traceana.attribution.periods import scopes_of_replays
from traceana.attribution.phase_table import phase_spans, with_idle_phases
from traceana.attribution.ranks import splits
from traceana.attribution.scopes import PREFILL, number_cycles, scopes_by_name, scopes_of_ranges
from traceana.attribution.skew import OneRank, Tally
from traceana.attribution.sweep import Slab, Sweep
from traceana.store.parts import picked
from traceana.store.tables import STORED
from traceana_parsers.schema import polars_schema

if TYPE_CHECKING:
    from traceana.attribution.names import FileNames
    from traceana.store.dataset import Tables
    from traceana_parsers.interface import Sink

_ON_HOST = [*PROCESS, "device", "start_ns", "end_ns", "collective"]
_CALLS = [*THREAD, "start_ns", "end_ns", "name_id", "correlation"]


@dataclass(frozen=True, slots=True)
class Matched:
    """What a process needs of the others. `transfers`: see ranks.splits, None where no two ranks were matched;
    `last`: see late.last_to_arrive."""

    transfers: pl.DataFrame | None
    last: pl.DataFrame

    def of(self, who: Process) -> Matched:
        """That of one process."""
        own = picked(who.only())
        return Matched(None if self.transfers is None else self.transfers.filter(own), self.last.filter(own))


def attribute_process(
    tables: Tables, who: Process, names: FileNames, matched: Matched, sink: Sink, tally: Tally
) -> pl.DataFrame:
    """Adds what attribution says of one process to the tables of store.tables.ATTRIBUTION_TABLES.

    `names` are those of the process' file. Where no ranks were matched, `tally` is told of its collectives.

    Returns how its late arrivals came about (late.LATE). Raises LedgerError when buckets do not add up.
    """
    events = Events(tables, who, names)
    ranges = tables.frame("ranges", only={**who.only(), "name_id": names.of_scopes})
    scopes, source = _scopes(ranges, names)
    numbered, provenance = number_cycles(scopes), "measured"
    bounds = numbered
    if not numbered.filter(pl.col("phase") != PREFILL).height:
        bounds = scopes_of_replays(events.graph_calls, events.ops, events.graphs)
        source, provenance = "the periodic pattern of graph launches", "derived"
    cycles, spans, whole = _cycles(events, bounds)
    entries = Entries(cycles.filter(pl.col("device").is_not_null()), whole)
    waits = Waits(cycles, _waiting(tables, who, names))
    walk = _Walk(events, cycles, entries, waits, matched.of(who), sink, tally)
    for _ in map(walk.take, events.by_start()):
        pass  # a piece has gone before the next is read
    ledger = entries.ledger()
    counts = TraceCounts(
        **asdict(who),
        **walk.counts,
        graph_rows=events.graphs.height,
        launches=sum(piece.height for piece in tables.pieces("launches", ["is_graph"], who.only())),
        graph_launches=events.graph_calls.height,
        hidden_graph_launches=events.hidden_calls.height,
        cycles=cycles.filter(pl.col("phase") == "cycle")["cycle"].n_unique(),
    )
    made = {
        "processes": pl.DataFrame([asdict(counts)]).with_columns(
            pl.lit(names.engine).alias("engine"), pl.lit(source).alias("source"), pl.lit(provenance).alias("provenance")
        ),
        "trace_cycles": cycles.filter(pl.col("phase") == "cycle"),
        "ledger": ledger.rows,
        "device_time": ledger.devices,
        "phase_spans": spans,
        "host_phases": host_phases(numbered, tables.frame("collectives", _ON_HOST, {**who.only(), "device": None})),
        "host_waits": waits.found(),
        "kernel_categories": _sum_of(walk.categories),
        "comm_kernels": added_comm_kernels(walk.talk),
        "cycle_copies": added_copies(walk.copies),
    }
    for table, rows in made.items():
        sink.add(table, shaped(rows, table))
    return walk.arrivals.found()


def shaped(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Rows with exactly the columns of a table."""
    return rows.select(pl.col(name).cast(kind) for name, kind in polars_schema(table, STORED).items())


def _scopes(ranges: pl.DataFrame, names: FileNames) -> tuple[pl.DataFrame, str]:
    """Host ranges that bound cycles and phases: our own where there are any, else the engine's annotations."""
    own = scopes_by_name(ranges, names.names)
    if own.height:
        return own, "ranges of the instrumentation"
    return scopes_of_ranges(ranges, names.roles), "the engine's own step annotations"


def _cycles(events: Events, scopes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Cycles with windows (cycles.CYCLES), what their phases did (phase_table.phase_spans), and ledger.captures."""
    scopes = scopes.with_row_index("row")
    found = list(map(_launched, events.by_launch(scopes)))  # some have gone before the next are read
    on_device, phases = [spans for spans, _ in found], [figures for _, figures in found]
    sweep, whole = Sweep(events.count), []

    def take(ops: pl.DataFrame) -> Slab:
        whole.append(recorded_spans(ops))
        return sweep.take(ops)

    cycles = with_windows(on_devices(scopes, pl.concat(on_device)), map(take, events.spans()))
    return cycles, with_idle_phases(cycles, phases), captures(whole)


def _launched(some: Launched) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What some cycles did on each device (cycles.device_spans), and their phases (phase_table.phase_spans)."""
    spans = device_spans(some.scopes, some.launches, some.ops)
    near = on_devices(some.scopes, spans).filter(pl.col("phase") != PREFILL)
    phases = phase_spans(near, some.launches, some.ops)
    return (
        spans.filter(pl.col("row").is_in(some.own["row"].implode())),
        phases.filter(pl.col("cycle").is_in(some.own["cycle"].unique().implode())),
    )


def _waiting(tables: Tables, who: Process, names: FileNames) -> pl.DataFrame:
    """Calls in which the host waited (host_waits.waiting_calls)."""
    of_calls = waiting(names.names)["name_id"].to_list()
    calls = tables.frame("launches", _CALLS, {**who.only(), "name_id": of_calls})
    memops = tables.frame(
        "memops", [*PROCESS, "correlation", "end_ns"], who.only() if calls.height else {"file_id": -1}
    )
    return waiting_calls(calls, memops, names.names)


class _Walk:
    """Goes along the operations of a process and gathers what they say."""

    def __init__(
        self,
        events: Events,
        cycles: pl.DataFrame,
        entries: Entries,
        waits: Waits,
        matched: Matched,
        sink: Sink,
        tally: Tally,
    ) -> None:
        """`matched`: of this process alone."""
        self._events, self._cycles, self._matched, self._sink, self._tally = events, cycles, matched, sink, tally
        self._entries, self._waits = entries, waits
        self.arrivals = Arrivals(matched.last)
        self.counts = {"kernels": 0, "memops": 0, "kernels_without_launch": 0}
        self.categories: list[pl.DataFrame] = []
        self.talk: list[pl.DataFrame] = []
        self.copies: list[pl.DataFrame] = []
        self._alone = OneRank(events.collectives()) if matched.transfers is None else None
        self._sweep, self._of_recorded = Sweep(events.count), Sweep(events.count)

    def take(self, piece: Piece) -> None:
        """Take the next operations."""
        kinds = self._events.kinds
        shapes = piece.kernels.filter(pl.col("name_id").is_in(self._events.talking()))
        slab = self._sweep.take(with_transfer(piece.ops, self._transfers(piece, shapes)))
        self._entries.add(slab)
        self._waits.add(slab)
        hidden = self._events.hidden_calls.height
        self.arrivals.add(self._of_recorded.take(recorded(piece.ops)) if hidden else slab)
        self.categories.append(_categories(piece.kernels, kinds))
        libraries = kinds.select("file_id", "name_id", "library")
        self.talk.append(comm_kernels(self._cycles, piece.ops, shapes, piece.collectives, libraries))
        self.copies.append(copies(self._cycles, piece.memops))
        _count(self.counts, piece)

    def _transfers(self, piece: Piece, shapes: pl.DataFrame) -> pl.DataFrame | None:
        """What is known of how long allreduces take (ranks.splits)."""
        if self._alone is None:
            return self._matched.transfers
        members = self._alone.split(piece.collectives, shapes)
        self._sink.add("matched_collectives", shaped(members, "matched_collectives"))
        self._tally.add_one_rank(members)
        return splits(members)


def _count(counts: dict[str, int], piece: Piece) -> None:
    kernels = piece.ops.filter(pl.col("kind") == "kernel")
    counts["kernels"] += kernels.height
    counts["memops"] += piece.memops.height
    counts["kernels_without_launch"] += kernels["launch_end_ns"].null_count()


def _categories(kernels: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    by_name = kernels.group_by(*TIMELINE, "name_id").agg(
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"), pl.len().cast(pl.Int64).alias("kernels")
    )
    return _sum_of([by_name.join(kinds, on=["file_id", "name_id"], how="left")])


def _sum_of(categories: list[pl.DataFrame]) -> pl.DataFrame:
    by = [*TIMELINE, "family", "category"]
    return pl.concat(categories).group_by(by).agg(pl.col("total_ns", "kernels").sum()).sort(by)
