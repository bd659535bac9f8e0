"""Floors of one forward of a run: its allreduces and its weight reads, as ranges with what they rest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from traceana.facts.box import gpu_of, own_path_on, ranks_of, reduces_per_layer
from traceana.facts.model import Fact, Facts, Provenance
from traceana.speculation.floors import allreduce, forward, hardware
from traceana.speculation.floors.allreduce import Curve
from traceana.speculation.floors.forward import AllreduceFloor
from traceana.speculation.floors.weights import ModelShape, weights_read
from traceana.speculation.whatif import Span

#: kinds of floor that are the host's, which works beside the GPU: not part of a gap
BESIDE = ("launches", "host")
#: engine's quantization argument -> bits per weight it makes of an unquantised model
_LOADED_BITS = {"fp8": 8.0}
_DATA_SHEET = "data sheet bandwidth"


@dataclass(frozen=True, slots=True)
class FloorPart:
    """One floor, as a range in ms. `kind`: allreduce, weights, launches or host. `basis`: what was multiplied."""

    kind: str
    low_ms: float
    high_ms: float
    provenance: Provenance
    basis: str
    source: str


@dataclass(frozen=True, slots=True)
class AllreduceRange:
    """The allreduces of one forward: by the fastest published curve, and by the one that holds for this run at most."""

    least: AllreduceFloor
    most: AllreduceFloor
    least_label: str
    most_label: str
    own_path: bool  # the run's own allreduce is on, and no published curve is of it


def allreduces(
    facts: Facts, shape: Fact[ModelShape], tokens: int, gpu: hardware.Gpu | str | None = None
) -> AllreduceRange | str:
    """The floor of a forward's allreduces on the run's GPU (or `gpu`), or what is missing.

    NCCL's curve where the log says that NCCL carries them; else from the fastest curve to NCCL's.
    """
    where = gpu_of(facts) if gpu is None else gpu
    ranks = ranks_of(facts)
    if isinstance(ranks, str) or ranks < 2:
        return "it runs on one GPU" if ranks == 1 else str(ranks)
    if shape.value is None:
        return shape.reason or "the model's shape is not known"
    if isinstance(where, str):
        return where
    other = reduces_per_layer(facts)
    if other is not None:
        return other
    layers, hidden = shape.value.layers, shape.value.hidden
    return _range(
        facts, where, ranks, lambda c: forward.allreduce_floor(c, layers=layers, hidden=hidden, tokens=tokens), gpu
    )


def _range(
    facts: Facts, gpu: hardware.Gpu, ranks: int, floor: Callable[[Curve], AllreduceFloor], other_box: object = None
) -> AllreduceRange | str:
    """The floor by the curves that hold for the run's path; for another box the path is not known."""
    curves = [] if gpu.system is None else allreduce.for_box(gpu.system, ranks)
    usable = [c for c in curves if c.mode != "eager"]
    if not usable:
        return f"nobody measured allreduces of {ranks} x {gpu.name}"
    by_nccl = [c for c in usable if c.library == "nccl"]
    own = own_path_on(facts)
    refused = bool(facts.statements("custom_allreduce", "off") or facts.statements("custom_allreduce", "failed"))
    if other_box is None and by_nccl and refused and not own:
        usable = by_nccl
    made = [(floor(c), c) for c in usable]
    least = min(made, key=lambda m: m[0].forward_ms)
    most = max((m for m in made if m[1] in by_nccl), key=lambda m: m[0].forward_ms, default=least)
    unknown_path = own and other_box is None and gpu.link == "pcie" and ranks > 2
    return AllreduceRange(least[0], most[0], least[1].label, most[1].label, unknown_path)


def traced_allreduces(facts: Facts, phase: str) -> FloorPart | str | None:
    """The allreduces that a trace counts in a phase, at their floor; None where it counts none of a known size."""
    trace, gpu, ranks = facts.trace, gpu_of(facts), ranks_of(facts)
    if trace is None:
        return None
    counted: dict[int, float] = {}
    for kernel in trace.comm:
        if kernel.phase == phase and kernel.collective == "all_reduce" and kernel.bytes:
            cycles = trace.cycles_of(kernel.timeline) * len(trace.timelines)
            counted[kernel.bytes] = counted.get(kernel.bytes, 0.0) + kernel.instances / max(cycles, 1)
    sizes = {size: round(count) for size, count in counted.items() if round(count)}
    if not sizes:
        return None
    if isinstance(gpu, str) or isinstance(ranks, str):
        return str(gpu if isinstance(gpu, str) else ranks)
    made = [
        _range(facts, gpu, ranks, lambda c, s=size, n=count: forward.counted_floor(c, size=s, count=n))  # type: ignore[misc]
        for size, count in sorted(sizes.items())
    ]
    parts = [part if isinstance(part, str) else _part(part, Provenance.MODELLED, 1) for part in made]
    known = [part for part in parts if not isinstance(part, str)]
    if len(known) < len(parts):
        return next(part for part in parts if isinstance(part, str))
    low, high = sum(p.low_ms for p in known), sum(p.high_ms for p in known)
    basis = " + ".join(p.basis for p in known)
    return FloorPart("allreduce", low, high, Provenance.MODELLED, f"{basis}, counted in the trace", allreduce.SOURCE)


