"""The commands compare and check as a user runs them, on logs of our own."""

import json
import random
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from traceana.cli.sides import runs_of, with_words

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures" / "demo"


def traceana(*arguments: object, cwd: Path = DEMO, width: int = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traceana", *map(str, arguments)],
        cwd=cwd,
        env={"PYTHONPATH": ":".join(sys.path), "COLUMNS": str(width), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def profile_log(path: Path, seed: int, verify: float, settings: str = "") -> Path:
    """A log of timer lines around a verify time."""
    rng = random.Random(seed)
    rows = [
        f"[2026-11-20 10:00:00] server_args=ServerArgs(model_path='example/Tern-32B', tp_size=8, speculative_algorithm='EAGLE3', speculative_num_steps=3, speculative_eagle_topk=1, speculative_num_draft_tokens=4{settings})"
    ]
    for second in range(30):
        values = {
            "v": 1, "rank": 0, "cycles": 200, "batch": 1, "k": 3, "draft_ms": 1.9,
            "verify_ms": round(verify * rng.gauss(1, 0.01), 3), "re_extend_ms": 0.8, "other_ms": 0.4,
            "accept_length": 2.05, "clock": "cuda_event",
        }  # fmt: skip
        rows.append(f"[2026-11-20 10:01:{second:02d} TP0] EAGLE3_PROFILE {json.dumps(values, separators=(',', ':'))}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_compare_says_where_speculation_gains_and_loses_and_what_fits() -> None:
    done = traceana("compare", "plain.log", "server.log")
    assert done.returncode == 0, done.stderr
    assert "slower at 16 (0.75x); faster at 1 (1.46x), 4 (1.40x), 8 (1.42x)" in " ".join(done.stdout.split())
    assert "cuda_graph_max_bs: 32 -> 8 (graphs)" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("width", [80, 160])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for command in (("compare", "plain.log", "server.log"), ("check", "server.log", "--against", "plain.log")):
        assert max(map(len, traceana(*command, width=width).stdout.splitlines())) <= width


def test_the_json_has_the_same_figures_as_the_report_and_null_for_what_is_not_known() -> None:
    document = json.loads(traceana("compare", "plain.log", "server.log", "--format", "json").stdout)
    assert document["schema"] == "traceana/compare/1"
    (pair,) = document["pairs"]
    assert [level["concurrency"] for level in pair["levels"]] == [1, 4, 8, 16]
    assert document["sides"][0]["version"] is None
    assert pair["levels"][3]["speed"] == "slower"


def test_markdown_is_redacted_and_its_text_is_no_markup(tmp_path: Path) -> None:
    home = tmp_path / "home" / "annabel"
    home.mkdir(parents=True)
    one = profile_log(home / "a.log", 1, 19.0, ", api_key='sk-verysecret0123456789', served_model_name='<b>@x</b>'")
    other = profile_log(home / "b.log", 2, 30.0, ", moe_runner_backend='<img src=x>'")
    text = traceana("compare", one, other, "--format", "markdown").stdout
    assert "annabel" not in text
    assert "verysecret" not in text
    assert "<img" not in text.replace("`<img src=x>`", "")
    assert "Redacted by traceana" in text


def test_compare_writes_a_file_whole_and_never_over_an_input(tmp_path: Path) -> None:
    out = tmp_path / "post-mortem.md"
    assert traceana("compare", "plain.log", "server.log", "--format", "markdown", "-o", out).returncode == 0
    assert out.read_text().startswith("### ")
    copy = profile_log(tmp_path / "a.log", 1, 19.0)
    before = copy.read_bytes()
    done = traceana("compare", copy, DEMO / "server.log", "-o", copy)
    assert done.returncode == 2
    assert copy.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "server.log"), "at least two sides"),
        (("compare", "server.log", "nowhere.log"), "nowhere.log"),
        (("compare", "server.log,", "plain.log"), "empty name"),
        (("compare", "server.log#eagle", "plain.log"), "no series or label contains 'eagle'"),
        (("check", "server.log", "--against", "nowhere"), "no such store or file"),
        (("check", "server.log", "--against", "plain.log", "--tps", "+5%"), "write -5%"),
        (("check", "server.log", "--against", "plain.log", "--tps", "much"), "per cent"),
        (("check", "server.log", "--against", "plain.log", "--tpot", "100%"), "less than 100 %"),
        (("check", "server.log", "--against", "plain.log", "--run-noise", "-1"), "per cent"),
        (("check", "server.log", "--against", "plain.log", "--record"), "is no store"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    done = traceana(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_one_measured_figure_against_five_runs_is_flagged_and_decides_nothing(tmp_path: Path) -> None:
    seconds = (33.59, 29.81, 39.66, 30.48, 34.03)
    five = [f"Run {i}/5: 2048 tokens in {s}s = {2048 / s:.1f} tok/s" for i, s in enumerate(seconds, 1)]
    (tmp_path / "three-step.txt").write_text("\n".join(five) + "\n")
    (tmp_path / "two-step.txt").write_text("Run 1/1: 2048 tokens in 21.79s = 94.0 tok/s\n")
    text = " ".join(traceana("compare", "two-step.txt", "three-step.txt", cwd=tmp_path).stdout.split())
    assert "Inconclusive" in text
    assert "94.0 was measured once and never repeated" in text
    assert "B ran 5 times: 61.0, 68.7, 51.6, 67.2, 60.2 tok/s, mean 61.7, spread 11 %" in text


def test_two_columns_of_one_table_are_two_sides(tmp_path: Path) -> None:
    (tmp_path / "sweep.md").write_text(
        "| concurrency | EAGLE3 tok/s | baseline tok/s |\n|---|---|---|\n| 1 | 77.5 | 92.6 |\n| 30 | 299.5 | 711.0 |\n"
    )
    done = traceana("compare", "sweep.md#baseline", "sweep.md#eagle3", cwd=tmp_path)
    text = " ".join(done.stdout.split())
    assert "slower at 30 (0.42x); inconclusive at 1 (0.84x)" in text, done.stderr
    asked = traceana("compare", "sweep.md", "sweep.md#eagle3", cwd=tmp_path)
    assert asked.returncode == 2
    assert "holds several set-ups" in asked.stderr


def test_a_store_gathers_history_and_then_tells_a_regression_from_noise(tmp_path: Path) -> None:
    store = tmp_path / "baseline"
    said = [
        traceana("check", profile_log(tmp_path / f"run{n}.log", n, 19.0 * f), "--against", store, "--record")
        for n, f in enumerate((1.0, 1.004, 0.997, 1.002))
    ]
    assert [done.returncode for done in said] == [0, 3, 3, 0], [done.stdout for done in said]
    assert "No baseline yet" in said[0].stdout
    assert len(list(store.glob("run=*"))) == 4
    bad = traceana("check", profile_log(tmp_path / "bad.log", 9, 24.0), "--against", store, "--record")
    assert bad.returncode == 1
    assert "Regression" in bad.stdout
    assert len(list(store.glob("run=*"))) == 4  # a regression is not recorded
    again = traceana("check", tmp_path / "run3.log", "--against", store, "--record", "--format", "json")
    assert json.loads(again.stdout)["baseline_runs"] == 3  # a run is not its own baseline
    assert len(list(store.glob("run=*"))) == 4


def test_junit_and_json_say_what_the_exit_code_says(tmp_path: Path) -> None:
    one, other = profile_log(tmp_path / "a.log", 1, 19.0), profile_log(tmp_path / "b.log", 2, 30.0)
    report, junit = tmp_path / "check.json", tmp_path / "check.xml"
    done = traceana("check", other, "--against", one, "--format", "json", "-o", report, "--junit", junit)
    assert done.returncode == 1
    document = json.loads(report.read_text())
    assert (document["schema"], document["result"], document["exit_code"]) == ("traceana/check/1", "regression", 1)
    suite = ET.parse(junit).getroot()
    assert int(suite.get("tests")) == len(document["lines"])
    assert int(suite.get("failures")) == len(suite.findall("testcase/failure")) >= 1
    assert any("verify ms" in case.get("name") for case in suite.findall("testcase"))


def test_the_help_names_the_limits_there_are() -> None:
    text = " ".join(traceana("check", "--help").stdout.split())
    for words in ("tok/s (-5%", "token (+5%)", "length (+5%)", "print it (+5%)", "accept length (-3%)"):
        assert words in text


@pytest.mark.parametrize(
    ("side", "runs"),
    [
        ("a.log", [["a.log"]]),
        ("a.log+b.json", [["a.log", "b.json"]]),
        ("a.log+b.json,c.log", [["a.log", "b.json"], ["c.log"]]),
    ],
)
def test_a_side_is_runs_of_files(side: str, runs: list[list[str]]) -> None:
    assert runs_of(side) == runs


def test_a_name_that_exists_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a,b+c#d").write_text("")
    assert runs_of("a,b+c#d") == [["a,b+c#d"]]
    assert with_words("a,b+c#d") == ("a,b+c#d", None)
    assert with_words("table.md#eagle 3") == ("table.md", "eagle 3")
    assert with_words("table.md#") == ("table.md", None)
