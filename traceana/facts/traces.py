"""Traces of a run to facts: the ledger per phase, skew, late ranks, capture quality. Needs the trace tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceana.attribution.model import BUCKETS, MIN_CYCLES, PHASES
from traceana.facts.model import CycleFacts, CyclePart, Fact, LateRank, Provenance, TraceFacts, TracePhase

if TYPE_CHECKING:
    import polars as pl

    from traceana.attribution.analyse import Attribution
    from traceana.store.dataset import Tables

_MOST_CATEGORIES = 12
_MOST_LATE = 8
_KEY = ["file_id", "rank", "pid", "device", "phase"]
_NAMES = {"re_extend": "re-extend"}


def trace_facts(tables: Tables, engine: str | None) -> TraceFacts | None:
    """Facts of the run's traces; None when it has none."""
    if not tables.height("traces"):
        return None  # logs alone are spared the import below
    from traceana.attribution.analyse import analyse

    found = analyse(tables, engine)
    if found is None:
        return None
    total = found.categories["total_ns"].sum()
    return TraceFacts(
        cycles=found.cycles,
        source=found.source,
        provenance=Provenance(found.provenance),
        phases=_phases(found),
        skew=found.skew.kind,
        skew_provenance=Provenance(found.skew.provenance),
        skew_reason=found.skew.reason,
        instances=found.skew.instances,
        ranks=found.skew.ranks,
        transfer_ms=_ms(found.skew.transfer_ns),
        wait_ms=_ms(found.skew.wait_ns),
        late=_late(found.late),
        categories=tuple(
            (row["family"], row["category"], row["total_ns"] / total)
            for row in found.categories.head(_MOST_CATEGORIES).iter_rows(named=True)
            if total
        ),
        notes=tuple((n.severity, n.what, n.consequence, n.command) for n in found.notes),
    )


def _ms(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6


def _phases(found: Attribution) -> tuple[TracePhase, ...]:
    """GPU phases with their ledger; without GPU events the host phases."""
    if found.ledger is None or not found.ledger.rows.height:
        return tuple(_host_phase(row) for row in found.host.iter_rows(named=True))
    ledger = found.ledger.per_phase()
    joined = ledger.rename({"cycles": "ledger_cycles"}).join(found.phases, on=_KEY, how="left", nulls_equal=True)
    rows = sorted(
        joined.iter_rows(named=True),
        key=lambda row: (row["rank"] is None, row["rank"], row["file_id"], row["device"], PHASES.index(row["phase"])),
    )
    return tuple(_gpu_phase(row) for row in rows)


def _gpu_phase(row: dict[str, Any]) -> TracePhase:
    cycles = row["ledger_cycles"]
    return TracePhase(
        rank=row["rank"],
        device=row["device"],
        phase=_NAMES.get(row["phase"], row["phase"]),
        cycles=cycles,
        host_span_ms=_ms(row["host_span_ns"]),
        launches=row["launches"],
        graph_launches=row["graph_launches"],
        graph_nodes=row["graph_nodes"],
        gpu_span_ms=_ms(row["gpu_span_ns"]),
        busy_ms=_ms(row["busy_ns"]),
        kernel_sum_ms=_ms(row["kernel_sum_ns"]),
        window_ms=row["window_ns"] / cycles / 1e6,
        buckets=tuple((name, row[name] / cycles / 1e6) for name in BUCKETS),
    )


def _host_phase(row: dict[str, Any]) -> TracePhase:
    return TracePhase(
        rank=row["rank"],
        device=None,
        phase=_NAMES.get(row["phase"], row["phase"]),
        cycles=row["ranges"],
        host_span_ms=_ms(row["host_span_ns"]),
        collectives=row["collectives"],
        collective_ms=_ms(row["collective_ns"]),
    )


def _late(rows: pl.DataFrame) -> tuple[LateRank, ...]:
    return tuple(
        LateRank(
            rank=row["rank"],
            device=row["device"],
            times_last=row["times_last"],
            share_last=row["share_last"],
            wait_caused_ms=row["wait_caused_ns"] / 1e6,
            before=row["before"],
        )
        for row in rows.head(_MOST_LATE).iter_rows(named=True)
    )


def cycle_of(trace: TraceFacts) -> CycleFacts | None:
    """The cycle as the traces show it, by phase, averaged over ranks; None with too few whole cycles on a GPU."""
    on_gpu = [p for p in trace.phases if p.window_ms is not None]
    timelines = len({(p.rank, p.device) for p in on_gpu})
    if not on_gpu or trace.cycles < MIN_CYCLES:
        return None
    # a phase that some cycles lack counts with the cycles of the timeline: parts add up to the mean cycle
    longest = max(p.cycles for p in on_gpu)
    parts: dict[str, float] = {}
    for p in on_gpu:
        parts[p.phase] = parts.get(p.phase, 0.0) + (p.window_ms or 0.0) * p.cycles / longest / timelines
    total = sum(parts.values())
    return CycleFacts(
        total_ms=Fact(total, trace.provenance),
        parts=tuple(CyclePart(name, ms, trace.provenance) for name, ms in parts.items()),
        source=f"traces: mean of {_n(trace.cycles, 'cycle')} on {_n(timelines, 'GPU timeline')}, {trace.source}",
    )


def _n(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
