"""Forward sizes of a run, what each costs, and where the cost jumps: what CYC004 judges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log2

from traceana.facts.model import Facts, Regime
from traceana.rules._levels import MIN_STEADY, forward_ms
from traceana.rules._text import requests, times
from traceana.rules.interface import CannotTell, Threshold
from traceana.speculation.sweep_cost import Cliff as Jump
from traceana.speculation.sweep_cost import Forward, cliffs, unresolved

JUMP = Threshold(
    "jump", 1.8, "ratio of cycles", "between adjacent sizes", "rtx6kpro GLM-5.1: 2.4; its other doublings 1.2-1.5", True
)
SMALL_JUMP = Threshold(
    "small_jump", 1.4, "ratio of cycles", "the same with less confidence", "as the contrast, over flat sizes", False
)
BENDS = Threshold(
    "bends", 1.15, "ratio per doubling", "growth below a jump by which a knee announces itself", "a choice", False
)
SAME_CONTEXT = Threshold(
    "same_context", 1.5, "context / context", "a small jump is not called beyond", "attention grows with it", False
)
ONE_WINDOW = Threshold(
    "one_window", 1.15, "ratio of cycles", "a single window below a small jump may be off by", "as STB004", False
)
MAX_TOKENS = Threshold(
    "max_tokens", 2.5, "ratio of tokens", "adjacent sizes at most so far apart", "vllm-ascend #14440", True
)
CONTRAST = Threshold(
    "contrast", 1.4, "ratio", "the jump exceeds the doublings below by so much", "rtx6kpro GLM-5.1: 1.9", False
)

_GRAPH, _EAGER = 0.9, 0.1


@dataclass(frozen=True, slots=True)
class Size:
    """One forward size: tokens, its cycle or step in ms, and the level it was seen at.

    `at_most`: the level has no window without prefill, and the time is an upper bound.
    """

    tokens: int
    ms: float
    regime: Regime
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class Cliff:
    """A jump between two adjacent sizes, with the levels they were seen at."""

    below: Size
    above: Size
    seen: Jump

    @property
    def jump(self) -> float:
        """Cycle above / cycle below."""
        return self.seen.jump

    @property
    def usual(self) -> float:
        """The growth that the doublings below predict."""
        return self.seen.usual

    @property
    def small(self) -> bool:
        """True for a jump below the one that public cases show."""
        return self.jump <= JUMP.value

    @property
    def is_open(self) -> bool:
        """True when the cost bends before it jumps, at the largest size seen: a knee does the same."""
        doublings = log2(self.above.tokens / self.below.tokens)
        return self.seen.may_be_knee and self.usual > BENDS.value**doublings

    @property
    def apart(self) -> bool:
        """True when, at about the same context, nine tenths of the windows above cost more than usual below."""
        above, below = self.above.regime, self.below.regime
        if above.cycle_ms is None or (below.cycle_ms is None and not self.below.at_most):
            return False
        if above.context_tokens is not None and below.context_tokens is not None:
            longer = above.context_tokens.median / below.context_tokens.median
            if longer > SAME_CONTEXT.value:
                return False
        most = self.below.ms if below.cycle_ms is None else below.cycle_ms.high
        if below.n_steady == 1:
            most *= ONE_WINDOW.value
        return above.cycle_ms.low > most * self.usual

    @property
    def left_graphs(self) -> bool:
        """True when the forward below replayed a CUDA graph and the one above ran eager."""
        below, above = self.below.regime.graph_share, self.above.regime.graph_share
        return below is not None and above is not None and below >= _GRAPH and above <= _EAGER


def unseen(found: list[Size], jumps: list[Cliff]) -> CannotTell | None:
    """Where the cycle grows in a way that could hide a cliff: too few windows, or no size between or below."""
    one = next((cliff for cliff in jumps if cliff.above.regime.n_steady < MIN_STEADY), None)
    if one is not None:
        running = one.above.regime.running
        return CannotTell(
            f"the cycle is {times(one.jump)} as long at {running} running as at {one.below.regime.running}, in one "
            "steady window only",
            f"hold {running} running for a minute, with answers long enough for windows without prefill",
        )
    mixed = next((cliff for cliff in find_cliffs([replace(s, at_most=False) for s in found]) if _bounded(cliff)), None)
    if mixed is not None:
        running = mixed.above.regime.running
        return CannotTell(
            f"the cycle at {running} running may be {times(mixed.jump)} as long as at {mixed.below.regime.running}: "
            "all its windows hold prefills",
            f"hold {running} running for a minute, with answers long enough for windows without prefill",
        )
    knee = next((cliff for cliff in jumps if cliff.is_open), None)
    if knee is not None:
        return CannotTell(
            f"the cycle grows {times(knee.jump)} from {knee.below.tokens} to {knee.above.tokens} tokens per forward, "
            "the largest size: a cliff, or where forwards turn bound by compute",
            f"hold {2 * knee.above.regime.running} running for a minute: about the same cycle means a cliff, twice the "
            "cycle means compute",
        )
    forwards = [Forward(size.tokens, size.ms, size.at_most) for size in found]
    pair = unresolved(forwards, jump=SMALL_JUMP.value, most_apart=MAX_TOKENS.value, contrast=CONTRAST.value)
    if pair is None:
        return None
    below, above = (next(size for size in found if size.tokens == forward.tokens) for forward in pair)
    low, high = below.regime.running, above.regime.running
    growth = f"the cycle grows {times(above.ms / below.ms)} from {below.tokens} to {above.tokens} tokens per forward"
    if above.tokens / below.tokens > MAX_TOKENS.value:
        return CannotTell(
            f"{growth}, and no size between them has a steady window",
            f"hold loads between {low} and {high} running for a minute each, with answers long enough for windows "
            "without prefill",
        )
    return CannotTell(
        f"{growth}, and no smaller size shows how it grows below",
        f"hold half of {requests(low)} for a minute as well" if low > 1 else "the same loads with fewer draft tokens",
    )


def _bounded(cliff: Cliff) -> bool:
    return not cliff.above.regime.n_steady


def sizes(facts: Facts) -> list[Size]:
    """Forward sizes by tokens, from steady windows or bounded by others; of two levels the one with more windows."""
    best: dict[int, Size] = {}
    for regime in facts.regimes:
        cost = forward_ms(regime) if regime.n_steady else regime.cycle_bound_ms
        if regime.tokens_per_forward is None or not cost:
            continue
        known = best.get(regime.tokens_per_forward)
        if known is None or regime.n_steady > known.regime.n_steady:
            best[regime.tokens_per_forward] = Size(regime.tokens_per_forward, cost, regime, not regime.n_steady)
    return [best[tokens] for tokens in sorted(best)]


def find_cliffs(found: list[Size]) -> list[Cliff]:
    """Adjacent sizes whose cycle jumps, stays up at all larger sizes, and grew far less per doubling below."""
    by_tokens = {size.tokens: size for size in found}
    jumps = cliffs(
        [Forward(size.tokens, size.ms, size.at_most) for size in found],
        jump=SMALL_JUMP.value,
        most_apart=MAX_TOKENS.value,
        contrast=CONTRAST.value,
    )
    return [Cliff(by_tokens[int(c.below.tokens)], by_tokens[int(c.above.tokens)], c) for c in jumps]
