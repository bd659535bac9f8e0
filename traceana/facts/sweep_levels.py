"""Load points to the levels of a sweep: both sides at each load, their ratio and what noise allows, who only queues."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Fact, Provenance
from traceana.facts.settings_effects import assumed_figure_noise, assumed_run_noise
from traceana.facts.sweep_model import SweepLevel, SweepRatio, SweepSide
from traceana.speculation.breakeven import break_even_accept_length
from traceana.speculation.load import requests_in_flight
from traceana.speculation.noise import Answer, Basis, Measured, RatioInterval, judge, ratio_interval, runs_needed

#: fewer of the requests in flight than this decode: the point tells how the server queues, not what a step costs
_DECODING_SHARE = 0.75
_VERDICTS = {Answer.HIGHER: "pays", Answer.LOWER: "loses", Answer.SAME: "even", Answer.INCONCLUSIVE: "inconclusive"}
_IDENTITY = 0.05  # tokens per cycle / break-even agrees with the ratio of throughputs to this share, else it is said

Key = tuple[float | None, float | None, float | None, str | None]


def levels(spec: Sequence[LoadPoint], baseline: Sequence[LoadPoint]) -> tuple[list[SweepLevel], list[LoadPoint]]:
    """Every spec point beside the baseline's at the same load, by load and draft setting; and the points left over."""
    bases = {key(point): point for point in baseline}
    found, unpaired, used = [], [], set()
    for point in spec:
        base = _base_of(point, bases)
        if base is None:
            unpaired.append(point)
            continue
        used.add(id(base))
        found.append(_level(point, base))
    unpaired += [base for base in baseline if id(base) not in used]
    return sorted(found, key=_order), unpaired


def key(point: LoadPoint) -> Key:
    """What must agree for two points to be one load."""
    return (point.concurrency, point.request_rate, point.output_length, point.label)


def _base_of(point: LoadPoint, bases: dict[Key, LoadPoint]) -> LoadPoint | None:
    """The baseline at the same load; an output length that only one side says does not matter."""
    exact = bases.get(key(point))
    if exact is not None:
        return exact
    same = [
        base
        for (c, rate, length, label), base in bases.items()
        if (c, rate, label) == (point.concurrency, point.request_rate, point.label)
        and (length is None or point.output_length is None)
    ]
    return same[0] if len(same) == 1 else None


def _order(level: SweepLevel) -> tuple[float, ...]:
    numbers = (level.load, level.request_rate, level.output_length, level.spec.k)
    return tuple(-1.0 if n is None else float(n) for n in numbers)


def label(point: LoadPoint) -> str:
    """The load in a word: `8`, `20/s`, the row's own words, or `-`."""
    if point.concurrency is not None:
        return f"{point.concurrency:,.0f}"
    if point.request_rate is not None and math.isfinite(point.request_rate):
        return f"{point.request_rate:g}/s"
    return point.label or ("all at once" if point.request_rate is not None else "-")


def _level(spec: LoadPoint, base: LoadPoint) -> SweepLevel:
    one, other = side(spec), side(base)
    ratio = _throughput_ratio(spec, base)
    user = _user_ratio(spec, base)
    even = None
    if one.cycle_ms and other.cycle_ms and not (one.queueing or other.queueing):
        even = break_even_accept_length(one.cycle_ms, other.cycle_ms)
    return SweepLevel(
        load=spec.concurrency,
        request_rate=spec.request_rate,
        output_length=spec.output_length,
        label=label(spec),
        spec=one,
        baseline=other,
        ratio=ratio,
        user_ratio=user,
        winner=None if ratio is None else _winner(ratio.value),
        break_even=even,
        notes=_notes(spec, base, one, ratio, user, even),
    )


def _winner(ratio: float) -> str:
    return "even" if ratio == 1.0 else "speculation" if ratio > 1.0 else "baseline"


