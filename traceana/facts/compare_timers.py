"""Runs that have timers or traces alone, and what timers add where there are loads: the parts of the cycle."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts import compare_words as words
from traceana.facts.compare_figures import changed, factors, speed
from traceana.facts.compare_levels import Load, Side
from traceana.facts.compare_model import Figure, LevelComparison, Waterfall
from traceana.facts.compare_phases import timed, waterfall
from traceana.facts.settings_effects import assumed_run_noise
from traceana.speculation.noise import (
    POWER,
    SAME_WITHIN,
    Basis,
    Measured,
    RatioInterval,
    judge,
    ratio_interval,
    runs_needed,
)


def timer_levels(before: Side, after: Side) -> list[LevelComparison]:
    """One comparison of the cycles that timers or traces show; empty where a side has none."""
    cycle = _cycle(before, after)
    if cycle is None:
        return []
    figures = [_figure("cycle", "ms", cycle)]
    verify = _verify(before, after)
    figures += [] if verify is None else [_figure("verify", "ms", verify)]
    tokens = [side.facts.acceptance.tokens_per_cycle.value for side in (before, after)]
    if tokens[0] is not None and tokens[1] is not None:
        figures.append(_figure("tokens per cycle", "", (tokens[0], tokens[1], None)))
    product = factors(figures)
    part = changed(product)
    fast = speed(None, cycle[2])
    settle, settle_from = runs_to_settle(cycle[2], fast)
    batches = {side.facts.cycle.batch for side in (before, after)}
    load = Load(before.facts.cycle.batch if len(batches) == 1 else None)
    at = "in its timers" if load.concurrency is None else f"at {load.words}"
    notes = [words.basis_words(cycle[2], "timers")]
    if len(batches) > 1:
        notes.append("the timers are of different loads: " + " and ".join(f"{b or 'unknown'} running" for b in batches))
    return [
        LevelComparison(
            concurrency=load.concurrency,
            context_tokens=None,
            source="timers",
            speed=fast,
            changed=part,
            sentence=words.level_sentence((before.name, after.name), at, fast, figures, product, part),
            figures=tuple(figures),
            factors=product,
            waterfall=waterfall_at(before, after, load, figures),
            runs_needed=settle,
            runs_needed_from=settle_from,
            notes=tuple(notes),
        )
    ]


_Pair = tuple[float, float, RatioInterval | None]


def _cycle(before: Side, after: Side) -> _Pair | None:
    values = [side.facts.cycle.total_ms.value for side in (before, after)]
    if not values[0] or not values[1]:
        return None
    series = [() if side.runs[0].timers is None else side.runs[0].timers.total_ms for side in (before, after)]
    return values[0], values[1], _interval(before, after, (values[0], values[1]), (series[0], series[1]), "total")


def _verify(before: Side, after: Side) -> _Pair | None:
    one, other = before.runs[0].timers, after.runs[0].timers
    if one is None or other is None:
        return None
    values = (one.verify_mean_ms, other.verify_mean_ms)
    return *values, _interval(before, after, values, (one.verify_ms, other.verify_ms), "verify")


def _interval(
    before: Side, after: Side, values: tuple[float, float], series: tuple[tuple[float, ...], tuple[float, ...]], of: str
) -> RatioInterval:
    """From repeats where there are several runs with timers, else from the lines of one run."""
    sides = []
    for side, value, parts in zip((before, after), values, series, strict=True):
        if len(side.runs) > 1:
            repeats = [_of_run(run.facts.cycle.total_ms.value, run.timers, of) for run in side.runs]
            sides.append(Measured(tuple(found for found in repeats if found)))
        else:
            sides.append(Measured((value,), parts))
    return ratio_interval(sides[0], sides[1])


def _of_run(cycle: float | None, timers: object, of: str) -> float | None:
    return cycle if of == "total" else getattr(timers, "verify_mean_ms", None)


def _figure(name: str, unit: str, pair: _Pair) -> Figure:
    before, after, found = pair
    if found is None:
        return Figure(name, unit, before, after, after / before)
    return Figure(name, unit, before, after, found.ratio, found.low, found.high, found.basis.value, judge(found).value)


def runs_to_settle(found: RatioInterval | None, fast: str) -> tuple[int | None, str | None]:
    """Runs of each side that would settle it, where runs are what is missing, and what that was reckoned from.

    A difference below `SAME_WITHIN` counts as one of that size: it would show that the sides are the same.
    """
    if found is None or (found.basis is Basis.RUNS and fast != "inconclusive"):
        return None, None
    wanted = max(found.ratio, 1.0 / found.ratio, 1.0 + SAME_WITHIN)
    chance = f"{100.0 * POWER:.0f} % chance to see the difference"
    if found.basis is Basis.RUNS and found.sd_runs:
        return runs_needed(wanted, found.sd_runs), f"{chance}; the repeats vary by {100.0 * found.sd_runs:.1f} %"
    assumed = found.sd_runs or assumed_run_noise()
    return runs_needed(wanted, assumed), f"{chance}; that runs vary by {100.0 * assumed:.0f} % is assumed"


def waterfall_at(before: Side, after: Side, load: Load, figures: Sequence[Figure]) -> Waterfall | None:
    """Split by phase where both runs' timers are of this load; else the cycle as one part."""
    why = None
    for side in (before, after):
        phases = timed(side.facts)
        if phases is not None and phases.batch not in (None, load.concurrency):
            why = f"the phase times of {side.name} are of {phases.batch} running"
    cycles, tokens = (_both(figures, name) for name in ("cycle", "tokens per cycle"))
    if tokens is not None and min(tokens) < 1.0:
        tokens = None  # contradicting totals: fewer than one token per cycle cannot be
    return waterfall(before.facts, after.facts, cycles, tokens, why)


def _both(figures: Sequence[Figure], name: str) -> tuple[float, float] | None:
    figure = next((f for f in figures if f.name == name), None)
    if figure is None or figure.before is None or figure.after is None:
        return None
    return figure.before, figure.after
