"""Rules about traces: where they look, what makes them speak, how sure they are, and when they are silent."""

from dataclasses import replace

import pytest

from tests.rules.trace_builders import allreduce, facts, late, per_rank, phase, spread, trace, wait
from traceana.facts.model import Fact, Provenance, Speculation
from traceana.facts.trace_model import RunMatch, TraceFacts
from traceana.rules import registry
from traceana.rules.com006_communication_limits_cycle import check as com006
from traceana.rules.com007_ranks_wait_for_each_other import check as com007
from traceana.rules.com008_one_rank_arrives_last import check as com008
from traceana.rules.com009_communication_not_overlapped import check as com009
from traceana.rules.com010_custom_allreduce_not_in_use import check as com010
from traceana.rules.cyc005_host_waits_for_gpu_each_cycle import check as cyc005
from traceana.rules.cyc006_host_work_between_cycles import check as cyc006
from traceana.rules.cyc007_copies_fill_cycle import check as cyc007
from traceana.rules.grf002_verify_launched_kernel_by_kernel import check as grf002
from traceana.rules.grf003_draft_loop_outside_graph import check as grf003
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Severity

TRACE_RULES = [rule for rule in registry.rules() if rule.needs == "trace"]


def finding(outcome: Outcome) -> Finding:
    assert isinstance(outcome, Finding), outcome
    return outcome


def clear(outcome: Outcome) -> Clear:
    assert isinstance(outcome, Clear), outcome
    return outcome


def eager(**changes: object) -> TraceFacts:
    """A verify of 400 launches that waits 4 ms for them, and a captured draft."""
    verify = phase("verify", launches=400, graphs=0, compute=6.0, launch_gap=4.0)
    return trace(verify, phase("draft", compute=1.0), **changes)


@pytest.mark.parametrize("rule", TRACE_RULES, ids=lambda rule: rule.code)
@pytest.mark.parametrize(
    ("found", "word"),
    [
        (eager(match=RunMatch("different", against=("another day",))), "not of this run: another day"),
        (eager(apart="2 of them say that they are rank 0"), "not of one capture"),
        (trace(phase("verify", cycles=4, compute=1.0)), "4 cycles in the traces, fewer than 5"),
        (trace(replace(phase("verify", compute=1.0), window_ns=None)), "the traces hold no GPU event"),
        (trace(), "no cycle was recognised"),
    ],
)
def test_a_rule_says_why_it_cannot_look(rule: registry.Rule, found: TraceFacts, word: str) -> None:
    outcome = rule.check(facts(found), None)
    assert isinstance(outcome, CannotTell)
    assert word in outcome.reason
    assert outcome.what and outcome.capture


@pytest.mark.parametrize("rule", TRACE_RULES, ids=lambda rule: rule.code)
def test_no_rule_about_gpus_speaks_of_an_engine_on_the_cpu(rule: registry.Rule) -> None:
    assert isinstance(rule.check(facts(eager(on_cpu=True)), None), NotApplicable)


def test_without_a_log_no_rule_about_logs_is_asked_and_none_counts_as_looked() -> None:
    outcomes = registry.run_all(facts(eager()))
    assert {type(o) for rule, o in outcomes if rule.needs == "log"} == {CannotTell}
    assert {o for rule, o in outcomes if rule.needs == "log"} == {registry.NO_LOG}


def test_without_a_trace_rules_about_traces_are_one_open_question() -> None:
    outcomes = registry.run_all(facts(None))
    assert {o for rule, o in outcomes if rule.needs == "trace"} == {registry.NOTHING_TO_TRACE}


# ---- GRF002, GRF003 ----


def test_a_verify_that_waits_for_its_launches_is_a_finding_with_ms_per_cycle_and_per_token() -> None:
    found = finding(grf002(facts(eager(), tokens=2.5), None))
    assert (found.severity, found.confidence) == (Severity.WARNING, Confidence.HIGH)
    cycle, token = found.explains_ms_per_cycle, found.explains_ms_per_token
    assert cycle is not None and token is not None
    assert (cycle.low_ms, cycle.high_ms, cycle.provenance) == (4.0, 4.0, Provenance.MEASURED)
    assert (token.high_ms, token.provenance) == (1.6, Provenance.DERIVED)
    assert "of a traced cycle of 11.0 ms (40 cycles on 1 GPU, profiler running)" in cycle.basis


