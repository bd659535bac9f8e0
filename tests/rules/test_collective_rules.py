"""COM: which path carries the collectives, and what is said when it is a slow one."""

from dataclasses import replace

import pytest

from tests.rules.builders import at, fact, setting
from tests.rules.node_builders import env, found, incident, nccl, node, process, ready, says
from traceana.facts.model import Evidence, Identity
from traceana.rules import com001_custom_allreduce_refused_on_pcie as com001
from traceana.rules import com002_collective_flag_not_in_effect as com002
from traceana.rules import com003_p2p_not_used as com003
from traceana.rules import com004_nccl_topology_misjudged as com004
from traceana.rules import com005_nccl_protocol_differs_from_request as com005
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable, Severity

ALL = (com001, com002, com003, com004, com005)
PCIE = says("custom_allreduce", "off", "it's not supported on more than two PCIe-only GPUs")
SM120 = "requires SM90 or SM10X NVIDIA GPUs."


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.RULE.code)
def test_one_gpu_has_no_collectives(rule):
    assert isinstance(rule.check(node(tp=1), None), NotApplicable)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.RULE.code)
def test_an_empty_log_proves_nothing(rule):
    assert isinstance(rule.check(node(tp=None), None), CannotTell)


# COM001


def test_refusal_on_pcie_is_told_with_its_cost_per_hundred():
    finding = found(com001.check(node(collectives=(PCIE,)), None))
    assert "more than two GPUs are joined by PCIe only" in finding.title
    assert "2.0 to 2.7 ms per 100 allreduces (modelled" in finding.why
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.explains_ms_per_token is None, "the number of layers is not in the log"
    assert any("do not force" in step for step in finding.fix)


@pytest.mark.parametrize(
    ("version", "start"), [("0.5.9", "upgrade"), ("0.5.21", "SGLANG_ENABLE"), (None, "SGLANG_ENABLE")]
)
def test_pcie_ipc_is_offered_to_the_versions_that_have_it(version, start):
    finding = found(com001.check(node(collectives=(PCIE,), version=version), None))
    assert finding.fix[0].startswith(start)


def test_vllm_users_are_not_sent_to_an_sglang_variable():
    finding = found(com001.check(node(collectives=(PCIE,), engine="vllm"), None))
    assert not any("SGLANG" in step for step in finding.fix)


@pytest.mark.parametrize(
    ("reason", "title"),
    [
        ("an unsupported world size: 6. Supported world sizes: [2, 4, 8]", "world size 6 is not supported"),
        ("this process group spans across nodes", "spans nodes"),
        ("your platform lacks GPU P2P capability or P2P test failed", "no working P2P access"),
        ("of missing custom allreduce library", "library could not be set up"),
        ("a reason nobody has seen", "Custom allreduce is refused; every allreduce"),
    ],
)
def test_other_reasons_get_their_own_title_and_no_pcie_cost(reason, title):
    finding = found(com001.check(node(collectives=(says("custom_allreduce", "off", reason),)), None))
    assert title in finding.title
    assert "per 100" not in finding.why


@pytest.mark.parametrize("kind", ["pcie_ipc", "flashinfer_fusion", "custom_allreduce"])
def test_refusal_is_no_finding_when_another_path_is_on(kind):
    assert isinstance(com001.check(node(collectives=(PCIE, says(kind, "on"))), None), Clear)


def test_a_start_up_without_refusal_is_clear_and_switching_off_is_no_refusal():
    assert isinstance(com001.check(node(setting("tp_size", 8)), None), Clear)
    assert isinstance(com001.check(node(startup=ready()), None), Clear)
    switched = node(setting("disable_custom_all_reduce", True))
    assert isinstance(com001.check(switched, None), NotApplicable)


# COM002


def test_a_fusion_flag_on_an_unsupported_gpu_is_told():
    facts = node(
        setting("enable_flashinfer_allreduce_fusion", True), collectives=(says("flashinfer_fusion", "failed", SM120),)
    )
    finding = found(com002.check(facts, None))
    assert "--enable-flashinfer-allreduce-fusion was asked for and is not in effect" in finding.title
    assert "SM90" in finding.why
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)


def test_a_rejection_that_ends_the_start_counts_too():
    text = "ValueError: FlashInfer allreduce fusion requires SM90 or SM10X NVIDIA GPUs."
    facts = node(setting("enable_flashinfer_allreduce_fusion", True), incidents=(incident("exception", text),))
    assert "not in effect" in found(com002.check(facts, None)).title


@pytest.mark.parametrize(
    "row",
    [
        setting("compilation_config.pass_config.fuse_allreduce_rms", True, origin="non_default_args"),
        setting("compilation_config", {"pass_config": {"fuse_allreduce_rms": True}}, origin="non_default_args"),
    ],
)
def test_vllm_fusion_is_found_where_the_user_set_it(row):
    facts = node(
        row, engine="vllm", collectives=(says("flashinfer_fusion", "failed", "not supported for world size 8"),)
    )
    finding = found(com002.check(facts, None))
    assert finding.title.startswith("fuse_allreduce_rms was asked for")
    assert finding.severity is Severity.WARNING


