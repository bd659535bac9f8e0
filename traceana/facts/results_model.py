"""What benchmark results among the inputs say, as plain data: a part of the diagnosis document.

Absent knowledge is None. Times are ms, throughputs tokens/s of all requests together.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Evidence
from traceana.facts.sweep_model import Sweep, SweepSide


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One measured load of one set-up. `load` in a word: `8`, `20/s`, the row's own words, or `-`."""

    series: str | None
    context_tokens: float | None
    load: str
    side: SweepSide


@dataclass(frozen=True, slots=True)
class SetUpContrast:
    """Two set-ups at one load whose speed differs most: how much of it is acceptance, how much the cycle.

    `tps_ratio` is fast / slow and equals `acceptance_ratio` x `cycle_ratio` x `rest_ratio`: tokens per cycle fast /
    slow, cycle slow / fast, and what the requests decoding at once, waiting or rounding leave.
    """

    fast: ResultRow
    slow: ResultRow
    tps_ratio: float
    acceptance_ratio: float
    cycle_ratio: float
    rest_ratio: float


@dataclass(frozen=True, slots=True)
class OddOneOut:
    """A set-up that accepts far less of its drafts than the others at the same load."""

    row: ResultRow
    what: str  # accept rate | accept length
    value: float
    others: tuple[float, float]  # lowest and highest of the others
    others_tps: tuple[float, float] | None
    set_ups: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """All of it. `speculation`: pays | loses | even | mixed | unknown.

    `sweep`: with against without speculation, where the inputs hold both; `no_sweep` says why not, and then `rows` has
    what was measured.
    """

    verdict: str
    speculation: str
    sweep: Sweep | None
    no_sweep: str | None
    rows: tuple[ResultRow, ...] = ()
    contrast: SetUpContrast | None = None
    odd: OddOneOut | None = None
