"""Lines that are damaged, huge, glued or out of range: they are counted, shown, and never become figures."""

from __future__ import annotations

import os
import random
import re
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from tests.hostile.cli import diagnosed, only_input, refused, traceana
from tests.hostile.logs import ARGUMENTS, decode, healthy, text, vllm
from traceana_parsers import sources
from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.read import read_run
from traceana_parsers.schema import polars_schema

GOOD = [decode(i) for i in range(20)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def read(path: Path, data: bytes, table: str = "decode_samples") -> tuple[pl.DataFrame, FileReport]:
    path.write_bytes(data)
    sink = MemorySink()
    (report,) = read_run([str(path)], sink)
    frames = sink.tables.get(table)
    return (pl.concat(frames) if frames else pl.DataFrame(schema=polars_schema(table))), report


def report_of(path: Path, data: bytes) -> dict[str, object]:
    path.write_bytes(data)
    diagnosis: dict[str, object] = diagnosed(path, drawn=True)
    return diagnosis


HUGE = {
    "arguments of 5 MB": f"{ARGUMENTS[:-1]}, {', '.join(f'opt{i}=7' for i in range(400_000))})",
    "one argument of 5 MB": f"{ARGUMENTS[:-1]}, json='{'x' * 5_000_000}', last=1)",
    "arguments nested a million deep": f"{ARGUMENTS[:-1]}, json={'{' * 1_000_000}{'}' * 1_000_000})",
    "a decode line of 1 MB without blanks": "Decode batch " + "a" * 1_000_000,
    "a decode line of 1 MB of words": "Decode batch " + "ab " * 333_000,
    "a decode line of 100,000 keys": "Decode batch " + ", ".join(f"k{i}: {i}" for i in range(100_000)),
    "a decode line with a value of 1 MB": f"[2026-02-03 09:15:20 TP0] Decode batch, #running-req: {'9' * 1_000_000}",
    "brackets that open process names": "Decode batch Decode batch " + "(a" * 500_000,
    "a host name of 1 MB": "Decode batch Decode batch " + "h" * 1_000_000 + ":1",
    "JSON nested 100,000 deep": "EAGLE3_PROFILE " + '{"a":' * 100_000 + "}" * 100_000,
    "an unclosed terminal title": "\x1b]0;" + "t" * 1_000_000,
}


@pytest.mark.parametrize("line", HUGE.values(), ids=HUGE.keys())
def test_a_huge_line_neither_hangs_nor_hides_its_neighbours(line: str, path: Path) -> None:
    rows, report = read(path, text(line, *GOOD))
    assert rows.filter(pl.col("gen_tps").is_not_null()).height == 20
    assert report.lines == 21
    assert report.recognised + report.unread <= 21


def test_a_line_beyond_the_limit_is_read_in_pieces(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_LINE", 100_000)
    monkeypatch.setattr(sources, "BLOCK", 30_000)
    data = b"x" * 350_000 + b"\n" + healthy()
    rows, report = read(path, data)
    assert rows.height == 20
    assert rows["line"].to_list() == list(range(3, 23))
    assert data[rows["byte_offset"][0] :].startswith(b"[2026-02-03")
    assert (report.lines, report.bytes, report.recognised) == (22, len(data), 21)


def test_a_hundred_thousand_glued_records_are_all_read(path: Path) -> None:
    lines = [decode(i, time="2026-02-03 09:15:20") for i in range(100_000)]
    data = "".join(lines).encode()
    rows, report = read(path, data)
    assert rows.height == 100_000
    assert rows["tokens"].to_list() == list(range(9000, 109_000))
    assert rows["line"].unique().to_list() == [1]
    for offset in rows["byte_offset"].sample(20, seed=1):
        assert data[offset:].startswith(b"[2026-02-03 09:15:20 TP0] Decode batch")
    assert (report.lines, report.recognised, report.unread) == (1, 1, 0)


def test_glued_vllm_records_keep_their_process(path: Path) -> None:
    rows, _ = read(path, vllm(0).replace("\n", "").encode() * 5)
    assert rows.height == 5
    assert rows["pid"].to_list() == [12] * 5
    assert rows["proc"].to_list() == ["APIServer"] * 5


DISGUISES = {
    "carriage returns at line ends": lambda lines: "\r\n".join(lines) + "\r\n",
    "some carriage returns": lambda lines: "".join(line + ("\r\n" if i % 3 else "\n") for i, line in enumerate(lines)),
    "carriage returns only": "\r".join,
    "no line ends": "".join,
    "colour inside of words": lambda lines: "\n".join(lines).replace("Decode", "De\x1b[31mco\x1b[0mde"),
    "matches of grep in colour": lambda lines: "\n".join(lines).replace(
        "Decode", "\x1b[01;31m\x1b[KDecode\x1b[m\x1b[K"
    ),
    "sgr0 of tput": lambda lines: "\n".join(f"\x1b(B\x1b[m{line}" for line in lines),
    "zeros in front": lambda lines: "\0" * 9000 + "\n".join(lines),
    "a zero in every line": lambda lines: "\n".join(line.replace(" TP0", "\0TP0") for line in lines),
    "a byte order mark": lambda lines: "\ufeff" + "\n".join(lines),
    "blank lines between": "\n\n \n".join,
}


@pytest.mark.parametrize("wear", DISGUISES.values(), ids=DISGUISES.keys())
def test_line_ends_and_terminal_codes_do_not_cost_a_value(wear: object, path: Path) -> None:
    rows, _ = read(path, wear(GOOD).encode())  # type: ignore[operator]
    assert rows["tokens"].to_list() == list(range(9000, 9020))
    assert rows["gen_tps"].null_count() == 0
    assert rows["queued"].null_count() == 0


def test_bytes_that_are_no_utf8_spoil_only_their_own_line(path: Path) -> None:
    data = text(*GOOD[:5]) + b"\xff\xfe broken \x80\n" + GOOD[5].encode() + b" \xff\n"
    data += "(Worker pid=1) ERROR 02-03 09:20:00 [a.py:1] Worker proc 宽-0 died unexpectedly\n".encode()
    rows, _ = read(path, data)
    assert rows["tokens"].to_list() == list(range(9000, 9006))
    events, _ = read(path, data, "events")
    assert events.filter(pl.col("kind") == "worker_died")["subject"].to_list() == ["宽-0"]


def test_lines_that_fit_no_form_are_counted_and_the_first_is_shown(path: Path) -> None:
    found = only_input(report_of(path, text(*GOOD, *(f"Decode batch of things {i}" for i in range(500)))))
    assert (found["recognised"], found["unread"]) == (20, 500)
    assert "Decode batch of things 0" in traceana("diagnose", path).out
    path.write_bytes(text(*(f"Decode batch of things {i}" for i in range(500))))
    refused(traceana("diagnose", path), "500")


def test_garbled_lines_do_not_crowd_out_the_real_form(path: Path) -> None:
    garbled = [f"[2026-02-03 09:15:00 TP0] Decode batch, key{a}{b}{c}: {i}"
               for i, (a, b, c) in enumerate((a, b, c) for a in "abcdefgh" for b in "abcdefgh" for c in "abcdefgh")]  # fmt: skip
    rows, report = read(path, text(*GOOD[:10], *garbled, *GOOD[10:]))
    assert rows["gen_tps"].drop_nulls().len() == 20
    assert report.unread + report.partial == len(garbled)


OUT_OF_RANGE = {
    "running": ("-5", "1e999", str(10**30), "nan", "99999999999"),
    "token": ("-1", str(10**30)),
    "tps": ("-3.00", "nan", "inf", "1e999", "9" * 400),
    "length": ("nan", "-1.00", "inf"),
    "rate": ("nan", "-0.10"),
    "usage": ("nan", "-0.01"),
    "queued": ("-7", str(2**40)),
}
COLUMNS = {"running": "running", "token": "tokens", "tps": "gen_tps", "length": "accept_length_printed"}
COLUMNS |= {"rate": "accept_rate_printed", "usage": "token_usage", "queued": "queued"}


@pytest.mark.parametrize(("key", "value"), [(k, v) for k, values in OUT_OF_RANGE.items() for v in values])
def test_a_figure_out_of_range_becomes_null_and_nothing_else(key: str, value: str, path: Path) -> None:
    rows, report = read(path, text(*GOOD, decode(20, **{key: value})))
    assert rows.height == 21
    assert rows[COLUMNS[key]].is_null().arg_true().to_list() == [20]
    others = rows.select(c for k, c in COLUMNS.items() if k != key)
    assert others.null_count().sum_horizontal().item() == 0
    assert report.partial == (1 if key in ("running", "tps") else 0)


@pytest.mark.parametrize("changes", [{k: v} for k, values in OUT_OF_RANGE.items() for v in values[:1]], ids=str)
def test_a_log_of_such_lines_alone_still_gives_a_report(changes: dict[str, str], path: Path) -> None:
    report_of(path, text(*(decode(i, **changes) for i in range(12))))


IMPOSSIBLE = {
    "no throughput": [decode(i, tps="0.00") for i in range(20)],
    "nobody running": [decode(i, running=0) for i in range(20)],
    "accept len 0": [decode(i, length="0.00") for i in range(20)],
    "accept len 99": [decode(i, length="99.00") for i in range(20)],
    "accept len beyond the settings": [ARGUMENTS.replace("num_steps=3", "num_steps=1"), *GOOD],
    "settings below zero": [re.sub(r"=(\d)", r"=-\1", ARGUMENTS), *GOOD],
    "settings beyond any integer": [re.sub(r"=(\d)", f"={'9' * 30}", ARGUMENTS), *GOOD],
    "more accepted than drafted": [vllm(i, accepted=9999, drafted=10) for i in range(20)],
    "nothing drafted": [vllm(i, accepted=0, drafted=0) for i in range(20)],
    "200 positions": [vllm(i, positions=", ".join(["0.5"] * 200)) for i in range(20)],
    "rates that are no numbers": [vllm(i, positions="nan, nan, nan", length="nan") for i in range(20)],
    "rates above one": [vllm(i, positions="9.0, 8.0, 7.0") for i in range(20)],
}


@pytest.mark.parametrize("lines", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_impossible_runs_give_a_report_and_a_store(lines: list[str], path: Path, tmp_path: Path) -> None:
    found = report_of(path, text(*lines))
    said = traceana("ingest", path, "--out", tmp_path / "store")
    assert said.code == 0, said.err
    assert diagnosed(tmp_path / "store") == found


PROFILES = (
    "{",
    "{}",
    '{"v":1,"verify_ms":1e400}',
    '{"v":1,"verify_ms":NaN,"draft_ms":-Infinity}',
    '{"v":1,"clock":"\\ud800","verify_ms":30.1}',
    '{"v":1,"rank":"x","cycles":-3,"batch":1e30,"verify_ms":-5,"accept_length":-2}',
    '{"verify_ms":' + "1" * 5000 + "}",
    '["verify_ms", 3]',
)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p[:40])
def test_profile_lines_that_are_no_profile_do_not_become_times(profile: str, path: Path) -> None:
    found = report_of(path, text(*GOOD, *[f"EAGLE3_PROFILE {profile}"] * 5))
    entry = only_input(found)
    assert entry["recognised"] + entry["unread"] == 25
    if "30.1" not in profile:
        assert entry["unread"] + entry["partial"] == 5
        assert {part["name"] for part in found["cycle"]["parts"]} <= {"unknown"}  # type: ignore[index]


TIMES = ("0000-02-03 09:15:20", "2026-02-03 25:61:61", "9999-12-31 23:59:59", "2026-02-30 00:00:00")


@pytest.mark.parametrize("time", TIMES)
def test_times_that_no_clock_shows_are_null_and_the_row_stays(time: str, path: Path) -> None:
    rows, _ = read(path, text(*(decode(i, **({"time": time} if i % 4 == 0 else {})) for i in range(20))))
    assert rows.height == 20
    assert rows["ts"].null_count() == 5
    assert all(isinstance(t, datetime) for t in rows["ts"].drop_nulls().to_list())
    report_of(path, text(*(decode(i, time=time) for i in range(20))))


def vllm_times(path: Path, *times: str, written: datetime) -> list[datetime | None]:
    data = text(*(vllm(i, time=t) for i, t in enumerate(times)))
    path.write_bytes(data)
    os.utime(path, (written.timestamp(),) * 2)
    sink = MemorySink()
    read_run([str(path)], sink)
    return pl.concat(sink.tables["decode_samples"])["ts"].to_list()


def test_december_lines_read_in_january_are_of_the_year_before(path: Path) -> None:
    for written in (datetime(2026, 1, 5, 10), datetime(2025, 12, 31, 18)):
        times = vllm_times(path, "12-31 23:59:50", "01-01 00:00:00", written=written)
        assert times == [datetime(2025, 12, 31, 23, 59, 50), datetime(2026, 1, 1)]


def test_a_leap_day_without_a_year_is_of_a_leap_year(path: Path) -> None:
    days = ("02-28 23:59:50", "02-29 00:00:00", "03-01 00:00:00")
    for written, year in ((datetime(2026, 3, 2), 2024), (datetime(2024, 3, 2), 2024), (datetime(2024, 2, 1), 2020)):
        assert [t and t.year for t in vllm_times(path, *days, written=written)] == [year] * 3


def test_files_written_at_impossible_times_are_read(path: Path) -> None:
    path.write_bytes(text(*(vllm(i) for i in range(5))))
    for when in (0, -1, 10**13):
        os.utime(path, (when, when))
        assert only_input(diagnosed(path))["recognised"] == 10


def test_a_log_pasted_newest_first_gives_the_same_figures(path: Path) -> None:
    forwards, backwards = (report_of(path, text(*lines)) for lines in (GOOD, GOOD[::-1]))
    assert backwards["verdict"]["accept_length"] == pytest.approx(forwards["verdict"]["accept_length"])  # type: ignore[index]
    assert backwards["cycle"]["total_ms"] == pytest.approx(forwards["cycle"]["total_ms"], rel=0.01)  # type: ignore[index]


MIXTURES = {
    "a clock that jumps back": [*GOOD, *GOOD],
    "two engines": [*GOOD, *(vllm(i) for i in range(20))],
    "a restarted server": [ARGUMENTS, *GOOD, ARGUMENTS.replace("'EAGLE3'", "None"), *GOOD],
    "shuffled lines": random.Random(3).sample(GOOD, len(GOOD)),
}


@pytest.mark.parametrize("lines", MIXTURES.values(), ids=MIXTURES.keys())
def test_mixed_logs_are_read_whole(lines: list[str], path: Path) -> None:
    found = only_input(report_of(path, text(*lines)))
    assert found["recognised"] == found["lines"]
    assert found["unread"] == 0
