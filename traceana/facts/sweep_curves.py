"""What the levels of a sweep show together: crossings, scaling, cliffs of the step cost, the best draft length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from traceana.facts.sweep_model import (
    DraftRow,
    PlainNeed,
    StepCliff,
    SweepCrossing,
    SweepLevel,
    SweepScaling,
    SweepSide,
)
from traceana.speculation.best_k import best_k, best_measured_k
from traceana.speculation.load import Scaling, scaling
from traceana.speculation.sweep_cost import CostCurve, Forward, cliffs, plain_break_even
from traceana.speculation.sweep_crossing import RatioAt, crossings

#: draft lengths that a plain sweep foretells the break-even of
PLAIN_KS = (1, 2, 3, 4, 5, 7)
#: a foretold draft length is named when it beats the measured one by this share: smaller gains drown in the model
_WORTH = 0.03

Located = tuple[float | None, SweepSide]


def best_levels(levels: Sequence[SweepLevel]) -> tuple[list[SweepLevel], list[SweepLevel]]:
    """The fastest draft setting at each load, and the others."""
    best: dict[tuple[object, ...], SweepLevel] = {}
    for level in levels:
        where = (level.load, level.request_rate, level.output_length, level.label)
        known = best.get(where)
        if known is None or (level.spec.gen_tps or 0.0) > (known.spec.gen_tps or 0.0):
            best[where] = level
    chosen = list(best.values())
    kept = set(map(id, chosen))
    return chosen, [level for level in levels if id(level) not in kept]


def named_apart(levels: Sequence[SweepLevel]) -> list[SweepLevel]:
    """Levels whose labels are told apart by their output length, where several have one load."""
    labels = [level.label for level in levels]
    return [
        replace(
            level,
            label=f"{level.output_length:g} tokens"
            if level.label == "-"
            else f"{level.label} ({level.output_length:g})",
        )
        if labels.count(level.label) > 1 and level.output_length is not None
        else level
        for level in levels
    ]


def loads_only(levels: Sequence[SweepLevel]) -> list[SweepLevel]:
    """Levels with a concurrency and a ratio, one per load (the longest output): those that curves can use."""
    ordered = sorted(levels, key=lambda level: level.output_length or 0.0)
    by_load = {level.load: level for level in ordered if level.load and level.ratio is not None}
    return [by_load[load] for load in sorted(by_load)]


def crossing_facts(levels: Sequence[SweepLevel], found_cliffs: Sequence[StepCliff]) -> tuple[SweepCrossing, ...]:
    """Where the winner changes; loads at which a side only queues are left out."""
    used = [level for level in loads_only(levels) if not level.queues]
    ratios = [
        RatioAt(level.load, level.ratio.value, level.ratio.low, level.ratio.high)
        for level in used
        if level.load is not None and level.ratio is not None
    ]
    return tuple(
        SweepCrossing(
            at=c.at, after=c.after, before=c.before, rises=c.rises, low=c.low, high=c.high, known=c.known,
            cliff=any(cliff.below_load >= c.after and cliff.above_load <= c.before for cliff in found_cliffs),
        )
        for c in crossings(ratios)
    )  # fmt: skip


def scaling_of(sides: Sequence[Located]) -> Scaling | None:
    """Scaling over the loads whose throughput is known."""
    return scaling([(load, one.gen_tps) for load, one in sides if load and one.gen_tps])


def scaling_fact(found: Scaling | None) -> SweepScaling | None:
    """The part of a Scaling that the report shows."""
    return None if found is None else SweepScaling(found.ceiling_tps, found.ceiling_at, found.saturates_at, found.gain)


def forwards(sides: Sequence[Located]) -> list[Forward]:
    """Forwards by tokens, of points whose requests decode rather than queue.

    Where only the load asked for is known, points above saturation are left out: there requests may just wait.
    """
    found = scaling_of(sides)
    saturated = found.saturates_at if found is not None else None
    return [
        Forward(one.tokens_per_forward, one.cycle_ms)
        for load, one in sides
        if one.tokens_per_forward
        and one.cycle_ms
        and not one.queueing
        and not (saturated and load and load > saturated and one.provenance.get("decoding") == "assumed")
    ]


def cliff_facts(sides: Sequence[Located], of: str) -> tuple[StepCliff, ...]:
    """Cliffs of one side's cost by tokens per forward."""
    curve = CostCurve(forwards(sides))
    by_tokens = {one.tokens_per_forward: (load, one) for load, one in sides if one.tokens_per_forward}
    out = []
    for cliff in cliffs(curve.forwards):
        below, above = by_tokens[cliff.below.tokens], by_tokens[cliff.above.tokens]
        out.append(
            StepCliff(
                of,
                cliff.below.tokens,
                cliff.above.tokens,
                cliff.below.ms,
                cliff.above.ms,
                below[0] or cliff.below.tokens,
                above[0] or cliff.above.tokens,
                (*below[1].evidence[:2], *above[1].evidence[:2]),
            )
        )
    return tuple(out)


