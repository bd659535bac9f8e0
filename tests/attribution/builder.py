"""Small traces written as code: calls, kernels, copies, graph replays and ranges of one process, in ns."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from traceana.attribution.ops import device_ops
from traceana_parsers.schema import polars_schema

#: first word of a kernel's name -> family, collective
KINDS = {
    "gemm": ("compute", None),
    "attention": ("compute", None),
    "allreduce": ("communication", "all_reduce"),
    "allgather": ("communication", "all_gather"),
    "broadcast": ("communication", "broadcast"),
    "copykernel": ("copy", None),
}
TABLES = ("kernels", "memops", "graphs", "launches", "ranges", "collectives", "names", "traces")


@dataclass
class Process:
    """One process of one file; `ahead` is added to every time (its clock runs ahead by so much)."""

    file_id: int = 0
    rank: int | None = 0
    pid: int = 100
    ahead: int = 0
    rows: dict[str, list[dict[str, object]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    ids: dict[str, int] = field(default_factory=dict)
    last: int = 0

    def name(self, name: str) -> int:
        if name not in self.ids:
            self.ids[name] = len(self.ids)
            self.rows["names"].append({"file_id": self.file_id, "name_id": self.ids[name], "name": name})
        return self.ids[name]

    def _add(self, table: str, start: int, end: int, name: str, **more: object) -> None:
        self.rows[table].append(
            {
                "file_id": self.file_id, "rank": self.rank, "pid": self.pid,
                "start_ns": start + self.ahead, "end_ns": end + self.ahead, "name_id": self.name(name), **more,
            }
        )  # fmt: skip

    def call(self, start: int, end: int, *, tid: int = 1, graph: bool = False, correlation: int | None = None) -> int:
        """A launch; returns its correlation id."""
        if correlation is None:
            self.last += 1
            correlation = self.last
        name = "cudaGraphLaunch" if graph else "cudaLaunchKernel"
        self._add("launches", start, end, name, tid=tid, correlation=correlation, is_graph=graph)
        return correlation

    def kernel(
        self, name: str, start: int, end: int, call: int | None, *, device: int = 0, stream: int = 7, node: int | None = None,
        bytes: int | None = None, group: str | None = None, size: int | None = None, grid: int = 1, block: int = 512,
    ) -> None:  # fmt: skip
        where = {"device": device, "stream": stream, "correlation": call}
        self._add("kernels", start, end, name, **where, graph_node=node, grid_x=grid, block_x=block)
        family, collective = KINDS[name.split(maxsplit=1)[0]]
        if family == "communication":
            extra = {"collective": collective, "bytes": bytes, "group_name": group, "group_size": size}
            self._add("collectives", start, end, name, **where, **extra)

    def copy(self, start: int, end: int, call: int | None, *, device: int = 0, stream: int = 8) -> None:
        self._add(
            "memops", start, end, "[CUDA memcpy]", device=device, stream=stream, correlation=call, kind="HtoD", bytes=64
        )

    def graph(self, start: int, end: int, call: int, *, device: int = 0, graph_id: int | None = None) -> None:
        self._add("graphs", start, end, "graph", device=device, stream=7, correlation=call, graph_id=graph_id)

    def range(
        self, name: str, start: int, end: int, *, tid: int = 1, domain: str | None = "traceana", kind: str = "nvtx"
    ) -> None:
        self._add("ranges", start, end, name, tid=tid, domain=domain, kind=kind)

    def trace(self, **more: object) -> None:
        """A row of `traces`."""
        usual = {"clock": "utc", "start_ns": 0, "end_ns": 1000, "graph_mode": "none", "notes": "[]", "tool": "nsight"}
        self.rows["traces"].append({"file_id": self.file_id, "rank": self.rank, "pid": self.pid, **usual, **more})


@dataclass
class Tables:
    """The tables of several processes, and what attribution makes of them first."""

    tables: dict[str, pl.DataFrame]

    def __getattr__(self, name: str) -> pl.DataFrame:
        return self.tables[name]

    @property
    def kinds(self) -> pl.DataFrame:
        known = {name: KINDS.get(name.split()[0], ("compute", None)) for name in self.tables["names"]["name"].to_list()}
        rows = [(f, i, *known[n]) for f, i, n in self.tables["names"].iter_rows()]
        schema = {"file_id": pl.Int32, "name_id": pl.Int32, "family": pl.String, "collective": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def ops(self) -> pl.DataFrame:
        return device_ops(self.kernels, self.memops, self.graphs, self.launches, self.kinds)


def tables(*processes: Process) -> Tables:
    made = {
        table: pl.DataFrame(
            [row for process in processes for row in process.rows[table]], schema=polars_schema(table), orient="row"
        )
        for table in TABLES
    }
    return Tables(made)
