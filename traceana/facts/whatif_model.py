"""What-if questions and their answers as plain data."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Evidence, Provenance
from traceana.speculation.whatif import Span


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user asks beside the changes that are always looked at."""

    running: int | None = None  # load level; the most common one unless given
    ks: tuple[int, ...] = ()
    accept_lengths: tuple[float, ...] = ()
    gpu: str | None = None  # what the run ran on, where the inputs do not say
    to_gpu: str | None = None  # another box, for its allreduce only
    layers: int | None = None
    hidden: int | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """One number behind a prediction."""

    name: str
    value: str
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one change would give, or why there is no number. `tps` is None when only the ratio is known."""

    key: str  # k, accept_length, verify_graph, no_wait, no_host_wait, allreduce_floor, nccl_path, interconnect
    change: str
    to: str | None = None  # what a run with the change shows: its k, accept length, GPU, or NCCL's path
    speedup: Span | None = None
    tps: Span | None = None
    accept_length: Span | None = None
    cycle_ms: Span | None = None
    model: str | None = None
    inputs: tuple[Input, ...] = ()
    caveats: tuple[str, ...] = ()
    reason: str | None = None  # why there is no number, and what would give one


@dataclass(frozen=True, slots=True)
class Base:
    """The run that the predictions start from, at one load level."""

    running: int | None
    tps: Span | None
    tokens_per_cycle: float
    cycle_ms: float
    k: int | None
    source: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """All predictions for a run; `base is None` with `reason` when the run gives nothing to start from."""

    base: Base | None
    predictions: tuple[Prediction, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """Stored predictions beside what a later run measured: what `whatif --score` writes."""

    scores: tuple[Score, ...]
    schema: str = "traceana/scored/1"


@dataclass(frozen=True, slots=True)
class Score:
    """A prediction beside what a later run measured at the same load.

    `made`: yes, no or unknown, as far as the inputs tell, and `why`. `inside`: whether the range held what was
    measured; None unless the change was made.
    """

    key: str
    change: str
    predicted_low_tps: float
    predicted_high_tps: float
    measured_tps: float
    made: str
    why: str
    inside: bool | None
