"""STB005: what the ranks say of a collective that did not come back, and STB003 beside it."""

from tests.rules.builders import at
from tests.rules.node_builders import found, incident, node
from traceana.facts.model import CollectiveTimeout, Facts
from traceana.rules import stb003_engine_died as stb003
from traceana.rules import stb005_collective_timed_out as stb005
from traceana.rules.interface import Clear, Confidence, NotApplicable, Severity


def timed_out(*places: tuple[int, int, str], tp: int = 4, group: int | None = None, **more: object) -> Facts:
    reports = tuple(CollectiveTimeout(r, group, n, op, 20480, None, at(90 + r)) for r, n, op in places)
    return node(tp=tp, collective_timeouts=reports, **more)


def test_the_rank_that_waits_elsewhere_is_named():
    facts = timed_out(*((r, 700, "ALLREDUCE") for r in range(3)), (3, 699, "ALLGATHER"))
    finding = found(stb005.check(facts, None))
    assert "most wait in ALLREDUCE" in finding.title
    assert "rank 3 in ALLGATHER of 20,480 elements, number 699" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.CRITICAL, Confidence.MEDIUM)
    assert finding.evidence[0] == at(93), "the one that differs is shown first"


def test_a_rank_without_a_report_is_named_and_not_accused():
    finding = found(stb005.check(timed_out(*((r, 700, "ALLREDUCE") for r in (0, 1, 3))), None))
    assert "rank 2 did not report" in finding.title
    assert finding.confidence is Confidence.LOW
    assert any("another file" in rival for rival in finding.rivals)


def test_all_ranks_in_the_same_collective_points_to_the_link():
    finding = found(stb005.check(timed_out(*((r, 700, "ALLREDUCE") for r in range(4))), None))
    assert "the same one" in finding.title
    assert any("NCCL_P2P_DISABLE=1" in step for step in finding.fix)
    assert finding.confidence is Confidence.LOW


def test_two_ranks_that_differ_have_no_majority():
    finding = found(stb005.check(timed_out((0, 700, "ALLREDUCE"), (1, 701, "ALLREDUCE"), tp=2), None))
    assert "in different ones" in finding.title
    assert finding.confidence is Confidence.LOW


def test_groups_count_their_collectives_apart():
    mixed = timed_out(*((r, 700, "ALLREDUCE") for r in range(4)))
    other = CollectiveTimeout(0, 2, 12, "BROADCAST", 1, None, at(99))
    facts = node(tp=4, collective_timeouts=(*mixed.collective_timeouts, other))
    assert "the same one" in found(stb005.check(facts, None)).title


def test_nothing_timed_out():
    assert isinstance(stb005.check(node(tp=4), None), Clear)
    assert isinstance(stb005.check(node(tp=1), None), NotApplicable)


def test_a_worker_that_dies_of_the_timeout_is_no_second_finding_and_one_that_died_before_is():
    timeout = incident("collective_timeout", "Watchdog caught collective operation timeout", 0)
    died = incident("worker_died", "WorkerProc died unexpectedly")
    later = type(died)(died.kind, died.ts, died.rank, died.text, at(500))
    earlier = type(died)(died.kind, died.ts, died.rank, died.text, at(300))
    assert isinstance(stb003.check(node(tp=4, incidents=(timeout, later)), None), Clear)
    assert found(stb003.check(node(tp=4, incidents=(earlier, timeout)), None)).code == "STB003"
