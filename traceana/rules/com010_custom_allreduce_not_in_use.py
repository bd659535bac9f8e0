"""Small allreduces go through NCCL on GPUs that a custom allreduce would serve.

What it sees:
    In the traces: allreduces of a few hundred kilobytes at most, all of them NCCL kernels, between two GPUs or
    between up to eight whose model is sold with NVLink.

Why it matters:
    At these sizes an allreduce is latency. A one-shot kernel over peer memory takes 5 to 11 us where NCCL takes 16
    to 25, about a hundred times per forward.

How sure and why:
    Medium that no custom kernel ran: kernel names tell the library. That the box could have it is read off the
    GPU's name, not off its links. The saving is modelled from published measurements of other machines.

Rivals:
    Switched off on purpose, peer access missing (containers, IOMMU), ranks on two hosts, a message above the
    engine's limit, captures of a build without the kernels.

Confirm:
    The start-up lines of the log say why (COM001), and nvidia-smi topo -m shows NV# between all GPUs.

Fix:
    Leave out --disable-custom-all-reduce; give all ranks the same visible GPUs and peer access (--ipc=host);
    FlashInfer or symmetric-memory allreduce where the GPUs have it.

References:
    vllm #13719; aiconfigurator data: allreduce of 1 to 16 tokens x 7168 bf16 on 8 H200: NCCL 18.0 to 20.9 us,
    custom 5.2 to 9.6 us.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceana.facts.model import Facts, Provenance
from traceana.facts.trace_model import CommKernel, TraceFacts
from traceana.rules._text import ms, num
from traceana.rules._traces import (
    HIDDEN,
    NCCL,
    allreduces,
    amount,
    confidence,
    explained,
    gate,
    hidden,
    per_cycle,
    protocol_hint,
    seen_in,
)
from traceana.rules.interface import CannotTell, Clear, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

SMALL = Threshold(
    "small",
    524_288,
    "bytes",
    "messages a custom allreduce is made for",
    "vLLM and SGLang: 8 MB at most; gain below",
    False,
)
MANY = Threshold("many", 20, "allreduces per cycle", "a tensor-parallel forward has two per layer", "a choice", False)
#: us of one allreduce by a custom kernel, least and most (8 H200, 1 to 32 tokens x 7168 bf16, aiconfigurator data)
CUSTOM_US = (5.2, 10.9)
_SIZES = (2, 4, 6, 8)
#: GPUs that are sold on boards with NVLink between all of them
_NVLINK = re.compile(
    r"A100-SXM|A800-SXM|H100 80GB HBM3|H100 SXM|H800(?! PCIe)|H20\b|H200(?! NVL)|B200|B300|GB200|GB300|V100-SXM", re.I
)
_NO_NVIDIA = re.compile(r"AMD|Radeon|Instinct|MI\d{3}|gfx\d", re.I)


@dataclass(frozen=True, slots=True)
class _Box:
    """How many ranks take part, and why they could have a custom allreduce (None: they could not)."""

    ranks: int | None
    could: str | None
    why_not: str = ""


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when all small allreduces are NCCL's on a box that could do without."""
    trace = gate(facts)
    if not isinstance(trace, TraceFacts):
        return trace
    kernels = allreduces(trace)
    if not kernels:
        return HIDDEN if hidden(trace) else NotApplicable("no allreduce in the traced cycles")
    others = sorted({c.library for c in kernels if c.library not in (NCCL, None)})
    if others:
        return Clear(f"allreduces by {', '.join(others)}")
    n = per_cycle(trace, kernels)
    large = [c for c in kernels if c.bytes is not None and c.bytes > SMALL.value]
    if n < MANY.value or sum(c.instances for c in large) > sum(c.instances for c in kernels) / 2:
        return Clear(f"{num(n)} allreduces per cycle, most of them too large or too few to matter")
    box = _box(trace, kernels)
    if box.ranks is None or (box.could is None and not trace.gpus):
        return CannotTell(
            "the traces name neither the GPUs nor the ranks of the group",
            "nvidia-smi -L and nvidia-smi topo -m beside the traces; a newer profiler names the GPUs itself",
        )
    return NotApplicable(box.why_not) if box.could is None else _finding(facts, trace, kernels, n, box)


def _box(trace: TraceFacts, kernels: tuple[CommKernel, ...]) -> _Box:
    sizes = {c.group_size for c in kernels if c.group_size is not None}
    ranks = max(sizes) if sizes else trace.world_size
    if ranks is None or ranks not in _SIZES:
        return _Box(ranks, None, "custom allreduce exists for 2, 4, 6 and 8 ranks")
    if any(_NO_NVIDIA.search(name) for name in trace.gpus):
        return _Box(ranks, None, "this rule knows NVIDIA's GPUs only")
    if trace.gpus and all(_NVLINK.search(name) for name in trace.gpus):
        return _Box(ranks, "GPUs of this model are sold with NVLink between them")
    if ranks == 2:
        return _Box(ranks, "two GPUs may use it over PCIe, too")
    return _Box(ranks, None, "more than two GPUs without NVLink: custom allreduce is refused there (COM001)")


def _finding(facts: Facts, trace: TraceFacts, kernels: tuple[CommKernel, ...], n: float, box: _Box) -> Finding:
    spent = amount(trace, ("allreduce_transfer",))
    each = 1000 * spent.mean / n if spent.mean else None
    low, high = (max(0.0, spent.mean - n * us / 1000) for us in reversed(CUSTOM_US))
    hint = protocol_hint(kernels)
    took = "" if each is None else f" They take {num(each)} us each with all ranks present; a custom kernel takes "
    took += "" if each is None else f"{CUSTOM_US[0]:g} to {CUSTOM_US[1]:g} us on 8 H200 (modelled for this box). "
    return Finding(
        code=RULE.code,
        title=f"All {num(n)} allreduces of a cycle are NCCL kernels, though {box.could}",
        severity=Severity.WARNING,
        confidence=confidence(trace),
        why=f"{box.ranks} ranks ({', '.join(trace.gpus) or 'GPU not named'}); no custom, fused or symmetric-memory "
        "allreduce "
        f"kernel is in the traced cycles.{took}{f'{hint[0].upper()}{hint[1:]}. ' if hint else ''}"
        f"Allreduce transfer: {ms(spent.mean)}.",
        fix=(
            "leave out --disable-custom-all-reduce, and read in the start-up lines why a rank refuses it (COM001)",
            "containers: --ipc=host and all GPUs visible to all ranks; FlashInfer or symmetric-memory allreduce "
            "also do",
        ),
        evidence=seen_in(trace),
        confirm="nvidia-smi topo -m (NV# or PIX between the GPUs) and the engine's start-up lines about custom "
        "allreduce",
        rivals=("COM001", "switched off on purpose", "ranks on two hosts", "no peer access between the GPUs"),
        **explained(
            facts, trace, low, high, Provenance.MODELLED, "transfer now less that of a custom kernel on 8 H200"
        ),
    )


RULE = Rule(
    code="COM010",
    name="custom-allreduce-not-in-use",
    severity=Severity.WARNING,
    check=check,
    thresholds=(SMALL, MANY),
    asks="whether a custom allreduce is in use",
    needs="trace",
)
