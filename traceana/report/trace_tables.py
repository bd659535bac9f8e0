"""The tables of the traces: what the host and the GPU did per phase, where the ms of a cycle went, and by rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from traceana.facts.trace_model import Timeline, TracePhase, cycles_by_timeline, unit
from traceana.report.names import short_names
from traceana.report.page import Row, Table
from traceana.report.text import NONE, figure, letter, share, whole
from traceana.report.trace_report import TraceReport

#: most columns of a table by rank
MAX_TIMELINES = 16
_LONG_NAME = 8
_LONGEST_NAME = 30
BUCKETS = {
    "compute": "compute",
    "allreduce_transfer": "allreduce transfer",
    "allreduce_unsplit": "allreduce, transfer or wait",
    "allreduce_wait": "allreduce wait",
    "other_comm_exposed": "other communication",
    "copies": "copies",
    "unknown": "unknown (graph replay)",
    "launch_gap": "launch gap",
    "other_idle": "other idle",
}
#: the same where they head columns
_SHORT = {
    "allreduce transfer": "transfer",
    "allreduce, transfer or wait": "allreduce",
    "allreduce wait": "wait",
    "other communication": "other comm",
    "unknown (graph replay)": "unknown",
    "launch gap": "gap",
    "other idle": "idle",
    "last to arrive": "last",
}
_Column = tuple[str, Callable[[TracePhase], float | None], Callable[[float | None], str]]
_SPANS: tuple[_Column, ...] = (
    ("CPU span ms", lambda p: p.host_span_ms, figure),
    ("launches, no graph", lambda p: _less(p.launches, p.graph_launches), whole),
    ("graph launches", lambda p: p.graph_launches, whole),
    ("graph launch ms", lambda p: p.graph_call_ms or None, figure),
    ("graph nodes", lambda p: p.graph_nodes, whole),
    ("GPU span ms", lambda p: p.gpu_span_ms, figure),
    ("union busy ms", lambda p: p.busy_ms, figure),
    ("kernel sum ms", lambda p: p.kernel_sum_ms, figure),
    ("collectives ms", lambda p: p.collective_ms, figure),
)


def _less(whole_: float | None, part: float | None) -> float | None:
    return None if whole_ is None else whole_ - (part or 0)


def phase_tables(trace: TraceReport) -> tuple[Table, ...]:
    """What each phase did (medians over cycles) and where its ms went (means over cycles); both as means over ranks."""
    by_phase: dict[str, list[TracePhase]] = {}
    for p in trace.phases:
        by_phase.setdefault(p.phase, []).append(p)
    if not by_phase:
        return ()
    ranks = "" if max(map(len, by_phase.values())) < 2 else ", mean of ranks"
    columns = tuple(by_phase)
    rows = [
        Row(label, tuple(show(_mean([value(p) for p in ps])) for ps in by_phase.values()), "m")
        for label, value, show in _SPANS
    ]
    rows = [row for row in rows if any(cell != NONE for cell in row.cells)]
    tables = [Table(f"median{ranks}", columns, tuple(rows))] if rows else []
    placed = {name: [p for p in ps if p.window_ms is not None] for name, ps in by_phase.items()}
    if any(placed.values()):
        tables.append(_buckets(trace, placed, ranks))
    return tuple(tables)


def _buckets(trace: TraceReport, placed: dict[str, list[TracePhase]], ranks: str) -> Table:
    """ms per cycle by phase and in all. A phase that some cycles lack counts with all cycles of its timeline."""
    lines = {"window": [_per_cycle(trace, ps, None) for ps in placed.values()]}
    for name, words in BUCKETS.items():
        cells = [_per_cycle(trace, ps, name) for ps in placed.values()]
        if any(cells):
            lines[words] = cells
    total = sum(lines["window"])
    rows = tuple(
        Row(
            words,
            (*(figure(c) for c in cells), figure(sum(cells)), share(sum(cells) / total if total else None)),
            _letter(trace, words),
        )
        for words, cells in lines.items()
    )
    whole_ = unit(trace.phases, trace.provenance)
    return Table(f"ms per {whole_}{ranks}", (*placed, whole_, "share"), rows)


def _letter(trace: TraceReport, words: str) -> str:
    """Provenance of a row: transfer and wait are derived where not all ranks were traced."""
    split = words in (BUCKETS["allreduce_transfer"], BUCKETS["allreduce_wait"])
    return letter("derived" if split and trace.skew_provenance != "measured" else trace.provenance)


def _per_cycle(trace: TraceReport, phases: Sequence[TracePhase], bucket: str | None) -> float:
    """Mean ms per cycle over all timelines of the capture."""
    cycles = cycles_by_timeline(trace.phases)
    parts = [
        (p.window_ns or 0 if bucket is None else p.bucket_ns.get(bucket, 0)) / cycles[p.timeline] / 1e6 for p in phases
    ]
    return sum(parts) / len(cycles)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def rank_table(trace: TraceReport) -> Table | None:
    """The cycle of each rank, and how often it came last; None with one GPU."""
    cycles = cycles_by_timeline(trace.phases)
    if len(cycles) < 2:
        return None
    sums = {
        timeline: {
            name: sum(p.bucket_ns.get(name, 0) for p in trace.phases if p.timeline == timeline) / n / 1e6
            for name in BUCKETS
        }
        for timeline, n in cycles.items()
    }
    return _by_timeline(f"ms per {unit(trace.phases, trace.provenance)}", sums, trace)


def whole_table(trace: TraceReport) -> Table | None:
    """The whole capture of each GPU, for captures without a cycle."""
    if not trace.whole:
        return None
    sums = {p.timeline: {name: p.bucket_ns.get(name, 0) / 1e6 for name in BUCKETS} for p in trace.whole}
    return _by_timeline("ms, whole capture", sums, trace)


def _by_timeline(corner: str, sums: dict[Timeline, dict[str, float]], trace: TraceReport) -> Table:
    shown = _shown(list(sums), trace)
    columns = [sums[timeline] for timeline in shown]
    rows = [Row("window", tuple(figure(sum(c.values())) for c in columns), letter(trace.provenance))]
    for name, words in BUCKETS.items():
        if any(c[name] for c in columns):
            rows.append(Row(words, tuple(figure(c[name]) for c in columns), _letter(trace, words)))
    last = {late.rank: late.share_last for late in reversed(trace.late)}
    if any(timeline.rank in last for timeline in shown) and trace.skew != "inconclusive":
        rows.append(Row("last to arrive", tuple(share(last.get(t.rank, 0.0)) for t in shown), "m"))
    remark = f"{len(shown)} of {len(sums)} shown: --format json has all" if len(shown) < len(sums) else ""
    names = timeline_names(shown)
    if max(map(len, names)) > _LONG_NAME:  # file names: one line each reads better
        cells = zip(*(row.cells for row in rows), strict=True)
        turned = tuple(Row(name, tuple(line), "m") for name, line in zip(names, cells, strict=True))
        heads = tuple(_SHORT.get(row.label, row.label) for row in rows)
        return Table(corner, heads, turned, remarks=(remark,))
    return Table(corner, names, tuple(rows), remarks=(remark,))


def _shown(timelines: list[Timeline], trace: TraceReport) -> list[Timeline]:
    """At most MAX_TIMELINES, the latest rank among them."""
    late = trace.late[0].rank if trace.late else None
    first = [t for t in timelines if t.rank == late and late is not None][:1]
    chosen = [*first, *(t for t in timelines if t not in first)][:MAX_TIMELINES]
    return [t for t in timelines if t in chosen]


def timeline_names(timelines: Sequence[Timeline]) -> tuple[str, ...]:
    """`r0` where ranks tell them apart, else with the device, else the file's name."""
    ranks = [t.rank for t in timelines]
    if None not in ranks and len(set(ranks)) == len(ranks):
        return tuple(f"r{rank}" for rank in ranks)
    pairs = [(t.path, t.device) for t in timelines]
    if len({path for path, _ in pairs}) == 1 and len(set(pairs)) == len(pairs):
        return tuple(f"GPU {device}" for _, device in pairs)
    names = short_names(path for path, _ in pairs)
    return tuple(_clipped(names[path].split(".", 1)[0]) + f":{device}" for path, device in pairs)


def _clipped(name: str) -> str:
    """The end of a long file name: captures of one job begin alike."""
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"
