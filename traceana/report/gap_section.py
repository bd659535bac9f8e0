"""The section *Floor*: the measured cycle against the floors of its forwards, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts.floors import BESIDE, FloorPart
from traceana.facts.gap_model import LevelFloor, MeasuredAgainstFloor, PhaseFloor
from traceana.report.page import Row, Section, Table
from traceana.report.text import MAX_LEVELS, NONE, figure, legend, span, weakest, whole

#: kind of floor -> its row
_ROWS = {"allreduce": "allreduces, at least", "weights": "weights read, at least"}
_ON_HOST = ("launches, on the host", "calls, on the host")
#: what is below this share of the measured time is not worth a cell
_WORTH = 0.01


def gap_section(found: MeasuredAgainstFloor | None) -> Section | None:
    """The section; one line where no floor is known, nothing where there is no cycle to measure."""
    if found is None:
        return None
    if not found.levels:
        return Section("Floor", lead=("not compared: " + "; ".join(found.missing),)) if found.missing else None
    split = next((level for level in found.levels if len(level.phases) > 1), None)
    table = _levels(found.levels) if split is None else _phases(split)
    shown = found.levels if split is None else (split,)
    lead = (_box(found) + ("" if split is None else f"; {_at(split)}"), *_remarks(shown))
    return Section("Floor", lead=lead, tables=(table,))


def _box(found: MeasuredAgainstFloor) -> str:
    pieces = [f"{found.ranks or '?'} x {found.gpu}" if found.gpu else ""]
    if found.layers is not None:
        pieces.append(f"{found.layers} layers of {whole(found.hidden)} ({found.shape_from})")
    return " · ".join(piece for piece in pieces if piece)


def _at(level: LevelFloor) -> str:
    tokens = "" if level.tokens_per_forward is None else f", {level.tokens_per_forward} tokens per forward"
    return f"at {whole(level.running)} running{tokens}" if level.running is not None else f"traced cycles{tokens}"


def _remarks(levels: Sequence[LevelFloor]) -> tuple[str, ...]:
    """What cannot be, and which floors are not known, each once."""
    wholes = [level.phases[-1] for level in levels]
    wrong = dict.fromkeys(f"impossible: {phase.impossible}" for phase in wholes if phase.impossible)
    missing = dict.fromkeys(text for phase in wholes for text in phase.no_floor)
    return (*wrong, *(("left out: " + "; ".join(missing),) if missing else ()))


def _levels(levels: Sequence[LevelFloor]) -> Table:
    """One column per load."""
    shown = levels[:MAX_LEVELS]
    columns = tuple(whole(level.running) for level in shown)
    return _table("running", columns, [level.phases[-1] for level in shown], f"{shown[0].phases[-1].name} ms")


def _phases(level: LevelFloor) -> Table:
    """One column per phase of one load, the whole last."""
    return _table("ms", tuple(phase.name for phase in level.phases), level.phases, "measured")


def _table(corner: str, columns: tuple[str, ...], phases: Sequence[PhaseFloor], measured: str) -> Table:
    rows = [Row(measured, tuple(figure(p.measured_ms) for p in phases), weakest(p.provenance for p in phases))]
    for kind, label in _ROWS.items():
        rows += _floor_row(phases, kind, label)
    counted = [f.provenance for p in phases for f in p.floors if f.kind not in BESIDE]
    letter = weakest([*(p.provenance for p in phases), *counted])
    rows.append(Row("gap", tuple(_range(p.gap_low_ms, p.gap_high_ms) for p in phases), letter))
    rows += _gap_rows(phases)
    for kind, label in zip(BESIDE, _ON_HOST, strict=True):
        rows += _floor_row(phases, kind, label)
    return Table(corner, columns, tuple(rows), remarks=(legend(row.letter for row in rows),))


def _floor_row(phases: Sequence[PhaseFloor], kind: str, label: str) -> list[Row]:
    found = [[f for f in phase.floors if f.kind == kind] for phase in phases]
    cells = tuple(_sum(parts, phase.measured_ms) for parts, phase in zip(found, phases, strict=True))
    if all(cell == NONE for cell in cells):
        return []
    return [Row(label, cells, weakest(part.provenance for parts in found for part in parts))]


def _sum(parts: Sequence[FloorPart], measured_ms: float) -> str:
    low, high = sum(p.low_ms for p in parts), sum(p.high_ms for p in parts)
    return _range(low, high) if high >= _WORTH * measured_ms else NONE


def _gap_rows(phases: Sequence[PhaseFloor]) -> list[Row]:
    """What the gap consists of, the largest first, without what is small."""
    *_, total = phases  # columns of loads have nothing to tell apart; of phases, the last is the whole
    rows: list[Row] = []
    if {part.name for part in total.gap} <= {"not told apart"}:
        return rows
    for part in sorted(total.gap, key=lambda p: -p.high_ms):
        if part.high_ms < _WORTH * total.measured_ms:
            continue
        cells = [next((g for g in phase.gap if g.name == part.name), None) for phase in phases]
        texts = tuple(NONE if g is None else _range(g.low_ms, g.high_ms) for g in cells)
        rows.append(Row(f"  {part.name}", texts, weakest([part.provenance])))
    return rows


def _range(low: float | None, high: float | None) -> str:
    """A range, in whole ms from 10 on: its ends are no sharper than that."""
    if low is None or high is None:
        return NONE
    if high - low < 1:
        return span(figure(low), figure(high))
    return span(*(f"{value:.0f}" if value >= 9.95 else figure(value) for value in (low, high)))
