"""A sweep over load, as plain data: the document that `traceana sweep --format json` writes (docs/cli.md).

Absent knowledge is None. Times are ms, throughputs tokens/s of all requests together, ratios are with / without
speculation.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from traceana.facts.model import Evidence, InputFacts

SCHEMA = "traceana/sweep/1"


@dataclass(frozen=True, slots=True)
class SetUp:
    """Who was measured: the run with speculation, or the one without. None where the inputs do not say."""

    engine: str | None = None
    version: str | None = None
    model: str | None = None
    method: str | None = None
    inputs: tuple[InputFacts, ...] = ()
    left_out: str | None = None  # what of the inputs does not belong to the run, in words


@dataclass(frozen=True, slots=True)
class SweepSide:
    """One set-up at one load.

    `provenance` says measured, derived or assumed for each figure that is known. `queueing` says, where a good part of
    the requests in flight waits instead of decoding, how many; the point is then in no cost curve.
    """

    source: str  # bench, table or log
    tool: str
    draft: str | None  # "k=3" for a chain, "3/4/16" (steps/topk/tokens) for a tree; None without speculation
    k: int | None
    gen_tps: float | None
    user_tps: float | None
    tpot_ms: float | None
    ttft_ms: float | None
    itl_ms: float | None
    latency_kind: str
    accept_length: float | None
    accept_rate: float | None  # accepted / drafted
    accept_length_means: str | None  # what the accept length is, or why there is none
    tokens_per_cycle: float | None
    cycle_ms: float | None  # step without speculation
    decoding: float | None  # requests decoding at once
    tokens_per_forward: float | None
    efficiency: float | None  # throughput / what the lowest load would give at this load
    runs: int
    runs_tps: tuple[float, ...]
    requests: int | None
    per_position: tuple[float, ...] | None
    queueing: str | None
    notes: tuple[str, ...]
    provenance: dict[str, str]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class SweepRatio:
    """A ratio with the range its noise allows.

    `basis` says whose spread that is: runs (repeats), parts (requests or windows of single runs, and 5 % from run to
    run assumed), assumed (no spread known: 11 % from run to run), none. `runs_needed` is how many runs of each would
    settle an inconclusive ratio; None where it is conclusive or hopeless.
    """

    value: float
    low: float | None
    high: float | None
    basis: str
    verdict: str  # pays | loses | even | inconclusive
    runs_needed: int | None = None


@dataclass(frozen=True, slots=True)
class SweepLevel:
    """One load: with speculation and without. `winner` goes by the figures alone; `ratio.verdict` knows their noise.

    `user_ratio` is the ratio of time per token (without / with): what one request gains while it decodes.
    `break_even` is cycle / step: tokens per cycle at which speculation earns its cycle.
    """

    load: float | None
    request_rate: float | None
    output_length: float | None
    label: str
    spec: SweepSide
    baseline: SweepSide
    ratio: SweepRatio | None
    user_ratio: SweepRatio | None
    winner: str | None  # speculation | baseline | even
    break_even: float | None
    notes: tuple[str, ...] = ()

    @property
    def queues(self) -> bool:
        """True where either side queues rather than computes: no verdict on drafting."""
        return bool(self.spec.queueing or self.baseline.queueing)


@dataclass(frozen=True, slots=True)
class SweepCrossing:
    """The load at which the winner changes; between two measured loads. `cliff`: a step-cost cliff lies in between.

    `low` ... `high` is where noise may put it, None on a side the measured loads leave open; `known`: the noise is.
    """

    at: float
    after: float
    before: float
    rises: bool
    low: float | None
    high: float | None
    known: bool
    cliff: bool


@dataclass(frozen=True, slots=True)
class SweepScaling:
    """How one set-up's throughput grows with load; by saturation no higher load adds more than 5 %."""

    ceiling_tps: float
    ceiling_at: float
    saturates_at: float | None
    gain: float


@dataclass(frozen=True, slots=True)
class StepCliff:
    """A jump of the cost of a forward between two measured sizes, in the run with speculation or without."""

    of: str  # speculation | baseline
    below_tokens: float
    above_tokens: float
    below_ms: float
    above_ms: float
    below_load: float
    above_load: float
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class PlainNeed:
    """Accept length that k drafts need at a load, foretold from steps without speculation; see plain_break_even."""

    load: float
    k: int
    accept_length: float
    between: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class DraftRow:
    """One draft setting at one load. Growths are over the next smaller k of the same load."""

    load: float | None
    draft: str | None
    k: int | None
    gen_tps: float | None
    ratio: float | None
    accept_length: float | None
    cycle_ms: float | None
    accept_growth: float | None = None
    cycle_growth: float | None = None
    modelled: bool = False  # from the step's cost by size and acceptance per position, not measured
    best: bool = False


@dataclass(frozen=True, slots=True)
class LoadSpan:
    """Loads `first` to `last` and what to use there: `off`, a draft setting (`k=3`), or `on` where it has no name."""

    first: int
    last: int
    use: str
    k: int | None  # draft tokens; 0 where off, None where not known
    measured: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SweepAdvice:
    """What to set. `setting` is text for the engine, None where it has no setting for it (then `caveats` say so)."""

    spans: tuple[LoadSpan, ...] = ()
    words: str = ""
    setting: str | None = None
    where: str | None = None  # where the setting goes
    caveats: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlainLevel:
    """One load of a sweep without speculation alone."""

    load: float | None
    label: str
    side: SweepSide


@dataclass(frozen=True, slots=True)
class SweepBlock:
    """One pair of set-ups at one context length."""

    name: str
    series: str | None
    baseline_series: str | None
    context_tokens: float | None
    verdict: str
    levels: tuple[SweepLevel, ...] = ()
    crossings: tuple[SweepCrossing, ...] = ()
    scaling: SweepScaling | None = None
    baseline_scaling: SweepScaling | None = None
    ceiling_ratio: float | None = None  # higher ceiling / lower one
    cliffs: tuple[StepCliff, ...] = ()
    plain: tuple[PlainNeed, ...] = ()
    drafts: tuple[DraftRow, ...] = ()  # where several draft settings were measured, or a better one is foretold
    advice: SweepAdvice = field(default_factory=SweepAdvice)
    plain_levels: tuple[PlainLevel, ...] = ()  # a sweep without speculation alone
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """The whole answer of `traceana sweep`."""

    verdict: str
    spec: SetUp | None
    baseline: SetUp
    blocks: tuple[SweepBlock, ...]
    notes: tuple[str, ...] = ()
    schema: str = SCHEMA
