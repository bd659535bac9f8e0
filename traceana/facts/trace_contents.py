"""What lies inside the traced cycles, and who was traced: frames of attribution to plain data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from traceana.facts.locate import spread
from traceana.facts.model import Spread
from traceana.facts.trace_model import CommKernel, Copies, HostWait, Timeline

if TYPE_CHECKING:
    import polars as pl

    from traceana.facts.locate import Locator

#: rows kept of each kind, the longest first: ranks x phases x sizes are a few hundred at most
_MOST_ROWS = 2_000


def cycle_spread(rounds: pl.DataFrame) -> Spread | None:
    """Lengths of the cycles on the GPU in ms, over all timelines; None without GPU work."""
    return spread(rounds["window_ns"] / 1e6)


def apart(traces: pl.DataFrame, notes: list[str]) -> str | None:
    """Why the traces are not of one capture, in words; None where nothing speaks against it."""
    named = traces.filter(traces["rank"].is_not_null() & traces["start_ns"].is_not_null())
    per_rank = named.unique(["rank", "file_id"]).group_by("rank").len("files") if named.height else None
    if per_rank is not None and (per_rank["files"] > 1).any():
        first = per_rank.filter(per_rank["files"] > 1).sort("rank").row(0, named=True)
        return f"{first['files']} of them say that they are rank {first['rank']}"
    if "clock-no-overlap" in notes:
        return "they do not overlap in time"
    return None


def world_size(traces: pl.DataFrame) -> int | None:
    """Ranks of the job as the traces say; None where they do not, or contradict each other."""
    sizes = traces["world_size"].drop_nulls().unique().to_list()
    return int(sizes[0]) if len(sizes) == 1 else None


def gpu_names(traces: pl.DataFrame) -> tuple[str, ...]:
    """Names of the GPUs seen, each once. Untrusted text."""
    named = [json.loads(text) for text in traces["devices"].drop_nulls().unique(maintain_order=True)]
    return tuple(dict.fromkeys(str(name) for devices in named for name in devices.values() if name))


def _timeline(row: dict[str, object], where: Locator) -> Timeline:
    file_id, rank, device = row["file_id"], row["rank"], row["device"]
    assert isinstance(file_id, int)
    return Timeline(
        where.paths[file_id], rank if isinstance(rank, int) else None, device if isinstance(device, int) else None
    )


def waits(rows: pl.DataFrame, where: Locator) -> tuple[HostWait, ...]:
    """Host waits, most idle time first."""
    return tuple(
        HostWait(
            _timeline(row, where),
            row["call"],
            row["calls"],
            row["cycles"],
            row["cycles_waiting"],
            row["call_ns"] / 1e6,
            row["idle_ns"] / 1e6,
        )
        for row in rows.head(_MOST_ROWS).iter_rows(named=True)
    )


def comm(rows: pl.DataFrame, where: Locator) -> tuple[CommKernel, ...]:
    """Communication kernels, longest in all first."""
    same = ("collective", "library", "bytes", "group_size", "grid_x", "block_x", "instances")
    return tuple(
        CommKernel(
            timeline=_timeline(row, where),
            phase=row["phase"].replace("_", "-"),
            **{name: row[name] for name in same},
            total_ms=row["total_ns"] / 1e6,
            shortest_ms=row["shortest_ns"] / 1e6,
        )
        for row in rows.head(_MOST_ROWS).iter_rows(named=True)
    )


def copies(rows: pl.DataFrame, where: Locator) -> tuple[Copies, ...]:
    """Copies and fills by direction."""
    return tuple(
        Copies(
            _timeline(row, where),
            row["phase"].replace("_", "-"),
            row["kind"],
            row["copies"],
            row["total_ns"] / 1e6,
            row["bytes"],
        )
        for row in rows.head(_MOST_ROWS).iter_rows(named=True)
    )
