"""Stores that are damaged, half written, of another version or being replaced: one line, never a wrong report."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.cli import diagnosed, environment, refused, traceana
from tests.hostile.logs import healthy

PART = "part-00000.parquet"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log and the store made of it."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "server.log").write_bytes(healthy(500))
    assert traceana("ingest", folder / "server.log", "--out", folder / "store").code == 0
    return folder


def run_of(store: Path) -> Path:
    (run,) = store.glob("run=*")
    return run


def rewrite(table: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(store: Path) -> None:
        part = run_of(store) / table / PART
        part.write_bytes(change(part.read_bytes()))

    return damage


def flip_middle(data: bytes) -> bytes:
    middle = len(data) // 3
    return data[:middle] + bytes(b ^ 0x5A for b in data[middle : middle + 16]) + data[middle + 16 :]


def manifest(text: str) -> Callable[[Path], object]:
    return lambda store: (run_of(store) / "run.json").write_text(text)


def swap_tables(store: Path) -> None:
    shutil.copy(run_of(store) / "settings" / PART, run_of(store) / "decode_samples" / PART)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a part cut short": (rewrite("decode_samples", lambda data: data[:-40]), "damaged"),
    "a part emptied": (rewrite("decode_samples", lambda _: b""), "damaged"),
    "bytes of a part changed": (rewrite("decode_samples", flip_middle), "damaged"),
    "a part that is text": (rewrite("inputs", lambda _: b"hello\n" * 50), "damaged"),
    "a part gone": (lambda store: (run_of(store) / "decode_samples" / PART).unlink(), "were written"),
    "a table gone": (lambda store: shutil.rmtree(run_of(store) / "settings"), "were written"),
    "a table in the place of another": (swap_tables, "another version"),
    "no manifest": (lambda store: (run_of(store) / "run.json").unlink(), "Parquet"),
    "an empty manifest": (manifest(" "), "run.json"),
    "a manifest cut short": (manifest('{"schema": "trace'), "run.json"),
    "a manifest that is a list": (manifest("[]"), "run.json"),
    "a manifest nested too deep": (manifest("[" * 100_000), "run.json"),
    "another schema": (manifest('{"schema": "traceana/store/99"}'), "traceana/store/99"),
    "a schema to fool a terminal": (manifest('{"schema": "\\u001b[31m\\n\\u202e"}'), "another version"),
}


@pytest.mark.parametrize(("damage", "words"), DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_store_is_one_line(
    damage: Callable[[Path], object], words: str, stored: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(stored / "store", store)
    damage(store)
    refused(traceana("diagnose", store), words)
    refused(traceana("report", store, "--format", "json"), words)
    assert traceana("ingest", stored / "server.log", "--out", store).code == 0, "ingesting again repairs it"
    assert diagnosed(store) == diagnosed(stored / "store")


def test_what_a_crashed_writer_left_is_ignored(stored: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(stored / "store", store)
    shutil.copytree(run_of(store), store / ".writing-1-dead")
    (store / ".writing-2-dead").mkdir()
    (store / ".writing-2-dead" / "run.json").write_text("{")
    assert diagnosed(store) == diagnosed(stored / "store")
    shutil.rmtree(run_of(store))
    refused(traceana("diagnose", store), "the folder holds no files")


def test_a_store_cannot_be_made_where_a_file_is(stored: Path) -> None:
    log = stored / "server.log"
    before = log.read_bytes()
    refused(traceana("ingest", log, "--out", log), "cannot write here")
    refused(traceana("ingest", log, "--out", log / "store"), "cannot write here")
    assert log.read_bytes() == before


def test_a_full_disk_is_one_line_and_leaves_nothing(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", full)
    refused(traceana("ingest", stored / "server.log", "--out", tmp_path / "store"), "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_two_processes_that_ingest_the_same_run_leave_one_whole_run(stored: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-m", "traceana", "ingest", str(stored / "server.log"), "--out", str(store)]
    running = [subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert [p.name for p in store.iterdir()] == [run_of(stored / "store").name]
    assert diagnosed(store) == diagnosed(stored / "store")
    assert json.loads((run_of(store) / "run.json").read_text())["rows"]["decode_samples"] == 500
