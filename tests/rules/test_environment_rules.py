"""ENV: which variables arrived, which do nothing, and which never will."""

from dataclasses import replace

import pytest

from tests.rules.builders import fact, level, setting
from tests.rules.node_builders import asked, env, found, nccl, node, process, says
from traceana.facts.model import Identity
from traceana.rules import env001_nccl_variable_missing_on_some_ranks as env001
from traceana.rules import env002_unknown_engine_variable as env002
from traceana.rules import env003_misspelt_nccl_variable as env003
from traceana.rules import env004_nccl_variable_without_effect as env004
from traceana.rules import env005_nccl_variable_overwritten_by_engine as env005
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable, Severity

ALL = {"NCCL_P2P_LEVEL": "SYS", "NCCL_PROTO": "LL", "NCCL_MAX_NCHANNELS": "4"}


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in ALL.items() if name not in names}


def ranks(*missing: int, lost: str = "NCCL_PROTO", n: int = 8):
    return nccl(*(process(rank, without(lost) if rank in missing else ALL, nranks=n) for rank in range(n)))


# ENV001


def test_a_variable_missing_on_three_ranks_is_named_with_its_cost():
    finding = found(env001.check(node(nccl=ranks(5, 6, 7)), None))
    assert finding.title == "NCCL_PROTO is missing in ranks 5-7 and set in the other 5"
    assert "up to 68 us per small allreduce" in finding.why
    assert "6.8 ms per 100" in finding.why
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)


def test_lost_channel_limits_explain_no_slow_verify():
    finding = found(env001.check(node(nccl=ranks(7, lost="NCCL_MAX_NCHANNELS")), None))
    assert finding.severity is Severity.INFO
    assert "explains no slow verify" in finding.why


def test_the_costly_variable_leads_the_title():
    facts = node(nccl=nccl(process(0, ALL), process(1, without("NCCL_MAX_NCHANNELS", "NCCL_P2P_LEVEL"), nranks=8)))
    finding = found(env001.check(facts, None))
    assert finding.title.startswith("NCCL_P2P_LEVEL is missing in rank 1")
    assert "1 more variable" in finding.title


def test_a_process_without_any_env_line_is_not_shown_rather_than_missing():
    facts = node(nccl=nccl(*(process(rank, ALL if rank < 4 else None) for rank in range(8))))
    outcome = env001.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "ENV rows of 4 of 8 ranks" in outcome.reason
    assert "not shown is not the same as not set" in outcome.reason


def test_silent_processes_are_mentioned_and_not_counted():
    facts = node(nccl=nccl(process(0, ALL), process(1, without("NCCL_PROTO")), process(2)))
    finding = found(env001.check(facts, None))
    assert "rank 1" in finding.title
    assert "no ENV row of theirs is in the log: 1 process." in finding.why


def test_a_rank_whose_initialisation_is_cut_off_is_not_accused():
    facts = node(nccl=nccl(process(0, ALL, 2), process(1, without("NCCL_PROTO"), 2, init_complete=False)))
    outcome = env001.check(facts, None)
    assert isinstance(outcome, CannotTell)
    assert "Init COMPLETE" in outcome.reason


def test_variables_of_paths_that_are_not_used_are_not_missed():
    with_ib = {**ALL, "NCCL_IB_HCA": "mlx5_0"}
    facts = node(nccl=nccl(process(0, with_ib, 2), process(1, ALL, 2)))
    assert isinstance(env001.check(facts, None), Clear)


def test_p2p_level_is_not_read_where_p2p_is_disabled():
    disabled = {"NCCL_P2P_DISABLE": "1", "NCCL_PROTO": "LL"}
    facts = node(
        nccl=nccl(process(0, disabled, 2), process(1, disabled, 2), requested=(asked("NCCL_P2P_LEVEL", "SYS"),))
    )
    assert isinstance(env001.check(facts, None), Clear)


