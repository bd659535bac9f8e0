"""The Diagnosis: plain data, and at once the JSON document (schema traceana/diagnosis/1).

Field names are the contract with users' scripts. Absent knowledge is null, never 0. Texts taken from inputs
(`Evidence.text`, model names, paths) are untrusted here; each renderer escapes, and redacts unless told not to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from traceana.facts.collective_times import CollectiveTimes
from traceana.facts.gap_model import MeasuredAgainstFloor
from traceana.facts.model import Evidence, PathStatement
from traceana.facts.results_model import Results
from traceana.report.trace_report import TraceReport
from traceana.report.whatif_report import WhatIfReport
from traceana.rules.weigh import Weighed

SCHEMA = "traceana/diagnosis/1"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Who ran: engine, version, model, ranks, speculative settings as resolved, and the span of the log."""

    engine: str | None = None
    version: str | None = None
    version_range: str | None = None  # by the form of the lines, where no line names the version
    model: str | None = None
    quantization: str | None = None
    nccl_version: str | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    speculative: dict[str, str | int | bool | None] = field(default_factory=dict)
    span_s: float | None = None
    lines: int = 0
    unread: int = 0
    load_levels: int = 0
    results_only: bool = False  # benchmark results are all that could be read
    notes: tuple[str, ...] = ()  # e.g. "num_draft_tokens 3 was asked for, 2 are in use"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer in one line. `speculation`: pays | loses | even | unknown, at `at_running`; `limiter`: acceptance |
    cycle | both | none | unknown. `speedup_low/high`: the range the windows allow."""

    sentence: str
    speculation: str = "unknown"
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    at_running: int | None = None
    accept_length: float | None = None
    tokens_per_cycle: float | None = None
    break_even_accept_length: float | None = None
    limiter: str = "unknown"
    limiter_reason: str | None = None
    provenance: str = "derived"


@dataclass(frozen=True, slots=True)
class Part:
    """One bucket of the cycle."""

    name: str
    ms: float
    share: float
    provenance: str


@dataclass(frozen=True, slots=True)
class Cycle:
    """The cycle (or step, without speculation) and what it is made of."""

    total_ms: float | None = None
    provenance: str | None = None
    at_running: int | None = None
    parts: tuple[Part, ...] = ()
    source: str | None = None
    reason: str | None = None  # why total_ms is null


@dataclass(frozen=True, slots=True)
class AcceptanceReport:
    """What drafting earns."""

    accept_length: float | None = None
    accept_rate: float | None = None
    per_position: tuple[float, ...] = ()
    coverage: float | None = None
    tokens_per_cycle: float | None = None
    ceiling: int | None = None
    printed_accept_length: float | None = None
    printed_accept_rate: float | None = None
    definition: str | None = None
    samples: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """One column of the load table: this run's numbers at one number of running requests, beside the baseline's."""

    running: int
    windows: int
    gen_tps: float | None
    gen_tps_low: float | None
    gen_tps_high: float | None
    accept_length: float | None
    tokens_per_cycle: float | None
    cycle_ms: float | None
    tokens_per_forward: int | None
    graph_share: float | None = None
    baseline_gen_tps: float | None = None
    baseline_step_ms: float | None = None
    speedup: float | None = None
    break_even_accept_length: float | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class WindowReport:
    """One stats interval."""

    start: str | None
    end: str | None
    stream: str
    running: int | None
    gen_tps: float | None
    accept_length: float | None
    cycle_ms: float | None
    steady: bool
    reason: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class DriversReport:
    """Shares of the variance of ln(tok/s) at constant load; they sum to 1 and one may be negative."""

    windows: int
    sd_ln_tps: float
    acceptance_share: float
    cycle_share: float


@dataclass(frozen=True, slots=True)
class ContextLevel:
    """Steady windows of one context length at the most common load."""

    context_tokens: float
    running: int
    windows: int
    gen_tps: float
    accept_length: float | None
    cycle_ms: float | None


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """KV pool, running cap, queue."""

    kv_tokens: int | None = None
    max_running: int | None = None
    usage_max: float | None = None
    windows_full: int = 0
    windows_queued: int = 0
    retractions: int = 0
    preemptions: int | None = None


@dataclass(frozen=True, slots=True)
class NcclReport:
    """One process's NCCL lines: rank, variables that reached it, transports (connections by kind), channels."""

    pid: int
    host: str | None
    rank: int | None
    nranks: int | None
    env: dict[str, str]
    transports: dict[str, int]
    channels: int | None


@dataclass(frozen=True, slots=True)
class SettingReport:
    """One argument or variable as a process printed it."""

    name: str
    value: str
    origin: str
    rank: int | None = None
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class StageReport:
    """One start-up stage."""

    name: str
    seconds: float | None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class ExplainsReport:
    """Milliseconds per token, or per cycle, that a finding can account for."""

    low: float
    high: float
    provenance: str
    basis: str


@dataclass(frozen=True, slots=True)
class FindingReport:
    """A finding, ready to draw."""

    code: str
    name: str
    title: str
    severity: str
    confidence: str
    why: str
    fix: tuple[str, ...] = ()
    confirm: str | None = None
    rivals: tuple[str, ...] = ()
    explains_ms_per_token: ExplainsReport | None = None
    explains_ms_per_cycle: ExplainsReport | None = None
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A question the inputs could not answer, and how to capture the answer."""

    what: str
    reason: str
    capture: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InputReport:
    """One input file."""

    path: str
    format: str
    lines: int
    recognised: int
    unread: int
    partial: int
    problem: str | None = None
    unread_example: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The whole answer."""

    schema: str = SCHEMA
    run: RunInfo
    verdict: Verdict
    cycle: Cycle
    acceptance: AcceptanceReport
    levels: tuple[Level, ...] = ()
    context_levels: tuple[ContextLevel, ...] = ()
    drivers: DriversReport | None = None
    windows: tuple[WindowReport, ...] = ()
    windows_total: int = 0
    windows_steady: int = 0
    trace: TraceReport | None = None
    results: Results | None = None  # what benchmark results among the inputs say
    collective_times: CollectiveTimes | None = None
    floor: MeasuredAgainstFloor | None = None  # null without a known cycle, and on a CPU
    what_if: WhatIfReport | None = None  # changes that may well gain; null where none does
    capacity: CapacityReport = field(default_factory=CapacityReport)
    collectives: tuple[PathStatement, ...] = ()
    nccl: tuple[NcclReport, ...] = ()
    settings: tuple[SettingReport, ...] = ()
    startup: tuple[StageReport, ...] = ()
    streams: tuple[dict[str, str | int | float | None], ...] = ()
    findings: tuple[FindingReport, ...] = ()
    weighed: tuple[Weighed, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    clear: tuple[str, ...] = ()  # codes of rules that looked and found nothing
    inputs: tuple[InputReport, ...] = ()
    baseline: Diagnosis | None = None
