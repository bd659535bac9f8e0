"""The facts of one run: plain data, no computation beyond look-ups.

Everything a rule may ask is here. A fact that is not known has the value None and says why in `reason`;
it is never 0. Times are milliseconds or seconds by suffix, shares are 0 ... 1, `accept_length` counts the bonus token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from traceana.facts.bench_model import LoadPoint
    from traceana.facts.box import Box
    from traceana.facts.collective_times import CollectiveTimes
    from traceana.facts.results_model import Results
    from traceana.facts.trace_model import TraceFacts

T = TypeVar("T")


class Provenance(str, Enum):
    """How a number came about. Weakest link wins when numbers are combined."""

    MEASURED = "measured"  # a clock or a counter of the engine read it
    DERIVED = "derived"  # arithmetic on measured numbers
    MODELLED = "modelled"  # a fitted or published model
    ASSUMED = "assumed"  # nobody said it; a default stands in


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a statement comes from: a line, a span of lines, or a whole file.

    `text` is an excerpt of the input and is untrusted: only renderers may show it, escaped and redacted.
    """

    path: str
    line: int | None = None
    last_line: int | None = None
    byte_offset: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Fact(Generic[T]):
    """A value with its provenance and evidence; `value is None` means not known, and `reason` says why."""

    value: T | None = None
    provenance: Provenance = Provenance.MEASURED
    evidence: tuple[Evidence, ...] = ()
    reason: str | None = None

    @property
    def known(self) -> bool:
        """True when there is a value."""
        return self.value is not None


@dataclass(frozen=True, slots=True)
class Spread:
    """A quantity over several windows: median, mean, 10th and 90th percentile, sample standard deviation."""

    n: int
    median: float
    mean: float
    low: float
    high: float
    stdev: float | None = None  # None with fewer than two values


@dataclass(frozen=True, slots=True)
class InputFacts:
    """One input file: what it is, how much of it was read, and what was not."""

    path: str
    format: str  # "sglang", "vllm", "nccl", ... or "unknown"
    lines: int
    recognised: int  # lines that gave a row
    unread: int  # lines that look like a known family and fit no grammar
    partial: int  # lines read in part (cut off, a value missing)
    unread_example: Evidence | None = None
    problem: str | None = None  # e.g. "gzip stream ends early: kept 1,204 lines"


@dataclass(frozen=True, slots=True)
class Setting:
    """One engine argument, environment variable or derived setting as one process reported it.

    `origin` is one of: server_args, non_default_args, engine_config, nccl_env, engine_message, unknown_env,
    launch_env (a launch command or env file among the inputs).
    `value` is text exactly as printed; `parsed` is its Python value when it is a plain literal.
    """

    name: str
    value: str
    origin: str
    parsed: object = None
    rank: int | None = None
    pid: int | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a run, in input order."""

    rows: tuple[Setting, ...] = ()

    def get(self, name: str) -> Setting | None:
        """The first engine argument called `name` (dashes and underscores alike), or None. Never an environment row."""
        wanted = name.replace("-", "_")
        for row in self.rows:
            if row.name == wanted and row.origin not in ("nccl_env", "unknown_env", "launch_env"):
                return row
        return None

    def value(self, name: str) -> object:
        """The parsed value of `get(name)`, or None."""
        row = self.get(name)
        return None if row is None else row.parsed

    def of_origin(self, origin: str) -> tuple[Setting, ...]:
        """All rows of one origin."""
        return tuple(row for row in self.rows if row.origin == origin)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which software and model ran."""

    engine: Fact[str] = field(default_factory=Fact)  # "sglang" | "vllm" | "trtllm" | "llamacpp"
    version: Fact[str] = field(default_factory=Fact)
    version_range: str | None = None  # what the form of the lines tells, where no line names the version
    model: Fact[str] = field(default_factory=Fact)
    quantization: Fact[str] = field(default_factory=Fact)
    nccl_version: Fact[str] = field(default_factory=Fact)


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Ranks by kind."""

    tp: Fact[int] = field(default_factory=Fact)
    pp: Fact[int] = field(default_factory=Fact)
    dp: Fact[int] = field(default_factory=Fact)
    ep: Fact[int] = field(default_factory=Fact)


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative settings, as asked for and as the engine resolved them.

    `active` is True when the log shows drafting (settings or acceptance lines), False when it shows a run without, None
    when the log cannot tell. `k` is the number of draft tokens per cycle on a chain (SGLang: num_draft_tokens - 1).
    """

    active: Fact[bool] = field(default_factory=Fact)
    method: Fact[str] = field(default_factory=Fact)  # EAGLE, EAGLE3, NEXTN, mtp, eagle3, ngram, ...
    draft_model: Fact[str] = field(default_factory=Fact)
    num_steps: Fact[int] = field(default_factory=Fact)
    topk: Fact[int] = field(default_factory=Fact)
    num_draft_tokens: Fact[int] = field(default_factory=Fact)  # SGLang: width of the verify forward per request
    num_draft_tokens_asked: Fact[int] = field(default_factory=Fact)  # before the engine changed it
    k: Fact[int] = field(default_factory=Fact)
    adaptive: Fact[bool] = field(default_factory=Fact)
    drafts_every_step: bool | None = None  # False for n-gram and suffix drafting: coverage < 1


