"""The part of the Diagnosis that profiler traces fill; documented, field by field, in docs/cli.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TracePhaseReport:
    """One phase on one rank and device. `buckets` are mean ms per cycle and add up to `window_ms`."""

    rank: int | None
    device: int | None
    phase: str
    cycles: int
    host_span_ms: float | None
    launches: float | None
    graph_launches: float | None
    graph_nodes: float | None
    gpu_span_ms: float | None
    busy_ms: float | None
    kernel_sum_ms: float | None
    window_ms: float | None
    buckets: dict[str, float]
    collectives: str | None
    collective_ms: float | None


@dataclass(frozen=True, slots=True)
class LateRankReport:
    """How often a rank arrived last at a collective."""

    rank: int | None
    device: int | None
    times_last: int
    share_last: float
    wait_caused_ms: float
    before: str | None


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """One thing wrong with a capture, what it hides, and the command that captures it right."""

    severity: str
    what: str
    consequence: str
    command: str


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What the traces say: phases, transfer and wait of collectives, late ranks, capture quality."""

    cycles: int
    source: str
    provenance: str
    phases: tuple[TracePhaseReport, ...]
    skew: str
    skew_provenance: str
    skew_reason: str
    instances: int
    ranks: int
    transfer_ms: float | None
    wait_ms: float | None
    late: tuple[LateRankReport, ...]
    categories: dict[str, float]
    capture: tuple[CaptureReport, ...]
