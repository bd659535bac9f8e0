"""Reads the tables of one Nsight export, wherever they are stored, into the trace tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.schema import polars_schema
from traceana_parsers.traces.nsight_common import (
    CAPTURE,
    DOMAIN_TYPE,
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    RANGE_TYPES,
    RUNTIME,
    Session,
    StoreError,
    TableStore,
    pid_of,
    read_session,
)
from traceana_parsers.traces.nsight_counts import Counts, Places, Process
from traceana_parsers.traces.nsight_environment import OnText, add_settings, captured_output
from traceana_parsers.traces.nsight_names import Names
from traceana_parsers.traces.nsight_notes import notes_of
from traceana_parsers.traces.nsight_ranks import find_ranks, payload_domains
from traceana_parsers.traces.nsight_rows import (
    COPY_KINDS,
    GRAPH_INTS,
    KERNEL_INTS,
    MEMOP_INTS,
    RANGE_INTS,
    RUNTIME_INTS,
    Rows,
)

if TYPE_CHECKING:
    import polars as pl


def read_export(store: TableStore, report: FileReport, sink: Sink, on_text: OnText | None = None) -> None:
    """Adds all rows of an export to `sink` and says in `report` what became of it.

    `recognised` counts rows used, `unread` rows without a usable time, `partial` rows that were mended. Where a table
    breaks off, what came before and the other tables are read; `problem` names the first such table.
    """
    problems: list[str] = []
    session, places = _prepared(store, report.path, problems)
    names = Names(report.file_id, store, sink)
    counts = Counts()
    rows = Rows(report.file_id, session, places, names, counts, sink)
    for table, take, ints, texts, only in _plan(rows):
        try:
            for batch in store.batches(table, ints, texts, only):
                report.recognised += take(batch)
        except StoreError as error:
            problems.append(f"{table} breaks off: {error}")
    report.recognised += rows.close_ranges()
    rows.finish()
    settings = add_settings(store, report.file_id, sink)
    if on_text is not None:
        _captured(store, on_text, problems)
    if names.problem:
        problems.append(f"StringIds breaks off: {names.problem}")
    report.unread += counts.odd.impossible
    report.partial += counts.odd.backwards + counts.odd.without_end + names.unresolved
    nothing = None if report.recognised + settings else _NOTHING
    report.problem = problems[0] if problems else nothing
    notes = notes_of(store, session, places, counts, names.unresolved) + problems
    _add_traces(store, session, places, counts, notes, report.file_id, sink)


_NOTHING = f"an Nsight Systems export without GPU work, CUDA calls or ranges; capture with: {CAPTURE}"
Take = Callable[["pl.DataFrame"], int]


def _plan(rows: Rows) -> tuple[tuple[str, Take, Sequence[str], Sequence[str], tuple[str, Sequence[int]] | None], ...]:
    """Tables in reading order: calls before kernels, which are looked up among graph launches; ranges last."""
    return (
        (RUNTIME, rows.launches, RUNTIME_INTS, (), None),
        (KERNEL, rows.kernels, KERNEL_INTS, (), None),
        (MEMCPY, rows.copies, MEMOP_INTS, (), None),
        (MEMSET, rows.fills, MEMOP_INTS, (), None),
        (GRAPH_TRACE, rows.graphs, GRAPH_INTS, (), None),
        (NVTX, rows.ranges, RANGE_INTS, ("text",), ("eventType", RANGE_TYPES)),
    )


def _captured(store: TableStore, on_text: OnText, problems: list[str]) -> None:
    try:
        for name, content in captured_output(store):
            on_text(name, content)
    except StoreError as error:
        problems.append(f"captured output breaks off: {error}")


def _prepared(store: TableStore, path: str, problems: list[str]) -> tuple[Session, Places]:
    """Clock, ranks, devices and domains: what must be known before the first row."""
    try:
        session = read_session(store)
    except StoreError as error:
        problems.append(f"the description of the capture cannot be read: {error}")
        session = Session()
    places = Places(path=path)
    for step in (_processes, _copy_kinds, _domains):
        try:
            step(store, places)
        except StoreError as error:
            problems.append(f"the description of the capture cannot be read: {error}")
    return session, places


def _processes(store: TableStore, places: Places) -> None:
    """Ranks, GPUs, and the process of rows that name none."""
    pairs: list[tuple[int | None, ...]] = []
    for table in (KERNEL, GRAPH_TRACE, MEMCPY):
        pairs = pairs or _distinct(store, table, ("globalPid", "deviceId"))
    callers: set[int] = set()
    if not pairs or any(serial is None for serial, _ in pairs):  # GPU work alone does not name the processes
        callers = {pid_of(serial) for (serial,) in _distinct(store, RUNTIME, ("globalTid",)) if serial is not None}
    places.only_pid = next(iter(callers)) if len(callers) == 1 else None
    places.gpus = _gpus(store)
    places.serials = len({serial >> 24 for serial, _ in pairs if serial is not None})
    devices: dict[int, set[int]] = {} if pairs else {pid: set() for pid in callers}
    for serial, device in pairs:
        if serial is not None and device is not None:
            pid = pid_of(serial)
            devices.setdefault(pid, set()).add(places.gpus.get((pid, device), device))
    places.devices = {pid: frozenset(used) for pid, used in devices.items()}
    places.ranks = find_ranks(store, places.devices, places.path)


def _distinct(store: TableStore, table: str, columns: Sequence[str]) -> list[tuple[int | None, ...]]:
    """Distinct values; none of a damaged table, which is reported when its rows are read."""
    try:
        return store.distinct(table, columns)
    except StoreError:
        return []


def _gpus(store: TableStore) -> dict[tuple[int, int], int]:
    """(pid, device of the process) -> GPU, where the two differ: CUDA_VISIBLE_DEVICES."""
    rows = store.rows("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId"))
    return {
        (pid, device): gpu
        for pid, device, gpu in rows
        if isinstance(pid, int) and isinstance(device, int) and isinstance(gpu, int) and device != gpu
    }


def _copy_kinds(store: TableStore, places: Places) -> None:
    """Words for copyKind from the export's own table."""
    words = {"HTOD": "HtoD", "DTOH": "DtoH", "DTOD": "DtoD", "HTOH": "HtoH", "PTOP": "PtoP"}
    rows = store.rows("ENUM_CUDA_MEMCPY_OPER", ("id", "name"))
    found = {
        number: word
        for number, name in rows
        if isinstance(number, int) and (word := words.get(str(name).removeprefix("CUDA_MEMCPY_KIND_")))
    }
    places.copy_kinds = found or COPY_KINDS


