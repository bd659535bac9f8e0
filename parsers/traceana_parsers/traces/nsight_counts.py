"""What is counted about the processes of an Nsight export while its rows go by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traceana_parsers.traces.nsight_ranks import Ranks

if TYPE_CHECKING:
    import polars as pl


@dataclass(slots=True)
class Process:
    """Counts of one process."""

    first_ns: int | None = None
    last_ns: int | None = None
    devices: set[int] = field(default_factory=set)
    rows: Counter[str] = field(default_factory=Counter)  # by table
    graph_nodes: int = 0  # kernels with a graph node
    graph_launches: int = 0
    replays_with_kernels: int = 0  # graph launches that a kernel belongs to
    untimed_replays: int = 0

    def graph_mode(self, option: str | None) -> str:
        """How graph replays were traced: node, graph, none or unknown. `option` is what nsys was asked for."""
        if self.graph_nodes or self.replays_with_kernels:
            return "node"
        if self.rows["graphs"]:
            return "graph"
        if self.graph_launches:  # nothing of the replays is in the file
            return "graph" if option == "graph" or (option is None and self.rows["kernels"]) else "unknown"
        return "none" if self.rows["launches"] else "unknown"


@dataclass(slots=True)
class Odd:
    """Rows that were mended or left out."""

    impossible: int = 0  # no usable time
    backwards: int = 0  # end before start
    without_end: int = 0
    open_ranges: int = 0
    across_threads: int = 0


@dataclass(slots=True)
class Places:
    """How the processes and devices of an export are told apart."""

    path: str = ""  # of the export: its name may tell the rank
    ranks: Ranks = field(default_factory=Ranks)
    devices: Mapping[int, frozenset[int]] = field(default_factory=dict)  # pid -> GPUs it used
    only_pid: int | None = None  # the process of rows that name none, where there is but one
    serials: int = 0  # processes with GPU work by their full id
    gpus: Mapping[tuple[int, int], int] = field(default_factory=dict)  # (pid, device) -> GPU, where they differ
    domains: dict[tuple[int | None, int], str] = field(default_factory=dict)
    nccl_domains: frozenset[int] = frozenset()
    copy_kinds: Mapping[int, str] = field(default_factory=dict)


class Counts:
    """Counts of all processes of one export."""

    def __init__(self) -> None:
        self.processes: dict[int | None, Process] = {}
        self.odd = Odd()
        self.end_ns: int | None = None  # of the last event of the file
        self._graph_calls: list[pl.DataFrame] = []
        self._replayed: list[pl.DataFrame] = []

    def of(self, pid: int | None) -> Process:
        """The counts of one process."""
        return self.processes.setdefault(pid, Process())

    def total(self, table: str) -> int:
        """Rows of a table over all processes."""
        return sum(process.rows[table] for process in self.processes.values())

    def add(self, table: str, frame: pl.DataFrame, timed: pl.Expr | None = None) -> None:
        """Count rows with pid, start_ns and end_ns; `timed` says which rows' times are real (all, when absent)."""
        import polars as pl

        real = pl.lit(True) if timed is None else timed
        extra = [pl.col("device").drop_nulls().unique().alias("devices")] if "device" in frame.columns else []
        if "is_graph" in frame.columns:
            extra.append(pl.col("is_graph").sum().alias("graph_launches"))
        if "graph_node" in frame.columns:
            extra.append(pl.col("graph_node").count().alias("graph_nodes"))
        summary = frame.group_by("pid").agg(
            pl.len().alias("rows"),
            pl.col("start_ns").filter(real).min().alias("first"),
            pl.col("end_ns").filter(real).max().alias("last"),
            *extra,
        )
        for row in summary.iter_rows(named=True):
            process = self.of(row["pid"])
            process.rows[table] += row["rows"]
            process.devices.update(row.get("devices", ()))
            process.graph_launches += row.get("graph_launches", 0)
            process.graph_nodes += row.get("graph_nodes", 0)
            self._extend(process, row["first"], row["last"])

    def _extend(self, process: Process, first: int | None, last: int | None) -> None:
        if first is not None:
            process.first_ns = first if process.first_ns is None else min(process.first_ns, first)
        if last is not None:
            process.last_ns = last if process.last_ns is None else max(process.last_ns, last)
            self.end_ns = last if self.end_ns is None else max(self.end_ns, last)

    def untimed(self, rows: pl.DataFrame) -> None:
        """Count graph replays without times."""
        for pid, count in rows.group_by("pid").len().iter_rows():
            self.of(pid).untimed_replays += count

    def graph_calls(self, launches: pl.DataFrame) -> None:
        """Remember which calls (pid, correlation) launch a graph."""
        found = launches.filter("is_graph").select("pid", "correlation")
        if found.height:
            self._graph_calls.append(found)

    def replays(self, kernels: pl.DataFrame) -> None:
        """Remember which graph launches these kernels (pid, correlation) belong to."""
        import polars as pl

        if not self._graph_calls:
            return
        if len(self._graph_calls) > 1:
            self._graph_calls = [pl.concat(self._graph_calls).unique()]
        key = ["pid", "correlation"]
        hit = kernels.select(key).unique().join(self._graph_calls[0], on=key, how="semi", nulls_equal=True)
        if hit.height:
            self._replayed.append(hit)

    def finish(self) -> None:
        """Count what needs the whole file: graph launches that have kernels."""
        import polars as pl

        if self._replayed:
            for pid, count in pl.concat(self._replayed).unique().group_by("pid").len().iter_rows():
                self.of(pid).replays_with_kernels = count
