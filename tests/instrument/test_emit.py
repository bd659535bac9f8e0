"""What is printed and written, where, and what happens when that cannot be."""

import errno
import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.instrument.engine import Batch, Clock, install, make_worker
from traceana_instrument import cyclefile, settings
from traceana_instrument.settings import Settings
from traceana_instrument.state import State
from traceana_parsers.interface import MemorySink
from traceana_parsers.read import read_run


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    """No logging handlers, as in a process before its engine has set up logging (pytest puts its own)."""
    root = logging.getLogger()
    kept, root.handlers[:] = root.handlers[:], []
    yield
    root.handlers[:] = kept


def run(clock: Clock, wanted: Settings, cycles: int = 3) -> State:
    state, _ = install(clock, worker := make_worker(clock), wanted=wanted)
    for _ in range(cycles):
        worker().forward(Batch())
    return state


def tables(path: Path) -> dict[str, pl.DataFrame]:
    sink = MemorySink()
    read_run([str(path)], sink)
    return {name: pl.concat(frames) for name, frames in sink.tables.items()}


def test_a_printed_line_is_read_back_whole(clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(clock, Settings(on=True)).emitter.flush()
    text = capsys.readouterr().err
    (tmp_path / "server.log").write_text(text)
    found = tables(tmp_path / "server.log")
    row = found["cycles"].row(0, named=True)
    printed = json.loads(text.partition(" ")[2])
    for key in ("rank", "cycles", "batch", "k", "draft_ms", "verify_ms", "re_extend_ms", "other_ms", "total_ms", "coverage",
                "overhead_us", "clock"):  # fmt: skip
        assert row[key] == printed[key], key
    assert (found["inputs"]["recognised"][0], found["inputs"]["unread"][0]) == (1, 0)


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.name, record.getMessage()))


