"""Which part of a change is acceptance, which is the cycle: decompositions whose parts add up exactly.

Source of every formula: docs/arithmetic.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from traceana.speculation.common import accept_length_of, not_negative, positive

_GRID_BITS = 45  # parts are multiples of 2^-45 of the largest figure: 8 bits to spare for sums of doubles


@dataclass(frozen=True, slots=True)
class LogParts:
    """ln(T1 / T0), split. acceptance + cycle + batch + unexplained == total, in that order, to the last digit.

    Negative parts slow down. `unexplained` is 0 where the throughput follows from the other figures, and is what
    prefill, idle time and rounding add where it was measured by itself.
    """

    acceptance: float
    cycle: float
    batch: float
    unexplained: float
    total: float

    @property
    def throughput_factor(self) -> float:
        """T1 / T0."""
        return math.exp(self.total)

    @property
    def acceptance_factor(self) -> float:
        """E1 / E0: by how much acceptance alone would have changed the throughput."""
        return math.exp(self.acceptance)

    @property
    def cycle_factor(self) -> float:
        """C0 / C1: by how much the cycle alone would have changed the throughput."""
        return math.exp(self.cycle)


def log_ratio(
    tokens_per_cycle: tuple[float, float],
    cycle_ms: tuple[float, float],
    running: tuple[float, float] = (1.0, 1.0),
    gen_tps: tuple[float, float] | None = None,
) -> LogParts:
    """ln(T1/T0) = ln(E1/E0) - ln(C1/C0) + ln(R1/R0), each argument being (before, after).

    Give `gen_tps` (tokens/s of the whole batch) where it was measured apart from the cycle: what the three parts leave
    over is then `unexplained`. ValueError when a figure is not positive.
    """
    acceptance = _log_of("tokens per cycle", tokens_per_cycle)
    cycle = 0.0 - _log_of("cycle", cycle_ms)
    batch = _log_of("running requests", running)
    explained = acceptance + cycle + batch
    unexplained = 0.0 if gen_tps is None else _log_of("generation throughput", gen_tps) - explained
    return LogParts(acceptance, cycle, batch, unexplained, explained + unexplained)


def _log_of(name: str, pair: tuple[float, float]) -> float:
    """ln(after / before)."""
    before, after = (positive(name, value) for value in pair)
    return math.log(after / before)


@dataclass(frozen=True, slots=True)
class TokenTimeParts:
    """Change of ms per token of one request, by cause. acceptance_ms + every phase == difference_ms, in any order.

    Positive parts cost time. All figures are rounded to one binary grid, finer than 1e-13 of the largest, on which
    doubles add without error.
    """

    before_ms: float
    after_ms: float
    difference_ms: float
    acceptance_ms: float
    phases: tuple[tuple[str, float], ...]

    def self_check(self) -> None:
        """AssertionError unless the parts add up to the difference and the difference to the two ends."""
        total = self.acceptance_ms + sum(ms for _, ms in self.phases)
        if total != self.difference_ms or self.before_ms + self.difference_ms != self.after_ms:
            raise AssertionError(f"parts add up to {total!r}, not {self.difference_ms!r}")


def shapley_ms_per_token(
    before: Mapping[str, float],
    after: Mapping[str, float],
    tokens_per_cycle_before: float,
    tokens_per_cycle_after: float,
) -> TokenTimeParts:
    """Shapley values of ms per token = (sum of the cycle's phases in ms) / E over {E, every phase}.

    Each cause gets its effect averaged over all orders of changing one after the other. For this sum over a quotient
    that is, exactly: a phase gets its change times the mean of 1/E before and after, acceptance gets the change of 1/E
    times the mean cycle. ValueError when the two runs name different phases (a phase not measured is unknown, not 0),
    a phase is negative or E below 1. Source: docs/arithmetic.md; Shapley 1953, "A value for n-person games".
    """
    if set(before) != set(after) or not before:
        raise ValueError(f"both runs need the same phases, not {sorted(before)} and {sorted(after)}")
    old = {name: Fraction(not_negative(f"phase {name}", ms)) for name, ms in before.items()}
    new = {name: Fraction(not_negative(f"phase {name}", after[name])) for name in before}
    per_old = 1 / Fraction(accept_length_of(tokens_per_cycle_before))
    per_new = 1 / Fraction(accept_length_of(tokens_per_cycle_after))
    old_cycle, new_cycle = sum(old.values(), Fraction()), sum(new.values(), Fraction())
    parts = [(per_new - per_old) * (old_cycle + new_cycle) / 2]
    parts += [(new[name] - old[name]) * (per_old + per_new) / 2 for name in before]
    ends = (old_cycle * per_old, new_cycle * per_new)
    grid = _grid(max(abs(value) for value in (*parts, *ends)))
    first, change = round(ends[0] / grid), round((ends[1] - ends[0]) / grid)
    acceptance, *phases = (float(unit * grid) for unit in _round_to_sum([part / grid for part in parts], change))
    return TokenTimeParts(
        before_ms=float(first * grid),
        after_ms=float((first + change) * grid),
        difference_ms=float(change * grid),
        acceptance_ms=acceptance,
        phases=tuple(zip(before, phases, strict=True)),
    )


def _grid(largest: Fraction) -> Fraction:
    """The step of the common grid for figures up to `largest`."""
    exponent = math.frexp(float(largest))[1]
    return Fraction(2) ** (exponent - _GRID_BITS)


def _round_to_sum(values: list[Fraction], total: int) -> list[int]:
    """`values` rounded to whole numbers that add up to `total`, those with the largest rounding error giving way.

    `total` is the rounded sum of `values`, so a value that is whole already, as a part without change, stays as it is.
    """
    rounded = [round(value) for value in values]
    missing = total - sum(rounded)
    sign = 1 if missing > 0 else -1
    order = sorted(range(len(values)), key=lambda i: sign * (rounded[i] - values[i]))
    for i in order[: abs(missing)]:
        rounded[i] += sign
    return rounded


def printed_sum(parts: Sequence[float], decimals: int) -> tuple[str, ...]:
    """The parts, then their sum, with so many decimals each, so that the printed parts add up to the printed sum.

    The sum is rounded as usual; a part is off by less than one unit of its last digit. ValueError unless finite.
    """
    if not all(map(math.isfinite, parts)):
        raise ValueError("only finite parts add up")
    scale = 10**decimals
    exact = [Fraction(part) * scale for part in parts]
    total = round(sum(exact, Fraction()))
    return tuple(_decimal(unit, decimals) for unit in (*_round_to_sum(exact, total), total))


def _decimal(units: int, decimals: int) -> str:
    """A whole number of last digits as a decimal number."""
    whole, rest = divmod(abs(units), 10**decimals)
    return ("-" if units < 0 else "") + (f"{whole}.{rest:0{decimals}d}" if decimals else f"{whole}")


@dataclass(frozen=True, slots=True)
class VarianceShares:
    """Shares of the variance of ln(gen_tps): acceptance + cycle + other = 1. A share is negative when it offsets.

    `other` is what ln(tokens per cycle) and ln(cycle) do not carry; 0 when the cycle was derived from the throughput.
    """

    n: int
    sd_ln_tps: float
    acceptance: float
    cycle: float
    other: float


def variance_shares(
    ln_tps: Sequence[float],
    ln_tokens_per_cycle: Sequence[float],
    ln_cycle_ms: Sequence[float],
    groups: Sequence[Hashable] | None = None,
) -> VarianceShares | None:
    """What moved the throughput: cov(ln E, ln T) / var(ln T) and -cov(ln C, ln T) / var(ln T) over windows.

    With `groups` (the load of each window) every series is centred within its group, so that the load is not counted.
    None when fewer than two windows of one group remain or the throughput does not move. ValueError when lengths differ
    or a value is not finite. Beware: rounding of the printed accept length pushes both shares apart.
    """
    labels = groups if groups is not None else [None] * len(ln_tps)
    if len({len(ln_tps), len(ln_tokens_per_cycle), len(ln_cycle_ms), len(labels)}) != 1:
        raise ValueError("the series differ in length")
    if not all(map(math.isfinite, (*ln_tps, *ln_tokens_per_cycle, *ln_cycle_ms))):
        raise ValueError("every logarithm must be finite")
    tps, tokens, cycle = (_centred(series, labels) for series in (ln_tps, ln_tokens_per_cycle, ln_cycle_ms))
    freedom = len(tps) - len(set(labels))
    squares = math.fsum(x * x for x in tps)
    if freedom < 1 or squares <= _ROUNDING_SQUARES * len(tps):
        return None
    acceptance = math.fsum(x * y for x, y in zip(tokens, tps, strict=True)) / squares
    cycles = -math.fsum(x * y for x, y in zip(cycle, tps, strict=True)) / squares
    other = 1.0 - acceptance - cycles
    return VarianceShares(len(tps), math.sqrt(squares / freedom), acceptance, cycles, other)


_ROUNDING_SQUARES = 1e-24  # (1e-12)^2: logarithms that differ by less differ by rounding only


def _centred(series: Sequence[float], labels: Sequence[Hashable]) -> list[float]:
    """Each value minus the mean of its group."""
    by_label: defaultdict[Hashable, list[float]] = defaultdict(list)
    for label, value in zip(labels, series, strict=True):
        by_label[label].append(value)
    means = {label: math.fsum(values) / len(values) for label, values in by_label.items()}
    return [value - means[label] for label, value in zip(labels, series, strict=True)]
