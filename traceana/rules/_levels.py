"""Load levels of a run and its baseline side by side, and the gates several rules share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from traceana.facts.model import Facts, Provenance, Regime
from traceana.rules.interface import CannotTell, Explains, NotApplicable

#: several rules answer with these, word for word, so that a report can list them once
NO_SPECULATION = NotApplicable("this run does not speculate")
SPECULATION_UNKNOWN = CannotTell(
    "the log shows neither speculative settings nor acceptance figures",
    "keep the start-up lines (SGLang server_args=, vLLM 'Initializing a V1 LLM engine') and the stats lines in the log",
)
NO_WINDOWS = NotApplicable("the log holds no decode window")
NO_BASELINE = CannotTell(
    "a step without speculation is not known: no baseline was given",
    "run the same load with speculation off and pass its log as --baseline",
)
BASELINE_SPECULATES = CannotTell(
    "the baseline speculates too, so it shows no step without speculation",
    "run the same load with speculation off and pass that log as --baseline",
)

#: windows a load level needs before its numbers are compared with another run's
MIN_STEADY = 2


def gate(facts: Facts) -> NotApplicable | CannotTell | None:
    """What a rule about drafting answers before it looks: nothing to look at, cannot tell, or None to go on."""
    active = facts.speculation.active.value
    if active is False:
        return NO_SPECULATION
    if facts.windows.n == 0 and facts.acceptance.n_samples == 0:
        return NO_WINDOWS
    return SPECULATION_UNKNOWN if active is None and facts.acceptance.n_samples == 0 else None


def drafting(facts: Facts) -> bool:
    """True when the log shows that the run speculates."""
    return facts.speculation.active.value is not False and not plain(facts)


def plain(facts: Facts) -> bool:
    """True when the run is known not to speculate, or nothing in it says that it does."""
    return facts.speculation.active.value is not True and facts.acceptance.n_samples == 0


def tokens_per_cycle(regime: Regime) -> float:
    """Tokens per request and cycle (or step) of a level; 1 for a run without speculation, where nothing is counted."""
    spread = regime.tokens_per_cycle or regime.accept_length
    return 1.0 if spread is None else spread.mean


def forward_ms(regime: Regime) -> float | None:
    """The level's cycle (or step) in ms, else 1000 * tokens_per_cycle * running / gen_tps (docs/arithmetic.md)."""
    if regime.cycle_ms is not None:
        return regime.cycle_ms.median
    if regime.gen_tps.median <= 0:
        return None
    return 1000.0 * tokens_per_cycle(regime) * regime.running / regime.gen_tps.median


def token_ms(running: int, gen_tps: float) -> float:
    """Time per token of one request in ms, from the throughput of the whole batch: 1000 * running / gen_tps."""
    return 1000.0 * running / gen_tps


@dataclass(frozen=True, slots=True)
class Pair:
    """One load level seen in both runs. Speed-ups are ratios of gen_tps; `low` ... `high` is what the windows allow."""

    run: Regime
    base: Regime
    cycle_ms: float
    step_ms: float
    speedup: float
    low: float
    high: float

    @property
    def running(self) -> int:
        """Running requests of the level."""
        return self.run.running

    @property
    def ratio(self) -> float:
        """Cycle / step: the tokens per cycle at which speculation breaks even (docs/arithmetic.md)."""
        return self.cycle_ms / self.step_ms

    @property
    def tokens(self) -> float:
        """Tokens per request and cycle of the run."""
        return tokens_per_cycle(self.run)

    @property
    def enough(self) -> bool:
        """True when both runs have the windows a comparison needs."""
        return min(self.run.n_steady, self.base.n_steady) >= MIN_STEADY


def pairs(facts: Facts, baseline: Facts) -> tuple[Pair, ...]:
    """The load levels with steady windows in both runs, by load."""
    found: list[Pair] = []
    for run in facts.regimes:
        base = baseline.regime(run.running)
        if base is None or not run.n_steady or not base.n_steady:
            continue
        cycle, step = forward_ms(run), forward_ms(base)
        t, t0 = run.gen_tps, base.gen_tps
        if not cycle or not step or min(t.low, t0.low) <= 0:
            continue
        found.append(Pair(run, base, cycle, step, t.median / t0.median, t.low / t0.high, t.high / t0.low))
    return tuple(found)


def loses(pair: Pair) -> bool:
    """True when every throughput seen with speculation lies below every one seen without (10th to 90th percentile)."""
    return pair.enough and pair.high < 1.0


def pays(pair: Pair) -> bool:
    """True when every throughput seen with speculation lies above every one seen without."""
    return pair.enough and pair.low > 1.0


def loads(found: Iterable[Pair]) -> list[int]:
    """The loads of some levels, ascending."""
    return sorted(pair.running for pair in found)


def loss(facts: Facts, baseline: Facts | None) -> Explains | None:
    """What speculation costs per token where it loses most against the baseline, or None when it loses nowhere."""
    if baseline is None or not plain(baseline):
        return None
    losing = [pair for pair in pairs(facts, baseline) if loses(pair)]
    if not losing:
        return None
    worst = min(losing, key=lambda pair: pair.speedup)
    r, t, t0 = worst.running, worst.run.gen_tps, worst.base.gen_tps
    return Explains(
        max(0.0, token_ms(r, t.high) - token_ms(r, t0.low)),
        token_ms(r, t.low) - token_ms(r, t0.high),
        Provenance.DERIVED,
        f"time per token of one request at {r} running, with speculation minus without, over "
        f"{worst.run.n_steady} and {worst.base.n_steady} steady windows",
    )


#: context buckets whose medians differ by this factor make context the reason for a spread at constant load
_CONTEXT_RATIO = 1.2
_CONTEXT_REST = 0.1


def context_moves_cycle(facts: Facts) -> tuple[float, float] | None:
    """Shortest and longest cycle (ms) over context buckets, when context length and not chance moves the cycle."""
    cycles = [r.cycle_ms for r in facts.context_regimes if r.cycle_ms is not None and r.n_steady >= MIN_STEADY]
    if len(cycles) < 2:
        return None
    medians = [c.median for c in cycles]
    low, high = min(medians), max(medians)
    if low <= 0 or high / low < _CONTEXT_RATIO:
        return None
    within = max((c.stdev or 0.0) / c.mean for c in cycles if c.mean > 0)
    return (low, high) if within <= _CONTEXT_REST else None
