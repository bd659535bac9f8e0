"""Short builders of TraceFacts: cycles of phases with ms per bucket, on any number of ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from traceana.facts.model import Acceptance, Fact, Facts, InputFacts, Provenance, Spread
from traceana.facts.trace_model import CommKernel, HostWait, LateRank, Timeline, TraceFacts, TracePhase

CYCLES = 40


def phase(
    name: str, rank: int = 0, launches: float = 5, graphs: float = 1, cycles: int = CYCLES, **ms: float
) -> TracePhase:
    """A phase of one rank: `ms` per cycle by bucket; launches include graph launches."""
    ns = {bucket: round(value * 1e6) * cycles for bucket, value in ms.items()}
    return TracePhase(
        rank, rank, name, cycles, f"rank{rank}.json", launches=launches, graph_launches=graphs,
        window_ms=sum(ms.values()), buckets=dict(ms), window_ns=sum(ns.values()), bucket_ns=ns,
    )  # fmt: skip


def trace(*phases: TracePhase, **changes: Any) -> TraceFacts:
    """Traces of measured cycles."""
    ranks = len({p.rank for p in phases})
    made = TraceFacts(
        cycles=max((p.cycles for p in phases), default=0), source="annotations", provenance=Provenance.MEASURED,
        phases=phases, skew="mixed", skew_provenance=Provenance.MEASURED, skew_reason="", instances=1_000, ranks=ranks,
        transfer_ms=1.0, wait_ms=1.0, late=(), categories=(("compute", "gemm", 1.0),), notes=(),
    )  # fmt: skip
    return replace(made, **changes)


def facts(found: TraceFacts | None, tokens: float | None = None, **changes: Any) -> Facts:
    """Facts of a run with these traces."""
    earned = Acceptance(tokens_per_cycle=Fact(tokens)) if tokens else Acceptance()
    inputs = (InputFacts("rank0.json", "kineto", 0, 10, 0, 0),)
    return replace(Facts(inputs=inputs, trace=found, acceptance=earned), **changes)


def per_rank(
    count: int, name: str = "verify", late: Mapping[int, float] | None = None, **ms: float
) -> list[TracePhase]:
    """The same phase on several ranks; `late`: rank -> ms more of compute, which the others wait for."""
    extra = late or {}
    most = max(extra.values(), default=0.0)
    return [
        phase(name, rank, **{
            **ms, "compute": ms.get("compute", 0.0) + extra.get(rank, 0.0), "allreduce_wait": most - extra.get(rank, 0.0),
        })
        for rank in range(count)
    ]  # fmt: skip


def late(rank: int, caused: float, share: float = 0.5, before: str = "busy") -> LateRank:
    return LateRank(rank, rank, round(1_000 * share), share, caused, before, 1.0, "void gemm<4>(int)")


def allreduce(rank: int = 0, per_cycle: int = 60, **changes: Any) -> CommKernel:
    made = CommKernel(
        Timeline(f"rank{rank}.json", rank, rank), "verify", "all_reduce", "nccl", 57_344, 2, 1, 512,
        per_cycle * CYCLES, 1.0, 0.01,
    )  # fmt: skip
    return replace(made, **changes)


def wait(idle_per_cycle: float, rank: int = 0, share: float = 1.0) -> HostWait:
    return HostWait(
        Timeline(f"rank{rank}.json", rank, rank), "cudaStreamSynchronize", CYCLES, CYCLES, round(share * CYCLES), 1.0,
        idle_per_cycle * CYCLES,
    )  # fmt: skip


def spread(value: float) -> Spread:
    return Spread(10, value, value, value, value)
