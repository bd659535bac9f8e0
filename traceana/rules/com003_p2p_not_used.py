"""GPUs of one node exchange data through host memory, not directly.

What it sees:
NCCL's own lines: NCCL_P2P_LEVEL set to LOC (or 0) or NCCL_P2P_DISABLE to 1 in a worker, "P2P is disabled between
connected GPUs", or connections of which all inside one node go via SHM.

Why it matters:
Shared memory copies every message twice. For the small allreduces of a verify (3 tokens x 7168, bf16) on 8 PCIe ranks
the difference was 114 against 31 us: about 83 us each, 8 ms per 100 allreduces. It is one of the few settings that
can explain milliseconds; channel counts and buffer sizes are not.

How sure and why:
High when the environment switches P2P off or NCCL says that it is disabled. Medium when only the transports show SHM:
NCCL's default on PCIe GPUs below different root ports is SHM, and the topology may allow nothing better.

Rivals:
Another path (custom allreduce, PCIe-IPC) may carry the decode allreduces, and NCCL's transport then matters to
prefill only. P2P may be off for a reason: with IOMMU or ACS translation on, P2P hangs or corrupts data.

Confirm:
NCCL_DEBUG=INFO: "via P2P/IPC", "via P2P/CUMEM" or "via P2P/direct pointer" is P2P, "via SHM" is not. nvidia-smi topo
-p2p r shows what the driver grants.

Fix:
Remove NCCL_P2P_DISABLE, set NCCL_P2P_LEVEL=SYS (PIX or PXB when all GPUs share a switch), with ACS and IOMMU
translation off. Verify the output after the change: a level that is too high ends in a hang or wrong data.

References:
vllm-project/vllm #12664; local-inference-lab/rtx6kpro #15; NVIDIA/nccl #1999 #2079; aiconfigurator's measurements
(L40S, RTX PRO 6000)
"""

from __future__ import annotations

import re

from traceana.facts.model import Evidence, Facts, NcclProcess
from traceana.rules._collectives import carrier, one_gpu, per_hundred
from traceana.rules._nccl_env import NO_CONNECTIONS, NO_NCCL_LINES, clean_value, env_rows
from traceana.rules._text import count, picked
from traceana.rules._wording import names
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity
from traceana.speculation.floors.nccl_model import SHARED_MEMORY_US

_PAIR = re.compile(r"connected GPUs (\d+) and (\d+)")
SMALL_BYTES = 65536  # what an allreduce of a few tokens sends, at most


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when NCCL's lines show that GPUs of one node do not use P2P."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    switched = [row for row in env_rows(facts) if _switches_off(row.name, row.value)]
    shm = _all_shm(facts)
    if switched or facts.nccl.p2p_disabled:
        evidence = picked([*(row.evidence for row in switched), *facts.nccl.p2p_disabled])
        settings = names(f"{row.name}={clean_value(row.value)}" for row in switched)
        return _finding(facts, _title(settings, facts.nccl.p2p_disabled, shm), Confidence.HIGH, evidence)
    if shm:
        title = (
            f"{count(sum(n for _, n in _transports(facts)), 'NCCL connection')} inside one node, all via SHM, not P2P"
        )
        return _finding(facts, title, Confidence.MEDIUM, picked(p.evidence for p in facts.nccl.processes))
    if not facts.nccl.processes:
        return NO_NCCL_LINES
    if any(kind == "P2P" for kind, _ in _transports(facts)):
        return Clear("NCCL connections use P2P")
    return NO_CONNECTIONS


def _switches_off(name: str, value: str) -> bool:
    text = clean_value(value).upper()
    return (name == "NCCL_P2P_LEVEL" and text in ("LOC", "0")) or (name == "NCCL_P2P_DISABLE" and text == "1")


def _transports(facts: Facts) -> list[tuple[str, int]]:
    return [(kind.upper(), n) for process in facts.nccl.processes for kind, n in process.transports]


def _one_node(processes: tuple[NcclProcess, ...]) -> bool:
    return len({p.host for p in processes if p.host is not None}) <= 1


def _all_shm(facts: Facts) -> bool:
    kinds = {kind for kind, n in _transports(facts) if n > 0}
    return kinds == {"SHM"} and _one_node(facts.nccl.processes)


def _title(settings: str, disabled: tuple[Evidence, ...], shm: bool) -> str:
    if settings:
        seen = ", and its connections go via SHM" if shm else ""
        return f"P2P between GPUs is switched off: {settings} reached the workers{seen}"
    texts = [_PAIR.search(evidence.text or "") for evidence in disabled]
    pairs = {tuple(sorted((int(m[1]), int(m[2])))) for m in texts if m is not None}
    where = f"{count(len(pairs), 'pair')} of connected GPUs" if pairs else "connected GPUs"
    return f"NCCL says that P2P is disabled between {where}"


def _finding(facts: Facts, title: str, confidence: Confidence, evidence: tuple[Evidence, ...]) -> Finding:
    other = carrier(facts)
    sizes = {p.nranks for p in facts.nccl.processes if p.nranks is not None}
    sized = "" if sizes in (set(), {8}) else f" (this run: {max(sizes)} ranks, less with fewer)"
    small = (
        f"about {SHARED_MEMORY_US:.0f} us per small allreduce on 8 PCIe ranks{sized}, "
        f"{per_hundred((SHARED_MEMORY_US,))} per 100 allreduces (modelled from L40S and RTX PRO 6000)"
    )
    measured = _measured(facts)
    why = f"Messages between GPUs of a node take two copies through host memory. {measured or f'That costs {small}.'}"
    if other is not None:
        why = (
            f"{other.name[0].upper()}{other.name[1:]} is on and carries small allreduces: this concerns prefill. " + why
        )
    if confidence is Confidence.MEDIUM:
        why += " Without an ENV or a 'P2P is disabled' line this may be all that the topology allows."
    return Finding(
        code=RULE.code,
        title=title,
        severity=Severity.INFO if other is not None else Severity.WARNING,
        confidence=confidence,
        why=why,
        fix=(
            "remove NCCL_P2P_DISABLE and set NCCL_P2P_LEVEL=SYS (PIX or PXB when all GPUs hang off one switch)",
            "first make P2P work: ACS and IOMMU translation off, a driver that grants it (nvidia-smi topo -p2p r)",
            "then check the output: a level that is too high hangs or corrupts data",
        ),
        evidence=evidence,
        confirm="NCCL_DEBUG=INFO for one start: 'via P2P/...' against 'via SHM'",
        rivals=("P2P was switched off on purpose, to avoid a hang", "COM004"),
    )


def _measured(facts: Facts) -> str:
    """The time of the smallest collective measured among the inputs: it goes before a model of another box."""
    curves = facts.collective_times.curves if facts.collective_times is not None else ()
    small = next((c for c in curves if c.sizes_bytes[0] <= SMALL_BYTES), None)
    if small is None:
        return ""
    return (
        f"Measured here: {small.times_us[0]:.1f} us for {small.sizes_bytes[0]} bytes, "
        f"{per_hundred((small.times_us[0],))} per 100 calls; what P2P would save of that is not known."
    )


RULE = Rule("COM003", "p2p-not-used", Severity.WARNING, check, asks="whether NCCL uses P2P")
