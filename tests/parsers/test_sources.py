"""Which files are read, in which order, and that lines and offsets are true in every kind of stream."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana_parsers import sources
from traceana_parsers.inflate import Inflated
from traceana_parsers.interface import MemorySink
from traceana_parsers.read import read_run
from traceana_parsers.sources import Block, Source, SourceError, StreamState, blocks, expand, open_stream

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "xz": lzma.compress,
    "bzip2": bz2.compress,
}


def names(*paths: object) -> list[str]:
    return [Path(s.path).name for s in expand([str(p) for p in paths])]


def touch(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


ROTATIONS = {
    "counted": ["server.log.10.gz", "server.log.9.zst", "server.log.2.gz", "server.log.1", "server.log"],
    "dated by logrotate": ["server.log-20251230.gz", "server.log-20251231.gz", "server.log-20260101", "server.log"],
    "dated by Python": ["server.log.2025-12-31", "server.log.2026-01-01_00", "server.log.2026-01-01_12", "server.log"],
    "all compressed": ["vllm.log.3.xz", "vllm.log.2.xz", "vllm.log.1.bz2", "vllm.log.zst"],
}


@pytest.mark.parametrize("order", ROTATIONS.values(), ids=ROTATIONS.keys())
def test_rotated_files_come_oldest_first(order: list[str], tmp_path: Path) -> None:
    touch(tmp_path, *order)
    shuffled = random.Random(1).sample(order, len(order))
    assert names(tmp_path) == order
    assert names(tmp_path / f"{order[-1].split('.')[0]}*") == order
    assert names(*(tmp_path / name for name in shuffled)) == order


def test_different_logs_keep_the_order_in_which_they_were_given(tmp_path: Path) -> None:
    touch(tmp_path, "b.log", "b.log.1", "a.log", "a.log.1", "nccl.txt")
    given_order = [tmp_path / name for name in ("nccl.txt", "b.log", "a.log", "b.log.1", "a.log.1")]
    assert names(*given_order) == ["nccl.txt", "b.log.1", "b.log", "a.log.1", "a.log"]


def test_logs_of_the_same_name_in_two_folders_are_two_logs(tmp_path: Path) -> None:
    touch(tmp_path, "n1/server.log", "n1/server.log.1", "n2/server.log", "n2/server.log.1")
    assert [str(Path(s.path).relative_to(tmp_path)) for s in expand([str(tmp_path)])] == [
        "n1/server.log.1", "n1/server.log", "n2/server.log.1", "n2/server.log",
    ]  # fmt: skip


def test_hidden_files_and_tool_folders_are_left_out_but_not_their_parents(tmp_path: Path) -> None:
    home = tmp_path / ".cache" / "node_modules" / "logs"
    touch(
        home,
        "server.log",
        ".hidden.log",
        ".git/config",
        "__pycache__/x.pyc",
        ".writing-1/part.parquet",
        "deep/er/a.log",
    )
    assert names(home) == ["a.log", "server.log"]
    assert names(home / ".hidden.log") == [".hidden.log"], "named outright it is read"


def test_a_file_given_twice_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "server.log")
    (tmp_path / "hard.log").hardlink_to(tmp_path / "server.log")
    (tmp_path / "z-soft.log").symlink_to(tmp_path / "server.log")
    monkeypatch.chdir(tmp_path)
    every_way = ["server.log", "./server.log", str(tmp_path / "server.log"), "*.log", ".", "server.log"]
    assert len(expand(every_way)) == 1
    assert names("-", "server.log", "-") == ["-", "server.log"]


def test_equal_files_of_different_names_are_both_read(tmp_path: Path) -> None:
    for name in ("rank0.log", "rank1.log"):
        (tmp_path / name).write_text("the same\n")
    assert names(tmp_path) == ["rank0.log", "rank1.log"]


def test_globs_go_into_folders_and_a_name_with_stars_is_a_name(tmp_path: Path) -> None:
    touch(tmp_path, "a/server.log", "b/c/server.log", "odd[1]*.log")
    assert names(f"{tmp_path}/**/server.log") == ["server.log", "server.log"]
    assert names(tmp_path / "odd[1]*.log") == ["odd[1]*.log"]
    with pytest.raises(SourceError, match="no such file or folder"):
        expand([f"{tmp_path}/*.gz"])


def test_a_folder_that_cannot_be_listed_is_reported_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "open/server.log", "shut/server.log")
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    sink = MemorySink()
    reports = read_run([str(tmp_path)], sink)
    assert [(Path(r.path).name, r.problem) for r in reports] == [
        ("server.log", None),
        ("shut", "a folder that cannot be listed"),
    ]


def decoded(path: Path, size: int) -> tuple[list[Block], StreamState]:
    state = StreamState()
    with open_stream(Source(str(path))) as stream:
        return list(blocks(stream, state, size)), state


LINES = b"".join(b"line %d of the log \xe5\xae\xbd\n" % i for i in range(500)) + b"no line end"


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 1 << 20])
@pytest.mark.parametrize("kind", PACKERS)
def test_lines_and_offsets_are_true_in_blocks_of_any_size(kind: str, size: int, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[kind](LINES))
    found, state = decoded(path, size)
    assert b"".join(block.data for block in found) == LINES
    assert (state.size, state.problem) == (len(LINES), None)
    for block in found:
        assert LINES[block.offset : block.offset + len(block.data)] == block.data
        assert block.first_line == LINES[: block.offset].count(b"\n") + 1
        assert block.data.endswith(b"\n") or block is found[-1]


@pytest.mark.parametrize("kind", [k for k in PACKERS if k != "plain"])
def test_every_cut_of_a_compressed_file_gives_a_beginning_of_the_log(kind: str, tmp_path: Path) -> None:
    noise = random.Random(5)
    log = b"".join(b"%d\n" % noise.randrange(10**12) for _ in range(4000))
    packed = PACKERS[kind](log)
    path = tmp_path / "log"
    longest = 0
    for cut in range(1, len(packed), max(1, len(packed) // 40)):
        path.write_bytes(packed[:cut])
        found, state = decoded(path, 1 << 20)
        data = b"".join(block.data for block in found)
        if cut >= 6:
            assert log.startswith(data)
            assert state.problem == "the compressed stream ends early (truncated file)"
            assert state.size == len(data)
            longest = max(longest, len(data))
    if kind in ("gzip", "xz"):  # the others hand out whole blocks, and this log is one
        assert longest > 0.9 * len(log)


@pytest.mark.parametrize("kind", [k for k in PACKERS if k != "plain"])
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=3), padding=st.integers(0, 9))
def test_members_one_after_the_other_are_one_stream(kind: str, data: bytes, cuts: list[int], padding: int) -> None:
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    members = b"".join(PACKERS[kind](data[a:b]) + b"\0" * (4 * padding) for a, b in pairwise(edges))
    state = StreamState()
    with Inflated(io.BytesIO(members), kind) as stream:
        found = b"".join(block.data for block in blocks(stream, state))
    assert (found, state.problem) == (data, None)


def test_a_line_longer_than_the_limit_is_cut_and_keeps_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_LINE", 1000)
    path = tmp_path / "log"
    path.write_bytes(b"first\n" + b"x" * 5000 + b"\nlast\n")
    found, _ = decoded(path, 300)
    assert max(len(block.data) for block in found) <= 1300
    assert len(found) > 5
    assert {block.first_line for block in found[1:-1]} == {2}
    assert (found[-1].first_line + found[-1].data.count(b"\n")) == 4


def test_an_endless_stream_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        def read1(self, size: int, /) -> bytes:
            return b"again and again\n" * (size // 16)

        def __enter__(self) -> Endless:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(sources, "MAX_BYTES", 1 << 20)
    state = StreamState()
    total = sum(len(block.data) for block in blocks(Endless(), state, 1 << 16))
    assert total <= (1 << 20) + (1 << 17)
    assert state.problem is not None
    assert "stopped after" in state.problem
