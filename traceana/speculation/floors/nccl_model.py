"""NCCL's own latency model, for what a protocol would cost (NCCL source, src/graph/tuning.cc, 2.18 to 2.28).

`time = base[algorithm][protocol] + steps x hop[link][algorithm][protocol]`, with 2 (n - 1) steps for an allreduce
inside a node. It holds for messages so small that bandwidth does not matter; it is modelled, never measured.
"""

from __future__ import annotations

from dataclasses import dataclass

ALGORITHMS = ("ring", "tree")
PROTOCOLS = ("ll", "ll128", "simple")
LINKS = ("nvlink", "pcie")

_BASE_US = {
    "tree": {"ll": 6.8, "ll128": 14.0, "simple": 8.4},
    "ring": {"ll": 6.6, "ll128": 14.0, "simple": 8.4},
}
_HOP_US = {
    "nvlink": {"tree": {"ll": 0.6, "ll128": 1.25, "simple": 4.0}, "ring": {"ll": 0.6, "ll128": 1.9, "simple": 3.4}},
    "pcie": {"tree": {"ll": 1.0, "ll128": 1.9, "simple": 4.0}, "ring": {"ll": 1.0, "ll128": 2.5, "simple": 5.7}},
}


def latency_us(ranks: int, link: str, protocol: str, algorithm: str = "ring") -> float:
    """Latency of a small allreduce inside one node, in us. ValueError for fewer than 2 ranks or unknown words."""
    if ranks < 2:
        raise ValueError(f"an allreduce has at least 2 ranks, not {ranks}")
    if link not in LINKS or protocol not in PROTOCOLS or algorithm not in ALGORITHMS:
        raise ValueError(f"unknown: {link}, {protocol}, {algorithm}")
    return _BASE_US[algorithm][protocol] + 2 * (ranks - 1) * _HOP_US[link][algorithm][protocol]


#: shared memory in place of P2P, 3 tokens x 7168 bf16 on 8 PCIe ranks: 114.3 (L40S, NCCL 2.27.3) - 31.2 (RTX PRO 6000)
SHARED_MEMORY_US = 83.0
#: a misjudged topology: 64 KB on 8 x RTX PRO 6000, two sockets, 48.7 untuned - 25.6 with a graph file or LL
MISJUDGED_TOPOLOGY_US = 23.1


def simple_instead_of_ll_us(ranks: int = 8, link: str = "pcie") -> float:
    """How much longer a small allreduce takes with the Simple protocol than with LL, by NCCL's latency model."""
    return latency_us(ranks, link, "simple") - latency_us(ranks, link, "ll")


@dataclass(frozen=True, slots=True)
class PathCost:
    """How much longer one allreduce takes on a worse path or protocol, in us, and from where that is known.

    `kind` is simple_protocol, shared_memory or topology.
    """

    kind: str
    name: str
    low_us: float
    high_us: float
    source: str


def path_costs(ranks: int, link: str) -> tuple[PathCost, ...]:
    """What can make each small allreduce of a box slower: protocol, shared memory instead of P2P, an untuned graph.

    The measured rows hold for 8 ranks on PCIe only and are left out elsewhere.
    """
    simple = simple_instead_of_ll_us(ranks, link)
    found = [PathCost("simple_protocol", "Simple where LL would do", 0.0, simple, "NCCL's latency model (tuning.cc)")]
    if ranks == 8 and link == "pcie":
        found += [
            PathCost(
                "shared_memory",
                "shared memory instead of P2P",
                0.0,
                SHARED_MEMORY_US,
                "8x L40S against 8x RTX PRO 6000, 3 tokens of 7168",
            ),
            PathCost(
                "topology",
                "topology misjudged (bw 0.1, 2 channels)",
                0.0,
                MISJUDGED_TOPOLOGY_US,
                "rtx6kpro nccl-tuning.md, 64 KB: 48.7 and 25.6",
            ),
        ]
    return tuple(found)
