"""Two and more runs compared: the loads both have, what changed at each, whether it is real, what could explain it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from traceana.facts import compare_words as words
from traceana.facts.comparable import compare_conditions, spec_words
from traceana.facts.compare_explain import change_of, comparable, explanations, main_level, next_step
from traceana.facts.compare_figures import changed, factors, figures, interval, speed
from traceana.facts.compare_levels import Load, Matched, Side, match
from traceana.facts.compare_model import (
    Comparison,
    LevelComparison,
    PairComparison,
    Repeats,
    SideInfo,
)
from traceana.facts.compare_size import differences
from traceana.facts.compare_timers import runs_to_settle, timer_levels, waterfall_at
from traceana.facts.conditions import Conditions, LoadConditions, typical, uneven
from traceana.speculation.noise import Basis, RatioInterval, smallest_difference


def compare(sides: Sequence[Side]) -> Comparison:
    """Every side against the first one. TraceanaError where a side holds several set-ups at one load."""
    first = sides[0]
    return Comparison(
        sides=tuple(_info(side) for side in sides),
        pairs=tuple(_pair(first, other) for other in sides[1:]),
    )


def _info(side: Side) -> SideInfo:
    facts = side.facts
    notes = side_notes(side)
    return SideInfo(
        name=side.name,
        paths=tuple(run.paths for run in side.runs),
        engine=facts.identity.engine.value,
        version=facts.identity.version.value,
        model=facts.identity.model.value,
        speculation=spec_words(facts),
        notes=notes,
    )


def side_notes(side: Side) -> tuple[str, ...]:
    """What was left out of a side's inputs or is odd in them: broken files, doubtful results, other clients' tokens."""
    notes: list[str | None] = []
    for run in side.runs:
        notes += [f"{entry.path}: {entry.problem}" for entry in run.facts.inputs if entry.problem]
        notes += [run.facts.left_out, *_counter_notes(run.conditions)]
        notes += [load.doubt for load in run.conditions.loads]
    notes += [uneven(loads) for loads in _by_load(side).values()]
    return tuple(dict.fromkeys(note for note in notes if note))


def _counter_notes(found: Conditions) -> list[str]:
    counters = found.counters
    notes = list(counters.resets)
    if counters.foreign:
        notes.append(
            f"the server's counters hold {counters.foreign:,.0f} generated tokens more than the benchmarks asked for "
            f"({counters.benchmarks:,}): other clients used the server, and its figures are not of this load alone"
        )
    return notes


def _pair(before: Side, after: Side) -> PairComparison:
    matching = match(before, after)
    names = (before.name, after.name)
    levels = [_level(before, after, m) for m in matching.both] or timer_levels(before, after)
    empty = [s.name for s in (before, after) if not s.facts.points and s.facts.cycle.total_ms.value is None]
    found = compare_conditions(
        (before.facts, before.runs[0].conditions),
        (after.facts, after.runs[0].conditions),
        alike(before, after, matching.both),
    )
    main = main_level(levels)
    rows = differences(found.raw, change_of(main, (before, after)))
    fair = comparable(found, rows, (before, after))
    return PairComparison(
        before=before.name,
        after=after.name,
        sentence=words.headline(names, levels, empty),
        comparable=fair,
        levels=tuple(levels),
        differences=rows,
        harmless=found.harmless,
        only_before=matching.only_before,
        only_after=matching.only_after,
        explained_at=None if main is None else main.concurrency,
        explanations=explanations(rows, main, found.unknown),
        next_step=next_step(main, fair, rows, [run.timers for side in (before, after) for run in side.runs]),
    )


def alike(before: Side, after: Side, matched: Sequence[Matched]) -> list[tuple[LoadConditions, LoadConditions]]:
    """Conditions of both sides at the loads that are compared, repeats as one; all where no load is stated."""
    one, other = (_by_load(side) for side in (before, after))
    wanted = {(m.load.concurrency, m.load.context_tokens) for m in matched}
    shared = [
        key for key in one if key in other and any(key[0] == c and context in (None, key[1]) for c, context in wanted)
    ]
    if not shared and len(one) == len(other) == 1:
        return [(typical(*one.values()), typical(*other.values()))]
    return [(typical(one[key]), typical(other[key])) for key in shared]


def _by_load(side: Side) -> dict[tuple[int | None, int | None], list[LoadConditions]]:
    found: dict[tuple[int | None, int | None], list[LoadConditions]] = {}
    for run in side.runs:
        for load in run.conditions.loads:
            found.setdefault((load.concurrency, load.context_tokens), []).append(load)
    return found


def _level(before: Side, after: Side, m: Matched) -> LevelComparison:
    found = figures(m)
    product = factors(found)
    part = changed(product)
    throughput, cycle = (interval(m, name) for name in ("throughput", "cycle"))
    decisive = throughput or cycle
    fast = speed(throughput, cycle)
    open_ = [text for text in (_alone(m, decisive), *doubts_at(m.load, before, after)) if text]
    if open_:
        fast = "inconclusive"
    settle, settle_from = runs_to_settle(decisive, fast)
    basis = words.basis_words(decisive, m.source, m.paired)
    return LevelComparison(
        concurrency=m.load.concurrency,
        context_tokens=m.load.context_tokens,
        source=m.source,
        speed=fast,
        changed=part,
        sentence=words.level_sentence((before.name, after.name), f"at {m.load.words}", fast, found, product, part),
        figures=found,
        factors=product,
        waterfall=waterfall_at(before, after, m.load, found),
        repeats=_repeats(before, after, m, decisive),
        runs_needed=settle,
        runs_needed_from=settle_from,
        notes=tuple(dict.fromkeys(note for note in (*open_, basis, *_notes(m)) if note)),
    )


def doubts_at(load: Load, *sides: Side) -> list[str]:
    """What makes a result at this load doubtful, by side: no verdict is built on it."""
    return [
        f"{side.name}: {c.doubt}"
        for side in sides
        for run in side.runs
        for c in run.conditions.loads
        if c.doubt and c.concurrency == load.concurrency and load.context_tokens in (None, c.context_tokens)
    ]


def _alone(m: Matched, found: RatioInterval | None) -> str | None:
    """Words for a side that is one single figure, where the other one was repeated."""
    if found is None or not found.unrepeated:
        return None
    points = m.before if found.runs[0] == 1 else m.after
    point = points[0]
    if point.samples is not None:
        return None
    value = point.gen_tps.value if point.gen_tps.value is not None else point.cycle_ms.value
    return f"{words.number(value or 0.0)} was measured once and never repeated: one run is not a result"


def _notes(m: Matched) -> list[str]:
    notes = [note for point in (*m.before, *m.after) for note in point.notes]
    if m.source == "mixed":
        notes.append("the sides were measured by different means: a benchmark's clock and a server's log")
    return notes


def _repeats(before: Side, after: Side, m: Matched, found: RatioInterval | None) -> tuple[Repeats, ...]:
    made = []
    for side, points in ((before, m.before), (after, m.after)):
        runs = points[0].runs if len(points) == 1 else tuple(p.gen_tps.value for p in points if p.gen_tps.value)
        if not runs:
            continue
        sd = None if found is None or found.basis is not Basis.RUNS else found.sd_runs
        cv = statistics.stdev(runs) / statistics.fmean(runs) if len(runs) > 1 else None
        shows = None if sd is None or len(runs) < 2 else smallest_difference(sd, (len(runs), len(runs)))
        made.append(Repeats(side.name, runs, statistics.fmean(runs), cv, len(runs) == 1, shows))
    return tuple(made)
