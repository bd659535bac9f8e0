"""A new run against a baseline: each figure at each load that both have, against its tolerance and the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import fmean

from traceana.errors import TraceanaError
from traceana.facts.check_model import Check, CheckLine, Limit
from traceana.facts.comparable import compare_conditions
from traceana.facts.compare import alike, doubts_at, side_notes
from traceana.facts.compare_figures import figure_row, measured
from traceana.facts.compare_levels import Matched, Side, match
from traceana.facts.settings_effects import assumed_figure_noise
from traceana.speculation.gate import CONFIDENCE, Result, better_range, gate, overall
from traceana.speculation.noise import Basis, Measured, RatioInterval, ratio_interval
from traceana.toml_table import toml_table

_TIMED = ("throughput", "time per token", "cycle", "verify")


@cache
def _data() -> tuple[tuple[Limit, ...], int, int]:
    data = toml_table("traceana.facts", "check_limits.toml")
    limits = tuple(
        Limit(r["name"], r["option"], r["figure"], r["better"] == "higher", r["tolerance"], r["run_noise"])
        for r in data["metric"]
    )
    return limits, data["repeats"], data["most"]


def limits() -> tuple[Limit, ...]:
    """The figures that are checked, with their tolerances when nothing else is asked for."""
    return _data()[0]


def most_history() -> int:
    """How many recorded runs count at most, the latest first."""
    return _data()[2]


def check(
    baseline: Side,
    new: Side,
    tolerances: Mapping[str, float | None],
    run_noise: float | None,
    where: str,
) -> Check:
    """The check of a new run.

    Args:
        baseline: the runs of the baseline, the latest first: its conditions are those that must be kept.
        new: the run to check, with its repeats.
        tolerances: option of a limit -> allowed change for the worse (0.05 is 5 %), None to leave it out; limits that
            are not named keep their own.
        run_noise: the spread from run to run to reckon with while too few runs are recorded; None takes each limit's.
        where: what the baseline is called.

    TraceanaError where a side holds several set-ups at one load.
    """
    matching = match(baseline, new)
    wanted = [
        (limit, tolerance)
        for limit in limits()
        if (tolerance := tolerances.get(limit.option, limit.tolerance)) is not None
    ]
    intervals = [
        (limit, tolerance, load, *found)
        for limit, tolerance in wanted
        for load, found in _intervals(limit, matching.both, baseline, new, run_noise)
    ]
    doubtful = {m.load.words for m in matching.both if doubts_at(m.load, baseline, new)}
    lines = tuple(
        _line(limit, tolerance, load, sides, interval, len(intervals), load in doubtful)
        for limit, tolerance, load, sides, interval in intervals
    )
    result = overall([Result(line.result) for line in lines])
    pairs = alike(baseline, new, matching.both)
    raw = compare_conditions(
        (baseline.facts, baseline.runs[0].conditions), (new.facts, new.runs[0].conditions), pairs
    ).raw
    return Check(
        result=result.value,
        sentence=_sentence(result, lines),
        lines=lines,
        baseline=where,
        baseline_runs=len(baseline.runs),
        new=tuple(run.paths for run in new.runs),
        unfair=tuple(f"{row.what}: {row.before} / {row.after}" for row in raw if row.effect.unfair),
        notes=(*side_notes(new), *_notes(lines, matching.only_before, matching.only_after, run_noise)),
    )


def first(new: Side, where: str) -> Check:
    """The check of a run that begins a baseline: there is nothing to hold it against yet.

    TraceanaError when it holds no figure that a later run could be held against.
    """
    points = sum(len(run.facts.points) for run in new.runs)
    timers = sum(run.timers is not None for run in new.runs)
    if not points and not timers:
        raise TraceanaError("the new run holds no throughput, cycle or timer line that a later one could be checked by")
    loads = f"{points} load point{'' if points == 1 else 's'}" if points else "timer lines"
    sentence = f"No baseline yet: the new run begins it, with {loads}."
    return Check("first", sentence, (), where, 0, tuple(run.paths for run in new.runs))


_Found = tuple[tuple[Measured, Measured], RatioInterval]


def _intervals(
    limit: Limit, loads: Sequence[Matched], baseline: Side, new: Side, run_noise: float | None
) -> list[tuple[str, _Found]]:
    """One figure at every load that both sides have it at."""
    if limit.figure == "verify" or not loads:
        sides = [_timed(side, limit.figure) for side in (baseline, new)]
        found = [(_timers_load(baseline, new), sides[0], sides[1], False)]
    else:
        row = figure_row(limit.figure)
        found = [
            (m.load.words, measured(m.before, row.get, row.column), measured(m.after, row.get, row.column), m.paired)
            for m in loads
        ]
    return [
        (load, ((before, after), _interval(limit, before, after, paired, run_noise)))
        for load, before, after, paired in found
        if before is not None and after is not None
    ]


def _timed(side: Side, figure: str) -> Measured | None:
    """One figure of runs that have timers: verify, and where there is no load point the cycle and the accept length."""
    if figure == "accept length":
        lengths = [run.facts.acceptance.accept_length.value for run in side.runs]
        return Measured(tuple(found for found in lengths if found)) if all(lengths) else None
    known = [run.timers for run in side.runs if run.timers is not None]
    if not known or figure not in ("verify", "cycle"):
        return None
    if figure == "verify":
        return Measured(tuple(t.verify_mean_ms for t in known), known[0].verify_ms if len(known) == 1 else ())
    return Measured(tuple(fmean(t.total_ms) for t in known), known[0].total_ms if len(known) == 1 else ())


def _timers_load(baseline: Side, new: Side) -> str:
    batches = {run.timers.batch for side in (baseline, new) for run in side.runs if run.timers is not None}
    return f"{batches.pop()} running" if len(batches) == 1 and None not in batches else "the timers' load"


def _interval(limit: Limit, before: Measured, after: Measured, paired: bool, run_noise: float | None) -> RatioInterval:
    timed = limit.figure in _TIMED
    bare = timed and not before.parts and not after.parts and len(before.runs) == len(after.runs) == 1
    assumed = run_noise if run_noise is not None else max(limit.run_noise, assumed_figure_noise() if bare else 0.0)
    # as many runs as `repeats` and a new one leave repeats - 1 degrees of freedom
    return ratio_interval(before, after, assumed_sd=assumed, paired=paired, least_freedom=_data()[1] - 1)


def _line(
    limit: Limit,
    tolerance: float,
    load: str,
    sides: tuple[Measured, Measured],
    interval: RatioInterval,
    lines: int,
    doubtful: bool,
) -> CheckLine:
    before, after = sides
    ends = better_range(interval, True, CONFIDENCE)
    result = Result.INCONCLUSIVE if doubtful else gate(interval, tolerance, limit.higher_is_better, lines)
    return CheckLine(
        metric=limit.name,
        load=load,
        baseline=before.value,
        new=after.value,
        change=interval.ratio - 1.0,
        low=None if ends is None else ends[0] - 1.0,
        high=None if ends is None else ends[1] - 1.0,
        limit=-tolerance if limit.higher_is_better else tolerance,
        result=result.value,
        basis=interval.basis.value,
        baseline_runs=len(before.runs),
        new_runs=len(after.runs),
        sd_runs=interval.sd_runs,
    )


def _sentence(result: Result, lines: Sequence[CheckLine]) -> str:
    if not lines:
        return "Nothing to check: the new run and the baseline have no figure at a common load."
    bad = [
        f"{line.metric} at {line.load} {100.0 * line.change:+.1f} %"
        for line in lines
        if line.result == Result.REGRESSION
    ]
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        return f"Regression: {', '.join(bad[:3])}{more}."
    open_ = sum(line.result == Result.INCONCLUSIVE for line in lines)
    if result is Result.INCONCLUSIVE:
        return f"Inconclusive: {open_} of {len(lines)} figures lie too close to their limits for the noise there is."
    return f"Pass: none of {len(lines)} figures is worse than its limit."


def _notes(
    lines: Sequence[CheckLine], only_before: Sequence[str], only_after: Sequence[str], run_noise: float | None
) -> tuple[str, ...]:
    notes = []
    assumed = {line.sd_runs for line in lines if line.basis == Basis.ASSUMED.value}
    if assumed:
        spreads = ", ".join(f"{sd:.3g} %" for sd in sorted(100.0 * s for s in assumed if s is not None))
        how = "is assumed" if run_noise is None else "is taken as stated"
        other = ", or state it with --run-noise" if run_noise is None else ""
        notes.append(
            f"the spread from run to run {how} ({spreads}): record {_data()[1]} runs of the baseline (--record), and "
            f"it is measured{other}"
        )
    for side, loads in (("baseline", only_before), ("new run", only_after)):
        if loads:
            notes.append(f"only the {side} has: {'; '.join(loads)}")
    return tuple(notes)
