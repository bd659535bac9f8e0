"""What a change would do to throughput: ranges, with the model and the inputs behind each, or the reason for no number.

`T' / T = (E' / E) x (C / C')` (docs/arithmetic.md): a change acts on tokens per cycle E, on the cycle C, or both.
What is not known becomes the width of the range, never a point in its middle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A range, low <= high."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"a range from {self.low} to {self.high}")


def exactly(value: float) -> Span:
    """A range of one value."""
    return Span(value, value)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does: E' / E and C' in ms. `model` says in words by which reasoning."""

    accept_ratio: Span
    cycle_ms: Span
    model: str


def speedup(effect: Effect, cycle_ms: float) -> Span:
    """`T' / T` of an effect on a cycle that takes `cycle_ms` now."""
    return Span(
        effect.accept_ratio.low * cycle_ms / effect.cycle_ms.high,
        effect.accept_ratio.high * cycle_ms / effect.cycle_ms.low,
    )


def other_accept_length(now: float, then: float, cycle_ms: float) -> Effect:
    """The same cycle emits `then` instead of `now` tokens. Raises ValueError below 1."""
    if not (now >= 1 and then >= 1):
        raise ValueError("an accept length counts the bonus token and is never below 1")
    return Effect(exactly(then / now), exactly(cycle_ms), "the cycle's length does not depend on what is accepted")


def fewer_drafts(
    *,
    k: int,
    fewer: int,
    tokens_per_cycle: float,
    cycle_ms: float,
    per_position: Sequence[float] | None = None,
    coverage: float = 1.0,
    draft_ms: float | None = None,
    verify_ms: float | None = None,
    step_ms: float | None = None,
) -> Effect | None:
    """`fewer` instead of `k` drafts per cycle; None where nothing tells what the cycle would save.

    Accepted tokens: the measured rates of the first positions; without them at least their proportional share (rates
    never rise with the position) and at most all that fit. Cycle: the draft's time goes in proportion, verify stays as
    it is or shrinks at most in proportion to its tokens; without phase times the part above the baseline step goes in
    proportion or not at all. Raises ValueError unless 1 <= fewer < k.
    """
    if not 1 <= fewer < k:
        raise ValueError(f"{fewer} drafts are not fewer than {k}")
    extra = tokens_per_cycle - 1
    if per_position is not None and len(per_position) >= k and sum(per_position[:k]) > 0:
        kept = exactly(extra * sum(per_position[:fewer]) / sum(per_position[:k]))
        earned = "acceptance of the first positions as measured"
    else:
        kept = Span(extra * fewer / k, min(extra, coverage * fewer))
        earned = "acceptance per position not known: at least its proportional share, at most all that fits"
    ratio = Span((1 + kept.low) / tokens_per_cycle, (1 + kept.high) / tokens_per_cycle)
    if draft_ms is not None:
        high = cycle_ms - draft_ms * (1 - fewer / k)
        low = high - (0.0 if verify_ms is None else verify_ms * (k - fewer) / (k + 1))
        cost = "draft time in proportion to the drafts; verify unchanged, or less by its tokens"
    elif step_ms is not None and step_ms < cycle_ms:
        high, low = cycle_ms, step_ms + (cycle_ms - step_ms) * fewer / k
        cost = "what the cycle takes beyond the baseline step stays, or goes in proportion to the drafts"
    else:
        return None
    floor = max(low, step_ms or 0.0, 1e-6)
    return Effect(ratio, Span(min(floor, high), high), f"{earned}; {cost}")


def saved(cycle_ms: float, most_ms: float, model: str, least_ms: float = 0.0) -> Effect | None:
    """The cycle shorter by `least_ms` to `most_ms`; None when that is nothing, or more than there is."""
    if not 0 < most_ms < cycle_ms or not 0 <= least_ms <= most_ms:
        return None
    return Effect(exactly(1.0), Span(cycle_ms - most_ms, cycle_ms - least_ms), model)