@dataclass(frozen=True, slots=True)
class Regime:
    """Steady windows of one load level (running requests of one stream), summarised.

    `cycle_ms` is the cycle with speculation, the step without. `tokens_per_forward` is running x (k+1), or running
    without speculation. `context_tokens` is KV tokens per running request where the log tells.
    """

    running: int
    n_windows: int  # all windows at this level
    n_steady: int
    gen_tps: Spread
    accept_length: Spread | None
    tokens_per_cycle: Spread | None
    cycle_ms: Spread | None
    tokens_per_forward: int | None
    context_tokens: Spread | None = None
    queued_max: int | None = None
    token_usage_max: float | None = None
    graph_share: float | None = None  # share of steady windows whose forward replayed a CUDA graph; None = not printed
    cycle_bound_ms: float | None = None  # without a steady window: fastest tenth of the windows, prefill included
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """One source of stats lines: a DP rank or a vLLM engine."""

    name: str  # "DP0", "Engine 003", or "server"
    n_windows: int
    running: Spread
    gen_tps: Spread
    accept_length: Spread | None
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """One stats interval of the engine. `reason` says why a window is not steady."""

    ts: datetime | None
    stream: str
    running: int | None
    queued: int | None
    gen_tps: float | None
    accept_length: float | None
    tokens_per_cycle: float | None
    cycle_ms: float | None
    steady: bool
    reason: str | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class WindowsFacts:
    """Counts over all windows; `sample` holds at most 200 of them, evenly spaced, for the report."""

    n: int = 0
    n_steady: int = 0
    sample: tuple[Window, ...] = ()
    unsteady_reasons: tuple[tuple[str, int], ...] = ()
    newest_first: bool = False
    span_s: float | None = None


