"""COM011: connections between nodes over TCP."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.builders import at
from tests.rules.node_builders import found, node, process
from traceana.facts.model import NcclFacts
from traceana.rules import com011_nodes_exchange_over_tcp as com011
from traceana.rules.interface import Clear, Confidence, NotApplicable


def _facts(kind: str, sockets: bool):
    processes = (replace(process(0), transports=((kind, 4),)),)
    return node(nccl=NcclFacts(processes=processes, sockets=(at(12),) if sockets else ()))


def test_sockets_between_nodes_are_named_without_a_cost_that_the_log_does_not_hold():
    finding = found(com011.check(_facts("NET", True), None))
    assert finding.confidence is Confidence.HIGH
    assert "not in the log" in finding.why
    assert finding.explains_ms_per_token is None


def test_rdma_between_nodes_is_clear_and_one_node_is_not_asked():
    assert isinstance(com011.check(_facts("NET", False), None), Clear)
    assert isinstance(com011.check(_facts("P2P", False), None), NotApplicable)