def test_asked_for_and_nowhere_is_told_when_other_variables_are_visible():
    facts = node(nccl=replace(ranks(*range(8)), requested=(asked("NCCL_PROTO", "LL"),)))
    finding = found(env001.check(facts, None))
    assert finding.title == "NCCL_PROTO was asked for and reached none of 8 processes"


def test_different_values_are_told():
    facts = node(nccl=nccl(process(0, ALL, 2), process(1, {**ALL, "NCCL_PROTO": "Simple"}, 2)))
    assert "NCCL_PROTO differs between processes: LL, Simple" in found(env001.check(facts, None)).title


def test_all_ranks_alike_is_clear_even_without_complete_lines():
    facts = node(nccl=nccl(*(process(rank, ALL, 2, init_complete=False) for rank in range(2))))
    outcome = env001.check(facts, None)
    assert isinstance(outcome, Clear)
    assert "all 2 processes" in outcome.note


def test_no_env_line_at_all_cannot_tell():
    facts = node(nccl=nccl(*(process(rank) for rank in range(8)), requested=(asked("NCCL_PROTO", "LL"),)))
    assert isinstance(env001.check(facts, None), CannotTell)
    assert isinstance(env001.check(node(), None), CannotTell)


# ENV002


def unknown(*names: str):
    return tuple(setting(name, "", origin="unknown_env", line=9 + i) for i, name in enumerate(names))


def test_unknown_engine_variables_are_counted_and_named():
    facts = node(*unknown("VLLM_SPECULATE_HARDER", "VLLM_MOE_FAST"), engine="vllm", version="0.19.1")
    finding = found(env002.check(facts, None))
    assert "2 engine variables are unknown to this build: VLLM_MOE_FAST, VLLM_SPECULATE_HARDER" in finding.title
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)
    assert finding.rivals == ()


def test_a_fork_is_named_as_the_harmless_explanation():
    facts = node(*unknown("VLLM_PCIE_FAST"), engine="vllm", version="0.20.2rc1.dev249+hostfork")
    finding = found(env002.check(facts, None))
    assert "fork" in finding.why
    assert finding.rivals


def test_vllm_without_complaints_is_clear_and_others_have_no_such_check():
    assert isinstance(env002.check(node(setting("model", "m"), engine="vllm"), None), Clear)
    assert isinstance(env002.check(node(engine="vllm"), None), CannotTell)
    assert isinstance(env002.check(node(), None), NotApplicable)


# ENV003


def command(*variables: tuple[str, str], nccl_version: str | None = None, **more):
    facts = node(nccl=nccl(requested=tuple(asked(*v) for v in variables)), **more)
    return replace(facts, identity=replace(facts.identity, nccl_version=fact(nccl_version)))


def test_a_misspelt_variable_gets_its_right_name():
    finding = found(env003.check(command(("NCCL_PROTOCOL", "LL"), ("NCCL_P2P_LEVEL", "SYS")), None))
    assert "1 variable" in finding.title
    assert "NCCL_PROTOCOL (meant: NCCL_PROTO?)" in finding.title
    assert finding.fix == ("NCCL_PROTOCOL: use NCCL_PROTO",)
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.HIGH)


def test_a_removed_variable_is_told_with_its_successor():
    finding = found(env003.check(command(("NCCL_NCHANNELS_PER_PEER", "2")), None))
    assert "NCCL_NCHANNELS_PER_NET_PEER" in finding.fix[0]


def test_a_variable_of_a_later_release_is_told():
    finding = found(env003.check(command(("NCCL_CONF_FILE", "/etc/x"), nccl_version="2.20.5"), None))
    assert "read since NCCL 2.23.4" in finding.title


def test_a_name_like_nothing_is_less_certain():
    finding = found(env003.check(command(("NCCL_BANANA_SPLIT", "1")), None))
    assert (finding.severity, finding.confidence) == (Severity.INFO, Confidence.MEDIUM)


