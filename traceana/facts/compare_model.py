"""What a comparison of runs finds: plain data, and at once what the JSON document (schema traceana/compare/1) holds.

`before` is always the first side, `after` the other one. Ratios are after / before. Absent knowledge is None.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.whatif_model import Score


@dataclass(frozen=True, slots=True)
class SideFinding:
    """A finding of one side's own diagnosis."""

    code: str
    title: str
    severity: str
    confidence: str


@dataclass(frozen=True, slots=True)
class SideInfo:
    """One side: who ran, and the inputs of each of its runs (repeats within one file are no separate runs here)."""

    name: str
    paths: tuple[tuple[str, ...], ...]
    engine: str | None
    version: str | None
    model: str | None
    speculation: str  # "eagle3 k=3", "no speculation", "not known"
    notes: tuple[str, ...] = ()  # what was left out or looks odd in its inputs
    findings: tuple[SideFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure on both sides. `answer`: higher, lower, same or inconclusive; `basis`: runs, parts, assumed or none.

    `low` and `high` bound the ratio with 95 % confidence; None where no spread is known.
    """

    name: str
    unit: str
    before: float | None
    after: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    basis: str = "none"
    answer: str = "inconclusive"


@dataclass(frozen=True, slots=True)
class Factors:
    """The throughput's ratio as a product: acceptance x cycle x batch x unexplained == throughput, on logarithms.

    Each is the factor by which that part alone would have changed the throughput.
    """

    acceptance: float
    cycle: float
    batch: float
    unexplained: float
    throughput: float
    shares: tuple[float, float, float, float] | None  # of ln(throughput), in this order; None when it did not move


@dataclass(frozen=True, slots=True)
class WaterfallPart:
    """One part of the difference. `printed` are the rounded parts: they add up to the printed difference."""

    name: str
    ms: float
    printed: str
    before_ms: float | None = None  # of one cycle; None for acceptance
    after_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Waterfall:
    """ms per token of one request (or per cycle, without acceptance), split by cause; the parts add up exactly."""

    per: str  # "token" or "cycle"
    before_ms: float
    after_ms: float
    difference_ms: float
    printed: tuple[str, str, str]  # before, after, difference
    parts: tuple[WaterfallPart, ...]
    source: str  # what the phases were read from
    why_not_split: str | None = None  # why the cycle is one part


@dataclass(frozen=True, slots=True)
class Repeats:
    """Spread of repeated runs of one side: of its throughput, in tokens/s. `single` when it was measured once."""

    side: str
    runs: tuple[float, ...]
    mean: float
    cv: float | None  # standard deviation / mean
    single: bool
    shows: float | None  # the smallest difference that so many runs of each side would show (0.25 is 25 %)


@dataclass(frozen=True, slots=True)
class LevelComparison:
    """Both sides at one load. `speed`: faster, slower, same or inconclusive, of the throughput (of the cycle without).

    `changed`: acceptance, cycle, batch, several, nothing or unknown: where most of the difference lies.
    `runs_needed`: runs of each side that would settle it, from the spread `runs_needed_from`.
    """

    concurrency: float | None
    context_tokens: float | None
    source: str  # requests, windows, points or timers
    speed: str
    changed: str
    sentence: str
    figures: tuple[Figure, ...]
    factors: Factors | None = None
    waterfall: Waterfall | None = None
    repeats: tuple[Repeats, ...] = ()
    runs_needed: int | None = None
    runs_needed_from: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sized:
    """What one difference can explain. `fit`: all, part, little, none (of the change seen) or unknown.

    `low_ms` and `high_ms` are per cycle; `words` state the range and how it was reached.
    """

    fit: str
    words: str
    low_ms: float | None = None
    high_ms: float | None = None
    provenance: str = "modelled"
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that differs between the sides, most suspicious first.

    `kind`: prompts, lengths, sampling, load, model, engine, speculation, graphs, communication, kernels, memory,
    machine or other. `unfair`: with this difference the runs do not measure the same thing.
    """

    what: str
    kind: str
    before: str
    after: str
    why: str  # why it is suspicious
    unfair: bool
    rank: int
    setting: bool  # an argument or variable: it can be set back
    sized: Sized
    confirm: str | None = None  # what would show that it is the cause


@dataclass(frozen=True, slots=True)
class Comparable:
    """Whether the runs may be compared at all: yes, no, or doubtful (`unknown` is what neither input says)."""

    answer: str
    reasons: tuple[str, ...] = ()
    same: tuple[str, ...] = ()  # what was looked at and is the same
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairComparison:
    """One side against the first. `only_before` and `only_after` name loads that the other side lacks."""

    before: str
    after: str
    sentence: str
    comparable: Comparable
    levels: tuple[LevelComparison, ...]
    differences: tuple[Difference, ...]
    harmless: int  # differences of no consequence (ports, paths) that are left out
    only_before: tuple[str, ...] = ()
    only_after: tuple[str, ...] = ()
    explained_at: float | None = None  # the concurrency that explanations and sizes speak of
    explanations: tuple[str, ...] = ()  # what fits, in words, best first
    next_step: str | None = None  # the one thing that would settle it


@dataclass(frozen=True, slots=True)
class Comparison:
    """All sides, and each of them against the first."""

    sides: tuple[SideInfo, ...]
    pairs: tuple[PairComparison, ...]


@dataclass(frozen=True, slots=True)
class PredictedSide:
    """Predictions made from the first side beside what this side measured at the load `running`.

    `from_low_tps` and `from_high_tps`: throughput of the run that was predicted from; `before_tps`: the first side's.
    """

    side: str
    running: int | None
    from_low_tps: float | None
    from_high_tps: float | None
    before_tps: float | None
    measured_tps: float | None
    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()