def test_per_token_is_left_out_where_the_tokens_of_a_cycle_are_not_known_and_is_per_step_without_speculation() -> None:
    assert finding(grf002(facts(eager()), None)).explains_ms_per_token is None
    plain = facts(eager(), speculation=Speculation(active=Fact(False)))
    step = finding(grf002(plain, None)).explains_ms_per_token
    assert step is not None and step.high_ms == 4.0


@pytest.mark.parametrize(
    ("changes", "sure"),
    [
        ({"notes": (("warning", "profiler-overhead", "", "", ""),)}, Confidence.MEDIUM),
        ({"provenance": Provenance.DERIVED}, Confidence.LOW),
    ],
)
def test_a_doubtful_capture_makes_it_less_sure(changes: dict[str, object], sure: Confidence) -> None:
    assert finding(grf002(facts(eager(**changes)), None)).confidence is sure


def test_few_cycles_make_it_low() -> None:
    short = trace(phase("verify", launches=400, graphs=0, cycles=12, compute=6.0, launch_gap=4.0))
    assert finding(grf002(facts(short), None)).confidence is Confidence.LOW


def test_a_captured_verify_a_short_one_and_one_that_does_not_wait_are_clear() -> None:
    for verify in (
        phase("verify", launches=3, graphs=1, compute=6.0, launch_gap=4.0),
        phase("verify", launches=47, graphs=0, compute=6.0, launch_gap=4.0),
        phase("verify", launches=100, graphs=1, compute=6.0, launch_gap=4.0),
        phase("verify", launches=400, graphs=0, compute=20.0, launch_gap=0.5),
    ):
        clear(grf002(facts(trace(verify)), None))


def test_the_verify_of_a_small_model_without_any_graph_is_seen() -> None:
    assert finding(grf002(facts(trace(phase("verify", launches=96, graphs=0, compute=6.0, launch_gap=4.0))), None))


def test_a_graph_in_pieces_with_many_launches_beside_it_is_medium() -> None:
    pieces = trace(phase("verify", launches=500, graphs=60, compute=6.0, launch_gap=4.0))
    found = finding(grf002(facts(pieces), None))
    assert found.confidence is Confidence.MEDIUM
    assert "440 launches, 60 graph launches" in found.title


def test_an_eager_draft_beside_a_captured_verify() -> None:
    verify = phase("verify", compute=6.0)
    draft = phase("draft", launches=30, graphs=0, compute=1.0, launch_gap=1.0)
    assert "while the verify replays one" in finding(grf003(facts(trace(verify, draft)), None)).title
    clear(grf003(facts(trace(verify, phase("draft", launches=3, graphs=3, compute=1.0, launch_gap=1.0))), None))
    clear(grf003(facts(trace(verify, replace(draft, bucket_ns={"compute": 40 * 10**6}))), None))
    neither = trace(phase("verify", launches=400, graphs=0, compute=6.0), draft)
    assert isinstance(grf003(facts(neither), None), NotApplicable)
    assert isinstance(grf003(facts(trace(verify)), None), NotApplicable)


# ---- collectives ----


def test_transfer_is_told_apart_from_waiting() -> None:
    moving = trace(*per_rank(4, compute=4.0, allreduce_transfer=3.0))
    assert "3.00 ms of each cycle (43 %)" in finding(com006(facts(moving), None)).title
    skewed = trace(*per_rank(4, late={0: 3.0}, compute=4.0), late=(late(0, 100.0, 1.0),))
    clear(com006(facts(skewed), None))


def test_one_rank_alone_cannot_tell_transfer_from_waiting() -> None:
    alone = trace(phase("verify", compute=4.0, allreduce_unsplit=3.0))
    for check in (com006, com007, com008):
        outcome = check(facts(alone), None)
        assert isinstance(outcome, CannotTell) and "one rank was traced" in outcome.reason


