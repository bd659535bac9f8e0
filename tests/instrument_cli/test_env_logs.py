"""`traceana env --log` without a live server: start lines, NCCL's lines and launch scripts after the fact."""

import json
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.instrument_cli.asking import audit, command, start_line, states, titles, variable, written
from traceana.environment import start_lines

HALF = ROOT / "fixtures" / "rules" / "ENV001" / "fires" / "proto_on_two_of_four.log"
WHOLE = ROOT / "fixtures" / "rules" / "ENV001" / "healthy" / "same_on_all_ranks.log"


def test_nccl_lines_of_four_ranks_show_who_lacks_a_variable() -> None:
    found = audit("--log", HALF)
    assert states(found, "NCCL_PROTO") == ("cannot tell", "some", "some")
    assert states(found, "NCCL_P2P_LEVEL")[1:] == ("yes", "yes")
    (title,) = titles(found, "ENV001")
    assert title.startswith("NCCL_PROTO=LL is set in the others and is missing in 2 of 4 workers")


def test_a_healthy_log_has_no_finding() -> None:
    found = audit("--log", WHOLE)
    assert [p["code"] for p in found["problems"] if p["severity"] != "info"] == []


def test_a_launch_script_says_what_was_asked_for(tmp_path: Path) -> None:
    script = written(tmp_path, "export NCCL_P2P_LEVEL=SYS\npython -m sglang.launch_server\n", "launch.sh")
    lines = "".join(start_line(500 + rank, rank, {"NCCL_PROTO": "LL"}) for rank in (0, 1))
    found = audit("--log", written(tmp_path, lines), "--log", script)
    assert states(found, "NCCL_P2P_LEVEL") == ("yes", "no", "no")
    assert "launch.sh:1" in variable(found, "NCCL_P2P_LEVEL")["asked"]["why"]
    assert [p["rank"] for p in found["processes"]] == ["rank 0", "rank 1"]


def test_variables_that_differ_from_rank_to_rank_on_purpose_are_no_finding(tmp_path: Path) -> None:
    lines = "".join(start_line(500 + n, n, {"CUDA_VISIBLE_DEVICES": str(n), "VLLM_DP_RANK": str(n)}) for n in (0, 1))
    assert audit("--log", written(tmp_path, lines))["problems"] == []


def test_the_last_start_line_of_a_pid_counts(tmp_path: Path) -> None:
    lines = start_line(500, 0, {"NCCL_PROTO": "LL"}) + start_line(500, 0, {"NCCL_PROTO": "Simple"})
    assert variable(audit("--log", written(tmp_path, lines)), "NCCL_PROTO")["value"] == "Simple"


@pytest.mark.parametrize(
    "bad",
    [
        b"EAGLE3_PROFILE_START {",
        b'EAGLE3_PROFILE_START {"pid":1',
        b'EAGLE3_PROFILE_START {"pid":true}',
        b'EAGLE3_PROFILE_START {"pid":-4}',
        b'EAGLE3_PROFILE_START {"pid":"500"}',
        b'EAGLE3_PROFILE_START {"env":{"NCCL_PROTO":"LL"}}',
        b"EAGLE3_PROFILE_START {" + b'"a":{' * 5000,
        b"EAGLE3_PROFILE_START {\xff\xfe\x00}",
        b"EAGLE3_PROFILE_START {" + b"x" * 200_000,
    ],
)
def test_a_broken_start_line_is_passed_over_and_the_others_are_read(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(bad + b"\n" + start_line(500, 0, {"NCCL_PROTO": "LL"}).encode() + bad)
    (found,) = start_lines.read([str(path)])
    assert (found.pid, found.line, found.variables) == (500, 2, {"NCCL_PROTO": "LL"})


def test_a_start_line_cannot_smuggle_values_past_the_allow_list(tmp_path: Path) -> None:
    env = {
        "VLLM_API_KEY": "sk-secret",
        "HF_TOKEN": "hf_secret",
        "NCCL_ALGO": "\x1b[2J",
        "NCCL_GRAPH_FILE": "/home/me/g.xml",
    }
    path = written(tmp_path, start_line(500, 0, env, version="1\x1b[2J", process="a\u202eb"))
    (found,) = start_lines.read([str(path)])
    assert found.variables == {"NCCL_ALGO": "(set)", "NCCL_GRAPH_FILE": "(no such file)", "VLLM_API_KEY": "(set)"}
    for form in ("terminal", "json"):
        _, out, _ = command("env", "--log", path, "--format", form)
        assert "secret" not in out and "/home/me" not in out and "\x1b" not in out and "\u202e" not in out


def test_compressed_logs_are_read(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(start_line(500, 0, {"NCCL_PROTO": "LL"}).encode()))
    assert audit("--log", path)["processes"][0]["pid"] == 500


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--log", "/nowhere.log"], "no such file"),
        (["--log", "-"], "cannot be standard input"),
        (["999999999"], "no process has the pid"),
        (["9" * 40], "no process has the pid"),
        (["no-process-is-called-this"], "no process has"),
    ],
)
def test_what_cannot_be_audited_is_one_line_and_exit_code_2(arguments: list[str], says: str) -> None:
    code, out, error = command("env", *arguments)
    assert (code, out) == (2, "")
    assert says in error
    assert len(error) < 400


def test_a_log_without_anything_of_an_environment_is_refused(tmp_path: Path) -> None:
    code, _, error = command("env", "--log", written(tmp_path, "hello\nworld\n"))
    assert code == 2
    assert "server.log" in error


def test_the_report_goes_to_a_file_and_never_over_its_input(tmp_path: Path) -> None:
    out = tmp_path / "env.json"
    assert command("env", "--log", HALF, "--format", "json", "-o", out)[0] == 0
    assert json.loads(out.read_text())["schema"] == "traceana/env/1"
    log = written(tmp_path, start_line(1, 0, {}))
    assert command("env", "--log", log, "-o", log)[0] == 2
