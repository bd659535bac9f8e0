"""Does speculation pay: cycle, step, speed-up, break-even, targets, and the same over a concurrency sweep.

`tokens_per_cycle` is the accept length where every step has a draft. All functions raise ValueError for numbers that
are not positive and finite. Source of every formula: docs/arithmetic.md.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from traceana.speculation.common import positive, whole_drafts

#: a vLLM window is steady when tokens per draft agree with the accept length this closely (docs/arithmetic.md)
STEADY_TOLERANCE = 0.15


def cycle_ms(tokens_per_cycle: float, running: float, gen_tps: float) -> float:
    """Length of a cycle in ms: 1000 * tokens_per_cycle * running / gen_tps (tokens/s of the whole batch)."""
    tokens = positive("tokens per cycle", tokens_per_cycle) * positive("running requests", running)
    return 1000.0 * tokens / positive("generation throughput", gen_tps)


def cycle_ms_from_drafts(k: float, running: float, drafted_tps: float) -> float:
    """Length of a cycle in ms from draft tokens/s, k per request and cycle: 1000 * k * running / drafted_tps.

    Only for a fixed k and a steady window (see `is_steady`).
    """
    drafts = positive("k", k) * positive("running requests", running)
    return 1000.0 * drafts / positive("drafted throughput", drafted_tps)


def is_steady(gen_tps: float, drafted_tps: float, k: float, accept_length: float) -> bool:
    """True when generated tokens per draft, gen_tps / (drafted_tps / k), agree with the accept length within 0.15."""
    drafts_per_s = positive("drafted throughput", drafted_tps) / positive("k", k)
    tokens_per_draft = positive("generation throughput", gen_tps) / drafts_per_s
    return abs(tokens_per_draft - positive("accept length", accept_length)) <= STEADY_TOLERANCE


def step_ms(running: float, gen_tps: float) -> float:
    """Length of a step without speculation in ms: 1000 * running / gen_tps."""
    return 1000.0 * positive("running requests", running) / positive("baseline throughput", gen_tps)


def generation_tps(tokens_per_cycle: float, running: float, cycle_ms: float) -> float:
    """Tokens/s of the whole batch: 1000 * tokens_per_cycle * running / cycle_ms. The inverse of `cycle_ms`."""
    tokens = positive("tokens per cycle", tokens_per_cycle) * positive("running requests", running)
    return 1000.0 * tokens / positive("cycle", cycle_ms)


def speedup(tokens_per_cycle: float, step_ms: float, cycle_ms: float) -> float:
    """Throughput with speculation / without: tokens_per_cycle * step_ms / cycle_ms. Above 1 speculation pays."""
    return positive("tokens per cycle", tokens_per_cycle) * positive("step", step_ms) / positive("cycle", cycle_ms)


def break_even_accept_length(cycle_ms: float, step_ms: float) -> float:
    """Tokens per cycle at which speculation earns its cycle: cycle_ms / step_ms. Below 1: it pays at any acceptance."""
    return positive("cycle", cycle_ms) / positive("step", step_ms)


def accept_length_for_target(target_tps: float, cycle_ms: float, running: float = 1) -> float:
    """Tokens per cycle that a batch throughput needs: target_tps * cycle_ms / (1000 * running)."""
    wanted = positive("target throughput", target_tps) * positive("cycle", cycle_ms)
    return wanted / (1000.0 * positive("running requests", running))


def max_accept_length(k: float) -> float:
    """The most tokens a cycle can emit with k draft tokens in a row: k + 1 (all accepted, and the bonus token)."""
    return whole_drafts(k) + 1.0


def drafts_for_accept_length(accept_length: float) -> int:
    """The fewest draft tokens whose chain can average `accept_length` without every draft being accepted (p < 1).

    k + 1 must lie above it; 0 when 1 token per cycle or less is wanted.
    """
    wanted = positive("accept length", accept_length)
    return 0 if wanted <= 1.0 else math.floor(wanted + 1e-9)


def comm_bound_speedup(compute_ms: float, communication_ms: float, accept_length: float) -> float:
    """Speed-up when communication costs a cycle as much per token as a step: (Tc + Tm) / (Tc / A + Tm).

    The founding articles' model: acceptance divides compute only. Times in ms of one step.
    """
    compute, communication = positive("compute", compute_ms), positive("communication", communication_ms)
    return (compute + communication) / (compute / positive("accept length", accept_length) + communication)


def communication_share(speedup: float, accept_length: float) -> float:
    """The share of communication in a step, 0 ... 1, that `comm_bound_speedup` needs for a measured speed-up.

    f = (1/G - 1/A) / (1 - 1/A). ValueError when A is not above 1 or G not within 1 ... A: the model does not fit.
    """
    gain, tokens = positive("speed-up", speedup), positive("accept length", accept_length)
    if not (tokens > 1.0 and 1.0 <= gain <= tokens):
        raise ValueError(
            f"the model needs 1 <= speed-up <= accept length and accept length > 1, not {gain} and {tokens}"
        )
    return (1.0 / gain - 1.0 / tokens) / (1.0 - 1.0 / tokens)


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """Throughput of the whole batch in tokens/s at one concurrency, with speculation and without."""

    concurrency: float
    spec_tps: float
    baseline_tps: float

    @property
    def speedup(self) -> float:
        """spec_tps / baseline_tps."""
        return positive("throughput", self.spec_tps) / positive("baseline throughput", self.baseline_tps)

    @property
    def winner(self) -> str:
        """ "speculation", "baseline" or "even", by the figures alone; says nothing of their noise."""
        if self.spec_tps == self.baseline_tps:
            return "even"
        return "speculation" if self.spec_tps > self.baseline_tps else "baseline"

    @property
    def win_ratio(self) -> float:
        """By how much the winner is faster: 0.195 means 19.5 % more tokens/s than the loser."""
        gain = self.speedup
        return max(gain, 1.0 / gain) - 1.0


@dataclass(frozen=True, slots=True)
class Crossover:
    """Two neighbouring measured concurrencies between which the winner changes, and who wins after."""

    after: float
    before: float
    winner: str


def crossovers(points: Sequence[SweepPoint]) -> tuple[Crossover, ...]:
    """Where the winner changes along a sweep, by concurrency; empty when one side wins throughout.

    Nothing is interpolated: a cost cliff may sit anywhere between two measured points.
    """
    ordered = sorted(points, key=lambda point: point.concurrency)
    return tuple(
        Crossover(a.concurrency, b.concurrency, b.winner)
        for a, b in itertools.pairwise(ordered)
        if a.winner != b.winner
    )


def peak(throughputs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The (concurrency, tokens/s) pair of highest throughput, lowest concurrency on a tie. ValueError when empty."""
    if not throughputs:
        raise ValueError("a peak needs at least one (concurrency, tokens/s) pair")
    return min(throughputs, key=lambda pair: (-pair[1], pair[0]))


@dataclass(frozen=True, slots=True)
class RunSpread:
    """Repeated measurements of one figure. `stdev` is the sample's; it and `cv` (stdev / mean) are None for one run."""

    n: int
    mean: float
    stdev: float | None
    cv: float | None


def spread_of_runs(values: Sequence[float]) -> RunSpread:
    """Mean, sample standard deviation and coefficient of variation of repeated runs. ValueError when empty."""
    checked = [positive("a run's figure", value) for value in values]
    if not checked:
        raise ValueError("a spread needs at least one run")
    mean = statistics.fmean(checked)
    stdev = statistics.stdev(checked) if len(checked) > 1 else None
    return RunSpread(len(checked), mean, stdev, None if stdev is None else stdev / mean)


def token_weighted_tps(runs: Sequence[tuple[float, float]]) -> float:
    """Tokens/s over several runs of (tokens, seconds): all tokens / all seconds. ValueError when empty."""
    tokens = math.fsum(positive("tokens", t) for t, _ in runs)
    return positive("tokens", tokens) / math.fsum(positive("seconds", s) for _, s in runs)