def _domains(store: TableStore, places: Places) -> None:
    """Names of the NVTX domains by process."""
    places.nccl_domains = payload_domains(store)
    if "domainId" not in store.columns(NVTX):
        return
    only = ("eventType", (DOMAIN_TYPE,))
    for frame in store.batches(NVTX, ("globalTid", "domainId", "textId"), ("text",), only):
        ids = frame.get_column("textId").drop_nulls().unique().to_list()
        registered = store.strings(ids) if ids else {}
        for serial, number, text_id, text in frame.iter_rows():
            name = text or registered.get(text_id)
            if number is not None and name:
                places.domains[(None if serial is None else pid_of(serial), number)] = name


def _add_traces(
    store: TableStore,
    session: Session,
    places: Places,
    counts: Counts,
    notes: list[str],
    file_id: int,
    sink: Sink,
) -> None:
    """One row per process with launches, GPU work or ranges; the notes are the file's."""
    import polars as pl

    processes = counts.processes or {None: Process()}
    gpus = _gpu_names(store)
    rows = [
        {
            "file_id": file_id,
            "rank": places.ranks.of(pid),
            "pid": pid,
            "world_size": places.ranks.world_size,
            "host": session.host,
            "tool": "nsight",
            "tool_version": session.tool_version,
            "clock": session.clock,
            "start_ns": process.first_ns,
            "end_ns": process.last_ns,
            "graph_mode": process.graph_mode(session.graph_option),
            "devices": json.dumps({str(d): gpus.get(d) for d in sorted(process.devices)}),
            "notes": json.dumps(notes),
        }
        for pid, process in sorted(processes.items(), key=lambda item: -1 if item[0] is None else item[0])
    ]
    sink.add("traces", pl.DataFrame(rows, schema=polars_schema("traces"), orient="row"))


def _gpu_names(store: TableStore) -> dict[int, str]:
    """Names of the GPUs by index."""
    try:
        rows = store.rows("TARGET_INFO_GPU", ("id", "name"))
    except StoreError:
        return {}
    return {number: name[:200] for number, name in rows if isinstance(number, int) and isinstance(name, str) and name}
