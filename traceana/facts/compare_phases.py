"""Where the ms per token of two runs went: parts of the cycle that both measured, as a waterfall that adds up."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from traceana.facts.compare_model import Waterfall, WaterfallPart
from traceana.facts.model import Facts, Provenance
from traceana.facts.trace_model import TracePhase, mean_cycle
from traceana.speculation.decompose import TokenTimeParts, printed_sum, shapley_ms_per_token

#: names of buckets as reports write them
_BUCKETS = {"allreduce_unsplit": "allreduce, transfer or wait", "other_comm_exposed": "other communication"}
_REST = "rest of the cycle"
_NO_REST = 1e-9  # relative to a part: what summing floats leaves over
_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class Phases:
    """Parts of one cycle in ms. `whole` is the cycle where it was timed by itself: it covers what no part names."""

    parts: dict[str, float]
    source: str
    whole: float | None = None
    batch: int | None = None


def timed(facts: Facts) -> Phases | None:
    """Phases from timer lines or from traces; None where nothing splits the cycle."""
    cycle = facts.cycle
    named = {part.name: part.ms for part in cycle.parts if part.name != "unknown"}
    if not named or cycle.total_ms.value is None:
        return None
    measured = cycle.total_ms.provenance is Provenance.MEASURED
    return Phases(named, cycle.source or "timers", cycle.total_ms.value if measured else None, cycle.batch)


def buckets(facts: Facts) -> Phases | None:
    """Phase by bucket from the traces' ledgers, averaged over GPU timelines; None without a ledger of this run."""
    trace = facts.trace
    if trace is None or not trace.on_gpu or trace.apart is not None:
        return None
    if trace.match is not None and trace.match.verdict == "different":
        return None
    parts = mean_cycle(trace, _by_bucket)
    return Phases({name: ms for name, ms in parts.items() if ms}, f"ledgers of {trace.cycles} traced cycles")


def _by_bucket(phase: TracePhase) -> dict[str, float]:
    named = phase.buckets.items()
    return {f"{phase.phase}: {_BUCKETS.get(name, name.replace('_', ' '))}": ms for name, ms in named}


def waterfall(
    before: Facts,
    after: Facts,
    cycles: tuple[float, float] | None,
    tokens: tuple[float, float] | None,
    why_whole: str | None = None,
) -> Waterfall | None:
    """The difference in ms per token, split into acceptance and the cycle's parts.

    Args:
        before: the facts of one run.
        after: those of the other one.
        cycles: both cycles in ms at the load that is compared: used where nothing splits them.
        tokens: tokens per cycle of both; None where they are not known, then the waterfall is per cycle.
        why_whole: why the cycle is to stay one part, where the timed phases are of another load.

    None when neither phases nor cycles are known.
    """
    split, why = _both(before, after) if why_whole is None else (None, why_whole)
    if split is None and cycles is None:
        return None
    if split is None:
        assert cycles is not None
        sides = ({"cycle": cycles[0]}, {"cycle": cycles[1]})
        source = "the cycles at this load"
    else:
        sides, source = (split[0].parts, split[1].parts), _sources(split)
    per = "token" if tokens is not None else "cycle"
    found = shapley_ms_per_token(*sides, *(tokens or (1.0, 1.0)))
    return _drawn(found, sides, per, source, why if split is None else None)


def _both(before: Facts, after: Facts) -> tuple[tuple[Phases, Phases] | None, str]:
    """Phases of both runs under the same names, the finest that both have; else why there are none."""
    one, other = buckets(before), buckets(after)
    if one is not None and other is not None:
        union = dict.fromkeys([*one.parts, *other.parts])  # a bucket that a ledger lacks took no time
        filled = [replace(p, parts={name: p.parts.get(name, 0.0) for name in union}) for p in (one, other)]
        return (filled[0], filled[1]), ""
    one, other = timed(before), timed(after)
    if one is None or other is None:
        lacks = "neither run has" if one is other else f"the {'first' if one is None else 'second'} run has no"
        return None, f"{lacks} phase times (timer lines, or a trace)"
    matched = _matched(one, other)
    if matched is None:
        names = [", ".join(found.parts) for found in (one, other)]
        return None, f"the runs time other phases ({names[0]}; {names[1]}), and not both the whole cycle"
    return matched, ""


def _matched(one: Phases, other: Phases) -> tuple[Phases, Phases] | None:
    """Both with the same parts: what only one of them names joins the rest, where the whole cycle was timed."""
    if set(one.parts) == set(other.parts) and one.whole is None and other.whole is None:
        return one, other
    names = [name for name in one.parts if name in other.parts]
    made = [_with_rest(phases, names) for phases in (one, other)]
    if not names or made[0] is None or made[1] is None:
        return None
    if made[0].parts[_REST] + made[1].parts[_REST] < _NO_REST * made[0].parts[names[0]]:
        made = [replace(p, parts={n: ms for n, ms in p.parts.items() if n != _REST}) for p in made if p is not None]
    first, second = made
    assert first is not None
    assert second is not None
    return first, second


def _with_rest(phases: Phases, names: list[str]) -> Phases | None:
    """The named parts and what is left of the whole; None where the whole is not known and parts are left out."""
    parts = {name: phases.parts[name] for name in names}
    whole = phases.whole
    if whole is None:
        if len(parts) != len(phases.parts):
            return None
        whole = sum(parts.values())
    return replace(phases, parts={**parts, _REST: max(whole - sum(parts.values()), 0.0)})


def _sources(split: tuple[Phases, Phases]) -> str:
    one, other = split
    batches = "" if one.batch == other.batch else f", at {one.batch or '?'} and {other.batch or '?'} running"
    return (one.source if one.source == other.source else f"{one.source}; {other.source}") + batches


def _drawn(
    found: TokenTimeParts, sides: tuple[dict[str, float], dict[str, float]], per: str, source: str, why: str | None
) -> Waterfall:
    parts = [("acceptance", found.acceptance_ms)] if per == "token" else []
    parts += list(found.phases)
    first, *shown, last = printed_sum([found.before_ms, *(ms for _, ms in parts)], _DECIMALS)
    change = str(Decimal(last) - Decimal(first))
    return Waterfall(
        per=per,
        before_ms=found.before_ms,
        after_ms=found.after_ms,
        difference_ms=found.difference_ms,
        printed=(first, last, change),
        parts=tuple(
            WaterfallPart(name, ms, text, sides[0].get(name), sides[1].get(name))
            for (name, ms), text in zip(parts, shown, strict=True)
        ),
        source=source,
        why_not_split=why,
    )