def test_a_default_that_is_refused_is_only_information():
    row = setting("compilation_config", {"pass_config": {"fuse_allreduce_rms": True}}, origin="engine_config")
    facts = node(
        row, engine="vllm", collectives=(says("flashinfer_fusion", "failed", "not supported for world size 8"),)
    )
    finding = found(com002.check(facts, None))
    assert finding.severity is Severity.INFO
    assert "default" in finding.title


def test_the_line_itself_shows_that_pcie_ipc_was_asked_for():
    line = Evidence(
        "server.log", 30, text="SGLANG_ENABLE_PCIE_IPC_ALLREDUCE is set but this FlashInfer build has no ..."
    )
    statement = says("pcie_ipc", "failed", "this FlashInfer build has no pcie_ipc_comm")
    facts = node(collectives=(replace(statement, evidence=line),))
    finding = found(com002.check(facts, None))
    assert finding.title.startswith("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE was asked for")


def test_a_communicator_that_is_off_by_default_is_not_reported():
    facts = node(setting("tp_size", 8), engine="vllm", collectives=(says("symm_mem", "off", "12.0"),))
    assert isinstance(com002.check(facts, None), NotApplicable)


def test_silence_about_a_flag_proves_neither():
    outcome = com002.check(node(setting("enable_flashinfer_allreduce_fusion", True)), None)
    assert isinstance(outcome, CannotTell)
    assert "allreduce_fusion_kernel" in outcome.capture


def test_a_flag_that_is_on_is_clear_and_an_unset_one_no_question():
    on = node(setting("enable_flashinfer_allreduce_fusion", True), collectives=(says("flashinfer_fusion", "on"),))
    assert isinstance(com002.check(on, None), Clear)
    assert isinstance(com002.check(node(setting("enable_symm_mem", False)), None), NotApplicable)


# COM003


@pytest.mark.parametrize(
    ("name", "value"), [("NCCL_P2P_LEVEL", "LOC"), ("NCCL_P2P_LEVEL", "0"), ("NCCL_P2P_DISABLE", "1.")]
)
def test_p2p_switched_off_in_the_environment_is_certain(name, value):
    facts = node(nccl=nccl(process(0, {name: value}), process(1, {name: value})))
    finding = found(com003.check(facts, None))
    assert f"{name}={value.rstrip('.')}" in finding.title
    assert "83 us" in finding.why
    assert "8.3 ms per 100 allreduces" in finding.why
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)


def test_disabled_pairs_are_counted_once():
    lines = tuple(
        Evidence("nccl.log", 5 + i, text=f"P2P is disabled between connected GPUs {a} and {b}. You can repress")
        for i, (a, b) in enumerate([(3, 0), (0, 3), (1, 3)])
    )
    finding = found(com003.check(node(nccl=nccl(process(0), p2p_disabled=lines)), None))
    assert "2 pairs of connected GPUs" in finding.title
    assert finding.confidence is Confidence.HIGH


def test_shared_memory_alone_may_be_the_topology():
    facts = node(nccl=nccl(*(process(rank, transports=(("SHM", 4),)) for rank in range(8))))
    finding = found(com003.check(facts, None))
    assert finding.confidence is Confidence.MEDIUM
    assert "32 NCCL connections" in finding.title


def test_shared_memory_between_nodes_is_not_judged():
    facts = node(nccl=nccl(process(0, transports=(("SHM", 2),)), process(1, host="node08", transports=(("SHM", 2),))))
    assert isinstance(com003.check(facts, None), CannotTell)


def test_p2p_connections_are_clear():
    facts = node(nccl=nccl(process(0, {"NCCL_P2P_LEVEL": "SYS"}, transports=(("P2P", 4), ("SHM", 1)))))
    assert isinstance(com003.check(facts, None), Clear)


def test_lost_p2p_is_information_while_another_path_carries_decode():
    facts = node(nccl=nccl(process(0, {"NCCL_P2P_DISABLE": "1"})), collectives=(says("custom_allreduce", "on"),))
    finding = found(com003.check(facts, None))
    assert finding.severity is Severity.INFO
    assert "prefill" in finding.why


# COM004


def graph(pattern: int, channels: int, bw: str, path: str = "SYS/SYS") -> Evidence:
    text = f"Pattern {pattern}, crossNic 0, nChannels {channels}, bw {bw}, type {path}, sameChannels 1"
    return Evidence("nccl.log", 90, text=f"node07:900:900 [0] NCCL INFO {text}")


