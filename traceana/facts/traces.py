"""Traces of a run to facts: the ledger per phase, skew, late ranks, capture quality. Needs the trace tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceana.attribution.model import BESIDE, BUCKETS, MIN_CYCLES, PHASES
from traceana.facts.locate import spread
from traceana.facts.model import CycleFacts, CyclePart, Fact, Provenance
from traceana.facts.text import count
from traceana.facts.trace_model import LateRank, TraceFacts, TracePhase, mean_cycle

if TYPE_CHECKING:
    import polars as pl

    from traceana.attribution.analyse import Attribution
    from traceana.facts.locate import Locator
    from traceana.store.dataset import Tables

_MOST_CATEGORIES = 12
_MOST_LATE = 8
_KEY = ["file_id", "rank", "pid", "device", "phase"]
_ENGINES = ("sglang", "vllm", "trtllm")
_NAMES = {"re_extend": "re-extend"}


def trace_facts(tables: Tables, engine: str | None, where: Locator) -> TraceFacts | None:
    """Facts of the run's traces; None when it has none. How they fit a log is not looked at here (see joined)."""
    if not tables.height("traces"):
        return None  # logs alone are spared the imports below
    from traceana.attribution.analyse import analyse
    from traceana.facts import trace_contents as inside
    from traceana.facts.trace_summaries import summed

    found = analyse(tables, engine)
    if found is None:
        return None
    traces = tables.frame("traces")
    total = found.categories["total_ns"].sum()
    return TraceFacts(
        cycles=found.cycles,
        source=found.source,
        provenance=Provenance(found.provenance),
        phases=_phases(found, where),
        skew=found.skew.kind,
        skew_provenance=Provenance(found.skew.provenance),
        skew_reason=found.skew.reason,
        instances=found.skew.instances,
        ranks=found.skew.ranks,
        transfer_ms=_ms(found.skew.transfer_ns),
        wait_ms=_ms(found.skew.wait_ns),
        late=_late(found.late, tables),
        categories=tuple(
            (row["family"], row["category"], row["total_ns"] / total)
            for row in found.categories.head(_MOST_CATEGORIES).iter_rows(named=True)
            if total
        ),
        notes=tuple((n.severity, n.code, n.what, n.consequence, n.command) for n in found.notes),
        whole=_whole(found, where),
        cycle=inside.cycle_spread(found.rounds),
        batch=spread(found.rounds["batch"]),
        engine=found.engine if found.engine in _ENGINES else None,
        traced_ranks=tuple(sorted(traces["rank"].drop_nulls().unique().to_list())),
        world_size=inside.world_size(traces),
        gpus=inside.gpu_names(traces),
        tool=next(iter(traces["tool"].drop_nulls()), None),
        sums=summed(tables, where),
        apart=inside.apart(traces, [note.code for note in found.notes]),
        waits=inside.waits(found.waits, where),
        comm=inside.comm(found.comm, where),
        copies=inside.copies(found.copies, where),
    )


def _ms(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else nanoseconds / 1e6


def _phases(found: Attribution, where: Locator) -> tuple[TracePhase, ...]:
    """GPU phases with their ledger; without GPU events the host phases."""
    if found.ledger is None or not found.ledger.rows.height:
        return tuple(_host_phase(row, where) for row in found.host.iter_rows(named=True))
    ledger = found.ledger.per_phase()
    joined = ledger.rename({"cycles": "ledger_cycles"}).join(found.phases, on=_KEY, how="left", nulls_equal=True)
    rows = sorted(
        joined.iter_rows(named=True),
        key=lambda row: (row["rank"] is None, row["rank"], row["file_id"], row["device"], PHASES.index(row["phase"])),
    )
    return tuple(_gpu_phase(row, row["ledger_cycles"], where) for row in rows)


def _whole(found: Attribution, where: Locator) -> tuple[TracePhase, ...]:
    """The ledger of the whole capture for timelines without a cycle."""
    key = ["file_id", "pid", "device"]
    rows = found.device_time
    if found.ledger is not None:
        rows = rows.join(found.ledger.windows.select(key).unique(), on=key, how="anti", nulls_equal=True)
    ordered = rows.sort("rank", "file_id", "device", nulls_last=True).iter_rows(named=True)
    return tuple(_gpu_phase({"phase": "capture", **row}, 1, where) for row in ordered)


def _gpu_phase(row: dict[str, Any], cycles: int, where: Locator) -> TracePhase:
    return TracePhase(
        rank=row["rank"],
        device=row["device"],
        phase=_NAMES.get(row["phase"], row["phase"]),
        cycles=cycles,
        path=where.paths[row["file_id"]],
        host_span_ms=_ms(row.get("host_span_ns")),
        launches=row.get("launches"),
        graph_launches=row.get("graph_launches"),
        graph_call_ms=_ms(row.get("graph_call_ns")),
        graph_nodes=row.get("graph_nodes"),
        gpu_span_ms=_ms(row.get("gpu_span_ns")),
        busy_ms=_ms(row.get("busy_ns")),
        kernel_sum_ms=_ms(row.get("kernel_sum_ns")),
        window_ms=row["window_ns"] / cycles / 1e6,
        buckets={name: row[name] / cycles / 1e6 for name in BUCKETS},
        window_ns=row["window_ns"],
        bucket_ns={name: row[name] for name in BUCKETS},
        beside={name: row[name] for name in BESIDE},
    )


def _host_phase(row: dict[str, Any], where: Locator) -> TracePhase:
    return TracePhase(
        rank=row["rank"],
        device=None,
        phase=_NAMES.get(row["phase"], row["phase"]),
        cycles=row["ranges"],
        path=where.paths[row["file_id"]],
        host_span_ms=_ms(row["host_span_ns"]),
        collectives=row["collectives"],
        collective_ms=_ms(row["collective_ns"]),
    )


def _late(rows: pl.DataFrame, tables: Tables) -> tuple[LateRank, ...]:
    wanted = set(rows["before_name_id"].drop_nulls())
    names = tables.frame("names", only={"name_id": wanted}).iter_rows() if wanted else ()
    text = {(file_id, name_id): name for file_id, name_id, name in names}
    return tuple(
        LateRank(
            rank=row["rank"],
            device=row["device"],
            times_last=row["times_last"],
            share_last=row["share_last"],
            wait_caused_ms=row["wait_caused_ns"] / 1e6,
            before=row["before"],
            before_share=row["before_share"],
            before_name=text.get((row["file_id"], row["before_name_id"])),
        )
        for row in rows.head(_MOST_LATE).iter_rows(named=True)
    )


def cycle_of(trace: TraceFacts) -> CycleFacts | None:
    """The cycle as the traces show it, by phase, averaged over timelines; None with too few whole cycles on a GPU."""
    timelines = len(trace.timelines)
    if not timelines or trace.cycles < MIN_CYCLES or trace.apart is not None:
        return None
    parts = mean_cycle(trace, lambda p: {p.phase: p.window_ms or 0.0})
    total = sum(parts.values())
    return CycleFacts(
        total_ms=Fact(total, trace.provenance),
        parts=tuple(CyclePart(name, ms, trace.provenance) for name, ms in parts.items()),
        source=f"traces: mean of {count(trace.cycles, 'cycle')} on {count(timelines, 'GPU timeline')}, {trace.source}",
    )