def test_nothing_is_said_of_what_opaque_graph_replays_hide() -> None:
    opaque = trace(*per_rank(2, unknown=8.0, compute=1.0))
    for check in (com006, com007, com008, com009, cyc007):
        outcome = check(facts(opaque), None)
        assert isinstance(outcome, CannotTell) and "without their kernels" in outcome.reason


def test_one_late_rank_is_named_and_changing_ones_are_not() -> None:
    phases = per_rank(8, late={5: 2.0}, compute=6.0)
    one = trace(*phases, late=(late(5, 90.0, 0.95), late(2, 10.0, 0.05)))
    found = finding(com008(facts(one), None))
    assert found.title.startswith("Rank 5 arrives last at 95 % of 1,000 collectives: the other 7 wait 2.00 ms")
    assert "its GPU was still computing, mostly gemm (at 100 % of the waiting)" in found.why
    assert found.confidence is Confidence.HIGH
    assert found.evidence[0].path == "rank5.json"
    clear(com007(facts(one), None))
    many = trace(*phases, late=tuple(late(rank, 12.5, 0.125) for rank in range(8)))
    assert "now for one, now for another" in finding(com007(facts(many), None)).title
    clear(com008(facts(many), None))


def test_of_two_ranks_one_is_to_blame_only_beyond_what_chance_gives() -> None:
    phases = per_rank(2, late={1: 2.0}, compute=6.0)
    clear(com008(facts(trace(*phases, late=(late(1, 70.0), late(0, 30.0)))), None))
    finding(com008(facts(trace(*phases, late=(late(1, 80.0), late(0, 20.0)))), None))


def test_a_late_rank_among_ranks_that_were_not_all_traced_is_a_guess() -> None:
    some = trace(
        *per_rank(4, late={1: 2.0}, compute=6.0), late=(late(1, 90.0, 0.95),), skew_provenance=Provenance.DERIVED
    )
    assert finding(com008(facts(some), None)).confidence is Confidence.LOW


def test_little_waiting_is_no_finding() -> None:
    calm = trace(*per_rank(4, late={1: 0.2}, compute=6.0), late=(late(1, 90.0, 0.95),))
    clear(com007(facts(calm), None))
    clear(com008(facts(calm), None))


@pytest.mark.parametrize(("before", "words"), [("launch_gap", "its host had not launched"), ("idle", "held back")])
def test_what_the_late_rank_did_before_decides_where_to_look(before: str, words: str) -> None:
    found = trace(*per_rank(4, late={1: 2.0}, compute=6.0), late=(late(1, 90.0, 0.95, before),))
    assert words in finding(com008(facts(found), None)).why


def test_exchanges_are_only_called_hideable_with_a_batch_to_split() -> None:
    phases = per_rank(4, compute=4.0, other_comm_exposed=3.0)
    found = finding(com009(facts(trace(*phases, batch=spread(16))), None))
    assert (found.severity, found.confidence) == (Severity.INFO, Confidence.LOW)
    assert isinstance(com009(facts(trace(*phases, batch=spread(2))), None), NotApplicable)
    assert isinstance(com009(facts(trace(*phases)), None), NotApplicable)
    hidden = [replace(p, beside={"other_comm_overlapped": 10**9}) for p in phases]
    clear(com009(facts(trace(*hidden, batch=spread(16))), None))


def nccl_on(*gpus: str, ranks: int = 2, **changes: object) -> TraceFacts:
    kernels = tuple(allreduce(rank, group_size=ranks) for rank in range(2))
    made = trace(*per_rank(2, compute=4.0, allreduce_transfer=1.2), gpus=gpus, comm=kernels)
    return replace(made, **changes)


