"""One process of a trace: its rows, and what is counted about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from traceana_parsers.interface import Sink
from traceana_parsers.kernels import classify
from traceana_parsers.traces.collective_words import collective_name, message_bytes
from traceana_parsers.traces.id_set import IdSet
from traceana_parsers.traces.kineto_events import NONE, AnyEvent, KernelArgs, plain
from traceana_parsers.traces.kineto_host import HostCollectives
from traceana_parsers.traces.kineto_rows import (
    Clock,
    Ints,
    Names,
    Spans,
    ids,
    kernel_columns,
    launch_columns,
    make_frame,
    memop_columns,
)

if TYPE_CHECKING:
    import polars as pl


class Process:
    """Makes rows of one process' events.

    GPU events name the device as their process: their rows take the process id of the first runtime call, and wait for
    it where it comes later in the file.
    """

    def __init__(self, file_id: int, rank: int | None, clock: Clock, names: Names, sink: Sink) -> None:
        self.file_id = file_id
        self.rank = rank
        self.pid: int | None = None
        self.used = False
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self.devices: set[int] = set()
        self.kernels = 0
        self.launches = 0
        self.collectives = 0
        self.unplaced = 0
        self.negative = 0
        self.zero = 0
        self.fractions = False
        self.kernel_correlations = IdSet()
        self.repeated_correlations = False  # several kernels on one launch
        self.graph_correlations: list[Ints] = []
        self._clock = clock
        self._names = names
        self._sink = sink
        self._calls = HostCollectives()
        self._held: list[tuple[str, pl.DataFrame]] = []
        self._labelled_pid: int | None = None
        self._annotated_pid: int | None = None
        self._communication: dict[int, str | None] = {}  # name id -> collective; None for other kernels

    def add(self, kind: str, events: list[AnyEvent]) -> int:
        """Take the events of one kind from a block; how many could be used."""
        spans = Spans.of(events, self._clock, self._names)
        self.unplaced += spans.unplaced
        if not spans.events:
            return 0
        self._count(spans)
        getattr(self, f"_add_{kind}")(spans)
        return len(spans.events)

    def labelled_host(self, event: AnyEvent) -> None:
        """A metadata event that marks the host's process."""
        if self._labelled_pid is None and isinstance(event.pid, int):
            self._labelled_pid = event.pid

    def finish(self) -> None:
        """Write what waited."""
        if self.pid is None:
            self.pid = self._labelled_pid if self._labelled_pid is not None else self._annotated_pid
        self._release()
        frame = self._calls.frame(self.file_id, self.rank, with_gpu=self.kernels > 0)
        if frame is not None:
            self.collectives += frame.height
            self._sink.add("collectives", frame)

    # ---- one kind each ----

    def _add_launch(self, spans: Spans) -> None:
        columns = launch_columns(spans)
        pids = ids([e.pid for e in spans.events])
        self.launches += len(spans.events)
        graph = columns["correlation"][columns["is_graph"]]
        if graph.size:
            self.graph_correlations.append(graph)
        self._sink.add("launches", make_frame("launches", spans.columns(self.file_id, self.rank, pids) | columns))
        if self.pid is None and (known := pids[pids != NONE]).size:
            self.pid = int(known[0])
            self._release()

    def _add_kernel(self, spans: Spans) -> None:
        columns, args = kernel_columns(spans)
        self.kernels += len(spans.events)
        self._gpu_seen(columns["device"])
        correlation = columns["correlation"]
        distinct = np.unique(correlation[correlation != NONE])
        self.repeated_correlations |= distinct.size < int((correlation != NONE).sum())
        self.kernel_correlations.add(distinct)
        self._gpu("kernels", spans, columns)
        self._add_communication(spans, columns, args)

    def _add_communication(self, spans: Spans, columns: dict[str, Ints], args: list[KernelArgs]) -> None:
        self._classify_new(spans)
        known = self._communication
        at = np.flatnonzero(
            [known[i] is not None or a.collective is not None for i, a in zip(spans.names.tolist(), args, strict=True)]
        )
        if not at.size:
            return
        chosen = [args[i] for i in at]
        name_ids = spans.names[at]
        self.collectives += at.size
        self._gpu(
            "collectives",
            Spans([], spans.start[at], spans.end[at], name_ids),
            {
                "device": columns["device"][at],
                "stream": columns["stream"][at],
                "correlation": columns["correlation"][at],
                "collective": [
                    collective_name(a.collective) or known[i] for a, i in zip(chosen, name_ids.tolist(), strict=True)
                ],
                "bytes": [message_bytes(a.nelems, a.dtype) for a in chosen],
                "group_name": [plain(a.group) for a in chosen],
                "group_size": np.array([a.group_size for a in chosen], dtype=np.int64),
            },
        )

    def _classify_new(self, spans: Spans) -> None:
        """Look up kernel names not seen before in the kernel table."""
        import polars as pl

        new = [(i, self._names.text(i)) for i in np.unique(spans.names).tolist() if i not in self._communication]
        if not new:
            return
        kinds = classify(pl.Series([name for _, name in new], dtype=pl.String))
        for (name_id, _), family, collective in zip(new, kinds["family"], kinds["collective"], strict=True):
            self._communication[name_id] = collective if family == "communication" else None

    def _add_memop(self, spans: Spans) -> None:
        columns = memop_columns(spans)
        self._gpu_seen(columns["device"])
        self._gpu("memops", spans, columns)

    def _add_annotation(self, spans: Spans) -> None:
        pids = ids([e.pid for e in spans.events])
        if self._annotated_pid is None and (known := pids[pids != NONE]).size:
            self._annotated_pid = int(known[0])
        columns = spans.columns(self.file_id, self.rank, pids)
        columns |= {"tid": ids([e.tid for e in spans.events]), "kind": "annotation"}
        self._sink.add("ranges", make_frame("ranges", columns))

    def _add_gpu_annotation(self, spans: Spans) -> None:
        self._gpu("ranges", spans, {"tid": ids([e.tid for e in spans.events]), "kind": "gpu_annotation"})

    def _add_call(self, spans: Spans) -> None:
        self._calls.add(spans)

    # ---- rows of GPU work ----

    def _gpu(self, table: str, spans: Spans, columns: dict[str, Any]) -> None:
        frame = make_frame(table, spans.columns(self.file_id, self.rank, self.pid) | columns)
        if self.pid is None:
            self._held.append((table, frame))
        else:
            self._sink.add(table, frame)

    def _release(self) -> None:
        import polars as pl

        for table, frame in self._held:
            self._sink.add(table, frame.with_columns(pl.lit(self.pid, pl.Int64).alias("pid")))
        self._held.clear()

    def _gpu_seen(self, device: Ints) -> None:
        self.devices.update(int(d) for d in np.unique(device) if d != NONE)

    def _count(self, spans: Spans) -> None:
        self.used = True
        low, high = int(spans.start.min()), int(spans.end.max())
        self.first_ns = low if self.first_ns is None else min(self.first_ns, low)
        self.last_ns = high if self.last_ns is None else max(self.last_ns, high)
        self.negative += spans.negative
        self.zero += spans.zero
        self.fractions |= spans.fractions

    # ---- graphs ----

    def graph_replays(self) -> tuple[int, int]:
        """(graph launches, those that a kernel in the trace belongs to)."""
        if not self.graph_correlations:
            return 0, 0
        launches = np.concatenate(self.graph_correlations)
        return int(launches.size), int(self.kernel_correlations.holds(launches).sum())

    def graph_mode(self) -> str:
        """How replays were traced: node, graph (replays without their kernels), none, or unknown."""
        launches, with_kernels = self.graph_replays()
        if with_kernels:
            return "node"
        if launches:
            return "graph" if self.kernels else "unknown"
        if self.launches or not self.kernels:
            return "none" if self.launches else "unknown"
        return "node" if self.repeated_correlations else "unknown"
