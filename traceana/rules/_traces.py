"""What rules about traces share: when they can look at all, and how ms per cycle are added up and said.

All amounts are of traced cycles, so a profiler was running. They are kept per timeline: the mean of one GPU's cycles,
then smallest, mean and largest over the GPUs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypedDict

from traceana.facts.model import Evidence, Facts, Provenance
from traceana.facts.trace_model import ENOUGH_CYCLES, CommKernel, TraceFacts, TracePhase, cycles_by_timeline, unit
from traceana.rules._text import count, ms
from traceana.rules.interface import CannotTell, Confidence, Explains, NotApplicable, Threshold

#: phases in which the target model runs: a verify, or a forward of which nobody can tell
TARGET = ("verify", "forward")
FEW_CYCLES = Threshold(
    "few_cycles", 5, "cycles", "fewer show no pattern", "a choice: engines profile 5 to 100 steps when asked", False
)
#: kernels of a communication library as the table of kernel names calls it
NCCL = "nccl"

_WHAT = "compute, allreduce transfer and waiting, launch gaps, host waits and copies inside the cycle"
_AGAIN = "profile 100 cycles of decoding on every rank (SGLang: POST /start_profile; vLLM: --profiler-config)"
NO_GPU = CannotTell("the traces hold no GPU event", _AGAIN, _WHAT)
NO_CYCLE = CannotTell("no cycle was recognised in the traces", _AGAIN, _WHAT)
#: share of the cycle in replays without their kernels from which nothing inside can be told
HIDDEN_SHARE = 0.2
HIDDEN = CannotTell(
    "CUDA graph replays were traced without their kernels",
    "nsys profile --cuda-graph-trace=node (or the engine's own PyTorch profiler)",
    "transfer, waiting and copies inside graph replays",
)
ONE_RANK = CannotTell(
    "one rank was traced: what it spends in an allreduce is transfer and waiting together",
    "profile all ranks at the same time and give all their traces",
    "whether allreduce time is transfer or waiting, and for whom",
)


def gate(facts: Facts) -> TraceFacts | CannotTell | NotApplicable:
    """The traces, if they show cycles on a GPU that are this run's; else why a rule about them cannot look."""
    trace = facts.trace
    if trace is None:
        return NO_CYCLE
    if trace.on_cpu:
        return NotApplicable("the engine computes on the CPU")
    if trace.match is not None and trace.match.verdict == "different":
        why = f"these traces are not of this run: {trace.match.against[0]}"
        return CannotTell(why, "traceana diagnose with the traces alone", "what the traces say")
    if trace.apart is not None:
        why = f"these traces are not of one capture: {trace.apart}"
        return CannotTell(why, "give the traces of one capture at a time", _WHAT)
    if not trace.on_gpu:
        return NO_GPU if trace.phases or not trace.categories else NO_CYCLE
    if trace.cycles < FEW_CYCLES.value:
        why = f"{count(trace.cycles, 'cycle')} in the traces, fewer than {FEW_CYCLES.value:g}"
        return CannotTell(why, _AGAIN, _WHAT)
    return trace


@dataclass(frozen=True, slots=True)
class Amount:
    """ms per cycle: smallest, mean and largest over the timelines; `share` of the mean cycle."""

    low: float
    mean: float
    high: float
    share: float

    def __str__(self) -> str:
        low, high = ms(self.low), ms(self.high)
        return low if low == high else f"{ms(self.mean)} ({low} to {high} by rank)"


def cycle_ms(trace: TraceFacts) -> float:
    """Mean length of a cycle over all timelines, ms."""
    whole = trace.ms_per_cycle()
    return sum(whole.values()) / len(whole) if whole else 0.0


def amount(trace: TraceFacts, buckets: Collection[str], phases: Collection[str] | None = None) -> Amount:
    """What the cycles spend in some buckets, in some phases (None: all)."""
    mine = trace.ms_per_cycle(buckets, phases)
    found = [mine.get(timeline, 0.0) for timeline in trace.timelines]
    if not found:
        return Amount(0.0, 0.0, 0.0, 0.0)
    whole = sum(trace.ms_per_cycle().values())
    return Amount(min(found), sum(found) / len(found), max(found), sum(found) / whole if whole else 0.0)


def hidden(trace: TraceFacts) -> bool:
    """True when so much of the cycle is in opaque graph replays that what is inside them cannot be told."""
    return amount(trace, ("unknown",)).share >= HIDDEN_SHARE


