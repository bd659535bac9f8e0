"""Requests in flight from rates and times (Little's law), scaling over concurrency, and saturation.

All functions raise ValueError for numbers that are not positive and finite. Little's law: Little 1961, "A proof for
the queuing formula L = lambda W".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceana.speculation.breakeven import peak
from traceana.speculation.common import positive

#: a higher load that adds less than this share of throughput adds nothing: about what one run differs from the next
SATURATED_WITHIN = 0.05


def requests_decoding(gen_tps: float, tpot_ms: float) -> float:
    """Requests that decode at once: tokens/s x time per token / 1000 (Little's law)."""
    return positive("throughput", gen_tps) * positive("time per token", tpot_ms) / 1000.0


def requests_in_flight(requests: float, duration_s: float, e2e_ms: float) -> float:
    """Requests between being sent and being done: requests/s x time of a whole request (Little's law)."""
    rate = positive("requests", requests) / positive("duration", duration_s)
    return rate * positive("time of a request", e2e_ms) / 1000.0


@dataclass(frozen=True, slots=True)
class Scaling:
    """How throughput grows with load. `efficiency` is tps(c) / (c x tps(c0) / c0), c0 the lowest load measured.

    `saturates_at` is the lowest load above which no measured load adds more than 5 %; None when the highest measured
    load still adds.
    """

    ceiling_tps: float
    ceiling_at: float
    saturates_at: float | None
    gain: float  # ceiling / throughput at the lowest load
    efficiency: tuple[tuple[float, float], ...]


def scaling(throughputs: Sequence[tuple[float, float]]) -> Scaling | None:
    """Scaling of (concurrency, tokens/s) pairs; None with fewer than two loads."""
    pairs = sorted((positive("concurrency", c), positive("throughput", tps)) for c, tps in throughputs)
    if len(pairs) < 2:
        return None
    ceiling_at, ceiling = peak(pairs)
    first_load, first = pairs[0]
    settled = next(
        (
            c
            for i, (c, tps) in enumerate(pairs[:-1])
            if all(higher <= tps * (1.0 + SATURATED_WITHIN) for _, higher in pairs[i + 1 :])
        ),
        None,
    )
    efficiency = tuple((c, (tps / first) * (first_load / c)) for c, tps in pairs)
    return Scaling(ceiling, ceiling_at, settled, ceiling / first, efficiency)
