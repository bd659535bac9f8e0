"""The tables of a sweep: levels by load, draft settings, break-even without a drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from traceana.facts.sweep_model import DraftRow, PlainNeed, SweepBlock, SweepLevel, SweepRatio, SweepSide
from traceana.report.page import Row, Table
from traceana.report.text import NONE, figure, letter, share, two, whole

_MOST_COLUMNS = 24
_MOST_ROWS = 40
_VERDICTS = {"inconclusive": "unclear"}


class Detail(IntEnum):
    """How much of a block's table is drawn."""

    FEW = 0  # contexts after the first
    MAIN = 1  # in a diagnosis
    ALL = 2


@dataclass(frozen=True, slots=True)
class _Line:
    """One possible row: its label, its cell at a level, and whose figure's provenance letter it carries."""

    label: str
    cell: Callable[[SweepLevel], str]
    letter: Callable[[SweepLevel], str | None] = lambda _: None
    since: Detail = Detail.ALL  # drawn in tables of at least this detail


def _of(side: str, name: str, write: Callable[[float | None], str]) -> Callable[[SweepLevel], str]:
    return lambda level: write(getattr(getattr(level, side), name))


def _from(side: str, name: str) -> Callable[[SweepLevel], str | None]:
    return lambda level: getattr(level, side).provenance.get(name)


def _figure(
    label: str, side: str, name: str, write: Callable[[float | None], str], since: Detail = Detail.MAIN
) -> _Line:
    return _Line(label, _of(side, name, write), _from(side, name), since)


def _derived(_: SweepLevel) -> str:
    return "derived"


def _ms(value: float | None) -> str:
    """A latency in ms; in s where it is long."""
    return figure(value) if value is None or value < 9_999.5 else f"{whole(value / 1000.0)} s"


#: a range wider than this (high / low) says nothing; its ends would only look exact
_WIDE = 100.0


