"""Files, folders and streams that are not what they seem: what can be read is reported, the rest is one line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
from pathlib import Path

import pytest
import zstandard

from tests.hostile.cli import diagnosed, only_input, process, refused, traceana
from tests.hostile.logs import decode, healthy, text
from traceana_parsers import sources

LOG = healthy(400)
LINES = LOG.count(b"\n")
RANDOM = random.Random(7)

NOT_LOGS = {
    "empty": (b"", "the file is empty"),
    "blank lines only": (b"\n\n  \n\r\n", "none of its 4 lines"),
    "random bytes": (RANDOM.randbytes(20_000), ""),
    "random bytes without zeros": (bytes(RANDOM.randrange(1, 256) for _ in range(20_000)), "none of its"),
    "a program": (b"\x7fELF\x02\x01\x01" + bytes(200), "a program, not a log"),
    "a PNG": (b"\x89PNG\r\n\x1a\n" + RANDOM.randbytes(200), "a picture, not a log"),
    "SQLite": (b"SQLite format 3\0" + bytes(200), "SQLite"),
    "Parquet": (b"PAR1" + RANDOM.randbytes(200), "Parquet"),
    "zip": (b"PK\x03\x04" + RANDOM.randbytes(200), "zip"),
    "tar": (b"server.log".ljust(257, b"\0") + b"ustar\0" + bytes(500) + LOG, "tar archive"),
    "UTF-16": (LOG.decode().encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
    "JSON": (b'{"a": 1,\n "b": [1, 2]}\n', "none of its 2 lines"),
    "prose": (b"It was a dark night.\nThe server was slow.\n", "It was a dark night."),
    "CSV": (b"city,people\n1,2\n2,3\n", "city,people"),
    "a scrape of /metrics without values": (b"# HELP vllm:x y\n# TYPE vllm:x counter\n", "/metrics"),
    "another engine": (b"I0203 09:15:20.1 [scheduler.cc:12] batch=4 tok/s=120.0\n" * 9, "9x 'I0"),
    "escapes": (b"\x1b[31mred\x1b[0m \x9b1m\x07 \xe2\x80\xaeabc\n" * 3, "none of its 3 lines"),
}


@pytest.mark.parametrize(("data", "words"), NOT_LOGS.values(), ids=NOT_LOGS.keys())
def test_what_is_no_log_is_one_line_and_exit_code_2(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(data)
    for form in ("terminal", "json"):
        refused(traceana("diagnose", path, "--format", form), str(path), words)
    refused(traceana("ingest", path, "--out", tmp_path / "store"), words)
    assert not (tmp_path / "store").exists()


def test_a_trace_is_named_or_read_but_never_a_log(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b'{"schemaVersion": 1, "traceEvents": []}')
    said = traceana("diagnose", path)
    assert said.code == 2
    refused(said, "trace")


PACKERS = {
    "gz": gzip.compress,
    "zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
    "xz": lzma.compress,
    "bz2": bz2.compress,
}


@pytest.mark.parametrize("ending", PACKERS)
def test_compression_is_told_by_content_whatever_the_name(ending: str, tmp_path: Path) -> None:
    packed = PACKERS[ending](LOG)
    for name in (f"server.log.{ending}", "server.log", "server.gz", "server.zst"):
        path = tmp_path / name
        path.write_bytes(packed)
        found = only_input(diagnosed(path))
        assert (found["lines"], found["recognised"], found["problem"]) == (LINES, LINES, None)


def test_a_plain_log_called_gz_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(LOG)
    assert only_input(diagnosed(path))["recognised"] == LINES


@pytest.mark.parametrize("ending", PACKERS)
def test_concatenated_members_are_one_log(ending: str, tmp_path: Path) -> None:
    half = len(LOG) // 2
    path = tmp_path / "server.log"
    path.write_bytes(PACKERS[ending](LOG[:half]) + PACKERS[ending](LOG[half:]))
    found = only_input(diagnosed(path))
    assert (found["lines"], found["problem"]) == (LINES, None)


def noisy(count: int) -> bytes:
    """A log that compresses badly, so that its compressed form has many blocks."""
    rows = (decode(i, token=RANDOM.randrange(10**9), tps=f"{RANDOM.uniform(300, 500):.2f}") for i in range(count))
    return text(*rows)


@pytest.mark.parametrize("share", [0.3, 0.7, 0.999])
@pytest.mark.parametrize("ending", ["gz", "xz"])
def test_what_came_before_the_cut_is_read_and_the_cut_is_said(ending: str, share: float, tmp_path: Path) -> None:
    log = noisy(3000)
    packed = PACKERS[ending](log)
    path = tmp_path / f"server.log.{ending}"
    path.write_bytes(packed[: int(len(packed) * share)])
    diagnosis = diagnosed(path)
    found = only_input(diagnosis)
    assert "ends early" in found["problem"]
    assert "what came before was read" in found["problem"]
    assert found["recognised"] >= 3000 * (share - 0.15)
    assert "ends early" in traceana("diagnose", path).err


@pytest.mark.parametrize("ending", PACKERS)
def test_a_file_cut_in_its_head_says_that_nothing_was_read(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"server.log.{ending}"
    path.write_bytes(PACKERS[ending](LOG)[:8])
    refused(traceana("diagnose", path), "ends early", "nothing was read")


@pytest.mark.parametrize("ending", PACKERS)
def test_damage_in_the_middle_is_said_and_what_came_before_is_read(ending: str, tmp_path: Path) -> None:
    packed = bytearray(PACKERS[ending](noisy(20_000)))
    middle = len(packed) // 2
    packed[middle : middle + 40] = bytes(b ^ 0xA5 for b in packed[middle : middle + 40])
    path = tmp_path / f"server.log.{ending}"
    path.write_bytes(bytes(packed))
    said = traceana("diagnose", path, "--format", "json")
    if ending == "bz2" and said.code:  # one block of 900 kB may be all there is before the damage
        refused(said, "nothing was read")
        return
    found = only_input(said.json)
    assert found["problem"], "the damage went unnoticed"
    assert found["recognised"] > 20_000 * 0.3
    assert "what came before was read" in said.err


def test_bytes_behind_the_compressed_data_are_said_but_padding_is_not(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LOG) + bytes(1000))
    assert only_input(diagnosed(path))["problem"] is None
    path.write_bytes(gzip.compress(LOG) + b"tail")
    found = only_input(diagnosed(path))
    assert "follow the compressed data" in found["problem"]
    assert found["recognised"] == LINES


def test_a_folder_is_read_with_everything_in_it_and_each_problem_named(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "server.log").write_bytes(LOG)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "empty.log").write_bytes(b"")
    (tmp_path / ".hidden").write_bytes(LOG)
    (tmp_path / ".writing-1-x").mkdir()
    (tmp_path / ".writing-1-x" / "part-00000.parquet").write_bytes(b"PAR1")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    inputs = {Path(i["path"]).name: i for i in diagnosed(tmp_path)["inputs"]}
    assert set(inputs) == {"server.log", "picture.png", "empty.log"}
    assert inputs["server.log"]["recognised"] == LINES
    assert "picture" in inputs["picture.png"]["problem"]
    said = traceana("diagnose", tmp_path)
    assert said.err.count("\n") == 2


def test_a_folder_without_logs_names_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    refused(traceana("diagnose", tmp_path / "none"), "the folder holds no files")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    refused(traceana("diagnose", tmp_path), "picture")


def test_paths_that_name_nothing(tmp_path: Path) -> None:
    refused(traceana("diagnose", tmp_path / "nope.log"), "no such file or folder")
    refused(traceana("diagnose", tmp_path / "*.log"), "no such file or folder")
    refused(traceana("diagnose", tmp_path / ("x" * 400)), "too long")
    refused(traceana("diagnose", "a\0b"), "no such file or folder")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(traceana("diagnose", tmp_path / "loop"), "circle")
    good = tmp_path / "server.log"
    good.write_bytes(LOG)
    refused(traceana("diagnose", good, tmp_path / "nope.log"), "nope.log")
    refused(traceana("diagnose", good, "--baseline", tmp_path / "nope.log"), "nope.log")


def test_links_that_lead_back_do_not_multiply_the_files(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_bytes(LOG)
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "current.log").symlink_to(tmp_path / "server.log")
    for paths in ([tmp_path], [f"{tmp_path}/**/*.log"], [tmp_path / "server.log"] * 3):
        assert only_input(diagnosed(*paths))["lines"] == LINES


def test_an_unreadable_file_is_named_and_the_others_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(LOG)
    real = sources._open

    def no_access(path: str) -> object:
        if path.endswith("a.log"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(sources, "_open", no_access)
    refused(traceana("diagnose", tmp_path / "a.log"), "a.log: Permission denied")
    inputs = diagnosed(tmp_path)["inputs"]
    assert [(i["recognised"], i["problem"]) for i in inputs] == [(0, "Permission denied"), (LINES, None)]


def test_a_read_error_in_the_middle_keeps_what_came_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(LOG)

    class Failing:
        """A disk that gives up after some kilobytes."""

        def __init__(self) -> None:
            self.left = [LOG[:20_000]]

        def read1(self, size: int) -> bytes:
            if not self.left:
                raise OSError(5, "Input/output error")
            return self.left.pop()

        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("traceana_parsers.read.open_stream", lambda _source: Failing())
    found = only_input(traceana("diagnose", path, "--format", "json").json)
    assert found["problem"] == "reading stopped: Input/output error; what came before was read"
    assert found["recognised"] >= LOG[:20_000].count(b"\n")


def test_pipes_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(traceana("diagnose", tmp_path / "pipe"), "not a regular file")
    refused(process("diagnose", "/dev/zero"), "not a regular file")
    refused(traceana("diagnose", "/dev/null"), "the file is empty")


NAMES = (
    "a b.log",
    "line\nend.log",
    "宽 ü.log",
    "red\x1b[31m.log",
    "\u202egol.exe",
    os.fsdecode(b"no utf8 \xff\xfe.log"),
    "[x]*?.log",
    "{a}.log",
    "'quote\".log",
    "-dash.log",
)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_file_name_is_read_and_shown_harmlessly(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(LOG)
    assert only_input(diagnosed(path, drawn=True))["recognised"] == LINES
    said = traceana("ingest", path, "--out", tmp_path / "store")
    assert said.code == 0
    assert only_input(diagnosed(tmp_path / "store"))["recognised"] == LINES
    path.write_bytes(b"nothing known\n")
    refused(traceana("diagnose", path), "none of its 1 lines")


def test_a_name_with_a_leading_dash_goes_behind_two_dashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "-server.log").write_bytes(LOG)
    monkeypatch.chdir(tmp_path)
    assert traceana("diagnose", "--", "-server.log").code == 0
    refused(traceana("diagnose", "-server.log"), "No such option", "--help")


def test_standard_input_is_read_compressed_or_not_and_once() -> None:
    for data in (LOG, gzip.compress(LOG)):
        found = only_input(diagnosed("-", stdin=data))
        assert (found["path"], found["lines"]) == ("-", LINES)
    refused(traceana("diagnose", "-", "--baseline", "-", stdin=LOG), "standard input")
    refused(traceana("diagnose", "-", stdin=b""), "the file is empty")


def test_the_log_may_be_its_own_baseline(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(LOG)
    verdict = diagnosed(path, "--baseline", path)["verdict"]
    assert verdict["speculation"] == "unknown"
    plain = tmp_path / "plain.log"
    plain.write_bytes(LOG.replace(b"accept len: 2.41, accept rate: 0.47, ", b"").replace(b"'EAGLE3'", b"None"))
    assert diagnosed(plain, "--baseline", plain)["verdict"]["speculation"] in ("unknown", "even")
