"""One process of one trace: what its own tables say. The only thing it needs of the others is whom it waited for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import polars as pl

from traceana.attribution.capture_quality import count_process
from traceana.attribution.cycle_contents import comm_kernels, copies
from traceana.attribution.cycles import cycles_of_replays, cycles_of_scopes
from traceana.attribution.host_phases import host_phases
from traceana.attribution.host_waits import host_waits
from traceana.attribution.late import late_arrivals
from traceana.attribution.ledger import build_ledger
from traceana.attribution.model import TIMELINE, Process
from traceana.attribution.ops import device_ops
from traceana.attribution.phase_table import phase_spans
from traceana.attribution.ranks import splits
from traceana.attribution.scopes import OWN, ROLES, number_cycles, scopes_by_name, scopes_of_ranges
from traceana.attribution.skew import split_one_rank
from traceana.store.parts import picked
from traceana.store.tables import STORED
from traceana_parsers.kernels import classify
from traceana_parsers.schema import polars_schema
from traceana_parsers.traces.annotations import annotate

if TYPE_CHECKING:
    from traceana.store.dataset import Tables
    from traceana_parsers.interface import Sink

#: columns read of each table; all, where none are listed
_COLUMNS = {
    "kernels": [*TIMELINE, "stream", "start_ns", "end_ns", "name_id", "correlation", "grid_x", "block_x"],
    "memops": None,
    "graphs": None,
    "launches": None,
    "collectives": None,
}


class FileNames:
    """The names of one file and what they mean."""

    def __init__(self, tables: Tables, file_id: int) -> None:
        self.names = tables.frame("names", only={"file_id": file_id})
        said = self.names.select("file_id", "name_id").hstack(annotate(self.names["name"]))
        engines = said["engine"].drop_nulls().unique().to_list()
        self.engine = str(engines[0]) if len(engines) == 1 else None
        self.roles = said.filter(pl.col("role").is_in(ROLES)).with_columns(pl.col("generation_tokens").alias("tokens"))
        own = self.names.filter(pl.col("name").is_in(OWN))
        #: names of the ranges that may bound cycles and phases
        self.of_scopes = frozenset(pl.concat([self.roles["name_id"], own["name_id"]]).to_list())

    def kinds(self, kernels: pl.DataFrame) -> pl.DataFrame:
        """What the kernels' names mean: file_id, name_id, family, category, collective, library."""
        used = self.names.filter(pl.col("name_id").is_in(kernels["name_id"].unique().implode()))
        return used.select("file_id", "name_id").hstack(
            classify(used["name"]).select("family", "category", "collective", "library")
        )


@dataclass(frozen=True, slots=True)
class Matched:
    """What a process needs of the others. `transfers`: see ranks.splits, None where no two ranks were matched;
    `last`: see late.last_to_arrive."""

    transfers: pl.DataFrame | None
    last: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Found:
    """What goes on to the judgement across ranks: collectives split on this rank alone (None where ranks were matched),
    and how its late arrivals came about (late.LATE)."""

    alone: pl.DataFrame | None
    arrivals: pl.DataFrame


def attribute_process(tables: Tables, who: Process, names: FileNames, matched: Matched, sink: Sink) -> Found:
    """Adds what attribution says of one process to the tables of store.tables.ATTRIBUTION_TABLES.

    `names` are those of the process' file. Raises LedgerError when buckets do not add up.
    """
    found = {name: tables.frame(name, columns, who.only()) for name, columns in _COLUMNS.items()}
    ranges = tables.frame("ranges", only={**who.only(), "name_id": names.of_scopes})
    launches, kernels, collectives = found["launches"], found["kernels"], found["collectives"]
    kinds = names.kinds(kernels)
    ops = device_ops(kernels, found["memops"], found["graphs"], launches, kinds, collectives)
    categories = _categories(kernels, kinds)
    talking = kinds.filter(pl.col("family") == "communication")["name_id"]
    kernels = found.pop("kernels").filter(pl.col("name_id").is_in(talking.implode()))
    scopes, source = _scopes(ranges, names)
    cycles, provenance = cycles_of_scopes(scopes, launches, ops), "measured"
    if not cycles.height:
        cycles = cycles_of_replays(launches, ops, found["graphs"])
        source, provenance = "the periodic pattern of graph launches", "derived"
    if matched.transfers is None:
        alone = split_one_rank(collectives, kernels)
        transfers = splits(alone)
    else:
        alone, transfers = None, matched.transfers.filter(picked(who.only()))
    ledger = build_ledger(cycles.filter(pl.col("device").is_not_null()), ops, transfers)
    counts = count_process(who, found, ops, cycles)
    made = {
        "processes": pl.DataFrame([asdict(counts)]).with_columns(
            pl.lit(names.engine).alias("engine"), pl.lit(source).alias("source"), pl.lit(provenance).alias("provenance")
        ),
        "trace_cycles": cycles.filter(pl.col("phase") == "cycle"),
        "ledger": ledger.rows,
        "device_time": ledger.devices,
        "phase_spans": phase_spans(cycles, launches, ops),
        "host_phases": host_phases(number_cycles(scopes), collectives),
        "kernel_categories": categories,
        "host_waits": host_waits(cycles, launches, ops, names.names),
        "comm_kernels": comm_kernels(cycles, ops, kernels, collectives, kinds.select("file_id", "name_id", "library")),
        "cycle_copies": copies(cycles, found["memops"]),
    }
    if alone is not None:
        made["matched_collectives"] = alone
    for table, rows in made.items():
        sink.add(table, shaped(rows, table))
    return Found(alone, late_arrivals(matched.last.filter(picked(who.only())), ops))


def shaped(rows: pl.DataFrame, table: str) -> pl.DataFrame:
    """Rows with exactly the columns of a table."""
    return rows.select(pl.col(name).cast(kind) for name, kind in polars_schema(table, STORED).items())


def _scopes(ranges: pl.DataFrame, names: FileNames) -> tuple[pl.DataFrame, str]:
    """Host ranges that bound cycles and phases: our own where there are any, else the engine's annotations."""
    own = scopes_by_name(ranges, names.names)
    if own.height:
        return own, "ranges of the instrumentation"
    return scopes_of_ranges(ranges, names.roles), "the engine's own step annotations"


def _categories(kernels: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    by_name = kernels.group_by(*TIMELINE, "name_id").agg(
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"), pl.len().alias("kernels")
    )
    named = by_name.join(kinds, on=["file_id", "name_id"], how="left")
    return named.group_by(*TIMELINE, "family", "category").agg(pl.col("total_ns", "kernels").sum())
