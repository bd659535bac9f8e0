"""The measured cycle against the floors of its forwards: what is left, and what that consists of.

Per load from the log's steady windows; by phase where timers or traces split the cycle. Formulas: docs/arithmetic.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from traceana.facts.box import box_of, gpu_of, on_cpu, ranks_of
from traceana.facts.floors import (
    BESIDE,
    FloorPart,
    allreduce_part,
    host_part,
    launch_part,
    traced_allreduces,
    traced_tokens,
    weights_part,
)
from traceana.facts.gap_model import GapPart, LevelFloor, MeasuredAgainstFloor, PhaseFloor
from traceana.facts.gap_parts import BETWEEN, REST, TRANSFER, Buckets, buckets_by_phase, by_kind, gap_parts, untold
from traceana.facts.model import Facts, Provenance, Regime

#: graph launches per phase below which its kernels are launched one by one
_IN_GRAPH = 0.5
_MANY = 10  # launches: fewer are no floor worth a word
_VERIFY = ("verify", "forward")


def measured_against_floor(facts: Facts) -> MeasuredAgainstFloor | None:
    """Every load with a known cycle against its floors; None without such a load, and on a CPU."""
    if on_cpu(facts):
        return None
    levels = _levels(facts)
    if not levels:
        return None
    known, gpu, ranks = box_of(facts), gpu_of(facts), ranks_of(facts)
    shape = known.target.value
    floored = any(part.floors for level in levels for part in level.phases)
    reasons = dict.fromkeys(text for level in levels for part in level.phases for text in part.no_floor)
    return MeasuredAgainstFloor(
        gpu=None if isinstance(gpu, str) else gpu.name,
        ranks=ranks if isinstance(ranks, int) else None,
        layers=None if shape is None else shape.layers,
        hidden=None if shape is None else shape.hidden,
        shape_from=None if shape is None else known.target.reason,
        levels=levels if floored else (),
        missing=() if floored else _most_telling(facts, reasons),
    )


def _most_telling(facts: Facts, reasons: Iterable[str]) -> tuple[str, ...]:
    """What to give first: the GPU and the shape when neither is there; what else is in the way when both are."""
    gpu, target = gpu_of(facts), box_of(facts).target
    wanted = [gpu] if isinstance(gpu, str) else []
    wanted += [target.reason] if target.value is None and target.reason else []
    return tuple(dict.fromkeys(wanted)) or tuple(reasons)


def _levels(facts: Facts) -> tuple[LevelFloor, ...]:
    split = _split_level(facts)
    found = [
        _level(facts, r, r.cycle_ms.median)
        for r in facts.regimes
        if r.n_steady > 0 and r.cycle_ms is not None and (split is None or r.running != split.running)
    ]
    return tuple(sorted((*found, *((split,) if split else ())), key=lambda level: level.running or 0))


def _level(facts: Facts, regime: Regime, cycle_ms: float) -> LevelFloor:
    """A load whose cycle is one number: the floors of all its forwards together."""
    tokens = regime.tokens_per_forward
    source = f"median of {regime.n_steady} steady windows"
    phases = [_phase(facts, name, regime.running, tokens, {}) for name in ("verify", "draft", "re-extend")]
    floors = by_kind(floor for floors, _ in phases for floor in floors)
    missing = list(dict.fromkeys(text for _, texts in phases for text in texts))
    whole = _against("cycle" if _drafts(facts) else "step", cycle_ms, Provenance.DERIVED, floors, (), missing)
    return LevelFloor(regime.running, tokens, source, (whole,))


def _split_level(facts: Facts) -> LevelFloor | None:
    """The load whose cycle timers or traces split; None where nothing does."""
    cycle, total = facts.cycle, facts.cycle.total_ms
    if total.value is None or all(part.name == "unknown" for part in cycle.parts):
        return None
    running = cycle.batch
    if running is None and facts.trace is not None and facts.trace.batch is not None:
        running = round(facts.trace.batch.median)
    traced, target = buckets_by_phase(facts), box_of(facts).target.value
    tokens = _tokens(facts, running)
    if tokens is None and traced and target is not None:
        tokens = traced_tokens(facts, target.hidden)
    buckets = traced or _host(facts)
    made = []
    for part in cycle.parts:
        floors, missing = _phase(facts, part.name, running, tokens, traced)
        launches = _launches(facts, part.name) if part.name in traced else None
        made.append(
            _against(
                part.name,
                part.ms,
                part.provenance,
                [*floors, *((launch_part(launches),) if launches else ())],
                buckets.get(part.name, ()),
                missing,
            )
        )
    host = () if cycle.host_ms is None or cycle.host_ms > total.value else (host_part(cycle.host_ms),)
    whole = _sum("cycle" if _drafts(facts) else "step", total.value, total.provenance, made, host)
    return LevelFloor(running, tokens, cycle.source or "", (*made, whole))


def _host(facts: Facts) -> dict[str, Buckets]:
    """What timers tell of the phase `other`: the host between two cycles, and the rest."""
    other = next((part.ms for part in facts.cycle.parts if part.name == "other"), 0.0)
    between = min(facts.cycle.between_ms or 0.0, other)
    return {"other": ((BETWEEN, between), (REST, other - between))} if between else {}


def _drafts(facts: Facts) -> bool:
    return facts.speculation.active.value is not False


def _tokens(facts: Facts, running: int | None) -> int | None:
    """Tokens of one verify forward at a load."""
    regime = None if running is None else facts.regime(running)
    if regime is not None and regime.tokens_per_forward is not None:
        return regime.tokens_per_forward
    k = facts.speculation.k.value if _drafts(facts) else 0
    return None if running is None or k is None else running * (k + 1)


def _phase(
    facts: Facts, name: str, running: int | None, tokens: int | None, traced: Mapping[str, Buckets]
) -> tuple[list[FloorPart], list[str]]:
    """The floors of a phase's forwards, and why one is not known. `traced`: what a trace of this very load shows."""
    buckets = dict(traced.get(name, ()))
    if name in _VERIFY:
        return _verify(facts, name, tokens, buckets)
    if name in ("draft", "re-extend"):
        return _draft(facts, name, running, buckets)
    return [], []