@dataclass(frozen=True, slots=True)
class Drivers:
    """What moves throughput at constant load: shares of the variance of ln(gen_tps), summing to 1 (DESIGN section 5).

    Computed within regimes, so that the load itself is not counted. A share may be negative when two parts offset.
    """

    n: int
    sd_ln_tps: float
    acceptance_share: float
    cycle_share: float


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What drafting earns, normalised by version; printed values are kept beside."""

    accept_length: Fact[float] = field(default_factory=Fact)
    accept_rate: Fact[float] = field(default_factory=Fact)
    per_position: Fact[tuple[float, ...]] = field(default_factory=Fact)  # unconditional, position 0 first
    coverage: Fact[float] = field(default_factory=Fact)
    tokens_per_cycle: Fact[float] = field(default_factory=Fact)
    printed_accept_length: float | None = None
    printed_accept_rate: float | None = None
    definition: str | None = None  # what the printed numbers mean in this version, or why it is not certain
    ceiling: int | None = None  # k + 1
    n_samples: int = 0  # stats lines behind the mean
    drafted: int | None = None  # draft tokens counted
    accepted: int | None = None
    exactly_one: int = 0  # lines whose printed accept length is exactly 1.00
    exactly_ceiling: int = 0  # lines at exactly k + 1, or accepted == drafted
    exactly_one_running: tuple[int, int] | None = None  # lowest and highest load of those lines
    other_running: tuple[int, int] | None = None  # lowest and highest load of the lines that are not exactly 1.00
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class CyclePart:
    """A phase's share of the cycle."""

    name: str  # draft | verify | re-extend | other | unknown
    ms: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """The cycle's length at the busiest common load, and its parts where a timer printed them."""

    total_ms: Fact[float] = field(default_factory=Fact)
    parts: tuple[CyclePart, ...] = ()
    source: str | None = None
    batch: int | None = None
    graph: bool | None = None
    host_ms: float | None = None  # a cycle's calls by the host's clock, where the phases are timed on the GPU
    between_ms: float | None = None  # of `other`: from the end of a cycle's calls to the start of the next one's


@dataclass(frozen=True, slots=True)
class Capture:
    """One CUDA graph capture on one rank. `ended` is False when no end line follows in the log."""

    name: str  # "target verify", "draft decode", ...
    rank: int | None
    ended: bool
    elapsed_s: float | None
    sizes: tuple[int, ...] = ()
    progress: str | None = None  # last progress bar seen, e.g. "0/17"
    begin: Evidence | None = None
    end: Evidence | None = None
    silent_s: float | None = None  # log time from the begin line to the last line of the log, when not ended


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """CUDA graph coverage of decode (= verify) forwards."""

    captured_max: Fact[int] = field(default_factory=Fact)  # largest captured batch size, in requests
    captured_sizes: tuple[int, ...] = ()
    switched_off: Fact[str] = field(default_factory=Fact)  # the argument or message that turned graphs off
    without_attention: Fact[str] = field(default_factory=Fact)  # vLLM's mode that keeps a verify's attention outside
    windows_graph: int = 0
    windows_eager: int = 0
    eager_running: tuple[int, int] | None = None  # lowest and highest load seen eager
    graph_running: tuple[int, int] | None = None
    eager_evidence: tuple[Evidence, ...] = ()
    captures: tuple[Capture, ...] = ()
    runtime_modes: tuple[tuple[str, int], ...] = ()  # vLLM --cudagraph-metrics: mode -> forwards


@dataclass(frozen=True, slots=True)
class Retraction:
    """One KV-pool-full event with the throughput of the windows before and after it (same stream).

    `best_after_tps` is the best that it held for three windows of the `n_after` looked at, other events among them.
    """

    ts: datetime | None
    retracted: int | None
    before_tps: float | None
    after_tps: float | None
    evidence: Evidence
    best_after_tps: float | None = None
    n_after: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """KV pool, queue and running cap."""

    kv_tokens: Fact[int] = field(default_factory=Fact)
    max_running: Fact[int] = field(default_factory=Fact)
    usage_max: Fact[float] = field(default_factory=Fact)  # 0 ... 1
    windows_full: int = 0  # windows with usage >= 0.95 or printed 1.00
    windows_queued: int = 0
    windows: int = 0
    pinned_running: int | None = None  # the running count the server sits at while requests queue
    pinned_windows: int = 0
    queue_growth: float | None = None  # queued requests gained from the first to the last pinned window
    pinned_evidence: tuple[Evidence, ...] = ()
    full_evidence: tuple[Evidence, ...] = ()
    retractions: tuple[Retraction, ...] = ()
    drip_prefills: int = 0  # prefill batches of few requests while many queue, between decode lines
    preemptions: int | None = None


