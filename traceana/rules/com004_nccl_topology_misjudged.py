"""NCCL believes that its own links carry less than 1 GB/s, and chooses channels and protocol by that.

What it sees:
GRAPH lines such as "Pattern 4, crossNic 0, nChannels 1, bw 0.100000/0.100000, type SYS/SYS": a ring or a tree with
less than 1 GB/s. Patterns that NCCL tried and dropped (no channels, bandwidth 0) do not count.

Why it matters:
With such a graph NCCL takes two channels and the Simple protocol for small messages. On 8 RTX PRO 6000 behind two
CPUs a 64 KB allreduce took 48.7 us instead of 25.6 with the right graph: 23 us each, 2.3 ms per 100 allreduces, over
the same P2P transport.

How sure and why:
High when the line is there: no working link between GPUs is that slow, PCIe 3.0 x1 included, and the figure comes
from the search itself. Other graphs seen on the same machines had 15 to 38 GB/s.

Rivals:
A virtual machine that hides the PCIe tree gives the same line and may really lack P2P (COM003). Where another path
carries small allreduces, the graph matters to prefill only.

Confirm:
NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH with a newer NCCL or a graph file: the bandwidth and the number of
channels must change. Then time all_reduce_perf at 64 KB.

Fix:
A newer NCCL (the case above is fixed by its pull request 2127); else NCCL_GRAPH_FILE or NCCL_TOPO_FILE with the real
topology; else NCCL_PROTO=LL, for low load only.

References:
local-inference-lab/rtx6kpro optimization/nccl-tuning.md; NVIDIA/nccl #1453, PR 2127
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from traceana.facts.model import Evidence, Facts
from traceana.rules._collectives import carrier, one_gpu, per_hundred
from traceana.rules._nccl_env import NO_NCCL_LINES
from traceana.rules._text import count, picked
from traceana.rules._wording import upper_first
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)
from traceana.speculation.floors.nccl_model import MISJUDGED_TOPOLOGY_US

SLOW_GBPS = Threshold(
    "slow_graph",
    1.0,
    "GB/s",
    "a ring or tree graph below this is a misjudged topology, not a slow link",
    "graphs of 8 x RTX PRO 6000: 0.1 misjudged, 15 and 38 right; PCIe 3.0 x1 carries 1",
    True,
)
_PATTERN = re.compile(
    r"Pattern (?P<pattern>\d+)(?:, crossNic \d+, nChannels (?P<channels>\d+))?.*?"
    r"bw (?P<inside>[\d.]+)/(?P<between>[\d.]+), type (?P<path>\w+/\w+)"
)
_SHAPES = {"1": "tree", "2": "tree", "3": "tree", "4": "ring"}
_NO_GRAPH = CannotTell(
    "no slow GRAPH line is in the log, and it does not tell whether GRAPH lines were printed",
    "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH for one start",
)


@dataclass(frozen=True, slots=True)
class _Graph:
    """A slow graph: `gbps` None when the line's text is not at hand."""

    shape: str
    gbps: float | None
    path: str | None
    evidence: Evidence


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when NCCL's search ended with a ring or tree below 1 GB/s."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    graphs = [graph for line in facts.nccl.slow_graph if (graph := _read(line)) is not None]
    if not graphs and facts.nccl.graph_lines:
        return Clear(f"{facts.nccl.graph_lines} GRAPH lines, none of a working graph below {SLOW_GBPS.value:.0f} GB/s")
    if not graphs:
        return _NO_GRAPH if facts.nccl.processes else NO_NCCL_LINES
    return _finding(facts, graphs)


def _read(line: Evidence) -> _Graph | None:
    """The graph of a line; None for one that NCCL dropped or that is not a ring or tree."""
    if line.text is None or (match := _PATTERN.search(line.text)) is None:
        return _Graph("graph", None, None, line)
    bandwidth = min(float(match["inside"].rstrip(".")), float(match["between"].rstrip(".")))
    dropped = match["channels"] == "0" or bandwidth == 0
    if dropped or match["pattern"] not in _SHAPES or bandwidth >= SLOW_GBPS.value:
        return None
    return _Graph(_SHAPES[match["pattern"]], bandwidth, match["path"], line)


def _finding(facts: Facts, graphs: list[_Graph]) -> Finding:
    slowest = min(graphs, key=lambda graph: graph.gbps if graph.gbps is not None else SLOW_GBPS.value)
    speed = f"{slowest.gbps:.1f} GB/s" if slowest.gbps is not None else f"less than {SLOW_GBPS.value:.0f} GB/s"
    path = f" (path {slowest.path})" if slowest.path else ""
    channels = sorted({p.channels for p in facts.nccl.processes if p.channels is not None})
    taken = f" It set up {count(channels[0], 'channel')}." if channels else ""
    other = carrier(facts)
    aside = f" {upper_first(other.name)} is on and carries small allreduces: this concerns prefill." if other else ""
    return Finding(
        code=RULE.code,
        title=f"NCCL reckons with {speed} on its {slowest.shape}{path}: it has misjudged the topology",
        severity=Severity.INFO if other else Severity.WARNING,
        confidence=Confidence.HIGH if slowest.gbps is not None else Confidence.MEDIUM,
        why=(
            f"No link between working GPUs is that slow; NCCL then takes few channels and the Simple protocol.{taken} "
            f"On 8 PCIe GPUs that made a 64 KB allreduce about {MISJUDGED_TOPOLOGY_US:.0f} us longer, "
            f"{per_hundred((MISJUDGED_TOPOLOGY_US,))} per 100 allreduces (modelled from 8 x RTX PRO 6000).{aside}"
        ),
        fix=(
            "use a newer NCCL",
            "or give it the topology: NCCL_GRAPH_FILE or NCCL_TOPO_FILE",
            "or force NCCL_PROTO=LL at low load (it costs throughput at 32 users)",
        ),
        evidence=picked(graph.evidence for graph in graphs),
        confirm="after the change, the same GRAPH lines must show more bandwidth and more channels",
        rivals=("COM003", "a virtual machine that hides the PCIe tree"),
    )


RULE = Rule(
    "COM004",
    "nccl-topology-misjudged",
    Severity.WARNING,
    check,
    thresholds=(SLOW_GBPS,),
    asks="whether NCCL judges the topology right",
)
