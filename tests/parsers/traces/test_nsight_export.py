"""Nsight reports (.nsys-rep): opened with an installed nsys, else the command to run is said."""

import stat
import sys
from pathlib import Path

import pytest

from tests.parsers.traces.build_nsight import server
from traceana_parsers.interface import MemorySink
from traceana_parsers.sources import Source
from traceana_parsers.traces import nsys_export

FAKE = """#!{python}
import shutil, sys
words = sys.argv[1:]
open({log!r}, "a").write(repr(words) + "\\n")
{body}
"""
COPY = """
if {strict} and any("include-blobs" in w for w in words):
    sys.exit("unrecognised option '--include-blobs=true'")
shutil.copy({sqlite!r}, words[words.index("-o") + 1])
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / "my rep.nsys-rep"
    path.write_bytes(b"not documented")
    return path


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """An nsys on PATH that does `body`; the file in which its arguments are kept."""
    folder, log = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    program = folder / "nsys"
    program.write_text(FAKE.format(python=sys.executable, log=str(log), body=body))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder))
    return log


@pytest.mark.parametrize("strict", [False, True])
def test_an_installed_nsys_exports_the_report(
    strict: bool, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqlite = server().write(tmp_path / "made.sqlite")
    log = fake(tmp_path, monkeypatch, COPY.format(strict=strict, sqlite=str(sqlite)))
    sink = MemorySink()
    found = nsys_export.read(Source(str(report)), 3, sink)
    assert found.problem is None and sum(f.height for f in sink.tables["kernels"]) == 30
    assert (found.path, found.bytes, found.file_id) == (str(report), 14, 3)
    calls = log.read_text().splitlines()
    assert len(calls) == (2 if strict else 1)  # a version that does not know --include-blobs is asked again without
    assert str(report) in calls[0] and "'--type', 'sqlite'" in calls[0]
    assert [p.name for p in report.parent.iterdir()] == [report.name]


def test_without_nsys_the_command_is_said(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    problem = nsys_export.read(Source(str(report)), 0, MemorySink()).problem or ""
    assert problem.startswith(
        "an Nsight Systems report, and no nsys on PATH to open it; run: nsys export --type sqlite"
    )
    assert f"-o '{report.with_suffix('.sqlite')}' '{report}'" in problem and "\n" not in problem


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit('Importer error: the report was made by a newer version')", "made by a newer version"),
        ("sys.exit(3)", "exit code 3"),
        ("pass", "it wrote no file"),
        ("import time; time.sleep(30)", "still running after 1 s"),
    ],
)
def test_a_failing_export_is_said_in_one_line(
    body: str, said: str, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(tmp_path, monkeypatch, body)
    problem = nsys_export.read(Source(str(report)), 0, MemorySink(), timeout_s=1.0).problem or ""
    assert said in problem and "with the nsys that recorded it, run: nsys export" in problem and "\n" not in problem


def test_a_missing_report_is_said(tmp_path: Path) -> None:
    assert (
        nsys_export.read(Source(str(tmp_path / "x.nsys-rep")), 0, MemorySink()).problem == "No such file or directory"
    )


def test_reports_are_known_by_their_name() -> None:
    assert nsys_export.sniff(b"\x01\x02", "a/rep.nsys-rep") and nsys_export.sniff(b"", "old.qdrep")
    assert not nsys_export.sniff(b"SQLite format 3\0", "rep.nsys-rep") and not nsys_export.sniff(b"x", "rep.sqlite")