def _verify(
    facts: Facts, name: str, tokens: int | None, buckets: Mapping[str, float]
) -> tuple[list[FloorPart], list[str]]:
    target = box_of(facts).target
    no_load = "the tokens of a verify are not known (running requests and draft tokens)"

    def by_shape() -> FloorPart | str:
        return no_load if tokens is None else allreduce_part(facts, target, tokens)

    found = _allreduces(facts, name, buckets, by_shape)
    if target.value is None and any(isinstance(part, FloorPart) for part in found):
        found.append("weights read (the model's config.json tells them)")
    elif target.value is not None or not found:
        found.append(f"weights read: {no_load}" if tokens is None else weights_part(facts, target, tokens))
    return _sorted_out(found)


def _draft(
    facts: Facts, name: str, running: int | None, buckets: Mapping[str, float]
) -> tuple[list[FloorPart], list[str]]:
    """A drafter's forwards: one per draft token in a cycle, the last of them in re-extend where there is such a phase.

    Each carries at least one token per request.
    """
    spec = facts.speculation
    forwards = spec.num_steps.value or spec.k.value
    looks_up = spec.drafts_every_step is False  # no model drafts: there is no forward
    if not _drafts(facts) or looks_up or forwards is None or running is None:
        return [], []
    if _has_re_extend(facts):
        forwards = 1 if name == "re-extend" else forwards - 1
    elif name == "re-extend":
        return [], []
    if forwards < 1:
        return [], []
    if spec.adaptive.value:
        return [], ["the drafter's forwards (the server adapts their number)"]
    draft, tokens = box_of(facts).draft, running * (spec.topk.value or 1)
    if draft.value is None:
        return [], [draft.reason or "the drafter's forwards"]
    alone = facts.settings.value("speculative_config.draft_tensor_parallel_size") == 1
    found: list[FloorPart | str] = [weights_part(facts, draft, tokens, forwards, 1 if alone else None)]
    if not alone:
        found += _allreduces(facts, name, buckets, lambda: allreduce_part(facts, draft, tokens, forwards))
    floors, missing = _sorted_out(found)
    return floors, [text if text.startswith(("the drafter", "how low")) else f"drafter: {text}" for text in missing]


