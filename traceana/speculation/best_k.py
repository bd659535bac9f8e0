"""How many draft tokens a chain should have: what each position earns against what it costs.

Rates are unconditional per position (accepted at position i / drafts), as vLLM prints them. Nothing is extrapolated:
a k without a rate or a cost is left out, since verify cost has cliffs. Source of every formula: docs/arithmetic.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from traceana.speculation.acceptance import accept_length_from_positions
from traceana.speculation.common import accept_length_of, not_negative, positive, shares, whole_drafts


@dataclass(frozen=True, slots=True)
class CycleCost:
    """Cycle in ms by k: c0_ms + c_per_draft_ms * k (+ verify_ms at running * (k + 1) tokens, from a measured table).

    Without `verify_ms` the verify forward is part of c0_ms and taken as the same at every k.
    """

    c0_ms: float
    c_per_draft_ms: float
    verify_ms: Mapping[int, float] | None = None
    running: int = 1

    def at(self, k: int) -> float | None:
        """The cycle in ms with k drafts; None when the verify table lacks that size. ValueError for a negative cost."""
        cost = not_negative("c0_ms", self.c0_ms) + not_negative("c_per_draft_ms", self.c_per_draft_ms) * k
        if self.verify_ms is None:
            return positive("cycle", cost)
        verify = self.verify_ms.get(self.running * (k + 1))
        return None if verify is None else positive("cycle", cost + not_negative("verify_ms", verify))


@dataclass(frozen=True, slots=True)
class KChoice:
    """One k: its accept length, cycle, ms per token (cycle / accept length), and both growths over the row before.

    A growth of 0.078 is 7.8 %; None in the first row. A longer chain pays where accept_growth exceeds cycle_growth.
    """

    k: int
    accept_length: float
    cycle_ms: float
    ms_per_token: float
    accept_growth: float | None
    cycle_growth: float | None


@dataclass(frozen=True, slots=True)
class BestK:
    """The k with the fewest ms per token (the smaller one on a tie), and the table it was read from, by k."""

    k: int
    table: tuple[KChoice, ...]


@dataclass(frozen=True, slots=True)
class KeptTokens:
    """Extra tokens per cycle (bonus not counted) of the first k positions, and of all of them."""

    kept: float
    total: float

    @property
    def share(self) -> float | None:
        """kept / total; None when nothing is accepted at all."""
        return self.kept / self.total if self.total > 0 else None


def best_k(rates: Sequence[float], cost: CycleCost | Mapping[int, float]) -> BestK:
    """The k that maximises accept length / cycle, among those with a known rate and a known cost.

    `cost` is a CycleCost or a table k -> measured cycle in ms; k = 0 in it is the step without speculation.
    Assumes that a position's rate does not depend on k, which holds for a chain. ValueError when no k is left.
    """
    reachable = range(len(rates) + 1)
    cycles = {k: cost.at(k) if isinstance(cost, CycleCost) else cost.get(k) for k in reachable}
    known = {k: ms for k, ms in cycles.items() if ms is not None}
    return best_measured_k({k: accept_length_from_positions(rates[:k]) for k in known}, known)


def best_measured_k(accept_lengths: Mapping[int, float], cycles_ms: Mapping[int, float]) -> BestK:
    """The k with the fewest ms per token where accept length and cycle were both measured. ValueError when none was."""
    table: list[KChoice] = []
    for k in sorted(set(accept_lengths) & set(cycles_ms)):
        whole_drafts(k)
        length, ms = accept_length_of(accept_lengths[k]), positive("cycle", cycles_ms[k])
        grown = (length / table[-1].accept_length - 1.0, ms / table[-1].cycle_ms - 1.0) if table else (None, None)
        table.append(KChoice(k, length, ms, ms / length, *grown))
    if not table:
        raise ValueError("no k has both an accept length and a cycle cost")
    return BestK(min(table, key=lambda row: (row.ms_per_token, row.k)).k, tuple(table))


def extra_tokens_kept(rates: Sequence[float], k: int) -> KeptTokens:
    """Extra tokens per cycle that a chain cut to k drafts keeps: sum of the first k rates, and of all.

    ValueError when k exceeds the known positions or a rate lies outside 0 ... 1.
    """
    checked = shares("per-position rate", rates)
    if not 0 <= k <= len(checked):
        raise ValueError(f"rates are known for {len(checked)} positions, not for k = {k}")
    return KeptTokens(math.fsum(checked[:k]), math.fsum(checked))


def k_worth_drafting(rates: Sequence[float], relative_cost_per_draft: float) -> int:
    """How many leading positions earn their draft, when each draft adds `relative_cost_per_draft` of a draftless cycle.

    Position i (from 1) is worth drafting while rate_i / E(i-1) > c / (1 + c * (i-1)), c the relative cost: the accept
    length grows by more than the cycle. ValueError for a negative cost or a rate outside 0 ... 1.
    """
    cost = not_negative("relative cost per draft", relative_cost_per_draft)
    length, cycle = 1.0, 1.0
    for position, rate in enumerate(shares("per-position rate", rates)):
        if rate * cycle <= cost * length:
            return position
        length, cycle = length + rate, cycle + cost
    return len(rates)
