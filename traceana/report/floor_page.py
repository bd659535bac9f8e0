"""A FloorReport as a page of blocks."""

from __future__ import annotations

from traceana.report.floor_report import FloorPoint, FloorReport, FloorWeights
from traceana.report.page import Page, Row, Section, Table

_HOW = {"interpolated": "", "smallest": "<", "extrapolated": "~"}


def _cell(point: FloorPoint) -> str:
    return f"{point.forward_ms:.2f}{_HOW[point.how]}"


def _span(found: FloorWeights) -> str:
    low, high = f"{found.low_ms:.2f}", f"{found.high_ms:.2f}"
    return low if low == high else f"{low}-{high}"


def _verdict(report: FloorReport) -> str:
    """The floor in a sentence, for the fastest library that is not an engine's eager call."""
    usable = [curve for curve in report.curves if curve.mode != "eager"]
    if not usable:
        return "No allreduce floor: " + "; ".join(report.notes)
    parts = []
    for index, tokens in enumerate(p.tokens for p in usable[0].points):
        best = min(usable, key=lambda curve: curve.points[index].forward_ms)
        parts.append(f"{best.points[index].forward_ms:.2f} ms at {tokens:,} ({best.library})")
    return "A forward's allreduces take at least " + ", ".join(parts) + " tokens per forward."


def compose(report: FloorReport) -> Page:
    """The page: one row per library, one column per number of tokens; then what could add to it."""
    sizes = [point.tokens for point in report.curves[0].points] if report.curves else []
    rows = tuple(Row(curve.label, tuple(map(_cell, curve.points)), "M") for curve in report.curves)
    marks = {p.how for curve in report.curves for p in curve.points}
    remarks = tuple(
        text
        for how, text in (
            ("smallest", "< shorter than any measured message: the shortest's latency"),
            ("extrapolated", "~ longer than any measured message: along the last two points"),
        )
        if how in marks
    )
    sections = []
    if rows:
        table = Table("tokens per forward", tuple(f"{n:,}" for n in sizes), rows, (*remarks, "M modelled"))
        sections.append(
            Section(
                "Allreduce floor",
                aside="ms per forward",
                lead=(
                    f"{report.allreduces} allreduces of tokens x {report.hidden:,} x 2 bytes on {report.ranks} GPUs, "
                    "measured back to back, without skew or launch gaps",
                    f"source: {report.source}",
                ),
                tables=(table,),
            )
        )
    if report.extras:
        cells = tuple(Row(e.name, (f"{e.each_us:.1f}", f"{e.forward_ms:.1f}"), "M") for e in report.extras)
        sections.append(
            Section(
                "What can add to it",
                aside="at most, small messages",
                tables=(Table("cause", ("us each", "ms per forward"), cells, ("M modelled",)),),
                lead=tuple(f"{e.name}: {e.source}" for e in report.extras),
            )
        )
    other = []
    if report.weights:
        read = ", ".join(f"{_span(w)} ms at {w.tokens:,}" for w in report.weights)
        other.append(f"weights read once per forward: {read} tokens (config.json, data sheet bandwidth)")
    if report.weight_read_ms is not None:
        other.append(f"weights read once per forward: {report.weight_read_ms:.2f} ms (data sheet bandwidth)")
    if report.launch_low_ms is not None and report.launch_high_ms is not None:
        other.append(
            f"kernels launched one by one: {report.launch_low_ms:.1f}-{report.launch_high_ms:.1f} ms of host time "
            "(2 to 8 us each, assumed); one launch in a CUDA graph"
        )
    if other:
        sections.append(Section("Other floors", lead=tuple(other)))
    if report.notes:
        sections.append(Section("Notes", lead=report.notes))
    return Page(
        header=(
            report.gpu,
            f"TP{report.ranks}",
            f"{report.layers} layers, hidden size {report.hidden:,} ({report.shape_from})",
        ),
        below_header=(),
        verdict=_verdict(report),
        tone="unknown",
        verdict_figures=(),
        sections=tuple(sections),
    )
