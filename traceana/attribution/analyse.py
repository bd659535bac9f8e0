"""The attribution of a run: cycles, ledger, skew, late ranks, and what is wrong with the capture."""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from traceana.attribution.capture_quality import judge_capture
from traceana.attribution.model import PROCESS, TIMELINE, CaptureNote, Ledger, SkewVerdict, TraceCounts
from traceana.attribution.phase_table import phase_table
from traceana.attribution.results import attribute, is_current
from traceana.store.dataset import Tables
from traceana_parsers.interface import MemorySink

_WINDOW = (pl.col("window_end_ns") - pl.col("window_start_ns")).alias("window_ns")


@dataclass(frozen=True, slots=True)
class Attribution:
    """What the traces of a run say. Frames have the columns of the tables in store.tables.ATTRIBUTION_TABLES.

    `phases`: the phase table (medians per rank, device and phase); `ledger`: None without GPU cycles; `host`: per
    process and phase what the host did (`host_phases`); `late`: `late_ranks`, most waited for first; `categories`:
    family, category, total_ns and kernels over all ranks, most time first; `source`: where the cycles come from;
    `provenance`: measured, or derived from the pattern of graph launches; `engine`: whose annotations the traces hold.
    `device_time`: the ledger of the whole capture, one row per timeline.
    Inside cycles: `rounds`, one row per cycle and timeline in time order (`trace_cycles` and window_ns; device and
    window null without GPU work); `waits` (`host_waits`), most idle time first; `comm` (`comm_kernels`), longest first;
    `copies` (`cycle_copies`). `tables`: all of these and more (`matched_collectives`, `clock_offsets`).
    """

    phases: pl.DataFrame
    ledger: Ledger | None
    device_time: pl.DataFrame
    host: pl.DataFrame
    skew: SkewVerdict
    late: pl.DataFrame
    categories: pl.DataFrame
    notes: tuple[CaptureNote, ...]
    cycles: int
    source: str
    provenance: str
    engine: str | None
    rounds: pl.DataFrame
    waits: pl.DataFrame
    comm: pl.DataFrame
    copies: pl.DataFrame
    tables: Tables


def analyse(tables: Tables, engine: str | None = None) -> Attribution | None:
    """The attribution of a run's traces, from the store where this code made it; None when the run has no trace.

    `engine`: sglang or vllm, for the commands that capture it right; as the annotations say, when not given.

    Raises LedgerError when buckets do not add up, which is an error of ours.
    """
    traces = tables.frame("traces")
    if not traces.height:
        return None
    if not is_current(tables):
        sink = MemorySink()
        attribute(tables, sink)
        tables = Tables(sink.tables)
    return _read(tables, traces, engine)


def _read(tables: Tables, traces: pl.DataFrame, engine: str | None) -> Attribution:
    """Result tables as one."""
    run = tables.frame("attribution").row(0, named=True)
    processes = tables.frame("processes")
    engines = processes["engine"].drop_nulls().unique().to_list()
    named = engines[0] if len(engines) == 1 else None
    cyclic = processes.filter(pl.col("cycles") > 0)
    ledger = _ledger(tables)
    phase, cycles = [*TIMELINE, "phase"], tables.frame("trace_cycles")
    counts = [TraceCounts(**row) for row in processes.drop("engine", "source", "provenance").iter_rows(named=True)]
    return Attribution(
        phases=phase_table(tables.frame("phase_spans")),
        ledger=ledger if ledger.windows.height else None,
        device_time=ledger.devices,
        host=tables.frame("host_phases").sort(*PROCESS, "phase"),
        skew=SkewVerdict(
            run["skew"],
            run["instances"],
            run["ranks"],
            run["skew_provenance"],
            run["transfer_ns"],
            run["wait_ns"],
            run["skew_reason"],
        ),
        late=tables.frame("late_ranks").sort("wait_caused_ns", descending=True),
        categories=_categories(tables.frame("kernel_categories")),
        notes=tuple(judge_capture(traces, counts, engine or named, json.loads(run["notes"]))),
        cycles=max((c.cycles for c in counts), default=0),
        source=" and ".join(cyclic["source"].unique(maintain_order=True)),
        provenance="derived" if "derived" in cyclic["provenance"] else "measured",
        engine=named,
        rounds=cycles.with_columns(_WINDOW).sort("host_start_ns", *TIMELINE),
        waits=tables.frame("host_waits").sort("idle_ns", "call_ns", descending=True),
        comm=_longest_first(tables.frame("comm_kernels")),
        copies=tables.frame("cycle_copies").sort(*phase, "kind"),
        tables=tables,
    )


def _ledger(tables: Tables) -> Ledger:
    windows = tables.frame("trace_cycles", [*TIMELINE, "cycle", "window_start_ns", "window_end_ns"])
    windows = windows.filter(pl.col("window_start_ns").is_not_null()).select(*TIMELINE, "cycle", _WINDOW)
    ledger = Ledger(tables.frame("ledger"), windows, tables.frame("device_time"))
    ledger.self_check()
    return ledger


def _categories(rows: pl.DataFrame) -> pl.DataFrame:
    """Kernel time by category over all timelines, most first."""
    sums = rows.group_by("family", "category").agg(pl.col("total_ns", "kernels").sum())
    return sums.sort("total_ns", "family", "category", descending=[True, False, False])


def _longest_first(rows: pl.DataFrame) -> pl.DataFrame:
    rest = [name for name in rows.columns if name not in ("instances", "total_ns", "shortest_ns")]
    return rows.sort("total_ns", *rest, descending=[True, *[False] * len(rest)])
