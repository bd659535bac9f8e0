"""What a process says of its own environment: names of the families, values of an allow-list."""

from pathlib import Path

import pytest

from traceana.facts.nccl_variables import load
from traceana.facts.versions import load as versions
from traceana_instrument import envreport


def test_values_of_the_allow_list_are_shown_and_others_are_only_set() -> None:
    found = envreport.environment(
        {"NCCL_PROTO": "LL", "VLLM_API_KEY": "sk-secret", "NCCL_HOSTID": "me", "HF_TOKEN": "hf_x"}
    )
    assert found == {"NCCL_HOSTID": "(set)", "NCCL_PROTO": "LL", "VLLM_API_KEY": "(set)"}


@pytest.mark.parametrize("value", ["\x1b[31m", "a\nb", "x" * 101, "/home/me", "a@b", "é"])
def test_a_value_of_an_odd_shape_is_not_shown(value: str) -> None:
    assert envreport.environment({"NCCL_PROTO": value}) == {"NCCL_PROTO": "(set)"}


@pytest.mark.parametrize("name", ["NCCL_X\x1b[31m", "NCCL X", "NCCL_É", "NCCL_" + "X" * 90])
def test_a_name_of_an_odd_shape_is_left_out(name: str) -> None:
    assert envreport.environment({name: "1"}) == {}


def test_of_a_file_only_its_presence_is_said(tmp_path: Path) -> None:
    there = tmp_path / "topo.xml"
    there.write_text("")
    env = {"NCCL_TOPO_FILE": str(there), "NCCL_GRAPH_FILE": str(tmp_path / "gone"), "NCCL_CONF_FILE": "a\0b"}
    assert envreport.environment(env) == {
        "NCCL_CONF_FILE": "(no such file)",
        "NCCL_GRAPH_FILE": "(no such file)",
        "NCCL_TOPO_FILE": "(a file that exists)",
    }


def test_a_flood_of_variables_is_cut() -> None:
    assert len(envreport.environment({f"NCCL_{n:06}": "1" for n in range(5000)})) == envreport.MOST


def test_every_value_that_matters_to_a_rule_can_be_shown() -> None:
    sized = {name for name, row in load().variables.items() if row.weight and not name.endswith("_FILE")}
    overwritten = {override.variable for override in versions().overrides}
    hidden = {name for name in sized | overwritten if envreport.shown(name, "1") != "1"}
    assert hidden == set()
