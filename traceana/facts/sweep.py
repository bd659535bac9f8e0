"""Two sets of load points to a sweep: levels, curves, verdict and what to set. Pure: reads Facts, writes plain data."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.errors import TraceanaError
from traceana.facts import sweep_curves as curves
from traceana.facts import sweep_engine, sweep_levels, sweep_sides, sweep_words
from traceana.facts.bench_model import LoadPoint
from traceana.facts.model import Facts
from traceana.facts.sweep_model import DraftRow, LoadSpan, PlainLevel, SetUp, Sweep, SweepAdvice, SweepBlock, SweepLevel
from traceana.speculation.sweep_schedule import Choice, schedule

_NO_POINTS = (
    "holds no throughput by load: give benchmark results (JSON, JSONL, the printed block, a table with a concurrency "
    "and a throughput column) or a server log with steady windows"
)
#: benchmark tools that come with an engine
_TOOL_ENGINES = (("vllm", "vllm"), ("sglang", "sglang"), ("one_batch", "sglang"), ("trtllm", "trtllm"))


def sweep(
    spec: Facts, baseline: Facts | None = None, series: str | None = None, baseline_series: str | None = None
) -> Sweep:
    """The sweep of a run with speculation against one without.

    Args:
        spec: facts of the inputs with speculation, or of inputs that hold both (then without `baseline`).
        baseline: facts of the inputs without.
        series: name, or part of it, of the series with speculation.
        baseline_series: the same for the one without.

    Raises TraceanaError where no load was measured, or which series is which is not clear.
    """
    with_, without = _sides(spec, baseline, series, baseline_series)
    who, base_who = _set_up(spec, with_), _set_up(baseline or spec, without)
    if not with_:
        blocks = _plain_blocks(without)
        note = "" if any(p.speculative is False for p in without) else _TAKEN_AS_PLAIN
        return Sweep(_headline(blocks), None, base_who, blocks, (note,) if note else ())
    pairs, notes = sweep_sides.pairings(with_, without)
    blocks = tuple(_block(pair, who, base_who) for pair in pairs)
    every = (*spec.points, *(baseline.points if baseline is not None else ()))
    return Sweep(_headline(blocks), who, base_who, blocks, (*_left_out(every, (*with_, *without)), *notes))


_TAKEN_AS_PLAIN = "taken as a sweep without speculation: nothing in it says otherwise"


def _sides(
    spec: Facts, baseline: Facts | None, series: str | None, baseline_series: str | None
) -> tuple[tuple[LoadPoint, ...], tuple[LoadPoint, ...]]:
    if not spec.points:
        raise TraceanaError(f"{_paths(spec)} {_NO_POINTS}")
    if baseline is None:
        with_, without = sweep_sides.split(spec.points, series, baseline_series)
        if not without:
            raise TraceanaError(
                f"{_paths(spec)}: all of it speculates; give the same loads without speculation as --baseline PATH"
            )
        return with_, without
    if not baseline.points:
        raise TraceanaError(f"{_paths(baseline)} {_NO_POINTS}")
    with_ = sweep_sides.named(spec.points, series, "--series")
    without = sweep_sides.named(baseline.points, baseline_series, "--baseline-series")
    speculating = tuple(p for p in with_ if p.speculative is not False)
    plain = tuple(p for p in without if p.speculative is not True)
    if not plain:
        raise TraceanaError(f"{_paths(baseline)} speculates: a baseline is measured without speculation")
    if not speculating:
        raise TraceanaError(f"{_paths(spec)} does not speculate: a sweep compares with and without (see compare)")
    return speculating, plain


def _left_out(every: Sequence[LoadPoint], used: Sequence[LoadPoint]) -> list[str]:
    """Words for load points that are neither side: another series, or not of the kind their side asks for."""
    left = sweep_sides.without(every, used)
    if not left:
        return []
    what = f"{len(left)} load point{'' if len(left) == 1 else 's'}"
    return [f"left out, as they belong to neither side: {what} of {sweep_sides.names(left)}"]


def _paths(facts: Facts) -> str:
    first = facts.inputs[0].path if facts.inputs else "the input"
    return first if len(facts.inputs) < 2 else f"{first} (and {len(facts.inputs) - 1} more)"


def _set_up(facts: Facts, points: Sequence[LoadPoint]) -> SetUp:
    engine = facts.identity.engine.value
    if engine is None:
        engine = next((e for p in points for word, e in _TOOL_ENGINES if p.tool.startswith(word)), None)
    return SetUp(
        engine,
        facts.identity.version.value,
        facts.identity.model.value,
        facts.speculation.method.value,
        facts.inputs,
        facts.left_out,
    )


def _plain_blocks(points: Sequence[LoadPoint]) -> tuple[SweepBlock, ...]:
    """A sweep without speculation alone, by context: what acceptance a drafter would need."""
    plain = [sweep_sides.as_plain(p) for p in sweep_sides.merged(points)]
    contexts = dict.fromkeys(p.context_tokens for p in plain)
    return tuple(_plain_block([p for p in plain if p.context_tokens == context]) for context in contexts)


def _plain_block(points: Sequence[LoadPoint]) -> SweepBlock:
    ordered = sorted(points, key=lambda p: p.concurrency or 0.0)
    shown = tuple(PlainLevel(p.concurrency, sweep_levels.label(p), sweep_levels.side(p)) for p in ordered)
    located = [(level.load, level.side) for level in shown]
    found = curves.cliff_facts(located, "baseline")
    plain = curves.plain_facts(located, found)
    return SweepBlock(
        name="",
        series=None,
        baseline_series=points[0].series,
        context_tokens=points[0].context_tokens,
        verdict=sweep_words.plain_verdict(plain),
        baseline_scaling=curves.scaling_fact(curves.scaling_of(located)),
        cliffs=found,
        plain=plain,
        plain_levels=shown,
    )


def _block(pair: sweep_sides.Pairing, who: SetUp, base_who: SetUp) -> SweepBlock:
    spec, base = sweep_sides.merged(pair.spec), sweep_sides.merged(pair.baseline)
    base = tuple(sweep_sides.as_plain(p) for p in base)
    every, unpaired = sweep_levels.levels(spec, base)
    best, others = curves.best_levels(every)
    chosen = curves.named_apart(best)
    curve = curves.loads_only(chosen)
    spec_sides = [(p.concurrency, sweep_levels.side(p)) for p in spec]
    base_sides = [(p.concurrency, sweep_levels.side(p)) for p in base]
    one_draft = len({one.draft for _, one in spec_sides}) == 1
    cliffs = (
        *(curves.cliff_facts(spec_sides, "speculation") if one_draft else ()),
        *curves.cliff_facts(base_sides, "baseline"),
    )
    spec_scaling = curves.scaling_of([(level.load, level.spec) for level in curve])
    base_scaling = curves.scaling_of(_one_per_load(base_sides, curve))
    efficiency = [dict(s.efficiency) if s is not None else {} for s in (spec_scaling, base_scaling)]
    chosen = [sweep_levels.with_efficiency(level, *efficiency) for level in chosen]
    drafts = curves.draft_rows(every, base_sides)
    found = curves.crossing_facts(chosen, cliffs)
    ceilings = [s.ceiling_tps for s in (spec_scaling, base_scaling) if s is not None]
    return SweepBlock(
        name=_name(pair),
        series=pair.series,
        baseline_series=pair.baseline_series,
        context_tokens=pair.context_tokens,
        verdict=sweep_words.verdict(chosen),
        levels=tuple(chosen),
        crossings=found,
        scaling=curves.scaling_fact(spec_scaling),
        baseline_scaling=curves.scaling_fact(base_scaling),
        ceiling_ratio=max(ceilings) / min(ceilings) if len(ceilings) == 2 else None,
        cliffs=cliffs,
        plain=curves.plain_facts(base_sides, cliffs),
        drafts=drafts if others or any(row.modelled for row in drafts) else (),
        advice=_advice(chosen, every, drafts, who, base_who),
        notes=(
            *sweep_words.shared_cliff(cliffs, found),
            *sweep_words.flat_acceptance(chosen),
            *sweep_words.acceptance(chosen),
            *_unpaired(unpaired),
        ),
    )


def _one_per_load(sides: Sequence[curves.Located], curve: Sequence[SweepLevel]) -> list[curves.Located]:
    """The baseline at the loads of the curve, and where it alone was measured."""
    paired = {level.load for level in curve}
    alone = {load: one for load, one in sides if load not in paired}
    return [*((level.load, level.baseline) for level in curve), *alone.items()]


def _name(pair: sweep_sides.Pairing) -> str:
    return " against ".join(dict.fromkeys(name for name in (pair.series, pair.baseline_series) if name))


def _unpaired(points: Sequence[LoadPoint]) -> tuple[str, ...]:
    """Loads that only one side measured."""
    out = []
    for words, flag in (("with speculation", True), ("without", False)):
        labels = dict.fromkeys(sweep_levels.label(p) for p in points if (p.speculative is False) is not flag)
        if labels:
            out.append(f"measured {words} only: {', '.join(list(labels)[:12])}")
    return tuple(out)


def _advice(
    chosen: Sequence[SweepLevel], every: Sequence[SweepLevel], drafts: Sequence[DraftRow], who: SetUp, base: SetUp
) -> SweepAdvice:
    """What to use by load where the figures decide, as the engine's own setting."""
    usable = [level for level in curves.loads_only(chosen) if not level.queues]
    ks = {_use(level): level.spec.k for level in usable}
    decided = any(_decides(level) for level in usable)
    spans = schedule([Choice(level.load or 0.0, _choice(level) if decided else None) for level in usable])
    found = tuple(LoadSpan(s.first, s.last, s.use, 0 if s.use == _OFF else ks[s.use], s.measured) for s in spans)
    untested = [*_untested(every), *_undecided(usable), *_unmeasured(found), *sweep_words.foretold(drafts)]
    if len(found) < 2:  # one setting for all loads needs no schedule
        return SweepAdvice(found, sweep_words.spans(found), untested=tuple(untested))
    tree = any("/" in (level.spec.draft or "") for level in usable)
    engine, version = who.engine or base.engine, who.version or base.version
    made = sweep_engine.setting(engine, version, who.method, tree, found)
    return SweepAdvice(found, sweep_words.spans(found), made.text, made.where, made.caveats, tuple(untested))


