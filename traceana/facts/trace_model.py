"""What the traces of a run say, as plain data; how traces and log fit together is in `RunMatch` and `JoinedCycle`.

Times are milliseconds unless the name says ns. A timeline is one GPU as one process of one file sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from traceana.attribution.model import MIN_CYCLES
from traceana.facts.model import Provenance, Spread

#: formats of input files that hold a profiler's events, not a server's words
TRACE_FORMATS = ("kineto", "nsight", "nsight_stats", "kernel_table")
#: from so many cycles on their mean says something
ENOUGH_CYCLES = MIN_CYCLES


@dataclass(frozen=True, slots=True)
class Timeline:
    """What names one GPU timeline, or one rank without a GPU."""

    path: str
    rank: int | None
    device: int | None


@dataclass(frozen=True, slots=True)
class TracePhase:
    """One phase on one timeline: medians over cycles of what host and GPU did, and the ledger.

    `buckets` are mean ms per cycle and add up to `window_ms`; `bucket_ns` are the exact sums over the `cycles`, and so
    is `beside`: ns that another bucket holds already. Without GPU events only the host's figures are known.
    """

    rank: int | None
    device: int | None
    phase: str
    cycles: int
    path: str = ""
    host_span_ms: float | None = None
    launches: float | None = None
    graph_launches: float | None = None
    graph_call_ms: float | None = None
    graph_nodes: float | None = None
    gpu_span_ms: float | None = None
    busy_ms: float | None = None
    kernel_sum_ms: float | None = None
    window_ms: float | None = None
    buckets: dict[str, float] = field(default_factory=dict)
    window_ns: int | None = None
    bucket_ns: dict[str, int] = field(default_factory=dict)
    beside: dict[str, int] = field(default_factory=dict)
    collectives: str | None = None  # host-side collectives per phase, e.g. "17 all_reduce, 1 all_gather"
    collective_ms: float | None = None

    @property
    def timeline(self) -> Timeline:
        """The timeline it is of."""
        return Timeline(self.path, self.rank, self.device)


@dataclass(frozen=True, slots=True)
class LateRank:
    """How often one rank arrived last at a collective, and the waiting this caused on the others."""

    rank: int | None
    device: int | None
    times_last: int
    share_last: float
    wait_caused_ms: float
    before: str | None  # busy, launch_gap, idle or start: what its device did before, by the wait caused
    before_share: float | None = None  # share of the wait caused that `before` explains
    before_name: str | None = None  # untrusted: the operation that ran up to the collective, where it was busy


@dataclass(frozen=True, slots=True)
class HostWait:
    """A call in which the host waits for the GPU, inside cycles of one timeline."""

    timeline: Timeline
    call: str
    calls: int
    cycles: int
    cycles_waiting: int
    call_ms: float  # in all
    idle_ms: float  # of the GPU afterwards, in all


@dataclass(frozen=True, slots=True)
class CommKernel:
    """Communication kernels inside cycles of one timeline that were done alike."""

    timeline: Timeline
    phase: str
    collective: str
    library: str | None
    bytes: int | None
    group_size: int | None
    grid_x: int | None
    block_x: int | None
    instances: int
    total_ms: float  # waiting included
    shortest_ms: float


@dataclass(frozen=True, slots=True)
class Copies:
    """Memory operations of one direction inside cycles of one timeline."""

    timeline: Timeline
    phase: str
    kind: str
    copies: int
    total_ms: float
    bytes: int | None


@dataclass(frozen=True, slots=True)
class CollectiveSum:
    """A communication kernel of a capture that holds sums only.

    `verdict`: wait-inclusive (so uneven that it holds waiting), even (which an equal wait every time would be, too) or
    inconclusive. The shortest one is the nearest to the transfer; sizes may be mixed.
    """

    collective: str
    name: str  # untrusted
    library: str | None  # nccl, vllm_custom, sglang_custom ...
    instances: int
    mean_ms: float
    median_ms: float | None
    shortest_ms: float | None
    longest_ms: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class TraceSums:
    """A capture that holds sums over all its GPUs and no events: time by category of kernels, and its collectives."""

    path: str
    kernels: int
    total_ms: float  # summed over kernels and GPUs: overlap and GPUs count more than once
    whole_ms: float  # of the whole capture, where the summary prints shares of it and lists only a part; else total_ms
    categories: dict[str, float]  # share of whole_ms
    collectives: tuple[CollectiveSum, ...] = ()


@dataclass(frozen=True, slots=True)
class RunMatch:
    """Whether the traces were captured from the run that the log is of.

    `verdict`: same | different | unknown. `how`: what speaks for it, `against`: what speaks against it, in words.
    `clock`: how the log's clock was related to UTC. `start`, `end`: the capture on the log's clock (ISO), where known.
    """

    verdict: str
    how: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    clock: str | None = None
    start: str | None = None
    end: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedCycle:
    """The log's cycle beside the traced one (medians). `ratio`: traced / log.

    `split`: the log's ms by phase and bucket, in the shares of the traced cycles; empty where they are not the same
    cycles (another load, too different a length). `doubts` say what contradicts; nothing is ever averaged over the two.
    """

    log_ms: float
    log_source: str
    log_running: int | None
    trace_ms: float
    trace_batch: float | None  # median number of requests in the traced cycles, where annotations say it
    ratio: float
    split: dict[str, dict[str, float]] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What the traces of a run say.

    `whole`: the ledger of the whole capture per timeline, phase `capture`, where no cycle was found. `cycle`: length of
    the cycles on the GPU, over all timelines. `batch`: requests per cycle, where annotations say it.
    """

    cycles: int
    source: str
    provenance: Provenance
    phases: tuple[TracePhase, ...]
    skew: str  # transfer-dominated, skew-dominated, mixed or inconclusive
    skew_provenance: Provenance
    skew_reason: str
    instances: int
    ranks: int
    transfer_ms: float | None
    wait_ms: float | None
    late: tuple[LateRank, ...]
    categories: tuple[tuple[str, str, float], ...]  # family, category, share of kernel time
    notes: tuple[tuple[str, str, str, str, str], ...]  # severity, code, what, consequence, command
    whole: tuple[TracePhase, ...] = ()
    cycle: Spread | None = None
    batch: Spread | None = None
    engine: str | None = None  # whose annotations the traces hold
    traced_ranks: tuple[int, ...] = ()
    world_size: int | None = None
    gpus: tuple[str, ...] = ()  # names, each once
    tool: str | None = None
    sums: tuple[TraceSums, ...] = ()
    on_cpu: bool = False  # the log says that the engine computes on the CPU: there is no GPU to trace
    apart: str | None = None  # why these traces are not of one capture, in words: nothing is added up over them
    waits: tuple[HostWait, ...] = ()
    comm: tuple[CommKernel, ...] = ()
    copies: tuple[Copies, ...] = ()
    match: RunMatch | None = None  # None: no log among the inputs
    joined: JoinedCycle | None = None

    @property
    def on_gpu(self) -> tuple[TracePhase, ...]:
        """Phases with a ledger."""
        return tuple(p for p in self.phases if p.window_ns is not None)

    @property
    def timelines(self) -> tuple[Timeline, ...]:
        """GPU timelines with cycles, in the order of their phases."""
        return tuple(cycles_by_timeline(self.phases))

    def cycles_of(self, timeline: Timeline) -> int:
        """Cycles of one timeline."""
        return cycles_by_timeline(self.phases).get(timeline, 0)

    def ms_per_cycle(
        self, buckets: Collection[str] | None = None, phases: Collection[str] | None = None
    ) -> dict[Timeline, float]:
        """What a timeline's mean cycle spends in some buckets (None: all of it) of some phases (None: all).

        Timelines without such a phase are left out.
        """
        sums: dict[Timeline, int] = {}
        for p in self.on_gpu:
            if phases is None or p.phase in phases:
                ns = p.window_ns or 0 if buckets is None else sum(p.bucket_ns.get(name, 0) for name in buckets)
                sums[p.timeline] = sums.get(p.timeline, 0) + ns
        cycles = cycles_by_timeline(self.phases)
        return {timeline: ns / max(cycles[timeline], 1) / 1e6 for timeline, ns in sums.items()}


