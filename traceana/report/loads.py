"""The load table: which rows there are, what they are called, and how their figures are rounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from traceana.report.diagnosis import Diagnosis, Level
from traceana.report.page import Row, Table
from traceana.report.text import NONE, figure, legend, share, shown_levels, two, whole


@dataclass(frozen=True, slots=True)
class _Line:
    """One possible row: what it is called, where its figure is, how it is written, and its provenance."""

    label: str
    get: Callable[[Level], float | None]
    write: Callable[[float | None], str]
    letter: str


def speculating(diagnosis: Diagnosis) -> bool:
    """True when the run drafted, as far as the document says: its words are `with`, `without` and `cycle` then."""
    active = diagnosis.run.speculative.get("active")
    if isinstance(active, bool):
        return active
    lengths = [diagnosis.acceptance.accept_length, *(level.accept_length for level in diagnosis.levels)]
    return bool(diagnosis.run.speculative.get("method")) or any(length is not None for length in lengths)


def _lines(drafts: bool, paired: bool) -> tuple[_Line, ...]:
    this = " with" if drafts and paired else ""
    other = "without" if drafts else "baseline"
    return (
        _Line(f"tok/s{this}", lambda v: v.gen_tps, figure, "m"),
        _Line("  p10 of windows", lambda v: v.gen_tps_low, figure, "m"),
        _Line("  p90 of windows", lambda v: v.gen_tps_high, figure, "m"),
        _Line(f"tok/s {other}", lambda v: v.baseline_gen_tps, figure, "m"),
        _Line("speed-up", lambda v: v.speedup, two, "d"),
        _Line("accept length", lambda v: v.accept_length, two, "m"),
        _Line("break-even length", lambda v: v.break_even_accept_length, two, "d"),
        _Line("tokens/cycle", _diluted, two, "d"),
        _Line("cycle ms" if drafts else "step ms", lambda v: v.cycle_ms, figure, "d"),
        _Line(f"step ms {other}", lambda v: v.baseline_step_ms, figure, "d"),
        _Line("tokens/forward", lambda v: v.tokens_per_forward, whole, "d"),
        _Line("in CUDA graph", lambda v: v.graph_share, share, "m"),
        _Line("steady windows", lambda v: v.windows, whole, ""),
    )


def _diluted(level: Level) -> float | None:
    """Tokens per cycle where it is not the accept length: not every step had a draft."""
    value = level.tokens_per_cycle
    return None if two(value) == two(level.accept_length) else value


def load_table(diagnosis: Diagnosis) -> Table | None:
    """The load table, one column per number of running requests, without rows nobody knows; None without levels."""
    levels = shown_levels(diagnosis)
    if not levels:
        return None
    paired = any(level.baseline_gen_tps is not None for level in levels)
    rows = []
    for line in _lines(speculating(diagnosis), paired):
        cells = tuple(line.write(line.get(level)) for level in levels)
        if all(cell == NONE for cell in cells):
            continue
        if line.label == "in CUDA graph" and all(cell in (NONE, "100 %") for cell in cells):
            continue
        rows.append(Row(line.label, cells, line.letter))
    return Table(
        corner="running",
        columns=tuple(whole(level.running) for level in levels),
        rows=tuple(rows),
        remarks=(legend(row.letter for row in rows),),
        arrows=_arrows(levels),
    )


def _arrows(levels: Sequence[Level]) -> tuple[tuple[str, str], ...]:
    """Notes with the loads they belong to: (`3, 5`, note)."""
    by_note: dict[str, list[str]] = {}
    for level in levels:
        if level.note:
            by_note.setdefault(level.note, []).append(whole(level.running))
    return tuple((", ".join(at), note) for note, at in by_note.items())