_OFF = "off"


def _use(level: SweepLevel) -> str:
    return level.spec.draft or "on"


def _decides(level: SweepLevel) -> bool:
    return level.ratio is not None and level.ratio.verdict in ("pays", "loses")


def _choice(level: SweepLevel) -> str | None:
    """What to use at a load: what won there, be it within the noise (which `_undecided` says)."""
    return {"speculation": _use(level), "baseline": _OFF}.get(level.winner or "")


def _untested(every: Sequence[SweepLevel]) -> list[str]:
    if all(level.queues for level in every):
        return []
    drafts = {level.spec.draft for level in every}
    if len(drafts) != 1:
        return []
    named = drafts.pop()
    words = f"only {named} was measured" if named else "only one draft setting was measured"
    return [f"{words}: whether fewer or more draft tokens are better is not known"]


def _undecided(levels: Sequence[SweepLevel]) -> list[str]:
    """Loads whose figures leave it open."""
    open_ = [level for level in levels if not _decides(level)]
    named = sweep_words.loads(open_, levels) if open_ else ""
    return [f"{named}: within the noise; taken as the figures lean"] if open_ and len(open_) < len(levels) else []


def _unmeasured(found: Sequence[LoadSpan]) -> list[str]:
    """Loads between a limit of the schedule and the next load that was measured."""
    gaps = [(b.first, int(b.measured[0]) - 1) for b in found[1:] if b.measured[0] > b.first]
    if not gaps:
        return []
    named = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in gaps)
    return [f"{named} users, between the loads measured: there the setting of the next load above is taken"]


_MOST_VERDICTS = 3


def _headline(blocks: Sequence[SweepBlock]) -> str:
    """The verdict of the only block, or of the first ones by name."""
    if not blocks:
        return "No load was measured both with speculation and without."
    if len(blocks) == 1:
        return blocks[0].verdict
    named = [f"{sweep_words.block(block)}: {block.verdict}" for block in blocks[:_MOST_VERDICTS]]
    more = len(blocks) - len(named)
    return " ".join(named) + (f" {more} more below." if more else "")
