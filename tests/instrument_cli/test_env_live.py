"""`traceana env` on live processes: a launcher and spawned workers that behave like SGLang's."""

import os
import sys
from pathlib import Path

import pytest

from tests.instrument_cli.asking import audit, command, start_line, states, titles, variable, written
from tests.instrument_cli.fake_server import running

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")

#: keeps the workers' environments readable
READABLE = {"SPT_NOENV": "1"}


def test_a_variable_of_the_launcher_reaches_every_worker(tmp_path: Path) -> None:
    with running(tmp_path, {**READABLE, "NCCL_PROTO": "LL"}) as server:
        found = audit(server.pid)
    assert found["engine"] == "sglang"
    assert [p["role"] for p in found["processes"] if p["worker"]] == ["scheduler", "scheduler"]
    assert [p["rank"] for p in found["processes"] if p["worker"]] == ["TP0", "TP1"]
    assert {p["pid"] for p in found["processes"] if p["worker"]} == set(server.workers)
    assert states(found, "NCCL_PROTO") == ("yes", "yes", "cannot tell")
    assert f"/proc/{server.pid}/environ" in variable(found, "NCCL_PROTO")["asked"]["why"]
    assert found["problems"] == []


def test_a_blanked_environment_is_unreadable_and_never_missing(tmp_path: Path) -> None:
    with running(tmp_path, {"NCCL_PROTO": "LL"}) as server:
        found = audit(server.pid)
        _, text, _ = command("env", server.pid)
    workers = [p for p in found["processes"] if p["worker"]]
    assert [p["environment"] for p in workers] == ["blanked", "blanked"]
    assert all("SPT_NOENV=1" in p["how"] for p in workers)
    assert states(found, "NCCL_PROTO") == ("yes", "cannot tell", "cannot tell")
    assert found["problems"] == []
    assert "unreadable, not missing" in text


def test_a_start_line_in_the_log_shows_what_proc_cannot(tmp_path: Path) -> None:
    with running(tmp_path, {"NCCL_PROTO": "LL"}) as server:
        lines = "".join(start_line(pid, rank, {"NCCL_PROTO": "LL"}) for rank, pid in enumerate(server.workers))
        found = audit(server.pid, "--log", written(tmp_path, lines))
    assert found["version"] == "0.5.9"
    assert states(found, "NCCL_PROTO") == ("yes", "yes", "cannot tell")
    assert "server.log:1" in variable(found, "NCCL_PROTO")["reached"]["why"]


def test_a_variable_lost_on_the_way_to_one_worker_is_a_finding_with_its_cost(tmp_path: Path) -> None:
    with running(tmp_path, {**READABLE, "NCCL_P2P_LEVEL": "SYS"}, lost={"1": ["NCCL_P2P_LEVEL"]}) as server:
        found = audit(server.pid)
    assert states(found, "NCCL_P2P_LEVEL") == ("yes", "some", "cannot tell")
    (title,) = titles(found, "ENV001")
    assert f"missing in 1 of 2 workers (pid {server.workers[1]})" in title
    assert "83 us" in found["problems"][0]["why"]


def test_a_value_that_the_engine_puts_in_its_place_is_named_as_the_engines(tmp_path: Path) -> None:
    sets = {"NCCL_CUMEM_ENABLE": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "4"}
    with running(tmp_path, {**READABLE, "NCCL_CUMEM_ENABLE": "1"}, engine_sets=sets) as server:
        log = written(tmp_path, start_line(server.workers[0], 0, sets, version="0.4.8"))
        found = audit(server.pid, "--log", log)
    assert states(found, "NCCL_CUMEM_ENABLE") == ("yes", "no", "no")
    assert titles(found, "ENV005") == ["SGLang 0.4.8 sets NCCL_CUMEM_ENABLE=0 over the 1 that was asked for"]
    assert titles(found, "ENV001") == []
    assert states(found, "CUDA_DEVICE_MAX_CONNECTIONS")[0] == "no"
    assert "SGLang 0.4.8 sets it itself" in variable(found, "CUDA_DEVICE_MAX_CONNECTIONS")["asked"]["why"]


