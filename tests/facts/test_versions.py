"""Versions of engines and of NCCL: ranges, forks, overrides, variable names."""

import re

import pytest
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from traceana.facts import nccl_variables
from traceana.facts.model import Setting, Settings
from traceana.facts.versions import holds, in_range, is_fork, load, overrides, parse_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.20.2rc1.dev249+glmrebase20260514", "0.20.2rc1.dev249+glmrebase20260514"),
        ("0.4.9.post2", "0.4.9.post2"),
        ("v0.5.3", "0.5.3"),
        (" 2.27.7+cuda13.0 ", "2.27.7+cuda13.0"),
        ("0.5.9-dirty-local", "0.5.9"),
        ("main", None),
        ("", None),
    ],
)
def test_versions_of_forks_and_builds_are_read(text, expected):
    assert parse_version(text) == (None if expected is None else Version(expected))


def test_a_development_build_reads_the_rows_of_the_release_it_leads_to():
    fork = parse_version("0.20.2rc1.dev249+glmrebase20260514")
    assert in_range(fork, ">=0.20.2")
    assert not in_range(fork, "<0.20.2")


def test_a_post_release_counts_as_itself():
    assert in_range(parse_version("0.5.3.post3"), ">=0.5.3.post1,<0.5.4")
    assert not in_range(parse_version("0.5.3.post3"), "==0.5.3")


def test_an_unknown_version_is_in_no_range():
    assert not in_range(None, ">=0")


def test_a_bad_range_is_an_error_not_a_silent_no():
    with pytest.raises(InvalidSpecifier):
        in_range(Version("0.5.3"), "newer than 0.5")


@pytest.mark.parametrize(
    ("text", "fork"),
    [
        ("0.20.2rc1.dev249+glmrebase", True),
        ("0.20.2+customfork", True),
        ("0.5.9", False),
        ("0.11.0+cu128", False),
        ("0.32.0+cpu", False),
        ("0.4.9.post2", False),
    ],
)
def test_forks_are_told_from_builds_of_a_release(text, fork):
    assert is_fork(parse_version(text)) is fork


def test_every_override_has_a_valid_range_and_a_source():
    for row in load().overrides:
        SpecifierSet(row.versions)
        assert row.behaviour in ("forced", "default", "conditional"), row
        assert row.source, row
        assert row.when or row.behaviour != "conditional", row


@pytest.mark.parametrize(
    ("version", "behaviour"), [("0.4.9.post2", "forced"), ("0.5.3", "forced"), ("0.5.9", "default")]
)
def test_sglang_stopped_forcing_cumem_at_0_5_5(version, behaviour):
    rows = [row for row in overrides("sglang", version) if row.variable == "NCCL_CUMEM_ENABLE"]
    assert {row.behaviour for row in rows} - {"conditional"} == {behaviour}


def test_module_loading_is_left_alone_from_0_5_19():
    def names(version):
        return {row.variable for row in overrides("sglang", version)}

    assert "CUDA_MODULE_LOADING" in names("0.5.18")
    assert "CUDA_MODULE_LOADING" not in names("0.5.19")


def test_no_rows_without_a_version_or_for_another_engine():
    assert overrides("sglang", None) == ()
    assert overrides("sglang", "main") == ()
    assert overrides("vllm", "0.5.3") == ()


def test_a_condition_holds_fails_or_stays_open():
    row = next(o for o in overrides("sglang", "0.5.20") if o.variable == "NCCL_ALGO")

    def given(value):
        return Settings((Setting("enable_deterministic_inference", str(value), "server_args", parsed=value),))

    assert holds(row, given(True)) is True
    assert holds(row, given(False)) is False
    assert holds(row, Settings()) is None


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("NCCL_PROTOCOL", "NCCL_PROTO"),
        ("NCCL_ALGORITHM", "NCCL_ALGO"),
        ("NCCL_BUFFER_SIZE", "NCCL_BUFFSIZE"),
        ("NCCL_BUFSIZE", "NCCL_BUFFSIZE"),
        ("NCCL_NUM_THREADS", "NCCL_NTHREADS"),
        ("NCCL_MAX_CHANNELS", "NCCL_MAX_NCHANNELS"),
        ("NCCL_P2P_LEVELS", "NCCL_P2P_LEVEL"),
        ("NCCL_P2P_LEVL", "NCCL_P2P_LEVEL"),
    ],
)
def test_misspelt_variables_find_their_right_name(wrong, right):
    assert not nccl_variables.is_known(wrong)
    assert nccl_variables.nearest(wrong) == right


@pytest.mark.parametrize("name", ["NCCL_FOO", "NCCL_BANANA_SPLIT", "NCCL_X"])
def test_nonsense_gets_no_suggestion(name):
    assert nccl_variables.nearest(name) is None


@pytest.mark.parametrize(
    ("name", "version", "state"),
    [
        ("NCCL_PROTO", "2.27.3", "known"),
        ("NCCL_GRAPH_MIXING_SUPPORT", "2.27.3", "known"),
        ("NCCL_MAX_NCHANNELS", "2.27.3", "deprecated"),
        ("NCCL_MAX_NCHANNELS", "2.14.3", "known"),
        ("NCCL_LL_THRESHOLD", "2.27.3", "removed"),
        ("NCCL_AGG_CHANNEL_SIZE", "2.21.5", "removed"),
        ("NCCL_AGG_CHANNEL_SIZE", "2.18.1", "known"),
        ("NCCL_CONF_FILE", "2.20.5", "too_new"),
        ("NCCL_CONF_FILE", "2.27.3", "known"),
        ("NCCL_ASYNC_ERROR_HANDLING", "2.27.3", "foreign"),
        ("NCCL_OFI_SOMETHING", None, "plugin"),
        ("NCCL_PROTOCOL", None, "unknown"),
    ],
)
def test_what_a_name_is_to_a_release(name, version, state):
    assert nccl_variables.status(name, version).state == state


def test_macros_are_not_variables():
    assert not nccl_variables.is_known("NCCL_GIN_CONNECTION_RAIL")
    assert not nccl_variables.is_known("NCCL_COMM_PROPERTIES_INITIALIZER")


def test_aliases_and_replacements_name_real_variables():
    table = nccl_variables.load()
    for wrong, right in table.aliases.items():
        assert right in table.variables, wrong
        assert wrong not in table.variables, wrong
    for row in table.variables.values():
        assert row.instead is None or row.instead in table.variables, row.name
        assert re.fullmatch(r"NCCL_[A-Z0-9_]+", row.name)


def test_only_transport_protocol_and_topology_can_cost_tens_of_microseconds():
    heavy = {row.name for row in nccl_variables.load().variables.values() if row.weight == "tens"}
    assert {"NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_PROTO", "NCCL_ALGO"} <= heavy
    for harmless in ("NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_NTHREADS"):
        assert nccl_variables.load().variables[harmless].weight == "none"
