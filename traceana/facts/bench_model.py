"""One measured load point of one set-up, whatever measured it: a benchmark's result or the steady windows of a log.

The unit that sweeps and comparisons work on. Absent knowledge is None with a reason, never 0; see `facts.model`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from traceana.facts.model import Evidence, Fact


class PointSource(str, Enum):
    """What measured a load point."""

    BENCH = "bench"  # a benchmark's own result: the client's clock
    TABLE = "table"  # figures somebody wrote into a table or a list of runs
    LOG = "log"  # steady windows of a server log at one load


@dataclass(frozen=True, slots=True)
class Samples:
    """Parts of one measurement whose spread tells its noise; parallel columns, in order, at most 400 of them.

    `kind` is `request` (one value per request) or `window` (one per steady stats window). A column is () where its
    figure is not known; otherwise all columns that are there have one length. `ms_per_token` is per request: TPOT, or
    1000 * running / gen_tps. `n` counts the samples before thinning. `prompts` is a digest of the prompt lengths of the
    requests in their order: where two are equal, the same requests were sent.
    """

    kind: str
    n: int
    ms_per_token: tuple[float, ...] = ()
    tokens_per_cycle: tuple[float, ...] = ()
    cycle_ms: tuple[float, ...] = ()
    prompts: str | None = None


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One set-up at one load (and context length).

    Rows of the inputs that repeat one and the same measurement are one point: `runs` has their throughputs, the other
    figures are their means. `cycle_ms` is the cycle with speculation, the step without; it is unknown where the
    requests in flight are. Latencies are means over requests unless `latency_kind` says otherwise.
    """

    source: PointSource
    tool: str  # vllm_bench, sglang_bench, table, ... or the engine of the log
    series: str | None  # which of several set-ups of one file: a column's or table's title; None when there is one
    speculative: bool | None  # None: the inputs do not say
    concurrency: float | None  # requests kept in flight, as asked for; the load level of a log
    label: str | None = None  # the row's own words, where a table names no concurrency
    decoding: Fact[float] = field(default_factory=Fact)  # mean requests decoding at once: seen, or gen_tps * TPOT
    context_tokens: float | None = None
    output_length: float | None = None
    request_rate: float | None = None  # arrivals per second asked for, where they were spread over time
    gen_tps: Fact[float] = field(default_factory=Fact)
    user_tps: Fact[float] = field(default_factory=Fact)  # tokens/s of one request while it decodes: 1000 / TPOT
    ttft_ms: Fact[float] = field(default_factory=Fact)
    tpot_ms: Fact[float] = field(default_factory=Fact)
    itl_ms: Fact[float] = field(default_factory=Fact)  # between streamed chunks: the cycle, where a chunk is a cycle
    latency_kind: str = "mean"  # or "median"
    tokens_per_chunk: Fact[float] = field(default_factory=Fact)
    accept_length: Fact[float] = field(default_factory=Fact)  # bonus counted; `reason` has the definition where derived
    accept_rate: Fact[float] = field(default_factory=Fact)
    per_position: Fact[tuple[float, ...]] = field(default_factory=Fact)
    tokens_per_cycle: Fact[float] = field(default_factory=Fact)  # the multiplier; below accept_length with n-gram
    cycle_ms: Fact[float] = field(default_factory=Fact)
    k: int | None = None  # draft tokens per cycle on a chain
    num_steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None  # width of the verify forward per request
    runs: tuple[float, ...] = ()  # throughput of each repeated run; one value when measured once
    samples: Samples | None = None
    requests: int | None = None
    failed: int | None = None
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    dataset: str | None = None  # what the client sent, under the client's own name for it
    temperature: float | None = None  # of sampling, where the client says it
    arguments: tuple[tuple[str, str], ...] = ()  # of the client, those that change what is measured: ignore_eos, ...
    queued_max: int | None = None  # most requests waiting in the windows of a log
    notes: tuple[str, ...] = ()  # what is odd about the figures, in words
    evidence: tuple[Evidence, ...] = ()

    @property
    def timed(self) -> bool:
        """True where a speed is known, not acceptance alone."""
        return self.gen_tps.known or self.cycle_ms.known

    @property
    def tokens_per_forward(self) -> float | None:
        """Tokens of one target forward: requests decoding x (drafted tokens + 1); None where either is not known."""
        if self.decoding.value is None or self.speculative is None:
            return None
        if not self.speculative:
            return self.decoding.value
        width = self.num_draft_tokens or (self.k + 1 if self.k is not None else None)
        return None if width is None else self.decoding.value * width
