"""The figures of both sides at one load: ratios with their intervals, and the throughput's ratio as a product."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from traceana.facts.bench_model import LoadPoint
from traceana.facts.compare_levels import Matched
from traceana.facts.compare_model import Factors, Figure
from traceana.facts.model import Fact
from traceana.facts.settings_effects import assumed_figure_noise
from traceana.speculation.decompose import LogParts, log_ratio
from traceana.speculation.noise import SAME_WITHIN, Answer, Basis, Measured, RatioInterval, judge, ratio_interval

#: a part that moves the throughput by less than this did not move
STILL = SAME_WITHIN
#: and neither did one that is this small beside the largest part
_SMALL_BESIDE = 0.15


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure: how it is called, read, and which column of the samples shows its spread."""

    name: str
    unit: str
    get: Callable[[LoadPoint], Fact[float]]
    column: str | None = None
    timed: bool = False  # a throughput or time: as a bare figure it is taken to have an assumed spread


_ROWS = (
    FigureRow("throughput", "tok/s", lambda p: p.gen_tps, "ms_per_token", True),
    FigureRow("time per token", "ms", lambda p: p.tpot_ms, "ms_per_token", True),
    FigureRow("cycle", "ms", lambda p: p.cycle_ms, "cycle_ms", True),
    FigureRow("tokens per cycle", "", lambda p: p.tokens_per_cycle, "tokens_per_cycle"),
    FigureRow("accept length", "", lambda p: p.accept_length, "tokens_per_cycle"),
    FigureRow("decoding at once", "", lambda p: p.decoding, None),
    FigureRow("time to first token", "ms", lambda p: p.ttft_ms, None),
)


def figures(m: Matched) -> tuple[Figure, ...]:
    """All figures that a side has; those both have with their ratio."""
    return tuple(figure for row in _ROWS if (figure := _figure(row, m)) is not None)


def _figure(row: FigureRow, m: Matched) -> Figure | None:
    sides = [measured(points, row.get, row.column) for points in (m.before, m.after)]
    if sides[0] is None and sides[1] is None:
        return None
    one, other = (None if side is None else side.value for side in sides)
    if sides[0] is None or sides[1] is None:
        return Figure(row.name, row.unit, one, other)
    found = _ratio(row, sides[0], sides[1], m.paired)
    return Figure(
        row.name, row.unit, one, other, found.ratio, found.low, found.high, found.basis.value, judge(found).value
    )


def interval(m: Matched, name: str) -> RatioInterval | None:
    """The interval of one figure by its name; None where a side lacks it."""
    row = figure_row(name)
    one, other = (measured(points, row.get, row.column) for points in (m.before, m.after))
    return None if one is None or other is None else _ratio(row, one, other, m.paired)


def figure_row(name: str) -> FigureRow:
    """How a figure is read, by its name. StopIteration for a name that is none."""
    return next(row for row in _ROWS if row.name == name)


def _ratio(row: FigureRow, one: Measured, other: Measured, paired: bool) -> RatioInterval:
    found = ratio_interval(one, other, paired=paired)
    if found.basis is Basis.NONE and row.timed:
        return ratio_interval(one, other, assumed_sd=assumed_figure_noise())
    return found


def measured(
    points: Sequence[LoadPoint], get: Callable[[LoadPoint], Fact[float]], column: str | None
) -> Measured | None:
    """One figure over the runs of a side; None where a run lacks it. Repeats within one result count as runs."""
    values = [get(point).value for point in points]
    known = tuple(value for value in values if value is not None and math.isfinite(value) and value > 0)
    if not known or len(known) < len(values):
        return None
    if len(points) > 1:
        return Measured(known)
    point = points[0]
    if column == "ms_per_token" and len(point.runs) > 1 and get(point) is point.gen_tps:
        return Measured(tuple(run for run in point.runs if math.isfinite(run) and run > 0))
    samples = point.samples
    parts: tuple[float, ...] = () if samples is None or column is None else getattr(samples, column)
    return Measured(known, parts)


def factors(figures: Sequence[Figure]) -> Factors | None:
    """The throughput's ratio as acceptance x cycle x batch x unexplained; None where a factor is not known.

    Without a throughput of its own it follows from the others, and nothing is unexplained.
    """
    by_name = {figure.name: figure for figure in figures}
    pairs = [_pair(by_name.get(name)) for name in ("tokens per cycle", "cycle", "decoding at once", "throughput")]
    tokens, cycle, running, tps = pairs
    if tokens is None or cycle is None:
        return None
    # where the requests decoding are not known, what they changed is in the unexplained rest
    parts = log_ratio(tokens, cycle, running or (1.0, 1.0), tps)
    return Factors(
        acceptance=parts.acceptance_factor,
        cycle=parts.cycle_factor,
        batch=math.exp(parts.batch),
        unexplained=math.exp(parts.unexplained),
        throughput=parts.throughput_factor,
        shares=_shares(parts),
    )


def _pair(figure: Figure | None) -> tuple[float, float] | None:
    if figure is None or figure.before is None or figure.after is None:
        return None
    return figure.before, figure.after


def _shares(parts: LogParts) -> tuple[float, float, float, float] | None:
    """Shares of ln(throughput ratio); they add up to 1, and one is negative when it works against the others."""
    if abs(parts.total) < STILL:
        return None
    return (
        parts.acceptance / parts.total,
        parts.cycle / parts.total,
        parts.batch / parts.total,
        parts.unexplained / parts.total,
    )


def moved(found: Factors) -> list[tuple[str, float]]:
    """The parts that moved, with their factors, the largest first: acceptance, cycle, batch, outside (of cycles)."""
    parts = (
        ("acceptance", found.acceptance),
        ("cycle", found.cycle),
        ("batch", found.batch),
        ("outside", found.unexplained),
    )
    sizes = {name: abs(math.log(factor)) for name, factor in parts}
    least = max(STILL, _SMALL_BESIDE * max(sizes.values()))
    return sorted(((n, f) for n, f in parts if sizes[n] > least), key=lambda part: -sizes[part[0]])


def changed(found: Factors | None) -> str:
    """Which part moved: acceptance, cycle, batch, outside (of the cycles), several, nothing or unknown."""
    if found is None:
        return "unknown"
    names = [name for name, _ in moved(found)]
    return "nothing" if not names else names[0] if len(names) == 1 else "several"


def speed(throughput: RatioInterval | None, cycle: RatioInterval | None) -> str:
    """faster, slower, same or inconclusive, by the throughput; by the cycle (shorter is faster) where there is none.

    A side that is one figure without requests, windows or repeats decides nothing.
    """
    found, up = (throughput, "faster") if throughput is not None else (cycle, "slower")
    if found is None:
        return "inconclusive"
    down = "slower" if up == "faster" else "faster"
    words = {Answer.HIGHER: up, Answer.LOWER: down, Answer.SAME: "same", Answer.INCONCLUSIVE: "inconclusive"}
    return words[judge(found)]
