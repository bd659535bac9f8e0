"""What the lines of our own timers say beyond the parts of a cycle."""

from pathlib import Path

import pytest

from traceana import api

LINE = '{"v":1,"rank":0,"cycles":100,"batch":1,"k":4,"draft_ms":0.5,"verify_ms":6.0,"other_ms":1.5,"total_ms":8.0,"accept_length":2.7,%s"clock":"host"}\n'


def acceptance(tmp_path: Path, more: str) -> dict[str, float | None]:
    log = tmp_path / "server.log"
    log.write_text("EAGLE3_PROFILE " + LINE % more)
    found = api.diagnose([str(log)]).acceptance
    return {"length": found.accept_length, "per cycle": found.tokens_per_cycle, "coverage": found.coverage}


def test_a_look_up_drafter_earns_less_per_cycle_than_its_accept_length(tmp_path: Path) -> None:
    assert acceptance(tmp_path, '"coverage":0.45,') == {
        "length": 2.7,
        "per cycle": pytest.approx(1 + 0.45 * 1.7),
        "coverage": 0.45,
    }


def test_without_a_printed_coverage_it_is_not_known(tmp_path: Path) -> None:
    assert acceptance(tmp_path, "") == {"length": 2.7, "per cycle": 2.7, "coverage": None}


def test_start_lines_and_notes_are_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        'EAGLE3_PROFILE_START {"v":1,"engine":"vllm","version":null,"pid":1,"ppid":0,"process":"Worker","rank":0,"python":"3.9.1",'
        '"method":"none","k":null,"hooks":[],"missing":["a.B.c:draft (not in this version)"],"env":{"NCCL_ALGO":"(set)"}}\n'
        "EAGLE3_PROFILE_NOTE timers are off: the switch file is gone\n"
        "EAGLE3_PROFILE " + LINE % ""
    )
    (entry,) = api.diagnose([str(log)]).inputs
    assert (entry.lines, entry.unread) == (3, 0)
