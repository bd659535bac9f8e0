"""Reads PyTorch-profiler traces (Kineto's Chrome JSON, all generations since 2021) into the trace tables.

What goes where: kernels -> `kernels` (communication ones also -> `collectives`), copies and fills -> `memops`, runtime
and driver calls -> `launches`, user annotations -> `ranges` (kind annotation; the profiler's projection onto a stream:
gpu_annotation), collective calls of a CPU capture -> `collectives` with a null device. Operators and Python frames are
not kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from typing import Any

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.sources import Source, SourceError, Stream, open_stream
from traceana_parsers.traces.kineto_blocks import BLOCK, TraceJson
from traceana_parsers.traces.kineto_events import AnyEvent, elapsed
from traceana_parsers.traces.kineto_host import split_calls
from traceana_parsers.traces.kineto_process import Process
from traceana_parsers.traces.kineto_rows import Clock, Names
from traceana_parsers.traces.kineto_summary import Summary
from traceana_parsers.traces.kineto_tail import keys_after_events
from traceana_parsers.traces.rank_names import labelled_pid, rank_of

_HEAD = re.compile(rb"^[\s\xef\xbb\xbf]*[\[{]")
_MARKS = re.compile(rb'"(?:traceEvents|deviceProperties|baseTimeNanoseconds)"\s*:|"ph"\s*:\s*"[A-Za-z]"')
_TRACE_NAME = re.compile(r"\.(?:pt\.)?trace\.json(?:\.\w+)?$")

#: category of an event -> what becomes of it; categories up to 2021 are capitalised
_KINDS = {
    "kernel": "kernel", "Kernel": "kernel",
    "gpu_memcpy": "memop", "gpu_memset": "memop", "Memcpy": "memop", "Memset": "memop",
    "cuda_runtime": "launch", "cuda_driver": "launch", "Runtime": "launch", "hip_runtime": "launch",
    "user_annotation": "annotation", "gpu_user_annotation": "gpu_annotation",
    "cpu_op": "operator", "Operator": "operator",
    "python_function": "python", "overhead": "overhead",
}  # fmt: skip


class KinetoReader:
    """Reads one trace at a time. Memory does not grow with the file, apart from distinct names."""

    def __init__(self, block: int = BLOCK) -> None:
        self._block = block  # bytes decoded at a time, about

    def sniff(self, head: bytes, name: str) -> bool:
        """True when a file that begins with `head` (decompressed) is a Chrome JSON trace; `name` breaks ties."""
        if not _HEAD.match(head):
            return False
        return _MARKS.search(head) is not None or _TRACE_NAME.search(name) is not None

    def read(self, source: Source, file_id: int, sink: Sink, stream: Stream | None = None) -> FileReport:
        """Adds the rows of one file to `sink`. Never raises for what is in it; `problem` says what went wrong.

        `stream`: the source, when it is open already; it is closed here.
        """
        report = FileReport(file_id, source.path, format="kineto")
        try:
            stream = stream or open_stream(source)
            report.modified = source.modified
        except (SourceError, OSError) as error:
            report.problem = str(error).removeprefix(f"{source.path}: ")
            return report
        with stream:
            trace = TraceJson(stream, self._block)
            _File(trace, source, file_id, sink).read(report)
        report.bytes = trace.size
        report.unread += trace.decoder.unread
        if trace.problem:
            report.problem = f"{trace.problem}; {'what came before' if report.recognised else 'nothing'} was read"
        return report


def _count(value: object, otherwise: int | None) -> int | None:
    """A rank or a number of ranks; `otherwise` for what is none."""
    return value if isinstance(value, int) and 0 <= value < 1 << 31 else otherwise


class _File:
    """State of reading one file."""

    def __init__(self, trace: TraceJson, source: Source, file_id: int, sink: Sink) -> None:
        self.trace = trace
        self.source = source
        self.file_id = file_id
        self.sink = sink
        self.keys: dict[str, Any] = {}
        self.names = Names()
        self.clock = Clock(None)
        self.summary = Summary()
        self.rank: int | None = None
        self._processes: dict[str, Process] = {}
        self._is_call: dict[str, bool] = {}
        self._open: dict[tuple[object, object], list[AnyEvent]] = {}

    def read(self, report: FileReport) -> None:
        started = False
        for events in self.trace.events():
            if not started:
                self._start()
                started = True
            self._block(events, report)
        if not started:
            self._start()
        self._finish(report)

    def _start(self) -> None:
        """Base time and rank are needed before the first row; where they come after the events, look there first."""
        self.keys = dict(self.trace.keys)
        if "baseTimeNanoseconds" not in self.keys or "distributedInfo" not in self.keys:
            self.keys = keys_after_events(self.source) | self.keys
        base = self.keys.get("baseTimeNanoseconds")
        if isinstance(base, (int, float)) and not isinstance(base, bool) and abs(base) < 1 << 62:
            self.clock = Clock(int(base))
        info = self.keys.get("distributedInfo")
        named, self.summary.world_size = rank_of(self.source.path)
        self.rank = named
        if isinstance(info, dict):
            self.rank = _count(info.get("rank"), named)
            self.summary.world_size = _count(info.get("world_size"), self.summary.world_size)
        self.summary.rank_from_name = self.rank is not None and not isinstance(info, dict)

    # ---- events ----

    def _block(self, events: Sequence[AnyEvent], report: FileReport) -> None:
        buckets: dict[str, list[AnyEvent]] = {kind: [] for kind in _KINDS.values()}
        kinds = _KINDS
        for written in events:
            event = written if written.ph == "X" else self._other(written)
            if event is None:
                continue
            kind = kinds.get(event.cat)  # type: ignore[arg-type]
            if kind is not None:
                if not self.clock.kind:
                    self.clock.decide(event.ts)
                buckets[kind].append(event)
        self.summary.python_frames |= bool(buckets["python"])
        self.summary.overhead(buckets["overhead"])
        buckets["call"] = split_calls(buckets["operator"], self._is_call)
        gloo = [copy(e) for e in buckets["annotation"] if e.name.startswith("gloo:")]
        for kind in ("launch", "kernel", "memop", "annotation", "gpu_annotation", "call"):
            for process, group in self._by_process(buckets[kind]):
                report.recognised += process.add(kind, group)
        for process, group in self._by_process(gloo):
            process.add("call", group)  # part of a call, and counted as an annotation already

    def _other(self, event: AnyEvent) -> AnyEvent | None:
        """What an event that is not complete in itself gives: a pair's end gives the pair."""
        if event.ph == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
        elif event.ph == "E":
            return self._pair(event)
        elif event.ph == "M":
            self._metadata(event)
        return None

    def _pair(self, end: AnyEvent) -> AnyEvent | None:
        """The innermost open begin of the thread, completed."""
        stack = self._open.get((end.pid, end.tid))
        if not stack:
            self.summary.unpaired += 1
            return None
        begin = stack.pop()
        begin.dur = elapsed(begin, end)
        return begin

    def _metadata(self, event: AnyEvent) -> None:
        if event.name == "process_labels" and b'"CPU"' in bytes(event.args):
            for process, group in self._by_process([event]):
                process.labelled_host(group[0])

    def _by_process(self, events: list[AnyEvent]) -> list[tuple[Process, list[AnyEvent]]]:
        """Events by process: one for a usual trace, one per rank in a merged one (`[TP03] 4242` as process ids)."""
        if not events:
            return []
        if not any(type(pid) is str for pid in {e.pid for e in events}):
            return [(self._process("", self.rank), events)]
        groups: dict[str, list[AnyEvent]] = {}
        for event in events:
            found = labelled_pid(event.pid) if isinstance(event.pid, str) else None
            label = ""
            if found:
                label, rank, event.pid = found
                self._process(label, rank)
                self.summary.merged = True
            groups.setdefault(label, []).append(event)
        return [(self._process(label, self.rank), group) for label, group in groups.items()]

    def _process(self, label: str, rank: int | None) -> Process:
        process = self._processes.get(label)
        if process is None:
            process = Process(self.file_id, rank, self.clock, self.names, self.sink)
            self._processes[label] = process
        return process

    # ---- the end ----

    def _finish(self, report: FileReport) -> None:
        keys = self.keys | self.trace.keys
        self.summary.unpaired += sum(len(stack) for stack in self._open.values())
        processes = list(self._processes.values()) or [self._process("", self.rank)]
        if len(processes) > 1:
            processes = [p for p in processes if p.used] or processes[:1]
        for process in processes:
            process.finish()
            report.unread += process.unplaced
        if self.names.ids:
            self.sink.add("names", self.names.frame(self.file_id))
        late = self.keys.get("baseTimeNanoseconds") != keys.get("baseTimeNanoseconds")
        for process in processes:
            notes = self.summary.notes(process, keys, self.clock, self.trace.problem, late_base=late)
            self.sink.add("traces", self.summary.row(process, keys, self.clock, notes))
