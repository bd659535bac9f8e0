"""The `traces` row of a Kineto file: where it was taken and what is missing or doubtful in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traceana_parsers.traces.kineto_events import AnyEvent, plain
from traceana_parsers.traces.kineto_process import Process
from traceana_parsers.traces.kineto_rows import Clock, make_frame, to_ns

if TYPE_CHECKING:
    import polars as pl

_LOSS = re.compile(r"drop|exceed|overflow|lost|out of memory|could not allocate|incomplete", re.IGNORECASE)
_MAX_MESSAGES = 5


@dataclass(slots=True)
class Summary:
    """What is noticed about a whole file while it is read."""

    world_size: int | None = None
    rank_from_name: bool = False
    merged: bool = False
    python_frames: bool = False
    unpaired: int = 0
    overhead_events: int = 0
    overhead_ns: int = 0

    def overhead(self, events: Sequence[AnyEvent]) -> None:
        """Take the profiler's own `overhead` events."""
        if events:
            durations = to_ns([e.dur for e in events])
            self.overhead_events += len(events)
            self.overhead_ns += int(durations[durations > 0].sum())

    def notes(
        self, process: Process, keys: dict[str, Any], clock: Clock, problem: str | None, *, late_base: bool
    ) -> list[str]:
        """What is missing or doubtful in the capture, one text each."""
        launches, with_kernels = process.graph_replays()
        found = [
            (problem is not None, f"{problem}"),
            (not process.used, "no steps, launches or GPU work in the trace (a front end's, or an idle process')"),
            (process.used and not process.kernels, "no GPU kernels: CPU activity only, or the GPU was not traced"),
            (
                process.kernels > 0 and not process.launches,
                "no runtime calls: launch gaps and graph replays cannot be told",
            ),
            (
                launches > with_kernels and process.kernels > 0,
                f"{launches - with_kernels} of {launches} graph launches have no kernels: their GPU time is unknown",
            ),
            (
                self.python_frames or bool(keys.get("with_stack")),
                "with_stack: Python frames were recorded, host times are inflated",
            ),
            (
                bool(keys.get("profile_memory")),
                "profile_memory: every allocation was recorded, host times are inflated",
            ),
            (
                self.overhead_events > 0,
                f"the profiler paused {self.overhead_events} times for itself, {self.overhead_ns / 1e6:.1f} ms in all",
            ),
            (process.used and not self.overhead_events, "the profiler's own overhead is not recorded"),
            (
                not isinstance(keys.get("distributedInfo"), dict) and not self.merged,
                "no distributedInfo: "
                + ("the rank is from the file name" if self.rank_from_name else "the rank is unknown"),
            ),
            (self.merged, "several ranks were merged into this file; a rank is the TP index of its label"),
            (
                process.used and clock.kind == "relative",
                "times are not tied to the wall clock (no baseTimeNanoseconds)",
            ),
            (
                process.used and clock.kind == "utc" and clock.base_ns is None and not process.fractions,
                "times are whole microseconds",
            ),
            (late_base, "baseTimeNanoseconds was found after the events only: times are not tied to the wall clock"),
            (process.negative > 0, f"{process.negative} events end before they start; their end was set to the start"),
            (process.zero > 0, f"{process.zero} events last 0 ns"),
            (process.unplaced > 0, f"{process.unplaced} events have no usable time and were left out"),
            (self.unpaired > 0, f"{self.unpaired} begin or end events have no partner and were left out"),
        ]
        return [text for holds, text in found if holds] + _messages(keys)

    def row(self, process: Process, keys: dict[str, Any], clock: Clock, notes: list[str]) -> pl.DataFrame:
        """One row of the `traces` table."""
        host = keys.get("host_name")
        return make_frame(
            "traces",
            {
                "file_id": process.file_id,
                "rank": process.rank,
                "pid": process.pid,
                "world_size": self.world_size,
                "host": plain(host) if isinstance(host, str) else None,
                "tool": "kineto",
                "tool_version": _version(keys),
                "clock": clock.kind or ("utc" if clock.base_ns is not None else "relative"),
                "start_ns": process.first_ns,
                "end_ns": process.last_ns,
                "graph_mode": process.graph_mode(),
                "devices": json.dumps(_devices(process, keys)),
                "notes": [json.dumps(notes)],
            },
        )


def _version(keys: dict[str, Any]) -> str | None:
    parts = [
        f"{label} {keys[key]}"
        for key, label in (("schemaVersion", "schema"), ("cupti_version", "CUPTI"), ("roctracer_version", "roctracer"))
        if isinstance(keys.get(key), (int, float, str))
    ]
    return plain(", ".join(parts)[:100]) or None


def _devices(process: Process, keys: dict[str, Any]) -> dict[str, str | None]:
    """Index and name of each GPU that did something; the name is None where the file does not give it."""
    properties = keys.get("deviceProperties")
    names = {
        d["id"]: d.get("name")
        for d in (properties if isinstance(properties, list) else [])
        if isinstance(d, dict) and isinstance(d.get("id"), int)
    }
    return {str(i): name if isinstance(name := names.get(i), str) and name else None for i in sorted(process.devices)}


def _messages(keys: dict[str, Any]) -> list[str]:
    """Kineto's own warnings about lost events, as it wrote them into the file."""
    lines = [
        line
        for key in ("WARNING", "ERROR")
        for line in (keys[key] if isinstance(keys.get(key), list) else [])
        if isinstance(line, str) and _LOSS.search(line)
    ]
    return [f"the profiler says: {line[:200]}" for line in lines[:_MAX_MESSAGES]]