def _allreduces(
    facts: Facts, name: str, buckets: Mapping[str, float], by_shape: Callable[[], FloorPart | str]
) -> list[FloorPart | str]:
    """The floor of a phase's allreduces, as a trace counts them where it shows the phase, else by the shape."""
    if ranks_of(facts) == 1:
        return []
    if buckets and not buckets.get("unknown"):
        counted = traced_allreduces(facts, name)
        if counted is not None:
            return [counted]
        if not any(buckets.get(bucket) for bucket in TRANSFER):
            return []  # the trace shows the phase, and none in it
    found = by_shape()
    if isinstance(found, FloorPart) and not found.low_ms:
        return [found, "how low allreduces may be (the run's own path is on; nobody published its times)"]
    return [found]


def _has_re_extend(facts: Facts) -> bool:
    return any(part.name == "re-extend" for part in facts.cycle.parts)


def _sorted_out(found: Sequence[FloorPart | str]) -> tuple[list[FloorPart], list[str]]:
    return [p for p in found if not isinstance(p, str)], list(dict.fromkeys(p for p in found if isinstance(p, str)))


def _launches(facts: Facts, name: str) -> float | None:
    """Launches of a phase whose kernels no graph replays, mean over timelines; None where the trace does not tell."""
    phases = [] if facts.trace is None else [p for p in facts.trace.on_gpu if p.phase == name]
    if (
        not phases
        or name not in buckets_by_phase(facts)
        or any(p.launches is None or (p.graph_launches or 0.0) >= _IN_GRAPH for p in phases)
    ):
        return None
    launches = sum(p.launches or 0.0 for p in phases) / len(phases)
    return launches if launches >= _MANY else None


def _against(
    name: str,
    measured: float,
    provenance: Provenance,
    floors: Sequence[FloorPart],
    buckets: Sequence[tuple[str, float]],
    missing: Sequence[str],
) -> PhaseFloor:
    """A phase with its gap, or with the reason why its floors cannot be."""
    added = [floor for floor in floors if floor.kind not in BESIDE]
    low, high = sum(f.low_ms for f in added), sum(f.high_ms for f in added)
    least = max([low, *(f.low_ms for f in floors if f.kind in BESIDE)])
    no_floor = tuple(missing)
    if least > measured:
        words = f"a floor of {least:.1f} ms against {measured:.1f} ms measured: GPU, ranks, shape or load do not agree"
        return PhaseFloor(name, measured, provenance, tuple(floors), impossible=words, no_floor=no_floor)
    parts, impossible = gap_parts(dict(buckets), added, provenance) if buckets else ((), None)
    if impossible is not None:
        return PhaseFloor(name, measured, provenance, tuple(floors), impossible=impossible, no_floor=no_floor)
    gap = max(0.0, measured - high), measured - low
    return PhaseFloor(
        name, measured, provenance, tuple(floors), *gap, parts or untold(*gap, added, provenance), None, no_floor
    )


def _sum(
    name: str, measured: float, provenance: Provenance, phases: Sequence[PhaseFloor], host: Sequence[FloorPart]
) -> PhaseFloor:
    """The whole cycle: floors and gaps of its phases added up, by kind and by name; `host`: floors of the whole."""
    gaps: dict[str, GapPart] = {}
    for phase in phases:
        for part in phase.gap:
            was = gaps.get(part.name)
            low, high = (0.0, 0.0) if was is None else (was.low_ms, was.high_ms)
            gaps[part.name] = GapPart(part.name, low + part.low_ms, high + part.high_ms, part.provenance)
    missing = tuple(dict.fromkeys(text for phase in phases for text in phase.no_floor))
    wrong = next((f"{phase.name}: {phase.impossible}" for phase in phases if phase.impossible), None)
    floors = [*by_kind(floor for phase in phases for floor in phase.floors), *host]
    found = _against(name, measured, provenance, floors, (), missing)
    if wrong is not None or found.impossible is not None:
        return PhaseFloor(
            name, measured, provenance, found.floors, impossible=wrong or found.impossible, no_floor=missing
        )
    parts = tuple(gaps.values())
    return PhaseFloor(
        name, measured, provenance, found.floors, found.gap_low_ms, found.gap_high_ms, parts, None, missing
    )
