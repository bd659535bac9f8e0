"""Which load points are measured with speculation and which without, and which series of several belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from traceana.errors import TraceanaError
from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Fact, Provenance

#: words that say with or without speculation, not which server: left out when series are matched by name
_MODE_WORDS = frozenset(
    (
        "on", "off", "with", "without", "no", "yes", "mtp", "eagle", "eagle1", "eagle2", "eagle3", "spec",
        "speculative", "speculation", "speculating", "decoding", "draft", "drafter", "baseline", "base", "vanilla",
        "plain", "ar", "autoregressive", "ngram", "nextn", "dflash", "medusa", "suffix", "default", "none",
        "throughput", "tok", "s", "tps",
    )
)  # fmt: skip
_WORD = re.compile(r"[a-z0-9.]+")
_MOST_NAMED = 12


@dataclass(frozen=True, slots=True)
class Pairing:
    """Load points of one set-up with speculation and of the one without, at one context length."""

    series: str | None
    baseline_series: str | None
    context_tokens: float | None
    spec: tuple[LoadPoint, ...]
    baseline: tuple[LoadPoint, ...]


def split(
    points: Sequence[LoadPoint], series: str | None, baseline_series: str | None
) -> tuple[tuple[LoadPoint, ...], tuple[LoadPoint, ...]]:
    """Points of one set of inputs into (with, without speculation), by name where given, else by what they say.

    What says neither is left out where other series say both. Raises TraceanaError, naming the series and the options,
    where it is not clear which is which.
    """
    base = None if baseline_series is None else named(points, baseline_series, "--baseline-series")
    if series is not None:
        spec = named(points, series, "--series")
        if base is None:
            base = tuple(p for p in without(points, spec) if p.speculative is not True)
        if len(without(base, spec)) < len(base):
            raise TraceanaError(f"--series and --baseline-series both fit {names(spec)}: name them in full")
        return spec, base
    if base is not None:
        return without(points, base), base
    on, off, unknown = (tuple(p for p in points if p.speculative is flag) for flag in (True, False, None))
    clear = (on and off) or not unknown or (len({p.series for p in points}) == 1 and not (on or off))
    if not clear:
        raise TraceanaError(
            f"which of these series is measured without speculation is not clear: {names(points)}. "
            "Name it: --baseline-series NAME (a part of the name is enough)"
        )
    return on, off or unknown


def without(points: Sequence[LoadPoint], others: Sequence[LoadPoint]) -> tuple[LoadPoint, ...]:
    """The points that are not among the others."""
    left_out = set(map(id, others))
    return tuple(p for p in points if id(p) not in left_out)


def named(points: Sequence[LoadPoint], name: str | None, option: str) -> tuple[LoadPoint, ...]:
    """Points whose series is `name`, else contains it (upper and lower case alike); all of them without a name."""
    if name is None:
        return tuple(points)
    wanted = name.strip().casefold()
    exact = tuple(p for p in points if (p.series or "").casefold() == wanted)
    found = exact or tuple(p for p in points if wanted and wanted in (p.series or "").casefold())
    if not found:
        raise TraceanaError(f"{option} {name!r}: no such series; the inputs have {names(points)}")
    return found


def names(points: Sequence[LoadPoint]) -> str:
    """The series of the points, quoted, at most twelve."""
    found = list(dict.fromkeys(p.series for p in points))
    shown = ", ".join("one without a name" if name is None else f"{name[:60]!r}" for name in found[:_MOST_NAMED])
    return shown + (f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else "")


def pairings(spec: Sequence[LoadPoint], baseline: Sequence[LoadPoint]) -> tuple[tuple[Pairing, ...], tuple[str, ...]]:
    """Every series with speculation beside the one without that belongs to it, by context; and words for the rest.

    One series without speculation serves all. Of several, the one whose name says the same server. Raises
    TraceanaError where names do not tell.
    """
    found: list[Pairing] = []
    notes: list[str] = []
    bases = _by_series(baseline)
    for name, points in _by_series(spec).items():
        partners = _partners(name, list(bases))
        if len(partners) != 1:
            raise TraceanaError(
                f"{'the input' if name is None else repr(name[:60])} has no baseline among {names(baseline)}: "
                "choose one with --baseline-series NAME"
            )
        sides = [_logs_in_context(side) for side in (points, bases[partners[0]])]
        pairs, left = _by_context(sides[0][0], sides[1][0])
        notes += [*sides[0][1], *sides[1][1], *left]
        found += [Pairing(name, partners[0], context, a, b) for context, a, b in pairs]
    return tuple(found), tuple(dict.fromkeys(notes))


def _by_series(points: Sequence[LoadPoint]) -> dict[str | None, tuple[LoadPoint, ...]]:
    """Points by series; names that differ in case and marks only are one series. Those of logs join the only series."""
    groups: dict[str, list[LoadPoint]] = {}
    for point in points:
        groups.setdefault(" ".join(_WORD.findall((point.series or "").casefold())), []).append(point)
    logs = [p for p in groups.get("", []) if p.source is PointSource.LOG]
    named = [key for key in groups if key]
    if logs and len(named) == 1 and len(logs) == len(groups[""]):
        groups[named[0]] += groups.pop("")
    return {next((p.series for p in group if p.series), None): tuple(group) for group in groups.values()}


def _partners(name: str | None, bases: Sequence[str | None]) -> list[str | None]:
    """The baseline series that may belong to a series: the only one, the one of its very name, or those whose names
    say the same server."""
    if name in bases:
        return [name]
    return list(bases) if len(bases) == 1 else [base for base in bases if _server(base) == _server(name)]


def _server(name: str | None) -> frozenset[str]:
    words = _WORD.findall((name or "").casefold())
    return frozenset(w for w in words if w not in _MODE_WORDS and not re.fullmatch(r"k?\d?", w))


def _logs_in_context(points: tuple[LoadPoint, ...]) -> tuple[tuple[LoadPoint, ...], tuple[str, ...]]:
    """Points with a log's levels at the context length of the benchmark beside it, where that has one.

    Where it has several the log's windows mix them: it only tells how many tokens were drafted.
    """
    logs = [p for p in points if p.source is PointSource.LOG]
    others = [p for p in points if p.source is not PointSource.LOG]
    contexts = {p.context_tokens for p in others}
    if not logs or not others:
        return points, ()
    if len(contexts) == 1:
        context = contexts.pop()
        return (*others, *(replace(log, context_tokens=context) for log in logs)), ()
    words = (
        "the log's windows mix the context lengths of the benchmark: only the number of draft tokens is taken from it"
    )
    return tuple(_with_drafts_of(p, logs[0]) for p in others), (words,)


def _with_drafts_of(point: LoadPoint, log: LoadPoint) -> LoadPoint:
    """The point with the log's draft setting, where it names none itself."""
    if point.k is not None or log.k is None or point.speculative is False:
        return point
    return replace(
        point, speculative=True, k=log.k, num_steps=log.num_steps, topk=log.topk, num_draft_tokens=log.num_draft_tokens
    )