@dataclass(frozen=True, slots=True)
class PathStatement:
    """One thing a rank said about its collectives.

    `kind`: custom_allreduce, flashinfer_fusion, pcie_ipc, symm_mem, p2p, shm ... `state`: on | off | failed | info.
    """

    kind: str
    state: str
    reason: str
    ranks: tuple[int, ...]
    count: int
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class NcclProcess:
    """What one process's NCCL lines say."""

    pid: int
    host: str | None
    rank: int | None
    nranks: int | None
    init_complete: bool
    env: tuple[Setting, ...]  # "X set by environment to Y"; nccl.conf values read the same
    transports: tuple[tuple[str, int], ...] = ()  # "P2P", "SHM", "NET" -> connections
    channels: int | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class NcclFacts:
    """NCCL's own lines, by process."""

    processes: tuple[NcclProcess, ...] = ()
    protocols: tuple[tuple[str, int, str, str], ...] = ()  # (collective, bytes, algorithm, protocol) from TUNING lines
    protocol_evidence: tuple[Evidence, ...] = ()
    p2p_disabled: tuple[Evidence, ...] = ()
    slow_graph: tuple[Evidence, ...] = ()  # GRAPH lines with less than 1 GB/s
    graph_lines: int = 0  # GRAPH lines seen at all
    sockets: tuple[Evidence, ...] = ()  # connections between nodes over TCP
    requested: tuple[Setting, ...] = ()  # NCCL_* seen in a command line, if any


@dataclass(frozen=True, slots=True)
class Stage:
    """A start-up stage on one rank (or the slowest rank when several report it)."""

    name: str
    seconds: float | None
    rank: int | None
    begin: datetime | None = None
    end: datetime | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Stopped:
    """A start that did not come to its end: the last line that shows progress, and what came behind it.

    `waits` are the engine's own words that it waits for a worker (vLLM: no shared memory broadcast block).
    """

    at: str  # kind of the last event that shows progress
    silent_s: float | None  # from that line to the last one with a time
    waits: int
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """vLLM's engine core says once a minute that it waits for a worker: the longest such wait of one process."""

    waited_s: float
    processes: int  # that said so
    served_after: bool  # tokens were generated after the last of these lines
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Startup:
    """How the server came up."""

    stages: tuple[Stage, ...] = ()
    ready: Fact[datetime] = field(default_factory=Fact)
    total_s: float | None = None
    longest_gap: tuple[float, Evidence] | None = None  # seconds without any line, and the line before it
    starts: int = 0  # times a server said that it is ready
    stopped: Stopped | None = None  # None when the server became ready or no line shows progress


@dataclass(frozen=True, slots=True)
class Incident:
    """A crash, hang, exception or failed start.

    `kind`: watchdog, engine_dead, worker_died, exception, sigquit, out_of_memory, health_check, shm_too_small,
    argument_error, context_length, draft_vocab, nan_logits, killed. `frames`: py-spy frames of that rank, or those
    of the exception's traceback, innermost first.
    """

    kind: str
    ts: datetime | None
    rank: int | None
    text: str
    evidence: Evidence
    frames: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectiveTimeout:
    """What one rank says of a collective that did not come back (PyTorch's watchdog)."""

    rank: int
    group: int | None  # PyTorch's process group; each counts its collectives on its own
    sequence: int
    operation: str  # ALLREDUCE, ALLGATHER, ...
    elements: int | None
    ts: datetime | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class RankActivity:
    """The last recognised thing one rank logged."""

    rank: int
    ts: datetime | None
    text: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush of the prefix cache: mean accept length of up to ten windows on either side of it."""

    before: float
    after: float
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line through a quantity over time: relative change per hour, its standard error, and the windows."""

    per_hour: float
    error: float
    n: int


