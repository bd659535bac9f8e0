"""The trace part of the page: capture quality first, then the cycle table, the ledger, and who waits for whom."""

from __future__ import annotations

from collections.abc import Callable

from traceana.report.diagnosis import Diagnosis
from traceana.report.page import Labelled, Row, Section, Table
from traceana.report.text import NONE, count, figure, letter, ms, share, whole
from traceana.report.trace_report import CaptureReport, TracePhaseReport, TraceReport

_MAX_PHASES = 12
_BUCKET_WORDS = {
    "compute": "compute",
    "allreduce_transfer": "allreduce transfer",
    "allreduce_unsplit": "allreduce, transfer or wait",
    "other_comm_exposed": "other communication",
    "allreduce_wait": "allreduce wait",
    "copies": "copies",
    "unknown": "unknown (graph replay)",
    "launch_gap": "launch gap",
    "other_idle": "other idle",
}
_Column = tuple[str, Callable[[TracePhaseReport], float | None], Callable[[float | None], str]]
_SPANS: tuple[_Column, ...] = (
    ("cycles", lambda p: p.cycles, whole),
    ("CPU span ms", lambda p: p.host_span_ms, figure),
    ("launches", lambda p: p.launches, whole),
    ("graph launches", lambda p: p.graph_launches, whole),
    ("graph nodes", lambda p: p.graph_nodes, whole),
    ("GPU span ms", lambda p: p.gpu_span_ms, figure),
    ("busy ms (union)", lambda p: p.busy_ms, figure),
    ("kernel sum ms", lambda p: p.kernel_sum_ms, figure),
    ("collectives ms", lambda p: p.collective_ms, figure),
)


def trace_section(diagnosis: Diagnosis) -> Section | None:
    """The section of the traces; None when the run has none."""
    trace = diagnosis.trace
    if trace is None:
        return None
    texts = [
        *_capture(trace.capture),
        Labelled("", (_skew(trace),)),
        *_collectives(trace),
        *_late(trace),
        *_categories(trace),
    ]
    shown = trace.phases[:_MAX_PHASES]
    hidden = len(trace.phases) - len(shown)
    aside = f"{len(shown)} of {len(trace.phases)} phase rows shown" if hidden else ""
    lead = (
        f"{count(trace.cycles, 'cycle')} from {trace.source} ({letter(trace.provenance)})"
        if trace.cycles
        else "no cycle recognised: neither ranges nor graph launches mark one"
    )
    tables = tuple(table for table in (_spans(shown), _ledger(shown)) if table is not None)
    return Section("Traces", aside=aside, lead=(lead,), tables=tables, texts=tuple(texts))


def _capture(notes: tuple[CaptureReport, ...]) -> list[Labelled]:
    """What is wrong with the capture; notes that one and the same command cures stand together."""
    by_command: dict[str, list[str]] = {}
    for note in notes:
        by_command.setdefault(note.command, []).append(f"{note.severity}: {note.what}: {note.consequence}")
    return [Labelled("", (*lines, f"capture: {command}")) for command, lines in by_command.items()]


def _names(phases: tuple[TracePhaseReport, ...]) -> tuple[str, ...]:
    several = len({(p.rank, p.device) for p in phases}) > 1
    return tuple(f"{p.phase} r{NONE if p.rank is None else p.rank}" if several else p.phase for p in phases)


def _spans(phases: tuple[TracePhaseReport, ...]) -> Table | None:
    if not phases:
        return None
    rows = [Row(label, tuple(show(value(p)) for p in phases), "m") for label, value, show in _SPANS]
    rows = [row for row in rows if any(cell != NONE for cell in row.cells)]
    return Table("median per cycle", _names(phases), tuple(rows))


def _ledger(phases: tuple[TracePhaseReport, ...]) -> Table | None:
    """Mean ms per cycle; the buckets of a column add up to its window."""
    phases = tuple(p for p in phases if p.window_ms is not None)
    if not phases:
        return None
    rows = [Row("window", tuple(figure(p.window_ms) for p in phases))]
    for name, words in _BUCKET_WORDS.items():
        if any(p.buckets.get(name) for p in phases):
            rows.append(Row(words, tuple(figure(p.buckets.get(name)) for p in phases)))
    return Table("ms per cycle", _names(phases), tuple(rows))


def _skew(trace: TraceReport) -> str:
    if trace.skew == "inconclusive" or trace.wait_ms is None or trace.transfer_ms is None:
        reason = trace.skew_reason or "no collective that waits for all ranks was matched"
        return f"collectives: whether transfer or waiting dominates is not known: {reason}"
    return (
        f"collectives: {trace.skew}: {ms(trace.transfer_ms)} transfer, {ms(trace.wait_ms)} wait in all, over "
        f"{count(trace.instances, 'instance')} on {count(trace.ranks, 'rank')} ({letter(trace.skew_provenance)})"
    )


def _collectives(trace: TraceReport) -> list[Labelled]:
    """Collectives per phase, for captures that record them on the host."""
    seen = {p.phase: p.collectives for p in trace.phases if p.collectives}
    return [Labelled("", (f"collectives in one {phase}: {text}",)) for phase, text in seen.items()]


def _late(trace: TraceReport) -> list[Labelled]:
    if not trace.late or trace.wait_ms is None or trace.skew == "inconclusive":
        return []
    first = trace.late[0]
    who = f"rank {first.rank}" if first.rank is not None else f"device {first.device}"
    ran = first.before.replace("_", " ") if first.before else "start"
    before = f"; before that its device did: {ran}" if ran != "start" else ""
    text = (
        f"the others wait most for {who}: last in {share(first.share_last)} of "
        f"{count(trace.instances, 'collective')}, {ms(first.wait_caused_ms)} of waiting caused{before}"
    )
    return [Labelled("", (text,))]


def _categories(trace: TraceReport) -> list[Labelled]:
    if not trace.categories:
        return []
    named = ", ".join(f"{name} {share(value)}" for name, value in list(trace.categories.items())[:8])
    return [Labelled("", (f"kernel time (sum, waiting included): {named}",))]