def traced_tokens(facts: Facts, hidden: int | None) -> int | None:
    """Tokens of a verify by the size of its most frequent traced allreduce; None where that is no whole number."""
    kernels = () if facts.trace is None else facts.trace.comm
    counted: dict[int, int] = {}
    for kernel in kernels:
        if kernel.phase in ("verify", "forward") and kernel.collective == "all_reduce" and kernel.bytes:
            counted[kernel.bytes] = counted.get(kernel.bytes, 0) + kernel.instances
    if not counted or not hidden:
        return None
    tokens, rest = divmod(max(counted, key=lambda size: counted[size]), hidden * 2)
    return tokens if tokens and not rest else None


def allreduce_part(facts: Facts, shape: Fact[ModelShape], tokens: int, forwards: int = 1) -> FloorPart | str:
    """The allreduces of `forwards` forwards as a floor."""
    found = allreduces(facts, shape, tokens)
    if isinstance(found, str):
        return found
    return _part(found, modelled(shape.provenance), forwards)


def _part(found: AllreduceRange, provenance: Provenance, forwards: int) -> FloorPart:
    least, most = found.least, found.most
    low, high = sorted((least.forward_ms, most.forward_ms))
    each = f"{most.each_us:.1f} us" if least == most else f"{least.each_us:.1f}-{most.each_us:.1f} us"
    labels = found.most_label if least == most else f"{found.least_label} to {found.most_label}"
    basis = f"{_times(forwards)}{most.count} allreduces of {most.message_bytes:,} bytes x {each} ({labels})"
    if "extrapolated" in (least.how, most.how):
        basis += ", beyond the longest message measured"
    if found.own_path:
        low = 0.0
        basis += "; the run's own allreduce is on, which may be faster and was not measured"
    return FloorPart("allreduce", low * forwards, high * forwards, provenance, basis, allreduce.SOURCE)


def weights_part(
    facts: Facts, shape: Fact[ModelShape], tokens: int, forwards: int = 1, ranks: int | None = None
) -> FloorPart | str:
    """The weights that each GPU reads in `forwards` forwards as a floor; `ranks`: GPUs that share them."""
    gpu, shared = gpu_of(facts), ranks if ranks is not None else ranks_of(facts)
    if shape.value is None:
        return shape.reason or "the model's shape is not known"
    if isinstance(gpu, str):
        return gpu
    if isinstance(shared, str):
        return shared
    asked = (facts.identity.quantization.value or "").lower()
    unknown = shape.value.quantization is None and asked and asked not in _LOADED_BITS
    if unknown and shape.value.model_type is not None:
        return f"weights read (how the server stores them with quantization={asked} is not known here)"
    read = weights_read(shape.value, tokens, shared, _LOADED_BITS.get(asked))
    if isinstance(read, str):
        return read
    low, high = (forward.weight_read_ms(gpu, size) * forwards for size in (read.bytes.low, read.bytes.high))
    amount = _span(read.bytes.low / 1e9, read.bytes.high / 1e9)
    basis = f"{_times(forwards)}{amount} GB per GPU at {gpu.memory_gbps:,.0f} GB/s"
    if read.experts is not None:
        basis += f", {_whole(read.experts)} of {shape.value.experts} experts per layer"
    return FloorPart(
        "weights", low, high, modelled(shape.provenance), basis, f"{gpu.name}: {_DATA_SHEET} ({gpu.source})"
    )


def modelled(*of: Provenance) -> Provenance:
    """What a model makes of inputs: modelled, and assumed where one of them is."""
    return Provenance.ASSUMED if Provenance.ASSUMED in of else Provenance.MODELLED


def launch_part(launches: float) -> FloorPart:
    """Launching a phase's kernels one by one as a floor."""
    low, high = forward.launch_ms(round(launches))
    each = "-".join(f"{us:g}" for us in forward.LAUNCH_US)
    return FloorPart(
        "launches",
        low,
        high,
        Provenance.ASSUMED,
        f"{launches:,.0f} launches x {each} us, while the GPU works",
        "common profiles of cudaLaunchKernel and PyTorch",
    )


def host_part(host_ms: float) -> FloorPart:
    """What the host needs for a cycle's calls, as timers measured it: no cycle is shorter."""
    basis = "a cycle's calls by the host's clock, while the GPU works"
    return FloorPart("host", host_ms, host_ms, Provenance.MEASURED, basis, "EAGLE3_PROFILE lines")


def _times(forwards: int) -> str:
    return "" if forwards == 1 else f"{forwards} forwards x "


def _span(low: float, high: float) -> str:
    one, other = (f"{value:.2f}" if value < 10 else f"{value:.0f}" for value in (low, high))
    return one if one == other else f"{one}-{other}"


def _whole(span: Span) -> str:
    low, high = f"{span.low:.0f}", f"{span.high:.0f}"
    return low if low == high else f"{low}-{high}"
