"""Loads that both sides measured: which points belong together, and which load only one side has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from traceana.errors import TraceanaError
from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.conditions import Conditions
from traceana.facts.model import Fact, Facts, Provenance
from traceana.facts.timer_series import TimerSeries


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a set-up: its inputs and what is known of it."""

    paths: tuple[str, ...]
    facts: Facts
    conditions: Conditions
    timers: TimerSeries | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One set-up: one or more runs of it. `name` is A, B, ..."""

    name: str
    runs: tuple[Run, ...]

    @property
    def facts(self) -> Facts:
        """The facts of the first run: settings and identity of repeats are taken from it."""
        return self.runs[0].facts


@dataclass(frozen=True, slots=True)
class Load:
    """A load: requests in flight and context length, None where the inputs do not say."""

    concurrency: float | None
    context_tokens: float | None = None

    @property
    def words(self) -> str:
        """As a report writes it: `4 running`, `4 running, 16,384 context tokens`."""
        load = "the one load given" if self.concurrency is None else f"{self.concurrency:g} running"
        return load if self.context_tokens is None else f"{load}, {self.context_tokens:,.0f} context tokens"


@dataclass(frozen=True, slots=True)
class Matched:
    """The points of one load, one per run and side, all of one kind where both sides have it.

    `source`: requests, windows, points or mixed. `paired`: both sides sent the same prompts in the same order.
    """

    load: Load
    before: tuple[LoadPoint, ...]
    after: tuple[LoadPoint, ...]
    source: str
    paired: bool = False


@dataclass(frozen=True, slots=True)
class Matching:
    """All loads of two sides."""

    both: tuple[Matched, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


#: what a load is compared by, the best first: (name, does a point count)
_KINDS = (
    ("requests", PointSource.BENCH, True),
    ("windows", PointSource.LOG, True),
    ("points", PointSource.BENCH, False),
    ("points", PointSource.TABLE, False),
    ("windows", PointSource.LOG, False),
)

_ByLoad = dict[Load, list[LoadPoint]]


def match(before: Side, after: Side) -> Matching:
    """The loads both sides have, ascending, and the others. TraceanaError where a load is ambiguous."""
    one, other = ([_by_load(run.facts) for run in side.runs] for side in (before, after))
    loads = [set().union(*side) for side in (one, other)]
    if len(loads[0]) == len(loads[1]) == 1 and loads[0] != loads[1]:
        (a,), (b,) = loads
        known = _joined(a, b)
        if known is not None:
            one, other = ([{known: run[load]} for run in side for load in run] for side in (one, other))
            loads = [{known}, {known}]
    both = [
        _matched(load, (before, after), [[run[load] for run in side if load in run] for side in (one, other)])
        for load in _without_echoes(loads[0] & loads[1])
    ]
    return Matching(
        tuple(sorted(both, key=lambda m: _order(m.load))),
        _words(loads[0] - loads[1]),
        _words(loads[1] - loads[0]),
    )


def _without_echoes(loads: set[Load]) -> set[Load]:
    """The loads without those of a log that a benchmark beside it measured by context length: the log mixes them."""
    by_context = {load.concurrency for load in loads if load.context_tokens is not None}
    return {load for load in loads if load.context_tokens is not None or load.concurrency not in by_context}


def _joined(a: Load, b: Load) -> Load | None:
    """Two single loads that contradict each other in nothing: what one does not say is as the other says."""
    if None not in (a.concurrency, b.concurrency) and a.concurrency != b.concurrency:
        return None
    if None not in (a.context_tokens, b.context_tokens) and a.context_tokens != b.context_tokens:
        return None
    concurrency = a.concurrency if a.concurrency is not None else b.concurrency
    return Load(concurrency, a.context_tokens if a.context_tokens is not None else b.context_tokens)


def _by_load(facts: Facts) -> _ByLoad:
    found: _ByLoad = {}
    plain = facts.speculation.active.value is False
    for point in map(_one_token, facts.points) if plain else facts.points:
        if point.gen_tps.value is None and point.cycle_ms.value is None and point.tpot_ms.value is None:
            continue
        # a log prints no prompt length: its context grows while it generates
        context = None if point.source is PointSource.LOG else point.context_tokens
        found.setdefault(Load(point.concurrency, context), []).append(point)
    contexts = {load.context_tokens for load in found}
    if len(contexts - {None}) == 1:  # one length throughout: it is a condition, not a second axis
        merged: _ByLoad = {}
        for load, points in found.items():
            merged.setdefault(replace(load, context_tokens=None), []).extend(points)
        return merged
    return found


def _one_token(point: LoadPoint) -> LoadPoint:
    """A point of a run without speculation: a step gives one token, though a slow client read two chunks at once."""
    cycle = point.tpot_ms if point.tpot_ms.known else point.cycle_ms
    one = Fact(1.0, Provenance.DERIVED)
    return replace(point, tokens_per_cycle=one, accept_length=Fact(reason="no speculation"), cycle_ms=cycle)


def _matched(load: Load, sides: tuple[Side, Side], points: list[list[list[LoadPoint]]]) -> Matched:
    for name, source, with_samples in _KINDS:
        chosen = [[_of_kind(run, source, with_samples) for run in side] for side in points]
        if all(run for side in chosen for run in side):
            before, after = (
                tuple(_only(run, side.name, load) for run in runs) for side, runs in zip(sides, chosen, strict=True)
            )
            return Matched(load, before, after, name, name == "requests" and _paired(load, sides))
    before, after = (
        tuple(_only(run, side.name, load) for run in runs) for side, runs in zip(sides, points, strict=True)
    )
    return Matched(load, before, after, "mixed")


def _paired(load: Load, sides: tuple[Side, Side]) -> bool:
    """Whether the prompts of a load have the same lengths in the same order: then they are the same requests."""
    lengths = [
        {c.prompt_lengths for run in side.runs for c in run.conditions.loads if c.concurrency == load.concurrency}
        for side in sides
    ]
    return len(lengths[0]) == 1 and lengths[0] == lengths[1] and None not in lengths[0]


def _of_kind(points: Sequence[LoadPoint], source: PointSource, with_samples: bool) -> list[LoadPoint]:
    return [p for p in points if p.source is source and (p.samples is not None or not with_samples)]


def _only(points: Sequence[LoadPoint], side: str, load: Load) -> LoadPoint:
    """The one point of a run at a load. TraceanaError when it holds several set-ups: nothing is guessed."""
    kinds = {(p.series, p.speculative) for p in points}
    if len(kinds) > 1:
        names = ", ".join(sorted(p.series or "one without a name" for p in points)[:6])
        raise TraceanaError(
            f"side {side} holds several set-ups at {load.words}: {names}. Choose one with FILE#WORDS (words of its "
            "series, label or column)"
        )
    return points[0]


def _order(load: Load) -> tuple[float, float]:
    return (load.context_tokens or 0.0, load.concurrency or 0.0)


def _words(loads: set[Load]) -> tuple[str, ...]:
    return tuple(load.words for load in sorted(loads, key=_order))
