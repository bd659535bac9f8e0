"""`traceana sweep` as a user runs it on two server logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile.cli import traceana

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"
SERVER, PLAIN = str(DEMO / "server.log"), str(DEMO / "plain.log")


def test_two_logs_alone_are_a_sweep() -> None:
    said = traceana("sweep", SERVER, "--baseline", PLAIN, "--format", "json")
    assert said.code == 0
    (block,) = said.json["blocks"]
    assert [(level["load"], level["ratio"]["verdict"]) for level in block["levels"]] == [
        (1.0, "pays"),
        (4.0, "pays"),
        (8.0, "pays"),
        (16.0, "loses"),
    ]
    (crossing,) = block["crossings"]
    assert 8 < crossing["at"] < 16
    assert crossing["cliff"]
    assert json.loads(block["advice"]["setting"]) == {"1": {"candidate_steps": [3]}, "9": {"candidate_steps": [0]}}


def test_a_plain_log_alone_foretells_the_break_even() -> None:
    said = traceana("sweep", PLAIN)
    assert said.code == 0
    assert "Without a drafter" in said.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sweep", SERVER), "all of it speculates"),
        (("sweep", SERVER, "--baseline", SERVER), "a baseline is measured without speculation"),
        (("sweep", PLAIN, "--baseline", PLAIN), "does not speculate"),
        (("sweep", SERVER, "--baseline", PLAIN, "--series", "x"), "no such series"),
        (("sweep", SERVER, "--baseline", "no such file.log"), "no such file.log"),
        (("sweep",), "SPEC"),
    ],
)
def test_what_cannot_be_swept_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    said = traceana(*arguments)
    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_the_report_is_never_written_over_an_input(tmp_path: Path) -> None:
    copy = tmp_path / "server.log"
    copy.write_bytes(Path(SERVER).read_bytes())
    said = traceana("sweep", copy, "--baseline", PLAIN, "-o", copy)
    assert said.code == 2
    assert copy.read_bytes() == Path(SERVER).read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("SPEC", "--baseline", "PLAIN", "OTHER"),
        ("SPEC", "--baseline", "PLAIN", "--baseline", "OTHER"),
        ("--format", "json", "SPEC", "--baseline", "PLAIN", "OTHER", "--no-redact"),
        ("--baseline", "PLAIN", "OTHER", "--no-redact", "SPEC"),
        ("SPEC", "--baseline=PLAIN", "--baseline=OTHER"),
    ],
)
def test_the_baseline_takes_all_paths_that_follow_it(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    other = tmp_path / "other.md"
    other.write_text("| concurrency | tok/s |\n|---|---|\n| 64 | 2000.0 |\n| 128 | 2100.0 |\n")
    names = {"SPEC": SERVER, "PLAIN": PLAIN, "OTHER": str(other)}
    given = [names.get(a) or a.replace("PLAIN", PLAIN).replace("OTHER", str(other)) for a in arguments]
    said = traceana("sweep", *given, *(() if "json" in given else ("--format", "json")))
    assert said.code == 0
    assert {Path(entry["path"]).name for entry in said.json["baseline"]["inputs"]} == {"plain.log", "other.md"}
    assert {Path(entry["path"]).name for entry in said.json["spec"]["inputs"]} == {"server.log"}


def test_a_path_that_could_be_either_is_left_to_the_speculating_side() -> None:
    said = traceana("sweep", "--baseline", PLAIN, SERVER, "--format", "json")
    assert said.code == 0
    assert said.json["spec"]["inputs"][0]["path"] == SERVER