def test_a_newer_nccl_than_the_table_is_less_certain():
    finding = found(env003.check(command(("NCCL_PROTOCOL", "LL"), nccl_version="2.99.1"), None))
    assert finding.confidence is Confidence.MEDIUM
    assert "newer than the table" in finding.why


def test_real_names_plugins_and_labels_are_clear():
    names = (("NCCL_PROTO", "LL"), ("NCCL_MAX_NCHANNELS", "8"), ("NCCL_VERSION", "2.27.3"), ("NCCL_OFI_X", "1"))
    assert isinstance(env003.check(command(*names), None), Clear)


def test_without_a_launch_command_a_misspelling_cannot_be_seen():
    outcome = env003.check(node(nccl=ranks()), None)
    assert isinstance(outcome, CannotTell)
    assert "launch" in outcome.capture


# ENV004


def test_a_level_beside_a_switched_off_path_and_nvls_beside_an_algorithm_without_it_do_nothing():
    off = (("NCCL_P2P_DISABLE", "1"), ("NCCL_P2P_LEVEL", "SYS"), ("NCCL_ALGO", "Ring"), ("NCCL_NVLS_ENABLE", "1"))
    finding = found(env004.check(command(*off), None))
    assert "NCCL_P2P_LEVEL is not looked at while NCCL_P2P_DISABLE=1." in finding.why
    assert "NCCL_NVLS_ENABLE enables what NCCL_ALGO=Ring leaves out." in finding.why
    on = (("NCCL_P2P_DISABLE", "0"), ("NCCL_P2P_LEVEL", "SYS"), ("NCCL_ALGO", "Ring,NVLS"), ("NCCL_NVLS_ENABLE", "1"))
    assert isinstance(env004.check(command(*on), None), Clear)