def waiting(trace: TraceFacts, worth: float) -> Amount | CannotTell:
    """Waiting in allreduces; cannot tell where it may be as much as `worth` of the cycle and is not told apart."""
    wait, unsplit = amount(trace, ("allreduce_wait",)), amount(trace, ("allreduce_unsplit",))
    if trace.ranks <= 1 and wait.share + unsplit.share >= worth:
        return ONE_RANK
    return HIDDEN if hidden(trace) and wait.share < worth else wait


def target_phases(trace: TraceFacts) -> tuple[TracePhase, ...]:
    """The verify on each timeline, or the forward where none is called so."""
    for name in TARGET:
        found = tuple(p for p in trace.on_gpu if p.phase == name)
        if found:
            return found
    return ()


def window(trace: TraceFacts) -> str:
    """What the amounts are of: `of a traced cycle of 30.0 ms (20 cycles on 8 GPUs, profiler running)`."""
    gpus = len(trace.timelines)
    on = "1 GPU" if gpus == 1 else f"{gpus} GPUs"
    name = unit(trace.phases, trace.provenance.value)
    return f"of a traced {name} of {ms(cycle_ms(trace))} ({count(trace.cycles, name)} on {on}, profiler running)"


class Explained(TypedDict):
    """The two arguments of a Finding that say how much it explains."""

    explains_ms_per_cycle: Explains
    explains_ms_per_token: Explains | None


def explained(
    facts: Facts, trace: TraceFacts, low: float, high: float, provenance: Provenance | None = None, what: str = ""
) -> Explained:
    """`low` to `high` ms per cycle, and per token where the tokens of a cycle are known."""
    how = provenance or trace.provenance
    basis = f"{what}, {window(trace)}" if what else window(trace)
    tokens = 1.0 if facts.speculation.active.value is False else facts.acceptance.tokens_per_cycle.value
    per_token = None
    if tokens:
        said = f"{basis}; {tokens:.2f} tokens per cycle"
        weakest = how if how in (Provenance.MODELLED, Provenance.ASSUMED) else Provenance.DERIVED
        per_token = Explains(low / tokens, high / tokens, weakest, said)
    return {"explains_ms_per_cycle": Explains(low, high, how, basis), "explains_ms_per_token": per_token}


def confidence(trace: TraceFacts, best: Confidence = Confidence.MEDIUM) -> Confidence:
    """`best`, less with few cycles, a guessed cycle, or a profiler that is known to stretch host times."""
    if trace.cycles < ENOUGH_CYCLES or trace.provenance is not Provenance.MEASURED:
        return Confidence.LOW
    stretched = any(code == "profiler-overhead" for _, code, *_ in trace.notes)
    return Confidence.MEDIUM if stretched and best is Confidence.HIGH else best


def all_ranks(trace: TraceFacts) -> bool:
    """True where the whole group was traced: else transfer is an upper bound and the late rank a guess."""
    return trace.skew_provenance is Provenance.MEASURED


def seen_in(trace: TraceFacts, rank: int | None = None) -> tuple[Evidence, ...]:
    """The trace of `rank` (None: of the first) and another one: enough to open and look."""
    ordered = sorted(trace.timelines, key=lambda t: t.rank != rank)
    return tuple(Evidence(path) for path in dict.fromkeys(t.path for t in ordered))[:2]


def allreduces(trace: TraceFacts) -> tuple[CommKernel, ...]:
    """Allreduce kernels inside cycles."""
    return tuple(c for c in trace.comm if c.collective == "all_reduce")


def per_cycle(trace: TraceFacts, kernels: Collection[CommKernel]) -> float:
    """Instances per cycle of one timeline, mean over the timelines."""
    cycles = sum(cycles_by_timeline(trace.phases).values())
    return sum(c.instances for c in kernels) / cycles if cycles else 0.0


def protocol_hint(kernels: Collection[CommKernel]) -> str | None:
    """What the launch shape of most NCCL ring allreduces hints at (formats of NCCL 2.14 and later; never a proof)."""
    shapes: dict[int, int] = {}
    for c in kernels:
        if c.library == NCCL and c.block_x is not None:
            shapes[c.block_x] = shapes.get(c.block_x, 0) + c.instances
    if not shapes:
        return None
    block = max(shapes, key=lambda b: shapes[b])
    name = {512: "LL", 256: "LL", 128: "LL", 640: "LL128", 544: "Simple", 288: "Simple", 160: "Simple"}.get(block)
    return None if name is None else f"blocks of {block} threads hint at {name} (the kernel's name never tells it)"
