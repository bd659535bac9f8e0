"""The part of the Diagnosis that profiler traces fill; documented, field by field, in docs/cli.md."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Spread
from traceana.facts.trace_model import (
    CommKernel,
    Copies,
    HostWait,
    JoinedCycle,
    LateRank,
    RunMatch,
    TracePhase,
    TraceSums,
)


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """One thing wrong with a capture, what it hides, and the command that captures it right."""

    severity: str
    code: str
    what: str
    consequence: str
    command: str


@dataclass(frozen=True, slots=True)
class TraceReport:
    """What the traces say: phases, transfer and wait of collectives, late ranks, capture quality.

    `whole`: the ledger of the whole capture per timeline, where no cycle was found. `sums`: captures without
    events. `apart`: why the traces are not of one capture. `match` and `joined`: how traces and log fit together.
    """

    cycles: int
    source: str
    provenance: str
    phases: tuple[TracePhase, ...]
    skew: str
    skew_provenance: str
    skew_reason: str
    instances: int
    ranks: int
    transfer_ms: float | None
    wait_ms: float | None
    late: tuple[LateRank, ...]
    categories: dict[str, float]
    capture: tuple[CaptureReport, ...]
    whole: tuple[TracePhase, ...] = ()
    cycle: Spread | None = None
    batch: Spread | None = None
    traced_ranks: tuple[int, ...] = ()
    world_size: int | None = None
    gpus: tuple[str, ...] = ()
    sums: tuple[TraceSums, ...] = ()
    on_cpu: bool = False
    apart: str | None = None
    waits: tuple[HostWait, ...] = ()
    comm: tuple[CommKernel, ...] = ()
    copies: tuple[Copies, ...] = ()
    match: RunMatch | None = None
    joined: JoinedCycle | None = None