def _end(ratio: SweepRatio | None, which: str) -> str:
    """One end of a ratio's range; `wide` where the range says nothing."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return NONE
    return "wide" if ratio.high > _WIDE * ratio.low else two(getattr(ratio, which))


def _verdict(level: SweepLevel) -> str:
    if level.queues:
        return "queueing"
    if level.ratio is None:
        return NONE
    return _VERDICTS.get(level.ratio.verdict, level.ratio.verdict)


_LINES = (
    _figure("tok/s with", "spec", "gen_tps", figure, since=Detail.FEW),
    _figure("tok/s without", "baseline", "gen_tps", figure, since=Detail.FEW),
    _Line("ratio", lambda v: two(v.ratio.value if v.ratio else None), _derived, since=Detail.FEW),
    _Line("  95 % from", lambda v: _end(v.ratio, "low"), _derived, Detail.MAIN),
    _Line("  95 % to", lambda v: _end(v.ratio, "high"), _derived, Detail.MAIN),
    _Line("speculation", _verdict, since=Detail.FEW),
    _Line("runs to settle it", lambda v: whole(v.ratio.runs_needed if v.ratio and not v.queues else None)),
    _figure("TPOT ms with", "spec", "tpot_ms", figure),
    _figure("TPOT ms without", "baseline", "tpot_ms", figure),
    _Line("  per request", lambda v: f"{two(v.user_ratio.value)}x" if v.user_ratio else NONE, _derived, Detail.MAIN),
    _figure("tok/s per user with", "spec", "user_tps", figure, Detail.ALL),
    _figure("tok/s per user without", "baseline", "user_tps", figure, Detail.ALL),
    _figure("TTFT ms with", "spec", "ttft_ms", _ms),
    _figure("TTFT ms without", "baseline", "ttft_ms", _ms),
    _figure("decoding at once with", "spec", "decoding", figure),
    _figure("decoding at once without", "baseline", "decoding", figure),
    _figure("accept length", "spec", "accept_length", two, since=Detail.FEW),
    _figure("tokens/cycle", "spec", "tokens_per_cycle", two),
    _Line("break-even length", lambda v: two(v.break_even), _derived, since=Detail.FEW),
    _figure("cycle ms", "spec", "cycle_ms", figure),
    _figure("step ms without", "baseline", "cycle_ms", figure),
    _Line("tokens/forward with", lambda v: whole(v.spec.tokens_per_forward), _derived),
    _Line("tokens/forward without", lambda v: whole(v.baseline.tokens_per_forward), _derived),
    _Line("scaling with", lambda v: share(v.spec.efficiency), _derived),
    _Line("scaling without", lambda v: share(v.baseline.efficiency), _derived),
    _Line("draft: k, or steps/topk/tokens", lambda v: v.spec.draft or NONE, since=Detail.MAIN),
)


def level_table(block: SweepBlock, detail: Detail) -> Table | None:
    """The levels of a block, one column per load. None without levels."""
    levels = thinned(block.levels)
    if not levels:
        return None
    rows = []
    for line in _LINES:
        if line.since > detail or not _wanted(line.label, levels):
            continue
        cells = tuple(line.cell(level) for level in levels)
        if any(cell != NONE for cell in cells):
            rows.append(Row(line.label, cells, _letter(line, levels)))
    hidden = len(block.levels) - len(levels)
    remark = f"{hidden} loads between these are not shown: --format json has all" if hidden else ""
    return Table(_corner(levels), tuple(level.label for level in levels), tuple(rows), remarks=(remark,))


def _corner(levels: Sequence[SweepLevel]) -> str:
    if any(level.load is None for level in levels):
        return "load"
    return "users (output tokens)" if any("(" in level.label for level in levels) else "users"


def thinned(levels: Sequence[SweepLevel]) -> Sequence[SweepLevel]:
    """At most 24 levels, the first and the last among them."""
    if len(levels) <= _MOST_COLUMNS:
        return levels
    step = (len(levels) - 1) / (_MOST_COLUMNS - 1)
    return [levels[round(i * step)] for i in range(_MOST_COLUMNS)]


def _letter(line: _Line, levels: Sequence[SweepLevel]) -> str:
    """The letters of the provenances in the row."""
    found = dict.fromkeys(letter(line.letter(level)) for level in levels)
    return "".join(sorted(found))


def _wanted(label: str, levels: Sequence[SweepLevel]) -> bool:
    """Rows that repeat what another says are left out."""
    if label == "tokens/cycle":
        return any(two(v.spec.tokens_per_cycle) != two(v.spec.accept_length) for v in levels)
    if label in ("TPOT ms with", "TPOT ms without", "  per request"):
        return any(v.user_ratio is not None for v in levels)
    if label.startswith("decoding at once"):
        return any(_differs(v.spec) or _differs(v.baseline) for v in levels)
    if label.startswith("draft:"):
        return len({v.spec.draft for v in levels}) > 1
    return True


def _differs(side: SweepSide) -> bool:
    return side.queueing is not None


def draft_table(rows: Sequence[DraftRow]) -> Table | None:
    """Draft settings as rows: throughput, ratio, and what the last draft token is worth. None without rows."""
    shown = [row for row in rows if not row.modelled][:_MOST_ROWS]
    if not shown:
        return None
    columns = ("tok/s", "ratio", "accept length", "cycle ms", "length +", "cycle +", "")
    made = tuple(
        Row(
            f"{NONE if row.load is None else whole(row.load)} · {row.draft or 'not said'}",
            (
                figure(row.gen_tps),
                two(row.ratio),
                two(row.accept_length),
                two(row.cycle_ms) if (row.cycle_ms or 0.0) < 100 else figure(row.cycle_ms),
                share(row.accept_growth),
                share(row.cycle_growth),
                "best" if row.best else "",
            ),
        )
        for row in shown
    )
    used = [i for i in range(len(columns)) if any(row.cells[i] not in (NONE, "") for row in made)]
    hidden = len([row for row in rows if not row.modelled]) - len(shown)
    return Table(
        "users · draft",
        tuple(columns[i] for i in used),
        tuple(Row(row.label, tuple(row.cells[i] for i in used)) for row in made),
        remarks=(f"{hidden} more: --format json has all" if hidden > 0 else "",),
    )


def plain_table(found: Sequence[PlainNeed]) -> Table | None:
    """Accept length needed by draft length (rows) and load (columns); interpolated ones carry a tilde."""
    if not found:
        return None
    loads = sorted({row.load for row in found})[:_MOST_COLUMNS]
    by_place = {(row.k, row.load): row for row in found}
    rows = tuple(
        Row(f"k={k}", tuple(_needed(by_place.get((k, load))) for load in loads), "M")
        for k in sorted({row.k for row in found})
    )
    return Table("users", tuple(whole(load) for load in loads), rows)


def _needed(row: PlainNeed | None) -> str:
    if row is None:
        return NONE
    return f"{'~' if row.between else ''}{two(row.accept_length)}"