@pytest.mark.parametrize(
    ("to", "level", "where"),
    [("auto", logging.INFO, "log"), ("auto", logging.WARNING, "stderr"), ("stderr", logging.INFO, "stderr")],
    ids=["the engine's log", "a log that shows no INFO", "stderr was asked for"],
)
def test_lines_go_where_they_are_seen(
    clock: Clock, capsys: pytest.CaptureFixture[str], to: str, level: int, where: str
) -> None:
    engine, handler = logging.getLogger("vllm"), Records()
    engine.addHandler(handler)
    kept = engine.level
    engine.setLevel(level)
    try:
        state = run(clock, Settings(on=True, to=to))
        state.emitter.engine = "vllm"
        state.emitter.flush()
    finally:
        engine.removeHandler(handler)
        engine.setLevel(kept)
    assert len(handler.seen) == (where == "log")
    assert ("EAGLE3_PROFILE {" in capsys.readouterr().err) == (where == "stderr")


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_closed_log_pipe_costs_the_line_and_the_next_one_says_so(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state, _ = install(clock, worker := make_worker(clock))
    worker().forward(Batch())
    with monkeypatch.context() as broken:
        broken.setattr("sys.stderr", Closed())
        state.emitter._step(final=True)
    worker().forward(Batch())
    state.emitter._step(final=True)
    assert json.loads(capsys.readouterr().err.partition(" ")[2])["lines_lost"] == 1


def test_a_log_that_blocks_does_not_block_the_engine(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    entered = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            entered.set()
            gate.wait(120)
            return len(text)

    monkeypatch.setattr("sys.stderr", Stuck())
    monkeypatch.setattr("traceana_instrument.emit.EXIT_S", 0.05)
    state, _ = install(clock, worker := make_worker(clock), wanted=Settings(on=True, cycles=1))
    state.emitter.start()
    worker().forward(Batch())
    assert entered.wait(30)
    for _ in range(100):
        assert worker().forward(Batch()) == "done"
    leaving = threading.Thread(target=state.emitter.flush, daemon=True)
    leaving.start()
    leaving.join(60)
    hung = leaving.is_alive()  # an exit gives up on it too
    gate.set()
    assert not hung
    assert state.interval.cycle == 101


def test_an_interval_that_stays_short_is_printed_when_it_is_old(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    state = State(Settings(on=True, seconds=10))
    state.interval._wall = lambda: now[0]
    state.interval._sums.started = 100.0
    state.started = True
    from tests.instrument.engine import HOOKS, MODULE
    from traceana_instrument.install import Installed

    module = type(os)(MODULE)
    worker = module.Worker = make_worker(clock)  # type: ignore[attr-defined]
    Installed(state, HOOKS).apply(module)
    worker().forward(Batch())
    now[0] += 9
    state.emitter._step(final=False)
    assert capsys.readouterr().err == ""
    now[0] += 2
    state.emitter._step(final=False)
    assert '"cycles":1' in capsys.readouterr().err


# ---- the switch file


def test_removing_the_switch_file_stops_the_timers_and_its_return_starts_them(
    clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    switch = tmp_path / "on"
    switch.touch()
    state, _ = install(clock, worker := make_worker(clock), wanted=Settings(on=True, switch_file=str(switch)))
    seen = []
    for there in (True, False, True):
        switch.touch() if there else switch.unlink()
        state.emitter._step(final=False)
        worker().forward(Batch())
        seen.append(state.interval.cycle)
    assert seen == [1, 1, 2]
    state.emitter._step(final=False)
    notes = [text for text in capsys.readouterr().err.splitlines() if "NOTE" in text]
    assert [text.rpartition(" ")[2] for text in notes] == ["gone", "back"]


# ---- every cycle to a file


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_every_cycle_is_written_and_read_back(clock: Clock, tmp_path: Path) -> None:
    state = run(clock, Settings(on=True, directory=str(tmp_path)), 5)
    state.emitter.flush()
    (name,) = files(tmp_path)
    assert name == f"cycles-rank0-pid{os.getpid()}-0001.log"
    rows = tables(tmp_path / name)["cycles"]
    assert rows["iteration"].to_list() == [1, 2, 3, 4, 5]
    assert rows["verify_ms"].to_list() == [10.0] * 5
    assert rows["total_ms"].to_list() == [13.5] * 5


def test_a_file_being_written_has_another_name(clock: Clock, tmp_path: Path) -> None:
    state = run(clock, Settings(on=True, directory=str(tmp_path)))
    state.emitter._step(final=False)
    assert files(tmp_path) == [f"cycles-rank0-pid{os.getpid()}-0001.log.part"]


def test_files_are_rotated_and_the_oldest_go(tmp_path: Path) -> None:
    made = cyclefile.CycleFile(str(tmp_path), 3, limit_mb=0.001, keep=2)
    for number in range(40):
        made.write([f"{number:04d} {'x' * 95}"])
    made.close()
    pid = os.getpid()
    assert files(tmp_path) == [f"cycles-rank3-pid{pid}-0003.log", f"cycles-rank3-pid{pid}-0004.log"]
    assert (tmp_path / files(tmp_path)[0]).read_text().splitlines()[0].startswith("0020")


@pytest.mark.parametrize("where", ["write", "open", "rename"])
def test_a_full_disk_ends_the_files_and_nothing_else(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    if where == "rename":
        monkeypatch.setattr(cyclefile.CycleFile, "_rotate", full)
    else:
        monkeypatch.setattr(cyclefile.os, where, full)
    state = run(clock, Settings(on=True, directory=str(tmp_path), file_mb=1e-6))
    for _ in range(3):
        state.emitter._step(final=False)
    state.emitter.flush()
    err = capsys.readouterr().err
    assert err.count("EAGLE3_PROFILE_NOTE") == 1 and "No space left on device" in err
    assert '"cycles":3' in err


def test_more_cycles_than_can_be_written_are_dropped_not_kept(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("traceana_instrument.emit.QUEUED", 10)
    state = run(clock, Settings(on=True, directory=str(tmp_path)), 25)
    state.emitter.flush()
    assert len((tmp_path / files(tmp_path)[0]).read_text().splitlines()) == 10
    assert '"unwritten":15' in capsys.readouterr().err


# ---- settings


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, Settings()),
        ({"EAGLE3_PROFILE": "off"}, Settings()),
        ({"EAGLE3_PROFILE": "1"}, Settings(on=True)),
        ({"EAGLE3_PROFILE": "comm"}, Settings(on=True, comm=True)),
        ({"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_NVTX": "0"}, Settings(on=True, nvtx=False)),
        ({"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_CYCLES": "many", "EAGLE3_PROFILE_SECONDS": "nan"}, Settings(on=True)),
        ({"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_CYCLES": "-5"}, Settings(on=True, cycles=1)),
        ({"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_CYCLES": "inf"}, Settings(on=True, cycles=100_000)),
        ({"EAGLE3_PROFILE": "1", "EAGLE3_PROFILE_TO": "stderr"}, Settings(on=True, to="stderr")),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_read_keep_their_default(environ: dict[str, str], wanted: Settings) -> None:
    assert settings.read(environ) == wanted
