"""What a gap consists of, where a trace tells it: the ledger's buckets with the floors taken off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from traceana.facts.floors import FloorPart, modelled
from traceana.facts.gap_model import GapPart
from traceana.facts.model import Facts, Provenance
from traceana.facts.trace_model import mean_cycle
from traceana.facts.traces import cycle_of

#: what timers tell: the host between two cycles, and what they leave open
BETWEEN, REST = "between", "rest"
#: bucket of the ledger -> what it is called beside a floor
_WORDS = {
    "allreduce_wait": "allreduce wait",
    "other_comm_exposed": "other communication",
    "copies": "copies",
    "launch_gap": "launch gaps",
    "other_idle": "other idle",
    BETWEEN: "host between cycles",
    REST: "not told apart",
}
#: buckets that hold allreduce, waiting apart
TRANSFER = ("allreduce_transfer", "allreduce_unsplit")
#: a floor so little above what was traced is the spread of two measurements, no contradiction (a choice)
_WITHIN = 1.1

Buckets = tuple[tuple[str, float], ...]


def buckets_by_phase(facts: Facts) -> dict[str, Buckets]:
    """ms per cycle by phase and bucket on the clock of the reported cycle; empty where no trace splits it."""
    trace = facts.trace
    if trace is None or (trace.match is not None and trace.match.verdict == "different"):
        return {}
    if trace.joined is not None:
        return {phase: tuple(found.items()) for phase, found in trace.joined.split.items()}
    whole = cycle_of(trace)
    if whole is None or whole.parts != facts.cycle.parts:
        return {}
    found: dict[str, Buckets] = {}
    for phase in dict.fromkeys(p.phase for p in trace.on_gpu):
        mean = mean_cycle(trace, lambda p, wanted=phase: p.buckets if p.phase == wanted else {})  # type: ignore[misc]
        found[phase] = tuple((name, ms) for name, ms in mean.items() if ms)
    return found


def gap_parts(
    buckets: Mapping[str, float], floors: Sequence[FloorPart], provenance: Provenance
) -> tuple[tuple[GapPart, ...], str | None]:
    """The gap's parts, which add up to the phase minus its floors, none where replays hide them; why a floor cannot be.

    An allreduce floor is taken off the traced transfer, a weights floor off the compute.
    """
    if buckets.get("unknown"):
        return (), None  # what a replay holds is not seen: neither transfer nor compute is all of it
    transfer = sum(buckets.get(name, 0.0) for name in TRANSFER)
    compute = buckets.get("compute", 0.0)
    made: list[GapPart] = []
    for kind, traced, name in (
        ("allreduce", transfer, "allreduce transfer" if not buckets.get("allreduce_unsplit") else "allreduce"),
        ("weights", compute, "compute"),
    ):
        floor = next((f for f in floors if f.kind == kind), None)
        if floor is not None and floor.low_ms > traced * _WITHIN:
            return (), (
                f"a floor of {floor.low_ms:.1f} ms against {traced:.1f} ms of {name} traced: GPU, ranks or shape do "
                "not agree, or the published measurement is of a slower box"
            )
        low, high = (0.0, 0.0) if floor is None else (floor.low_ms, floor.high_ms)
        words = name if floor is None else f"{name} over floor"
        if traced:
            how = provenance if floor is None else floor.provenance
            made.append(GapPart(words, max(0.0, traced - high), max(0.0, traced - low), how))
    made += [GapPart(words, ms, ms, provenance) for name, words in _WORDS.items() if (ms := buckets.get(name, 0.0)) > 0]
    return tuple(made), None


def untold(low: float, high: float, floors: Sequence[FloorPart], provenance: Provenance) -> tuple[GapPart, ...]:
    """A gap of which nothing tells the parts."""
    how = modelled(*(f.provenance for f in floors)) if floors else provenance
    return (GapPart("not told apart", low, high, how),)


def by_kind(parts: Iterable[FloorPart]) -> list[FloorPart]:
    """Floors of several phases, one per kind."""
    found: dict[str, FloorPart] = {}
    for part in parts:
        old = found.get(part.kind)
        found[part.kind] = part if old is None else _added(old, part)
    return list(found.values())


def _added(one: FloorPart, other: FloorPart) -> FloorPart:
    return FloorPart(
        one.kind,
        one.low_ms + other.low_ms,
        one.high_ms + other.high_ms,
        modelled(one.provenance, other.provenance),
        f"{one.basis} + {other.basis}",
        one.source if one.source == other.source else f"{one.source}; {other.source}",
    )
