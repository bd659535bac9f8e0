"""Benchmark results to what they say: with against without speculation, or set-ups against each other."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from traceana.errors import TraceanaError
from traceana.facts import sweep_levels
from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Fact, Facts
from traceana.facts.results_model import OddOneOut, ResultRow, Results, SetUpContrast
from traceana.facts.sweep import sweep
from traceana.facts.sweep_model import Sweep
from traceana.facts.text import count

#: set-ups whose speed differs by less are not contrasted
_DIFFERS = 1.1
#: of a set-up that stands out: its accepted drafts against the median of the others; fewer set-ups show no norm
_COLLAPSED = 0.5
_FEWEST = 3
_MOST_ROWS = 200
_PLAIN = (
    "nothing in the inputs says which of them is measured without speculation: give those as --baseline, or name one "
    "of several in a file: traceana sweep FILE --baseline-series NAME"
)


def results(facts: Facts, baseline: Facts | None = None) -> Results | None:
    """What the results say; None where no benchmark result is among the inputs of either side."""
    own = [p for p in facts.points if p.source is not PointSource.LOG]
    others = [p for p in baseline.points if p.source is not PointSource.LOG] if baseline is not None else []
    if not own and not others and not facts.earned:
        return None
    found, why = _sweep(facts, baseline)
    if found is not None and found.spec is not None and any(block.levels for block in found.blocks):
        return Results(found.verdict, _word(found), found, None)
    points = [_as_logged(point, facts) for point in (*own, *facts.earned)]
    rows = tuple(_row(point) for point in points[:_MOST_ROWS])
    if found is not None and found.spec is None and points and all(p.speculative is not True for p in points):
        tail = " Nothing in the inputs says whether they speculate."
        if any(p.speculative is False for p in points):
            tail = f" {found.verdict}" if any(block.plain for block in found.blocks) else ""
        who = "This run does not speculate. " if facts.speculation.active.value is False else ""
        return Results(f"{who}{_several(points)}{tail}", "unknown", found, None, rows)
    contrast, odd = _contrast(points), _odd(points)
    return Results(_verdict(points, contrast, odd, why), "unknown", None, why or _PLAIN, rows, contrast, odd)


def with_results(facts: Facts, baseline: Facts | None = None) -> Facts:
    """The facts with what their results say, once for all who ask. A baseline that speculates itself is none."""
    plain = None if baseline is not None and baseline.speculation.active.value else baseline
    return replace(facts, results=results(facts, plain))


def _as_logged(point: LoadPoint, facts: Facts) -> LoadPoint:
    """The point with what the log beside it says of speculation, where the result itself does not."""
    if point.speculative is not None or facts.speculation.active.value is None:
        return point
    return replace(point, speculative=facts.speculation.active.value)


def _sweep(facts: Facts, baseline: Facts | None) -> tuple[Sweep | None, str | None]:
    """The sweep; where the inputs give none, why."""
    try:
        return sweep(facts, baseline), None
    except TraceanaError:
        pass
    points = [*facts.points, *facts.earned]
    if baseline is not None:
        return None, "the inputs and the --baseline share no load, or both speculate"
    if points and all(p.speculative for p in points):
        return None, "every result speculates: give the same loads without speculation as --baseline"
    return None, _PLAIN


def _word(found: Sweep) -> str:
    words = {level.ratio.verdict for b in found.blocks for level in b.levels if level.ratio and not level.queues}
    words.discard("inconclusive")
    return "unknown" if not words else words.pop() if len(words) == 1 else "mixed"


def _row(point: LoadPoint) -> ResultRow:
    return ResultRow(point.series, point.context_tokens, sweep_levels.label(point), sweep_levels.side(point))


def _by_load(points: Sequence[LoadPoint]) -> list[list[LoadPoint]]:
    """Set-ups that were measured at one load (context, prompts), where there are several; the largest group first."""
    groups: dict[object, list[LoadPoint]] = {}
    words = Counter(p.label for p in points)
    for point in points:
        prompts = (
            point.dataset,
            point.label if words[point.label] > 1 else None,
        )  # words of several rows: the same load
        asked = (point.concurrency, point.request_rate, point.context_tokens, point.output_length)
        at = (*asked, point.temperature, prompts)
        groups.setdefault(at, []).append(point)
    return sorted((g for g in groups.values() if len(g) > 1), key=len, reverse=True)


def _contrast(points: Sequence[LoadPoint]) -> SetUpContrast | None:
    """The fastest and the slowest speculating set-up of the group in which they differ most."""
    best: SetUpContrast | None = None
    for group in _by_load([p for p in points if p.speculative is not False]):
        timed = [p for p in group if p.gen_tps.value and p.cycle_ms.value]
        known = [p for p in timed if p.tokens_per_cycle.value]
        implied = len(known) < 2  # then throughput x cycle tells what a cycle emits, at the same requests in flight
        if implied:
            known = [p for p in timed if p.accept_rate.value is not None]
        if len(known) < 2:
            continue
        fast, slow = max(known, key=_speed), min(known, key=_speed)
        ratio = _speed(fast) / _speed(slow)
        cycle = _value(slow.cycle_ms) / _value(fast.cycle_ms)
        earned = ratio / cycle if implied else _value(fast.tokens_per_cycle) / _value(slow.tokens_per_cycle)
        if ratio >= _DIFFERS and (best is None or ratio > best.tps_ratio):
            best = SetUpContrast(_row(fast), _row(slow), ratio, earned, cycle, ratio / (earned * cycle))
    return best


def _speed(point: LoadPoint) -> float:
    return _value(point.gen_tps)


def _value(fact: Fact[float]) -> float:
    return fact.value if fact.value is not None else math.nan


#: what acceptance is told by -> how many drafts of a cycle it says are accepted (in units of its own)
_EARNED: tuple[tuple[str, Callable[[LoadPoint], float | None]], ...] = (
    ("accept length", lambda p: p.accept_length.value),
    ("accept rate", lambda p: p.accept_rate.value),
)


def _odd(points: Sequence[LoadPoint]) -> OddOneOut | None:
    """The one set-up that accepts less than half of the drafts that the others accept at the same load."""
    for group in _by_load([p for p in points if p.speculative is not False]):
        for what, of in _EARNED:
            known = sorted(((value, p) for p in group if (value := of(p)) is not None), key=lambda pair: pair[0])
            bonus = 1.0 if what == "accept length" else 0.0
            if len(known) < _FEWEST or len({p.k for _, p in known}) > 1:
                continue
            others = [value for value, _ in known[1:]]
            if known[0][0] - bonus >= _COLLAPSED * (statistics.median(others) - bonus):
                continue
            if known[0][0] == 1.0 and known[0][1].speculative is None:
                continue  # one token per cycle, and nothing says that it drafts: the baseline, as it seems
            if others[0] - bonus < _COLLAPSED * (others[-1] - bonus):
                continue  # the others do not agree with each other: no norm
            speeds = [_speed(p) for _, p in known[1:] if p.gen_tps.known]
            value, point = known[0]
            return OddOneOut(
                _row(point),
                what,
                value,
                (others[0], others[-1]),
                (min(speeds), max(speeds)) if speeds else None,
                len(known),
                point.evidence,
            )
    return None


def _verdict(
    points: Sequence[LoadPoint], contrast: SetUpContrast | None, odd: OddOneOut | None, why: str | None
) -> str:
    tail = f" Whether speculation pays is unknown: {why or _PLAIN}."
    if odd is not None:
        low, high = odd.others
        tps = odd.row.side.gen_tps
        speed = ""
        if tps is not None and odd.others_tps is not None:
            speed = f", and gives {tps:.1f} tok/s against {_between(*odd.others_tps, 1)}"
        return (
            f"One of {odd.set_ups} set-ups ({name_of(odd.row)}) has {odd.what} {odd.value:.2f} where the others have "
            f"{_between(low, high, 2)}{speed}: what that set-up changes costs it the acceptance.{tail}"
        )
    if contrast is not None:
        parts = {
            "acceptance": contrast.acceptance_ratio,
            "the cycle, not the drafter": contrast.cycle_ratio,
            "in neither: other requests in flight, waiting or lengths": contrast.rest_ratio,
        }
        main = max(parts, key=lambda name: parts[name])
        rest = "" if _between(contrast.rest_ratio, 1.0, 1) == "1.0" else f", the rest {contrast.rest_ratio:.2f}x"
        names = name_of(contrast.slow), name_of(contrast.fast)
        if names[0] == names[1]:
            names = "the slowest", f"the fastest of {names[1]}"
        return (
            f"{names[0][0].upper()}{names[0][1:]} is {contrast.tps_ratio:.2f}x slower than {names[1]}: acceptance "
            f"explains {contrast.acceptance_ratio:.2f}x of it, the cycle {contrast.cycle_ratio:.2f}x{rest}. The "
            f"difference is mostly {main}.{tail}"
        )
    return f"{_several(points)}{tail}" if points else tail.strip()


def _between(low: float, high: float, digits: int) -> str:
    """`0.45-0.70`; one number where both ends read the same."""
    one, other = f"{low:.{digits}f}", f"{high:.{digits}f}"
    return one if one == other else f"{one}-{other}"


def _several(points: Sequence[LoadPoint]) -> str:
    """The figures of all points in a sentence, as ranges over their loads."""
    if len(points) == 1:
        return _one(points[0])
    said = [text for text in (_range(form, [of(p) for p in points]) for form, of in _figures(points[0])) if text]
    loads = sorted({p.concurrency for p in points if p.concurrency is not None})
    at = f" at {loads[0]:,.0f} to {loads[-1]:,.0f} users" if len(loads) > 1 else ""
    waits = [text for p in points if (text := sweep_levels.queueing(p))]
    queue = f" Requests queue: {waits[0]}." if waits else ""
    return f"{count(len(points), 'result')}{at}: {', '.join(said) or 'no figure of speed'}.{queue}"


def _range(form: str, facts: Sequence[Fact[float]]) -> str:
    """`1.85-1.90 tokens per cycle`; nothing where no point knows it."""
    known = sorted(fact.value for fact in facts if fact.value is not None)
    if not known:
        return ""
    low, high = form.format(known[0]), form.format(known[-1])
    lead, number, tail = _split(form)
    return low if low == high else f"{lead}{number.format(known[0])}-{number.format(known[-1])}{tail}"


def _split(form: str) -> tuple[str, str, str]:
    start, end = form.index("{"), form.index("}") + 1
    return form[:start], form[start:end], form[end:]


def name_of(row: ResultRow) -> str:
    """A set-up in words, quoted where it is its own name, else by its file."""
    if row.series:
        return f"'{row.series[:60]}'"
    files = ["/".join(place.path.split("/")[-2:]) for place in row.side.evidence[:1]]
    return f"{files[0][-60:]} at load {row.load}" if files else f"the one at load {row.load}"


_FIGURES: tuple[tuple[str, Callable[[LoadPoint], Fact[float]]], ...] = (
    ("{:,.1f} tok/s", lambda p: p.gen_tps),
    ("{:.2f} ms per token", lambda p: p.tpot_ms),
    ("accept length {:.2f}", lambda p: p.accept_length),
    ("accept rate {:.2f}", lambda p: p.accept_rate),
    ("{:.2f} tokens per cycle", lambda p: p.tokens_per_cycle),
    ("cycle {:.1f} ms", lambda p: p.cycle_ms),
)
#: the same without speculation, where a step emits one token
_PLAIN_FIGURES = (_FIGURES[0], _FIGURES[1], ("step {:.1f} ms", _FIGURES[5][1]))


def _one(point: LoadPoint) -> str:
    """The figures of one point in a sentence."""
    said = [form.format(value) for form, of in _figures(point) if (value := of(point).value) is not None]
    waits = sweep_levels.queueing(point)
    text = ", ".join(said) or "no figure of speed"
    return f"{text[0].upper()}{text[1:]}.{f' Requests queue: {waits}.' if waits else ''}"


def _figures(point: LoadPoint) -> tuple[tuple[str, Callable[[LoadPoint], Fact[float]]], ...]:
    return _PLAIN_FIGURES if point.speculative is False else _FIGURES