def test_a_misspelt_name_and_one_without_effect_are_told_apart(tmp_path: Path) -> None:
    env = {**READABLE, "NCCL_PROTOCOL": "LL", "NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "8388608"}
    with running(tmp_path, env) as server:
        found = audit(server.pid)
    assert titles(found, "ENV003") == ["NCCL_PROTOCOL does nothing: no NCCL reads it"]
    assert [p["fix"] for p in found["problems"] if p["code"] == "ENV003"] == ["use NCCL_PROTO"]
    assert states(found, "NCCL_PROTOCOL") == ("yes", "yes", "no")
    assert states(found, "NCCL_BUFFSIZE") == ("yes", "yes", "no")
    (title,) = titles(found, "ENV004")
    assert title.startswith("NCCL_BUFFSIZE=8388608: is the Simple protocol's buffer")


def test_nccls_own_line_for_a_workers_pid_proves_use(tmp_path: Path) -> None:
    with running(tmp_path, {"NCCL_PROTO": "LL"}) as server:
        lines = "".join(
            f"box:{pid}:{pid} [{n}] NCCL INFO NCCL_PROTO set by environment to LL\n"
            for n, pid in enumerate(server.workers)
        )
        found = audit(server.pid, "--log", written(tmp_path, lines))
    assert states(found, "NCCL_PROTO") == ("yes", "yes", "yes")
    assert "server.log:1" in variable(found, "NCCL_PROTO")["used"]["why"]


def test_a_log_of_another_start_is_said_to_be_one(tmp_path: Path) -> None:
    with running(tmp_path, READABLE) as server:
        found = audit(server.pid, "--log", written(tmp_path, start_line(4_000_000, 0, {"NCCL_PROTO": "LL"})))
    assert any("another start" in note for note in found["notes"])


def test_secrets_never_leave(tmp_path: Path) -> None:
    secrets = {
        "HF_TOKEN": "hf_0123456789abcdef",
        "VLLM_API_KEY": "sk-verysecret1",
        "NCCL_PROTO": "\x1b[31mLL",
        "AWS_SECRET": "x1y2z3secret",
    }
    with running(tmp_path, {**READABLE, **secrets}, "--api-key", "sk-verysecret2") as server:
        for form in ("json", "terminal"):
            _, out, _ = command("env", server.pid, "--format", form)
            assert "VLLM_API_KEY" in out
            assert not [word for word in ("hf_0", "verysecret", "x1y2z3", "\x1b") if word in out]


def test_the_server_is_found_without_a_pid_by_a_word_and_by_a_workers_pid(tmp_path: Path) -> None:
    with running(tmp_path, READABLE, "--served-model-name", f"model-{tmp_path.name}") as server:
        _, out, _ = command("env", "--format", "json")
        assert f'"pid": {server.pid}' in out
        assert audit(f"model-{tmp_path.name}")["pid"] == server.pid
        assert audit(server.workers[1])["pid"] == server.pid


def test_version_and_nccl_are_read_from_the_packages_that_the_process_has_mapped(tmp_path: Path) -> None:
    packages = tmp_path / "venv" / "lib" / "python3.11" / "site-packages"
    for name, metadata in (
        ("sglang-0.5.1.dist-info", "Name: sglang\nVersion: 0.5.1\n"),
        ("nvidia_nccl_cu12-2.27.5.dist-info", ""),
    ):
        (packages / name).mkdir(parents=True)
        (packages / name / "METADATA").write_text(metadata)
    (packages / "sglang").mkdir()
    (packages / "sglang" / "__init__.py").write_text("")
    (packages / "sglang" / "environ.py").write_text("SGLANG_LOG_MS = 1\nSGLANG_SKIP_P2P_CHECK = 2\n")
    library = packages / "library.so"
    library.write_bytes(b"x" * 4096)
    env = {**READABLE, "SGLANG_LOG_MSEC": "1", "SGLANG_SKIP_P2P_CHECK": "1"}
    with running(tmp_path, env, maps=str(library)) as server:
        found = audit(server.pid)
    assert (found["version"], found["nccl_version"]) == ("0.5.1", "2.27.5")
    assert titles(found, "ENV002") == ["SGLANG_LOG_MSEC does nothing: the installed sglang holds no such name"]
    assert "SGLANG_LOG_MS?" in variable(found, "SGLANG_LOG_MSEC")["used"]["why"]
    assert states(found, "SGLANG_SKIP_P2P_CHECK") == ("yes", "yes", "cannot tell")


def test_nccl_conf_of_the_user_counts_and_its_odd_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / ".nccl.conf").write_text("# mine\nNCCL_ALGO=Ring\nNCCL_PROTO = LL\nNCCL_HOSTID=secret-host\n")
    with running(tmp_path, {**READABLE, "HOME": str(tmp_path)}) as server:
        found = audit(server.pid)
        conf = tmp_path / "my.conf"
        conf.write_text("NCCL_ALGO=Tree\n")
    assert states(found, "NCCL_ALGO") == ("yes", "yes", "cannot tell")
    assert variable(found, "NCCL_ALGO")["asked"]["why"].endswith(".nccl.conf")
    assert any(".nccl.conf:3" in title for title in titles(found, "ENV003"))
    assert "secret-host" not in str(found)
    with running(tmp_path, {**READABLE, "HOME": str(tmp_path), "NCCL_CONF_FILE": str(conf)}) as server:
        found = audit(server.pid)
    assert variable(found, "NCCL_ALGO")["value"] == "Tree"


def test_a_topology_file_that_a_worker_cannot_see_is_a_finding(tmp_path: Path) -> None:
    there = written(tmp_path, "<system/>", "graph.xml")
    env = {**READABLE, "NCCL_TOPO_FILE": "/nowhere/topo.xml", "NCCL_GRAPH_FILE": str(there)}
    with running(tmp_path, env) as server:
        found = audit(server.pid)
    assert titles(found, "ENV001") == [f"NCCL_TOPO_FILE names a file that pid {server.workers[0]} cannot see"]
    assert variable(found, "NCCL_GRAPH_FILE")["value"] == "(a file that exists)"
    assert "/nowhere" not in str(found)


def test_one_gpu_has_no_collective_to_tune(tmp_path: Path) -> None:
    with running(tmp_path, {**READABLE, "NCCL_PROTO": "LL"}, "--tp", "1", workers=1) as server:
        found = audit(server.pid)
    assert "one GPU" in variable(found, "NCCL_PROTO")["used"]["why"]
    assert found["problems"] == []


def test_a_plain_process_is_audited_and_said_to_be_no_server(tmp_path: Path) -> None:
    found = audit(os.getpid())
    assert any("Not recognised" in note for note in found["notes"])


def test_every_line_fits_the_terminal(tmp_path: Path) -> None:
    env = {**READABLE, "NCCL_PROTOCOL": "LL", "NCCL_P2P_LEVEL": "SYS", "NCCL_BUFFSIZE": "1"}
    with running(tmp_path, env, lost={"0": ["NCCL_P2P_LEVEL"]}) as server:
        for width in (80, 160):
            _, out, _ = command("env", server.pid, width=width)
            assert "Findings" in out
            assert max(map(len, out.splitlines())) <= width
