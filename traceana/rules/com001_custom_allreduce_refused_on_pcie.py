"""The engine refuses its own allreduce kernel, so every tensor-parallel allreduce goes through NCCL.

What it sees:
The warning "Custom allreduce is disabled because ..." (vLLM, SGLang to 0.5.9) or "CustomAllreduce is disabled ..."
and "CustomAllReduceV2 is disabled ..." (SGLang from 0.5.10), and that no other path reports itself as on. The reason
in the line is kept: more than two PCIe-only GPUs, a group that spans nodes, an unsupported world size, a failed P2P
test.

Why it matters:
A small allreduce costs about 20 to 27 us through NCCL on 4 to 8 PCIe ranks (4 to 16 KB: 19.4 to 22.3 us measured on 4
V100, 27.0 us on 8 RTX PRO 6000), where a one-shot kernel takes 4 to 7 us. A dense layer has two. Per 100 allreduces
that is 2.0 to 2.7 ms of every verify. The number of layers is not in the log, so no total is given.

How sure and why:
High that the path is refused: the engine says so. Medium at most that it limits the cycle: the line tells nothing of
how long the allreduces take in this run, and rank skew, launch gaps and compute hide behind the same cycle time.

Rivals:
The allreduces may be a small part of the cycle. Waiting for a late rank looks the same in a profile. On PCIe, COM003
(P2P not used) costs more than the missing kernel.

Confirm:
Profile one step of two ranks: the shorter of two matched allreduces is transfer, the rest is waiting. Or time
all_reduce_perf of nccl-tests at 8 to 64 KB.

Fix:
On PCIe: SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1 (SGLang 0.5.21 and newer); NCCL tuned for small messages (P2P on, LL at
low load); fewer ranks per replica. Do not force custom allreduce on without NVLink: at 4 and 8 ranks its kernel
launches nothing there, which gives wrong data or a hang.

References:
vllm-project/vllm #13719 #39633 #56128; sgl-project/sglang pcie_ipc_ar.py (0.5.21); flashinfer-ai/flashinfer #4393;
haohervchb/sglang-V100 PR 2 (measurements)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceana.facts.model import Facts, PathStatement
from traceana.facts.versions import in_range, parse_version
from traceana.rules._collectives import (
    NCCL_PCIE_US,
    NO_STARTUP,
    PCIE_IPC_US,
    carrier,
    one_gpu,
    per_hundred,
    said,
    startup_seen,
)
from traceana.rules._text import picked
from traceana.rules._wording import ranks
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why an engine refuses: words of the line, the title's half sentence, and what helps."""

    words: tuple[str, ...]
    title: str
    fix: tuple[str, ...]


_NO_FORCING = (
    "do not force custom allreduce on without NVLink: at 4 and 8 ranks its kernel launches nothing there, "
    "which gives wrong data or a hang"
)
_REASONS = (
    _Reason(
        ("pcie-only",),
        "more than two GPUs are joined by PCIe only",
        (
            "tune NCCL for small messages: P2P on (NCCL_P2P_LEVEL), LL at low load, a graph file where it misjudges",
            "or use fewer ranks per replica (two PCIe GPUs are supported), or pipeline instead of tensor parallelism",
            _NO_FORCING,
        ),
    ),
    _Reason(
        ("spans across nodes", "multi-node"),
        "the tensor-parallel group spans nodes",
        ("keep tensor parallelism inside a node and split over nodes by pipeline or data parallelism",),
    ),
    _Reason(
        ("unsupported world size",),
        "its world size is not supported",
        ("use 2, 4, 6 or 8 ranks per tensor-parallel group",),
    ),
    _Reason(
        ("p2p capability", "p2p test failed"),
        "the GPUs have no working P2P access to each other",
        (
            "check P2P: nvidia-smi topo -p2p r, IOMMU and ACS off; delete the engine's P2P cache file after a change",
            _NO_FORCING,
        ),
    ),
    _Reason(
        ("missing custom allreduce library", "setup custom allreduce failed"),
        "its library could not be set up",
        ("install the engine's kernel package that belongs to this build, and read the error in the line",),
    ),
)
_OTHER = _Reason((), "", ("read the reason in the line",))


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a rank says that custom allreduce is off and no other path is on."""
    off = facts.statements("custom_allreduce", "off") + facts.statements("custom_allreduce", "failed")
    other = carrier(facts)
    if one_gpu(facts):
        return NotApplicable("one GPU per replica: no allreduce")
    if not off:
        if other is not None:
            return Clear(f"{other.name} is on")
        if facts.settings.value("disable_custom_all_reduce") is True:
            return NotApplicable("custom allreduce was switched off by an argument, not refused")
        return Clear("no rank refused custom allreduce") if startup_seen(facts) else NO_STARTUP
    if other is not None:
        return Clear(f"custom allreduce is refused, and {other.name} is on in its place for small messages")
    return _finding(facts, off)


def _finding(facts: Facts, off: tuple[PathStatement, ...]) -> Finding:
    reason = next((r for r in _REASONS if any(w in said(s) for s in off for w in r.words)), _OTHER)
    title = reason.title
    size = next((m for s in off if (m := re.search(r"unsupported world size: (\d+)", said(s)))), None)
    if size is not None and reason.words == ("unsupported world size",):
        title = f"world size {size[1]} is not supported"
    who = {rank for statement in off for rank in statement.ranks}
    return Finding(
        code=RULE.code,
        title=f"Custom allreduce is refused{title and f': {title}'}; every allreduce goes through NCCL",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        why=(
            f"{ranks(who).capitalize() if who else 'The engine'} reported it at start-up, and no other path reports "
            f"itself as on. {_size(reason)} Whether this limits the cycle the log cannot show (medium at most)."
        ),
        fix=(*_pcie_ipc(facts, reason), *reason.fix),
        evidence=picked(s.evidence for s in off),
        confirm="profile one step on two ranks; the shorter of two matched allreduces is transfer, the rest is waiting",
        rivals=("COM003", "allreduce is a small part of the cycle", "waiting for a late rank"),
    )


def _size(reason: _Reason) -> str:
    if reason is not _REASONS[0]:
        return "What it costs depends on the links between the ranks and is not sized here."
    return (
        f"A 4 to 16 KB allreduce takes about {NCCL_PCIE_US[0]:.0f} to {NCCL_PCIE_US[1]:.0f} us through NCCL on 4 to 8 "
        f"PCIe ranks with P2P, two per layer: {per_hundred(NCCL_PCIE_US)} per 100 allreduces (modelled; the log "
        "does not tell the number of layers)."
    )


def _pcie_ipc(facts: Facts, reason: _Reason) -> tuple[str, ...]:
    if reason is not _REASONS[0] or facts.identity.engine.value not in (None, "sglang"):
        return ()
    version = parse_version(facts.identity.version.value or "")
    have = "" if version is None or in_range(version, ">=0.5.21") else "upgrade, then "
    return (
        f"{have}SGLANG_ENABLE_PCIE_IPC_ALLREDUCE=1 (SGLang 0.5.21 and newer, bf16, 2, 4 or 8 ranks): "
        f"{PCIE_IPC_US} us at 12 KiB on 8 PCIe GPUs in SGLang's own measurement",
    )


RULE = Rule(
    "COM001", "custom-allreduce-refused-on-pcie", Severity.WARNING, check, asks="whether custom allreduce is refused"
)