def _throughput_ratio(spec: LoadPoint, base: LoadPoint) -> SweepRatio | None:
    if not spec.gen_tps.value or not base.gen_tps.value:
        return None
    value = spec.gen_tps.value / base.gen_tps.value
    if not spec.runs or not base.runs:
        return _ratio(value, None)
    sides = (Measured(base.runs, _parts(base)), Measured(spec.runs, _parts(spec)))
    return _ratio(value, _interval(*sides, _same_requests(spec, base)))


def _user_ratio(spec: LoadPoint, base: LoadPoint) -> SweepRatio | None:
    """Time per token without / with, where both were measured as such; with the spread of their requests."""
    if not spec.tpot_ms.value or not base.tpot_ms.value:
        return None
    if PointSource.LOG in (spec.source, base.source):  # there it is the throughput, turned over
        return None
    value = base.tpot_ms.value / spec.tpot_ms.value
    if len(spec.runs) > 1 or len(base.runs) > 1:
        return _ratio(value, None)
    one, other = (
        Measured((1000.0 / ms,), _parts(p)) for ms, p in ((base.tpot_ms.value, base), (spec.tpot_ms.value, spec))
    )
    return _ratio(value, _interval(one, other, _same_requests(spec, base)))


def _same_requests(spec: LoadPoint, base: LoadPoint) -> bool:
    """Whether both sides sent the same prompts in the same order, by their lengths."""
    one, other = (p.samples.prompts if p.samples is not None else None for p in (spec, base))
    return one is not None and one == other


def _parts(point: LoadPoint) -> tuple[float, ...]:
    return point.samples.ms_per_token if point.samples is not None else ()


def _interval(before: Measured, after: Measured, paired: bool) -> tuple[RatioInterval, str]:
    """The ratio's interval and whose spread it is. What single runs do not tell of each other is assumed."""
    found = ratio_interval(before, after, paired=paired)
    if found.basis is Basis.PARTS:
        return ratio_interval(before, after, assumed_sd=assumed_run_noise(), paired=paired), "parts"
    if found.basis is Basis.NONE:
        return ratio_interval(before, after, assumed_sd=assumed_figure_noise()), "assumed"
    return found, found.basis.value


def _ratio(value: float, found: tuple[RatioInterval, str] | None) -> SweepRatio:
    if found is None:
        return SweepRatio(value, None, None, Basis.NONE.value, "inconclusive")
    interval, basis = found
    answer = judge(interval)
    needed = None
    if answer is Answer.INCONCLUSIVE and value != 1.0:
        # the spread of whole runs, of which the parts of single ones are a share
        sd = (interval.se or 0.0) / math.sqrt(sum(1.0 / n for n in interval.runs))
        needed = runs_needed(value, sd) if sd > 0 else None
    return SweepRatio(value, interval.low, interval.high, basis, _VERDICTS[answer], needed)


def side(point: LoadPoint) -> SweepSide:
    """One set-up at one load, for the report."""
    facts: dict[str, Fact[float]] = {
        "gen_tps": point.gen_tps,
        "user_tps": point.user_tps,
        "tpot_ms": point.tpot_ms,
        "ttft_ms": point.ttft_ms,
        "itl_ms": point.itl_ms,
        "accept_length": point.accept_length,
        "accept_rate": point.accept_rate,
        "tokens_per_cycle": point.tokens_per_cycle,
        "cycle_ms": point.cycle_ms,
        "decoding": point.decoding,
    }
    return SweepSide(
        source=point.source.value,
        tool=point.tool,
        draft=draft_words(point),
        k=point.k,
        latency_kind=point.latency_kind,
        accept_length_means=point.accept_length.reason,
        tokens_per_forward=tokens_per_forward(point),
        efficiency=None,
        runs=len(point.runs),
        runs_tps=point.runs,
        requests=point.requests,
        per_position=point.per_position.value,
        queueing=queueing(point),
        notes=point.notes,
        provenance={name: fact.provenance.value for name, fact in facts.items() if fact.known},
        evidence=point.evidence,
        **{name: fact.value for name, fact in facts.items()},
    )