def mean_cycle(trace: TraceFacts, parts: Callable[[TracePhase], Mapping[str, float]]) -> dict[str, float]:
    """ms of named parts of the mean cycle over the timelines; `parts` gives a phase's, in ms per cycle of the phase.

    A phase that some cycles lack counts with the cycles of the timeline, so that all parts add up to the mean cycle.
    """
    longest = max((p.cycles for p in trace.on_gpu), default=0)
    found: dict[str, float] = {}
    for p in trace.on_gpu:
        for name, ms in parts(p).items():
            found[name] = found.get(name, 0.0) + ms * p.cycles / longest / len(trace.timelines)
    return found


def cycles_by_timeline(phases: Iterable[TracePhase]) -> dict[Timeline, int]:
    """Cycles of each GPU timeline, in the order of the phases."""
    found: dict[Timeline, int] = {}
    for p in phases:
        if p.window_ns is not None:
            found[p.timeline] = max(found.get(p.timeline, 0), p.cycles)
    return found


def unit(phases: Iterable[TracePhase], provenance: str) -> str:
    """What the traced rounds are: `step` where the engine's own marks show plain forwards only, else `cycle`."""
    plain = {p.phase for p in phases} <= {"forward", "other"}
    return "step" if plain and provenance == Provenance.MEASURED.value else "cycle"
