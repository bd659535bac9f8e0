"""Arguments, output files, closed pipes and interrupts: one line, the right exit code, nothing half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.hostile.cli import environment, process, refused, traceana
from tests.hostile.logs import healthy

LOG = healthy(30)
READS_FOREVER = (
    "import sys, polars, pyarrow.parquet, traceana.api, traceana.facts.build, traceana.report.build\n"
    "from traceana.cli.app import main\n"
    "sys.argv = ['traceana', 'diagnose', '-']\n"
    "print('ready', file=sys.stderr, flush=True)\n"
    "main()\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(LOG)
    return path


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["diagnose"], "PATH"),
        (["diagnose", "LOG", "--nope"], "--nope"),
        (["diagnose", "LOG", "--format", "jsn"], "jsn"),
        (["diagnose", "LOG", "--format"], "--format"),
        (["diagnose", "LOG", "--fail-on", "everything"], "everything"),
        (["diagnos", "LOG"], "diagnos"),
        (["ingest", "LOG"], "--out"),
        (["ingest", "LOG", "--out", "STORE", "--run", "../../up"], "../../up"),
        (["breakeven", "--cycle-ms", "abc"], "--cycle-ms"),
        (["breakeven", "--cycle-ms", "nan"], "nan"),
        (["explain", "X\x1b[31m\n\u202e"], "X"),
        (["report", "nowhere"], "nowhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_wrong_arguments_are_one_line_that_says_where_to_look(arguments: list[str], word: str, log: Path) -> None:
    store = log.parent / "store"
    refused(traceana(*(str(log) if a == "LOG" else str(store) if a == "STORE" else a for a in arguments)), word)
    assert not store.exists()


def test_without_arguments_the_help_is_shown() -> None:
    said = traceana()
    assert said.code == 0
    assert "diagnose" in said.out


def test_a_report_into_a_file_is_whole_or_not_there(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = log.parent
    refused(traceana("diagnose", log, "-o", folder / "missing" / "report.md"), "report.md", "No such file")
    refused(traceana("diagnose", log, "-o", folder), "cannot be written")
    said = traceana("diagnose", log, "-o", folder / "report.txt")
    assert (said.code, said.out) == (0, "")
    assert "Verdict" in (folder / "report.txt").read_text()
    before = (folder / "report.txt").read_bytes()

    def read_only(*_: object, **__: object) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", read_only)
    refused(traceana("diagnose", log, "--format", "json", "-o", folder / "report.txt"), "Permission denied")
    assert (folder / "report.txt").read_bytes() == before
    assert sorted(p.name for p in folder.iterdir()) == ["report.txt", "server.log"]


def test_devices_and_links_stay_what_they_are(log: Path) -> None:
    assert traceana("diagnose", log, "-o", os.devnull).code == 0
    assert not Path(os.devnull).is_file()
    real, link = log.parent / "real.txt", log.parent / "link.txt"
    link.symlink_to(real)
    assert traceana("diagnose", log, "-o", link).code == 0
    assert link.is_symlink()
    assert "Verdict" in real.read_text()


def test_the_input_is_never_overwritten(log: Path) -> None:
    again = log.parent / "again.log"
    again.hardlink_to(log)
    for out in (log, again):
        refused(traceana("diagnose", log, "-o", out), "one of the inputs")
    refused(traceana("diagnose", log, "--baseline", log.parent, "-o", again), "one of the inputs")
    assert log.read_bytes() == LOG


def test_a_reader_that_goes_away_is_no_error(log: Path) -> None:
    for arguments in (["diagnose", str(log)], ["explain", "--format", "json"]):
        running = subprocess.Popen(
            [sys.executable, "-m", "traceana", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        with running.stderr:
            assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_a_full_disk_behind_standard_output_is_one_line(log: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "traceana", "diagnose", str(log)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def test_an_interrupt_ends_with_130_and_one_line() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READS_FOREVER], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        assert running.stderr.readline() == b"ready\n"
        running.stdin.write(LOG)
        running.stdin.flush()
        time.sleep(0.5)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        assert running.stderr.read() == b"traceana: interrupted\n"


def test_an_interrupt_while_writing_a_store_leaves_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("traceana.api._add_run_row", interrupted)
    said = traceana("ingest", log, "--out", log.parent / "store")
    assert (said.code, said.out, said.err) == (130, "", "traceana: interrupted\n")
    assert not (log.parent / "store").exists()


def test_a_locale_without_the_characters_still_gets_the_report(log: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "traceana", "diagnose", str(log)],
        capture_output=True,
        env={**environment(), "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        check=False,
    )
    assert done.returncode == 0
    assert b"Verdict" in done.stdout


def test_a_process_of_its_own_says_the_same(log: Path) -> None:
    assert process("diagnose", log).out == traceana("diagnose", log).out
    refused(process("diagnose", log.parent / "nope"), "no such file or folder")
