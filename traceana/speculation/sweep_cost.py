"""What a forward costs by its number of tokens: cliffs, and the break-even that a sweep without a drafter foretells.

Nothing is extrapolated: a size outside the measured ones, or between two that lie too far apart, has no cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from traceana.speculation.common import positive

#: a measured size this close to the asked one is that size
_SAME_SIZE = 0.02
#: two neighbouring sizes may be so far apart for a size between them to be interpolated
_MOST_APART = 2.5
_DOUBLING = 1.8  # sizes closer than this are not used to judge growth: noise would count as growth
_STAYS = 0.8  # larger sizes cost at least this share of the size above the cliff, or it was a slow level
_FLAT = 0.5  # a jump ends where the next tokens cost less than this share of what those of the jump cost
_MOST_GROWTH = 2.0  # of a forward of twice the tokens: two forwards of the half would do the same work


@dataclass(frozen=True, slots=True)
class Forward:
    """A measured forward: its tokens (of all requests) and its time. `at_most`: the time holds other work as well."""

    tokens: float
    ms: float
    at_most: bool = False


@dataclass(frozen=True, slots=True)
class Cliff:
    """A jump of the cost between two adjacent sizes; `usual` is the growth that the doublings below it predict.

    `flattens`: whether the tokens beyond it cost far less than those of the jump; None where no size shows it. A
    forward that turns compute bound does not flatten: once its tokens cost time, all further ones cost as much.
    """

    below: Forward
    above: Forward
    usual: float
    flattens: bool | None = None

    @property
    def jump(self) -> float:
        """Cost above / cost below."""
        return self.above.ms / self.below.ms

    @property
    def may_be_knee(self) -> bool:
        """True when a forward that turns compute bound would look the same: no more time per token, no end in sight."""
        return self.jump <= self.above.tokens / self.below.tokens and not self.flattens


def cliffs(
    forwards: Sequence[Forward], *, jump: float = 1.8, most_apart: float = _MOST_APART, contrast: float = 1.4
) -> tuple[Cliff, ...]:
    """Adjacent sizes whose cost jumps by more than `jump`, stays up at all larger sizes, and grew far less below.

    `forwards` are sorted by tokens. Sizes more than `most_apart` apart show no cliff; the jump exceeds what the
    doublings below predict by `contrast`. A jump after which the cost goes on growing as steeply, and by no more than
    the tokens, is the knee where a forward turns compute bound, and no cliff.
    """
    found = []
    for i, (below, above) in enumerate(pairwise(forwards)):
        per_doubling = _per_doubling(forwards[: i + 1], most_apart)
        apart = above.tokens / below.tokens
        if per_doubling is None or apart > most_apart or above.at_most:
            continue
        cliff = Cliff(below, above, per_doubling ** math.log2(apart), _flattens(below, above, forwards[i + 2 :]))
        stays = all(forward.ms >= _STAYS * above.ms for forward in forwards[i + 2 :])
        knee = cliff.may_be_knee and cliff.flattens is False
        if cliff.jump > jump and cliff.jump / cliff.usual >= contrast and stays and not knee:
            found.append(cliff)
    return tuple(found)


def unresolved(
    forwards: Sequence[Forward], *, jump: float, most_apart: float = _MOST_APART, contrast: float = 1.4
) -> tuple[Forward, Forward] | None:
    """The neighbouring sizes between which the cost grows most, where that could be a cliff and cannot be called one.

    Either they lie more than `most_apart` apart, or no doubling below them shows what growth is usual: then those above
    are asked. None where no pair grows by more than `jump`, and by `contrast` more than usual.
    """
    found = []
    known = [f for f in forwards if not f.at_most]
    for i, (below, above) in enumerate(pairwise(known)):
        usual, apart = _per_doubling(known[: i + 1], most_apart), above.tokens / below.tokens
        growth = above.ms / below.ms
        if usual is not None and apart <= most_apart:
            continue
        usual = usual or _per_doubling(known[i + 1 :], most_apart)
        if usual is not None and growth < contrast * usual ** math.log2(apart):
            continue
        if growth > jump:
            found.append((growth, below, above))
    return max(found, key=lambda pair: pair[0])[1:] if found else None


def _flattens(below: Forward, above: Forward, beyond: Sequence[Forward]) -> bool | None:
    steep = (above.ms - below.ms) / (above.tokens - below.tokens)
    for forward in beyond:
        if forward.tokens / above.tokens < _DOUBLING:
            continue
        flat = (forward.ms - above.ms) / (forward.tokens - above.tokens) < _FLAT * steep
        return True if flat else None if forward.at_most else False
    return None


def _per_doubling(below: Sequence[Forward], most_apart: float = _MOST_APART) -> float | None:
    """The largest growth of the cost per doubling of tokens among these sizes; None when none are a doubling apart.

    Of sizes more than `most_apart` apart all growth may lie within one doubling.
    """
    growths = []
    known = None
    for forward in below:
        if known is not None and forward.tokens / known.tokens >= _DOUBLING:
            apart, growth = forward.tokens / known.tokens, forward.ms / known.ms
            growths.append(growth ** (1.0 / math.log2(apart)) if apart <= most_apart else min(growth, _MOST_GROWTH))
        known = known if forward.at_most else forward
    return max(*growths, 1.0) if growths else None


@dataclass(frozen=True, slots=True)
class Cost:
    """Time of a forward of some size. `between` are the measured sizes it was interpolated from; None: measured."""

    ms: float
    between: tuple[float, float] | None = None


class CostCurve:
    """Measured forwards by size; where a size was measured twice, the mean."""

    def __init__(self, forwards: Sequence[Forward]) -> None:
        by_size: dict[float, list[float]] = {}
        for forward in forwards:
            by_size.setdefault(positive("tokens", forward.tokens), []).append(positive("time of a forward", forward.ms))
        self.forwards = tuple(Forward(size, math.fsum(ms) / len(ms)) for size, ms in sorted(by_size.items()))

    def at(self, tokens: float) -> Cost | None:
        """The cost at a size: measured, or on the line between neighbours (both in logarithms); None elsewhere."""
        wanted = positive("tokens", tokens)
        nearest = min(self.forwards, key=lambda f: abs(math.log(f.tokens / wanted)), default=None)
        if nearest is None:
            return None
        if abs(nearest.tokens / wanted - 1.0) <= _SAME_SIZE:
            return Cost(nearest.ms)
        for a, b in pairwise(self.forwards):
            if a.tokens < wanted < b.tokens and b.tokens / a.tokens <= _MOST_APART:
                share = math.log(wanted / a.tokens) / math.log(b.tokens / a.tokens)
                return Cost(a.ms * (b.ms / a.ms) ** share, (a.tokens, b.tokens))
        return None


@dataclass(frozen=True, slots=True)
class PlainBreakEven:
    """Accept length that k drafts for `batch` requests need at least: t((k + 1) x batch) / t(batch).

    `between` as in Cost, of the larger forward: interpolated. The drafter's own time comes on top.
    """

    batch: float
    k: int
    accept_length: float
    between: tuple[float, float] | None = None


def plain_break_even(curve: CostCurve, batches: Sequence[float], ks: Sequence[int]) -> tuple[PlainBreakEven, ...]:
    """Every (batch, k) whose two forwards are known; a batch must be measured itself. By batch, then k.

    A verify forward of k + 1 tokens for each of B requests is taken to cost as much as a step of (k + 1) x B requests:
    the same rows in every matrix product, fewer KV caches to read. ValueError for a k below 1.
    """
    if any(k < 1 for k in ks):
        raise ValueError(f"a draft has at least 1 token, not {min(ks)}")
    found = []
    for batch in sorted(set(batches)):
        step = curve.at(batch)
        if step is None or step.between is not None:
            continue
        for k in sorted(set(ks)):
            verify = curve.at((k + 1) * batch)
            if verify is not None:
                found.append(PlainBreakEven(batch, k, verify.ms / step.ms, verify.between))
    return tuple(found)
