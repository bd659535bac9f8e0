"""Which path carries a decode allreduce, as far as the ranks say, and what one costs on PCIe.

Costs are published measurements of single allreduces, back to back, without skew: a floor, and always `modelled` when
they are carried over to another machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts, PathStatement
from traceana.rules._wording import words
from traceana.rules.interface import CannotTell

#: paths that take small allreduces away from NCCL, in the engines' order of preference, and how to call them
CARRIERS = (
    ("flashinfer_fusion", "FlashInfer's fused allreduce"),
    ("custom_allreduce", "custom allreduce"),
    ("pcie_ipc", "the PCIe-IPC allreduce"),
)

#: one 4-16 KB allreduce through NCCL, microseconds: 4 x V100 behind one PCIe switch 19.4-22.3 (sglang-V100 PR 2),
#: 8 x RTX PRO 6000 with NCCL 2.29.2 27.0 (aiconfigurator data, 1 token x 7168 bf16)
NCCL_PCIE_US = (20.0, 27.0)
#: one 12 KiB allreduce over PCIe-IPC on 8 PCIe GPUs, microseconds (SGLang 0.5.21, pcie_ipc_ar.py)
PCIE_IPC_US = 5.3

NO_STARTUP = CannotTell(
    "the start-up part of the log is not among the inputs",
    "keep the log from the first line on: allreduce paths and graph captures are announced at start-up",
)


@dataclass(frozen=True, slots=True)
class Carrier:
    """A path that is on, and who says so."""

    kind: str
    name: str
    statement: PathStatement


def carrier(facts: Facts) -> Carrier | None:
    """The path besides NCCL that a rank reports as on, or None."""
    for kind, name in CARRIERS:
        for statement in facts.statements(kind, "on"):
            return Carrier(kind, name, statement)
    return None


def one_gpu(facts: Facts) -> bool:
    """True when the run is known to use one GPU per replica: no collective is on the decode path."""
    sizes = (facts.parallelism.tp.value, facts.parallelism.pp.value, facts.parallelism.ep.value)
    several = any(size is not None and size > 1 for size in sizes)
    several = several or any(p.nranks is not None and p.nranks > 1 for p in facts.nccl.processes)
    return sizes[0] == 1 and not several


def startup_seen(facts: Facts) -> bool:
    """True when the inputs hold the start-up of the server, where the paths are announced."""
    return bool(facts.settings.rows or facts.startup.stages or facts.startup.ready.known or facts.graphs.captures)


def said(statement: PathStatement) -> str:
    """All that is known of a statement's wording, in lower case."""
    return words(statement.reason, statement.evidence.text)


def per_hundred(us: tuple[float, ...]) -> str:
    """What 100 collectives of these many microseconds add up to: "2.0 to 2.7 ms", "8.3 ms"."""
    low, high = f"{min(us) / 10:.1f}", f"{max(us) / 10:.1f}"
    return f"{low} ms" if low == high else f"{low} to {high} ms"