@dataclass(frozen=True, slots=True)
class CachedPrefixes:
    """Mean accept length of steady windows with one running request, by what the prefix cache gave its prompt.

    `cold`: at most a tenth of the prompt came from the cache, `cached`: at least half of it.
    """

    cold: float
    cached: float
    windows: tuple[int, int]  # of either kind
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Stability:
    """Spread, trend and step changes of steady throughput within the regime with the most windows.

    `accept_trend` is over the windows whose accept length counts drafts alone, steady or not, at the commonest load.
    """

    running: int | None = None
    n: int = 0
    cv: float | None = None  # standard deviation / mean
    trend_per_hour: float | None = None  # relative change of gen_tps per hour
    accept_trend: Trend | None = None
    step_change: tuple[float, float, Evidence] | None = None  # mean before, mean after, first window after
    jit_stalls: int = 0
    jit_evidence: tuple[Evidence, ...] = ()
    eplb_then_drop: tuple[Evidence, float, float] | None = None  # EPLB line, accept length before and after
    flushes: tuple[Flush, ...] = ()  # of the prefix cache, with windows on both sides
    cached: CachedPrefixes | None = None  # None without windows of both kinds
    draft_not_kept: tuple[Evidence, ...] = ()  # lines that say that HiCache does not store the draft's KV


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one run."""

    inputs: tuple[InputFacts, ...] = ()
    identity: Identity = field(default_factory=Identity)
    parallelism: Parallelism = field(default_factory=Parallelism)
    speculation: Speculation = field(default_factory=Speculation)
    settings: Settings = field(default_factory=Settings)
    windows: WindowsFacts = field(default_factory=WindowsFacts)
    regimes: tuple[Regime, ...] = ()  # by running requests, ascending
    context_regimes: tuple[Regime, ...] = ()  # by context length at the most common load
    streams: tuple[StreamFacts, ...] = ()
    drivers: Drivers | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)
    cycle: CycleFacts = field(default_factory=CycleFacts)
    graphs: GraphFacts = field(default_factory=GraphFacts)
    capacity: Capacity = field(default_factory=Capacity)
    collectives: tuple[PathStatement, ...] = ()
    nccl: NcclFacts = field(default_factory=NcclFacts)
    startup: Startup = field(default_factory=Startup)
    incidents: tuple[Incident, ...] = ()
    stall: Stall | None = None
    collective_timeouts: tuple[CollectiveTimeout, ...] = ()
    last_seen: tuple[RankActivity, ...] = ()
    stability: Stability = field(default_factory=Stability)
    trace: TraceFacts | None = None
    points: tuple[LoadPoint, ...] = ()  # load points of benchmark results, then of the log's regimes
    earned: tuple[LoadPoint, ...] = ()  # results that tell acceptance and no speed
    collective_times: CollectiveTimes | None = None
    results: Results | None = None  # what benchmark results say, against the baseline's; see facts/results.py
    results_only: bool = False  # benchmark results are all that the inputs hold
    left_out: str | None = None  # what of the inputs does not belong to this run, in words
    box: Box | None = None  # GPU and shapes of the models; see facts/box.py

    def regime(self, running: int) -> Regime | None:
        """The regime of one load level, or None."""
        for regime in self.regimes:
            if regime.running == running:
                return regime
        return None

    @property
    def trace_only(self) -> bool:
        """True when all that the inputs hold are traces: nothing that only a log tells can be known."""
        from traceana.facts.trace_model import TRACE_FORMATS

        return self.trace is not None and not any(
            i.recognised for i in self.inputs if i.format not in (*TRACE_FORMATS, "model_config")
        )

    @property
    def main_regime(self) -> Regime | None:
        """The regime with the most steady windows (the higher load on a tie), or None."""
        steady = [r for r in self.regimes if r.n_steady > 0]
        return max(steady, key=lambda r: (r.n_steady, r.running)) if steady else None

    def statements(self, kind: str, state: str | None = None) -> tuple[PathStatement, ...]:
        """Collective-path statements of one kind (and state)."""
        return tuple(s for s in self.collectives if s.kind == kind and (state is None or s.state == state))