def test_a_ring_at_a_tenth_of_a_gigabyte_is_a_misjudged_topology():
    facts = node(nccl=nccl(process(0, channels=2), slow_graph=(graph(4, 1, "0.100000/0.100000"),)))
    finding = found(com004.check(facts, None))
    assert "0.1 GB/s on its ring (path SYS/SYS)" in finding.title
    assert "23 us" in finding.why
    assert finding.confidence is Confidence.HIGH


@pytest.mark.parametrize(
    "line",
    [
        graph(5, 0, "0.000000/0.000000", "NVL/PIX"),
        graph(4, 0, "0.1/0.1"),
        graph(6, 1, "0.1/0.1"),
        graph(4, 2, "0.0/0.0"),
    ],
)
def test_patterns_that_nccl_dropped_are_no_finding(line):
    assert isinstance(com004.check(node(nccl=nccl(process(0), slow_graph=(line,))), None), CannotTell)


def test_a_slow_line_without_its_text_is_less_certain():
    finding = found(com004.check(node(nccl=nccl(process(0), slow_graph=(at(90),))), None))
    assert finding.confidence is Confidence.MEDIUM


def test_a_log_without_graph_lines_cannot_tell_and_says_what_to_set():
    outcome = com004.check(node(nccl=nccl(process(0))), None)
    assert isinstance(outcome, CannotTell)
    assert "GRAPH" in outcome.capture


# COM005


def tuned(*rows: tuple[str, int, str, str], version: str = "2.27.3", **variables: str):
    facts = node(nccl=nccl(process(0, variables), protocols=rows, protocol_evidence=(at(95),)))
    return replace(facts, identity=Identity(nccl_version=fact(version)))


def test_a_protocol_that_differs_from_the_request_is_told():
    facts = tuned(("AllReduce", 24576, "RING", "SIMPLE"), NCCL_PROTO="LL")
    finding = found(com005.check(facts, None))
    assert "settings: AllReduce of 24,576 bytes: SIMPLE under NCCL_PROTO=LL" in finding.title
    assert "68 us" in finding.why
    assert finding.confidence is Confidence.HIGH


def test_old_numbers_read_like_names_and_agree():
    outcome = com005.check(tuned(("", 1026048, "1", "2"), NCCL_PROTO="Simple"), None)
    assert isinstance(outcome, Clear)
    assert "kernel names never tell" in outcome.note


@pytest.mark.parametrize(
    ("variables", "row"),
    [
        ({"NCCL_PROTO": "LL,LL128,Simple"}, ("AllReduce", 4096, "RING", "LL128")),
        ({"NCCL_PROTO": "^LL128"}, ("AllReduce", 4096, "RING", "LL")),
        ({"NCCL_ALGO": "allreduce:tree"}, ("AllGather", 4096, "RING", "LL")),
        ({"NCCL_ALGO": "allreduce:tree;allgather:ring"}, ("AllGather", 4096, "RING", "LL")),
        ({"NCCL_ALGO": "CollnetDirect"}, ("AllReduce", 4096, "COLLNET_DIRECT", "SIMPLE")),
    ],
)
def test_lists_exclusions_and_functions_are_read_as_nccl_reads_them(variables, row):
    assert isinstance(com005.check(tuned(row, **variables), None), Clear)


@pytest.mark.parametrize(
    ("variables", "row"),
    [
        ({"NCCL_PROTO": "^LL128"}, ("AllReduce", 4096, "RING", "LL128")),
        ({"NCCL_ALGO": "allreduce:tree"}, ("AllReduce", 4096, "RING", "LL")),
    ],
)
def test_exclusions_and_functions_are_held_against_the_lines(variables, row):
    found(com005.check(tuned(row, **variables), None))


def test_the_old_fallback_to_ring_is_no_disobedience():
    row = ("AllGather", 4096, "RING", "LL")
    assert isinstance(com005.check(tuned(row, version="2.21.5", NCCL_ALGO="Tree"), None), Clear)
    found(com005.check(tuned(row, version="2.27.3", NCCL_ALGO="Tree"), None))


def test_no_tuning_lines_cannot_tell_and_no_request_is_no_question():
    assert isinstance(com005.check(tuned(NCCL_PROTO="LL"), None), CannotTell)
    assert isinstance(com005.check(tuned(("AllReduce", 4096, "RING", "LL")), None), NotApplicable)


def test_variables_outside_processes_are_seen():
    facts = node(env("NCCL_P2P_DISABLE", "1", None), nccl=nccl(process(0)))
    found(com003.check(facts, None))


def test_a_failure_nobody_asked_for_is_told_once_and_as_information():
    facts = node(setting("tp_size", 8), collectives=(says("flashinfer_fusion", "failed", "cuMemCreate failed"),))
    finding = found(com002.check(facts, None))
    assert finding.title == "--enable-flashinfer-allreduce-fusion was tried and is not in effect"
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)