def plain_facts(sides: Sequence[Located], found_cliffs: Sequence[StepCliff]) -> tuple[PlainNeed, ...]:
    """Break-even foretold from the steps without speculation; nothing is interpolated across a cliff."""
    curve = CostCurve(forwards(sides))
    jumps = {(cliff.below_tokens, cliff.above_tokens) for cliff in found_cliffs if cliff.of == "baseline"}
    batches = [forward.tokens for forward in curve.forwards]
    return tuple(
        PlainNeed(row.batch, row.k, row.accept_length, row.between)
        for row in plain_break_even(curve, batches, PLAIN_KS)
        if row.between not in jumps
    )


def draft_rows(levels: Sequence[SweepLevel], baseline: Sequence[Located]) -> tuple[DraftRow, ...]:
    """Draft settings by load: all that were measured where there are several, and lengths foretold to be better."""
    out: list[DraftRow] = []
    loads = list(dict.fromkeys((level.load, level.label) for level in levels))
    steps = CostCurve(forwards(baseline))
    for load, label in loads:
        here = [level for level in levels if (level.load, level.label) == (load, label)]
        if len(here) > 1:
            out += _measured_rows(here)
        else:
            out += _foretold(here[0], steps)
    return tuple(out)


def _row(level: SweepLevel) -> DraftRow:
    one = level.spec
    ratio = level.ratio.value if level.ratio is not None else None
    return DraftRow(level.load, one.draft, one.k, one.gen_tps, ratio, one.accept_length, one.cycle_ms)


def _measured_rows(levels: Sequence[SweepLevel]) -> list[DraftRow]:
    """Settings at one load, by k; for chains with the growths that tell what the last draft token is worth."""
    fastest = max(levels, key=lambda level: level.spec.gen_tps or 0.0)
    rows = [replace(_row(level), best=level is fastest) for level in levels]
    chains = {r.k: r for r in rows if r.k and r.cycle_ms and r.accept_length and r.accept_length >= 1.0}
    if len(chains) != len(rows):
        return rows
    table = best_measured_k(
        {k: r.accept_length for k, r in chains.items() if k and r.accept_length},
        {k: r.cycle_ms for k, r in chains.items() if k and r.cycle_ms},
    ).table
    return [replace(chains[c.k], accept_growth=c.accept_growth, cycle_growth=c.cycle_growth) for c in table]


def _foretold(level: SweepLevel, steps: CostCurve) -> list[DraftRow]:
    """A shorter chain than the measured one, where step costs and acceptance per position say that it is faster.

    C(k') = t((k' + 1) B) + k' d, with d = (C(k) - t((k + 1) B)) / k what one draft token costs beside the forward.
    """
    one, rates, load = level.spec, level.spec.per_position, level.load
    if not (load and rates and one.k and one.k == len(rates) and one.cycle_ms and not one.queueing):
        return []
    own = steps.at((one.k + 1) * load)
    if own is None or own.between is not None or own.ms > one.cycle_ms:
        return []
    per_draft = (one.cycle_ms - own.ms) / one.k
    costs = {
        k: cost.ms + k * per_draft
        for k in range(1, one.k + 1)
        if (cost := steps.at((k + 1) * load)) is not None and cost.between is None
    }
    found = best_k(rates, costs)
    chosen = next(row for row in found.table if row.k == found.k)
    here = next(row for row in found.table if row.k == one.k)
    if chosen.ms_per_token * (1.0 + _WORTH) >= here.ms_per_token:
        return []
    gain = here.ms_per_token / chosen.ms_per_token
    tps = None if one.gen_tps is None else one.gen_tps * gain
    ratio = None if level.ratio is None else level.ratio.value * gain
    return [
        DraftRow(
            level.load, f"k={chosen.k}", chosen.k, tps, ratio, chosen.accept_length, chosen.cycle_ms, modelled=True
        )
    ]