def draft_words(point: LoadPoint) -> str | None:
    """`k=3` for a chain, `steps/topk/tokens` for a tree; None where the point does not speculate or says neither."""
    if point.speculative is False:
        return None
    tree = (point.topk or 1) > 1
    if tree or (point.num_steps is not None and point.num_draft_tokens not in (None, point.num_steps + 1)):
        return "/".join("?" if n is None else str(n) for n in (point.num_steps, point.topk, point.num_draft_tokens))
    k = point.k if point.k is not None else point.num_steps
    return f"k={k}" if k is not None else None


def tokens_per_forward(point: LoadPoint) -> float | None:
    """Tokens of one target forward: the load asked for where nearly all of it decodes, else the requests that do."""
    load, decoding = point.concurrency, point.decoding.value
    if point.speculative is False and load and decoding and decoding > _DECODING_SHARE * load:
        return load
    own = point.tokens_per_forward
    if own is None or not load or not decoding:
        return own
    return own * load / decoding if decoding > _DECODING_SHARE * load else own


def queueing(point: LoadPoint) -> str | None:
    """Words for how few of the requests in flight decode, where that is so; None where most do, or nothing tells.

    From a benchmark: throughput x time per token is the number that decodes (Little's law), against the number asked
    for, or that the time of whole requests gives. The others wait for their first token.
    """
    decoding, tpot, ttft = point.decoding, point.tpot_ms.value, point.ttft_ms.value
    if point.source is PointSource.LOG or decoding.value is None or decoding.provenance is Provenance.ASSUMED:
        return None
    if ttft is None or tpot is None:
        return None
    per_request = point.output_length
    if point.output_tokens and point.requests:
        per_request = point.output_tokens / point.requests
    if per_request is None or per_request <= 1:
        return None
    decode_ms = tpot * (per_request - 1)
    in_flight = point.concurrency
    if in_flight is None and point.requests and point.duration_s:
        in_flight = requests_in_flight(point.requests, point.duration_s, ttft + decode_ms)
    if in_flight is None or decoding.value >= _DECODING_SHARE * in_flight:
        return None
    return (
        f"{decoding.value:.1f} of {in_flight:.0f} requests in flight decode at once; a request waits {_s(ttft)} for "
        f"its first token and decodes for {_s(decode_ms)}"
    )


def _s(ms: float) -> str:
    return f"{ms / 1000.0:.3g} s"


def _notes(
    spec: LoadPoint,
    base: LoadPoint,
    one: SweepSide,
    ratio: SweepRatio | None,
    user: SweepRatio | None,
    even: float | None,
) -> tuple[str, ...]:
    notes = [*spec.notes, *(f"baseline: {note}" for note in base.notes)]
    once = [name for name, p, q in (("with", spec, base), ("without", base, spec)) if len(p.runs) == 1 < len(q.runs)]
    if once:
        notes.append(f"the figure {once[0]} speculation was measured once, the other repeatedly: repeat it too")
    if ratio is not None and user is not None and (ratio.value - 1.0) * (user.value - 1.0) < 0:
        notes.append(
            f"a request decodes {user.value:.2f}x as fast, yet all together get {ratio.value:.2f}x: what differs is "
            "how many decode at once, not the cost of drafting"
        )
    split = one.tokens_per_cycle / even if one.tokens_per_cycle and even else None
    if split and ratio is not None and spec.tokens_per_cycle.provenance is not Provenance.ASSUMED:
        gap = split / ratio.value - 1.0
        if abs(gap) > _IDENTITY and user is None:
            notes.append(
                f"tokens per cycle / break-even is {split:.2f}, the ratio of throughputs {ratio.value:.2f}: prefill, "
                "waiting or other lengths are in one of them"
            )
    return tuple(dict.fromkeys(notes))


def with_efficiency(level: SweepLevel, spec: dict[float, float], base: dict[float, float]) -> SweepLevel:
    """The level with its scaling efficiencies (by load)."""
    if level.load is None:
        return level
    return replace(
        level,
        spec=replace(level.spec, efficiency=spec.get(level.load)),
        baseline=replace(level.baseline, efficiency=base.get(level.load)),
    )