def test_nccl_for_small_allreduces_on_gpus_with_nvlink() -> None:
    found = finding(com010(facts(nccl_on("NVIDIA H200", ranks=8)), None))
    assert "GPUs of this model are sold with NVLink" in found.title
    assert found.explains_ms_per_cycle is not None
    assert found.explains_ms_per_cycle.provenance is Provenance.MODELLED
    assert found.explains_ms_per_cycle.low_ms == pytest.approx(1.2 - 60 * 0.0109)
    assert "hint at LL (the kernel's name never tells it)" in found.why


def test_two_gpus_on_pcie_could_have_it_four_could_not() -> None:
    assert "two GPUs" in finding(com010(facts(nccl_on("NVIDIA L40S")), None)).title
    assert isinstance(com010(facts(nccl_on("NVIDIA L40S", ranks=4)), None), NotApplicable)
    assert isinstance(com010(facts(nccl_on("NVIDIA H100 PCIe", ranks=8)), None), NotApplicable)
    assert isinstance(com010(facts(nccl_on("AMD Instinct MI300X", ranks=8)), None), NotApplicable)
    assert isinstance(com010(facts(nccl_on(ranks=4)), None), CannotTell)


def test_another_library_large_messages_or_few_of_them_are_clear() -> None:
    for changed in (allreduce(library="vllm_custom"), allreduce(bytes=8 << 20), allreduce(per_cycle=2)):
        clear(com010(facts(nccl_on("NVIDIA H200", ranks=8, comm=(changed,))), None))


# ---- host ----


def test_a_wait_in_each_cycle_that_leaves_the_gpu_idle() -> None:
    phases = (phase("verify", compute=8.0), phase("other", launch_gap=2.0))
    found = finding(cyc005(facts(trace(*phases, waits=(wait(1.5),))), None))
    assert "cudaStreamSynchronize" in found.title and "1.50 ms (15 %)" in found.title
    clear(cyc005(facts(trace(*phases, waits=(wait(1.5, share=0.5),))), None))
    clear(cyc005(facts(trace(*phases, waits=(wait(0.1),))), None))
    clear(cyc005(facts(trace(*phases)), None))


def test_idle_time_after_a_wait_is_not_counted_a_second_time_as_host_work() -> None:
    phases = (phase("verify", compute=8.0), phase("other", launch_gap=2.0))
    assert "2.00 ms of each cycle (20 %)" in finding(cyc006(facts(trace(*phases)), None)).title
    assert "1.50 ms of them after host waits" in clear(cyc006(facts(trace(*phases, waits=(wait(1.5),))), None)).note


def test_copies_that_fill_the_cycle() -> None:
    finding(cyc007(facts(trace(phase("verify", compute=5.0, copies=2.0))), None))
    clear(cyc007(facts(trace(phase("verify", compute=5.0, copies=0.5))), None))


def test_no_rule_is_sure_on_the_word_of_an_uncalibrated_limit_alone() -> None:
    for rule in TRACE_RULES:
        if not any(limit.calibrated for limit in rule.thresholds):
            text = registry.doc(rule).sections["How sure and why"]
            assert not text.startswith("High"), rule.code


def test_a_healthy_trace_has_no_finding() -> None:
    phases = [
        p
        for rank in range(2)
        for p in (
            phase("draft", rank, compute=1.0),
            phase("verify", rank, compute=8.0, allreduce_transfer=1.0, allreduce_wait=0.1, launch_gap=0.1),
            phase("other", rank, launch_gap=0.2),
        )
    ]
    found = facts(trace(*phases, comm=(allreduce(library="vllm_custom"),), gpus=("NVIDIA H200",)))
    assert not [o for rule, o in registry.run_all(found) if isinstance(o, Finding)]


def test_with_ranks_missing_transfer_is_a_bound_and_nothing_is_sure() -> None:
    some = trace(*per_rank(2, compute=4.0, allreduce_transfer=3.0), skew_provenance=Provenance.DERIVED)
    found = finding(com006(facts(some), None))
    assert "at most 3.00 ms" in found.title and "not traced included" in found.title
    assert found.confidence is Confidence.LOW
    assert found.explains_ms_per_cycle is not None
    assert found.explains_ms_per_cycle.provenance is Provenance.DERIVED