def test_buffers_threads_and_channels_beside_ll_are_listed_once():
    variables = {"NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "16777216.", "NCCL_NTHREADS": "512.", "NCCL_MAX_NCHANNELS": "8."}
    finding = found(env004.check(node(nccl=nccl(process(0, variables))), None))
    assert finding.severity is Severity.INFO
    assert "NCCL_BUFFSIZE, NCCL_NTHREADS, NCCL_MAX_NCHANNELS" in finding.title
    assert "default of LL" in finding.why
    assert "0.5 MB" in finding.why


def test_a_buffer_without_ll_is_not_accused():
    facts = node(nccl=nccl(process(0, {"NCCL_BUFFSIZE": "16777216.", "NCCL_PROTO": "Simple"})))
    assert isinstance(env004.check(facts, None), Clear)


def test_tuning_nccl_is_idle_while_custom_allreduce_carries_decode():
    facts = node(nccl=nccl(process(0, {"NCCL_PROTO": "LL"})), collectives=(says("custom_allreduce", "on"),))
    assert "prefill only: custom allreduce carries" in found(env004.check(facts, None)).why


def test_pytorchs_variables_are_told_apart():
    finding = found(env004.check(command(("NCCL_ASYNC_ERROR_HANDLING", "1")), None))
    assert "read by PyTorch" in finding.why
    assert "TORCH_NCCL_ASYNC_ERROR_HANDLING" in finding.why


@pytest.mark.parametrize(
    ("value", "hides"), [("TUNING", True), ("INIT,ENV,TUNING", False), ("ALL", False), ("^NET", False)]
)
def test_tuning_alone_hides_the_env_lines(value, hides):
    outcome = env004.check(command(("NCCL_DEBUG_SUBSYS", value)), None)
    assert isinstance(outcome, Clear) is not hides


def test_ll_alone_is_noted_at_high_load_and_only_there():
    def with_load(running: int):
        return node(nccl=nccl(process(0, {"NCCL_PROTO": "LL"})), regimes=(level(running, 40.0),))

    finding = found(env004.check(with_load(32), None))
    assert "12 %" in finding.why
    assert finding.confidence is not Confidence.HIGH, "the load limit is not calibrated"
    assert isinstance(env004.check(with_load(1), None), Clear)


@pytest.mark.parametrize(("ran", "noted"), [("SIMPLE", False), ("2", False), ("LL", True), ("0", True)])
def test_ll_costs_nothing_where_another_protocol_runs(ran, noted):
    lines = (("AllReduce", 40_960, "RING", ran),)
    workers = replace(nccl(process(0, {"NCCL_PROTO": "LL"})), protocols=lines)
    outcome = env004.check(node(nccl=workers, regimes=(level(32, 40.0),)), None)
    assert isinstance(outcome, Clear) is not noted


def test_nothing_visible_cannot_tell():
    assert isinstance(env004.check(node(), None), CannotTell)
    assert isinstance(env004.check(node(nccl=nccl(process(0))), None), CannotTell)


# ENV005


def sglang(version: str | None, *rows, worker: str | None = None, name: str = "NCCL_CUMEM_ENABLE", value: str = "1"):
    processes = (process(0, {name: worker}),) if worker is not None else ()
    return node(*rows, version=version, nccl=nccl(*processes, requested=(asked(name, value),)))


def test_a_forced_value_that_a_worker_shows_is_certain():
    finding = found(env005.check(sglang("0.4.9.post2", worker="0."), None))
    assert "sglang 0.4.9.post2 sets NCCL_CUMEM_ENABLE=0 over the 1" in finding.title
    assert finding.confidence is Confidence.HIGH


def test_a_forced_value_from_the_table_alone_is_probable():
    assert found(env005.check(sglang("0.4.9.post2"), None)).confidence is Confidence.MEDIUM


def test_a_worker_with_the_users_value_clears_the_engine():
    assert isinstance(env005.check(sglang("0.4.9.post2", worker="1."), None), Clear)


def test_newer_versions_leave_a_set_value_alone():
    assert isinstance(env005.check(sglang("0.5.9", setting("enable_symm_mem", False)), None), Clear)


def test_a_flag_that_overwrites_needs_the_arguments():
    assert isinstance(env005.check(sglang("0.5.9", value="0"), None), CannotTell)
    finding = found(env005.check(sglang("0.5.9", setting("enable_symm_mem", True), value="0"), None))
    assert "NCCL_CUMEM_ENABLE=1 over the 0" in finding.title


def test_deterministic_inference_takes_the_algorithm():
    rows = (setting("enable_deterministic_inference", True),)
    finding = found(env005.check(sglang("0.5.12", *rows, name="NCCL_ALGO", value="Ring"), None))
    assert "allreduce:tree" in finding.title


def test_a_workers_value_tells_on_the_engine_even_without_a_version():
    finding = found(env005.check(sglang(None, worker="0."), None))
    assert "sglang sets NCCL_CUMEM_ENABLE=0 over the 1" in finding.title
    assert finding.confidence is Confidence.MEDIUM
    assert isinstance(env005.check(sglang(None, worker="1."), None), Clear)
    assert isinstance(env005.check(sglang(None, name="NCCL_PROTO", value="LL"), None), Clear)


def test_unknown_versions_cannot_tell_and_no_request_neither():
    assert isinstance(env005.check(sglang(None), None), CannotTell)
    assert isinstance(env005.check(node(version="0.4.6"), None), CannotTell)


@pytest.mark.parametrize("rule", [env001, env003, env004, env005], ids=lambda rule: rule.RULE.code)
def test_one_gpu_needs_no_nccl(rule):
    assert isinstance(rule.check(node(tp=1), None), NotApplicable)


def test_rows_are_taken_from_settings_when_no_process_is_known():
    facts = replace(node(env("NCCL_MAX_NCHANNELS", "8.")), identity=Identity())
    assert "NCCL_MAX_NCHANNELS" in found(env004.check(facts, None)).title