_Contexts = list[tuple[float | None, tuple[LoadPoint, ...], tuple[LoadPoint, ...]]]


def _by_context(spec: Sequence[LoadPoint], base: Sequence[LoadPoint]) -> tuple[_Contexts, list[str]]:
    """Both sides by context length. A side that does not say its context goes with the other's only one."""
    a, b = ({c: tuple(p for p in side if p.context_tokens == c) for c in _contexts(side)} for side in (spec, base))
    for one, other in ((a, b), (b, a)):
        if list(one) == [None] and len(other) == 1:
            one[next(iter(other))] = one.pop(None)
    shared = [c for c in a if c in b]
    if not shared:
        told = [", ".join("not said" if c is None else f"{c:,.0f}" for c in side) for side in (a, b)]
        return [], [f"no context length was measured in both (with: {told[0]}; without: {told[1]})"]
    alone = sorted(c for c in {*a, *b} - set(shared) if c is not None)
    notes = [f"contexts measured on one side only: {', '.join(f'{c:,.0f}' for c in alone)}"] if alone else []
    return [(c, a[c], b[c]) for c in shared], notes


def _contexts(points: Sequence[LoadPoint]) -> list[float | None]:
    return sorted({p.context_tokens for p in points}, key=lambda c: -1.0 if c is None else c)


def as_plain(point: LoadPoint) -> LoadPoint:
    """A point that is taken to be measured without speculation: a step emits one token per request."""
    if point.speculative is False:
        return point
    cycle, load, tps = point.cycle_ms, point.concurrency, point.gen_tps.value
    if point.tpot_ms.known and (not cycle.known or cycle == point.itl_ms):
        cycle = point.tpot_ms
    elif not cycle.known and load and tps:
        cycle = Fact(1000.0 * load / tps, Provenance.DERIVED, point.gen_tps.evidence, "1000 x requests / throughput")
    one = Fact(1.0, Provenance.ASSUMED, point.evidence, "taken to be measured without speculation")
    return replace(point, speculative=False, k=0, tokens_per_cycle=one, cycle_ms=cycle)


def merged(points: Sequence[LoadPoint]) -> tuple[LoadPoint, ...]:
    """Points of one side with the log's level folded into the benchmark's at the same load.

    The client's clock gives throughput and latency; what it does not know (acceptance, cycle) comes from the log. A log
    that knows one number of draft tokens gives it to benchmark points that do not say theirs.
    """
    logs = {p.concurrency: p for p in points if p.source is PointSource.LOG}
    others = [p for p in points if p.source is not PointSource.LOG]
    if not others:
        return tuple(points)
    out, used = [], set()
    for point in others:
        log = logs.get(point.concurrency)
        if log is None or (point.k is not None and log.k is not None and point.k != log.k):
            out.append(point)
            continue
        used.add(log.concurrency)
        out.append(_folded(point, log))
    return (*out, *(log for c, log in logs.items() if c not in used))


_LOADS_AGREE = 0.10


def _folded(point: LoadPoint, log: LoadPoint) -> LoadPoint:
    def better(own: Fact[float], other: Fact[float]) -> Fact[float]:
        weak = not own.known or own.provenance is Provenance.ASSUMED
        return other if weak and other.known else own

    notes = list(point.notes)
    here, there = point.gen_tps.value, log.gen_tps.value
    if here and there and abs(there / here - 1.0) > _LOADS_AGREE:
        notes.append(f"the benchmark has {here:,.1f} tok/s, the log's steady windows {there:,.1f}: not the same load?")
    return replace(
        _with_drafts_of(point, log),
        speculative=log.speculative if point.speculative is None else point.speculative,
        accept_length=better(point.accept_length, log.accept_length),
        tokens_per_cycle=better(point.tokens_per_cycle, log.tokens_per_cycle),
        cycle_ms=point.cycle_ms if point.cycle_ms.known else log.cycle_ms,
        per_position=point.per_position if point.per_position.known else log.per_position,
        samples=point.samples or log.samples,
        notes=tuple(notes),
        evidence=(*point.evidence, *log.evidence),
    )
