"""What is missing or doubtful in an Nsight export, one text each, with the command that would capture it."""

from __future__ import annotations

import re
from collections import Counter

from traceana_parsers.traces.nsight_common import (
    CAPTURE,
    GRAPH_TRACE,
    KERNEL,
    NVTX,
    RUNTIME,
    Session,
    StoreError,
    TableStore,
)
from traceana_parsers.traces.nsight_counts import Counts, Places

#: diagnostics of nsys and CUPTI that speak of events that are not there
_LOSS = re.compile(
    r"drop|overflow|exceed|\blost\b|incomplete|not (?:all|enough)|out of memory|could not (?:be )?(?:allocat|collect)",
    re.IGNORECASE,
)
_MESSAGES = 5
_SHARE = 0.01  # of the capture, from which the profiler's own time is worth a note


def notes_of(store: TableStore, session: Session, places: Places, counts: Counts, unresolved: int) -> list[str]:
    """The notes on one export, of all its processes; see `traces.notes`."""
    return [
        *session.notes,
        *_missing(store, counts),
        *_graphs(store, counts),
        *_told_apart(store, places, counts),
        *_odd(counts, unresolved),
        *_lost(store),
        *_overhead(store, counts),
    ]


def _missing(store: TableStore, counts: Counts) -> list[str]:
    notes = []
    kernels, launches = counts.total("kernels"), counts.total("launches")
    replays = sum(p.graph_launches for p in counts.processes.values())
    if not store.columns(KERNEL):
        notes.append(
            "no CUPTI kernel table: " + ("all GPU work was in CUDA graphs" if replays else "was -t cuda used?")
        )
    elif not kernels:
        notes.append("the CUPTI kernel table is empty: no kernel ran outside CUDA graphs while capturing")
    if not store.columns(RUNTIME):
        notes.append("no CUDA API calls (CUPTI runtime table): kernels cannot be tied to ranges, launch gaps not told")
    elif not launches:
        notes.append("the table of CUDA API calls is empty: kernels cannot be tied to ranges, launch gaps not told")
    if not store.columns(NVTX):
        notes.append("no NVTX table: was -t nvtx used, and does the server push ranges?")
    elif not counts.total("ranges"):
        notes.append("no NVTX ranges: only marks, or names of domains and threads")
    return notes


def _graphs(store: TableStore, counts: Counts) -> list[str]:
    notes = []
    calls = sum(p.graph_launches for p in counts.processes.values())
    seen = sum(p.replays_with_kernels for p in counts.processes.values())
    whole, untimed = counts.total("graphs"), sum(p.untimed_replays for p in counts.processes.values())
    hidden = calls - seen
    if whole or hidden > 0:
        number = max(whole, hidden)
        time = "" if whole else "; how long they ran is not in the file either"
        notes.append(
            f"{number} CUDA graph replays were traced without their kernels (graph mode){time}; to see them: {CAPTURE}"
        )
    if untimed:
        notes.append(f"{untimed} of {whole} graph replays have no timestamps")
    if store.columns(GRAPH_TRACE) and not whole:
        notes.append("the table of graph replays is empty")
    return notes


def _told_apart(store: TableStore, places: Places, counts: Counts) -> list[str]:
    notes = [places.ranks.note] if places.ranks.note else []
    shared = _first_shared(places)
    if shared is not None and not store.columns("TARGET_INFO_CUDA_DEVICE"):
        notes.append(
            f"several processes use device {shared}, each by its own count: whether that is one GPU is not in the file"
        )
    nameless = counts.processes[None].rows if None in counts.processes else Counter[str]()
    if nameless["kernels"] + nameless["memops"] + nameless["graphs"]:
        notes.append("GPU work does not say its process: it cannot be tied to calls or ranks")
    if places.serials > len(places.devices):
        notes.append(
            "process ids of several machines or containers collide in this file: their launches may be mixed up"
        )
    return notes


def _first_shared(places: Places) -> int | None:
    """A device that several processes used, by their own count."""
    seen: set[int] = set()
    for used in places.devices.values():
        if again := sorted(seen & used):
            return again[0]
        seen |= used
    return None


def _odd(counts: Counts, unresolved: int) -> list[str]:
    odd = counts.odd
    found = (
        (odd.open_ranges, "ranges were still open when the capture stopped; they end with its last event"),
        (odd.across_threads, "ranges end on another thread than they began on and were left out"),
        (odd.backwards, "events end before they start; their end was set to the start"),
        (odd.without_end, "events have no end; their end was set to the start"),
        (odd.impossible, "events have no usable time and were left out"),
        (unresolved, "names are missing from the export"),
    )
    return [f"{count} {what}" for count, what in found if count]


def _lost(store: TableStore) -> list[str]:
    """What nsys itself says of lost events."""
    try:
        rows = store.rows("DIAGNOSTIC_EVENT", ("text",))
    except StoreError:
        return []
    texts = dict.fromkeys(" ".join(t.split()) for (t,) in rows if isinstance(t, str) and _LOSS.search(t))
    return [f"the profiler says: {text[:200]}" for text in list(texts)[:_MESSAGES]]


def _overhead(store: TableStore, counts: Counts) -> list[str]:
    """Time the profiler took for itself on the application's threads, added up over them."""
    firsts = [p.first_ns for p in counts.processes.values() if p.first_ns is not None]
    if not firsts or counts.end_ns is None or counts.end_ns <= min(firsts):
        return []
    length = counts.end_ns - min(firsts)
    total = number = 0
    try:
        rows = store.rows("PROFILER_OVERHEAD", ("start", "end"))
    except StoreError:
        return []
    for start, end in rows:
        if isinstance(start, int) and isinstance(end, int) and 0 <= end - start <= length:
            total, number = total + end - start, number + 1
    if total < _SHARE * length:
        return []
    return [
        f"the profiler's own work took {total / 1e6:.1f} ms of the application's threads ({number} times), added up, "
        f"within {length / 1e6:.0f} ms"
    ]
