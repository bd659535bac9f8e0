"""The document of `traceana floor`: plain data, schema traceana/floor/1. Field names are the contract."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = "traceana/floor/1"


@dataclass(frozen=True, slots=True)
class FloorPoint:
    """One curve at one size. `how` is interpolated, smallest (shorter than any measured) or extrapolated."""

    tokens: int
    message_bytes: int
    each_us: float
    forward_ms: float
    how: str


@dataclass(frozen=True, slots=True)
class FloorCurve:
    """The allreduce floor of one library on the box, by tokens per forward."""

    library: str
    version: str
    mode: str | None  # eager or graph, where the measurement says so
    label: str
    points: tuple[FloorPoint, ...]


@dataclass(frozen=True, slots=True)
class FloorExtra:
    """What a worse path or protocol would add to a forward, as a range in ms, modelled."""

    name: str
    each_us: float
    forward_ms: float
    source: str


@dataclass(frozen=True, slots=True)
class FloorWeights:
    """Time to read the weights of one forward, in ms: a range where experts or the quantisation leave it open."""

    tokens: int
    low_ms: float
    high_ms: float


@dataclass(frozen=True, slots=True)
class FloorReport:
    """Floors of one forward on one box. Absent knowledge is null, never 0. All of it is modelled."""

    gpu: str
    ranks: int
    layers: int
    hidden: int
    shape_from: str  # options, a config.json, or the model's name (assumed)
    allreduces: int
    curves: tuple[FloorCurve, ...]
    extras: tuple[FloorExtra, ...]
    weights: tuple[FloorWeights, ...]  # from a config.json that tells them
    weight_read_ms: float | None
    launch_low_ms: float | None
    launch_high_ms: float | None
    notes: tuple[str, ...]
    source: str
    provenance: str = "modelled"
    schema: str = SCHEMA
