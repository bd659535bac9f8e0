"""A cycle measured against its floors, as plain data. Times are ms; ranges are low to high; what is unknown is None."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.floors import FloorPart
from traceana.facts.model import Provenance


@dataclass(frozen=True, slots=True)
class GapPart:
    """One thing that the gap consists of, where traces or timers tell it; the parts of a phase add up to its gap."""

    name: str
    low_ms: float
    high_ms: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class PhaseFloor:
    """One phase (or `cycle`, `step` as a whole) against its floors; gap = measured - floors.

    Launch floors are of the host, which works beside the GPU: they are not added. `impossible`: why there is no gap,
    where a floor lies above what was measured. `no_floor`: floors that are not known, and what would tell them.
    """

    name: str
    measured_ms: float
    provenance: Provenance
    floors: tuple[FloorPart, ...] = ()
    gap_low_ms: float | None = None
    gap_high_ms: float | None = None
    gap: tuple[GapPart, ...] = ()
    impossible: str | None = None
    no_floor: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelFloor:
    """One load: its phases, the whole cycle last."""

    running: int | None
    tokens_per_forward: int | None
    source: str
    phases: tuple[PhaseFloor, ...]


@dataclass(frozen=True, slots=True)
class MeasuredAgainstFloor:
    """All loads with a floor; without one, `missing` says what is not known and what would tell it."""

    gpu: str | None
    ranks: int | None
    layers: int | None
    hidden: int | None
    shape_from: str | None
    levels: tuple[LevelFloor, ...] = ()
    missing: tuple[str, ...] = ()
