"""The nodes exchange data over TCP sockets, not over RDMA.

What it sees:
    NCCL's own lines of connections, "via NET/Socket".

Why it matters:
    A message between two nodes then goes through host memory and the kernel's network stack on both sides. With tensor
    parallelism over nodes every layer's allreduce takes that way twice, in the draft as well as in the verify.

How sure and why:
    High that sockets are used: NCCL says so of each connection. How much of the cycle they cost is not in the log.

Rivals:
    There is no RDMA network between these hosts. With pipeline or data parallelism between the nodes the small
    allreduces stay inside a node, and this costs little.

Confirm:
    "NET/IB : No device found" or "Using network Socket" at the start of the log; ibv_devinfo inside the container;
    all_reduce_perf of nccl-tests over the same nodes at 8 to 64 KB.

Fix:
    Give the container its RDMA devices and let it pin memory, install the NIC's user libraries, remove NCCL_IB_DISABLE;
    or keep tensor parallelism inside a node.

References:
    NVIDIA/nccl #1232; nccl-tests #227; vllm-project/vllm #4277 (no device found in a container)
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._text import picked
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when NCCL's connections between nodes are TCP sockets."""
    kinds = {kind for process in facts.nccl.processes for kind, _ in process.transports}
    if "NET" not in kinds and not facts.nccl.sockets:
        return NotApplicable("NCCL's lines show no connection between nodes")
    if not facts.nccl.sockets:
        return Clear("the connections between nodes are not TCP sockets")
    return Finding(
        code=RULE.code,
        title="The nodes exchange data over TCP sockets (NET/Socket), not over RDMA",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        why=(
            "Each message between nodes goes through host memory and the kernel's network stack. With tensor "
            "parallelism over nodes, each layer's allreduce waits for that, in the draft and in the verify. What it "
            "costs of the cycle is not in the log."
        ),
        fix=(
            "give the containers their RDMA devices (--device=/dev/infiniband --ulimit memlock=-1) and user "
            "libraries, and remove NCCL_IB_DISABLE=1",
            "or keep tensor parallelism inside a node, and use pipeline or data parallelism between nodes",
        ),
        evidence=picked(facts.nccl.sockets, limit=2),
        confirm="ibv_devinfo inside the container; all_reduce_perf over the same nodes at 8 to 64 KB",
        rivals=("these hosts have no RDMA network", "only pipeline or data parallelism crosses the nodes: little cost"),
    )


RULE = Rule(
    "COM011", "nodes-exchange-over-tcp", Severity.WARNING, check, asks="whether nodes exchange data over TCP sockets"
)
