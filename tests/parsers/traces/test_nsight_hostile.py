"""Damaged, locked and absurd Nsight exports: read as far as they go, said in one line, the input left alone."""

import os
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.build_nsight import GEMM, START_NS, Export, serial, server
from tests.parsers.traces.nsight_reading import named, notes, read_export
from traceana_parsers.interface import MemorySink
from traceana_parsers.sources import Source
from traceana_parsers.traces import nsight_sqlite

LAST = (1 << 63) - 1


def one_line(problem: str | None) -> bool:
    return problem is not None and "\n" not in problem and 0 < len(problem) < 400


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_nothing_is_created_beside_the_file_nor_in_it(journal: str, tmp_path: Path) -> None:
    path = server().write(tmp_path / "rep.sqlite", journal=journal)
    tables, report = read_export(path)  # compares hash and folder before and after
    assert report.problem is None and tables["kernels"].height
    assert [p.name for p in tmp_path.iterdir()] == ["rep.sqlite"]


def test_a_file_and_folder_without_write_permission_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    path = server().write(folder / "rep.sqlite", journal="wal")
    path.chmod(0o400)
    folder.chmod(0o500)
    try:
        tables, report = read_export(path)
    finally:
        folder.chmod(0o700)
    assert report.problem is None and tables["kernels"].height == 30


def test_a_file_that_another_process_has_locked_is_read(tmp_path: Path) -> None:
    path = server().write(tmp_path / "rep.sqlite")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    sink = MemorySink()
    report = nsight_sqlite.read(Source(str(path)), 3, sink)
    holder.execute("ROLLBACK")
    holder.close()
    assert report.problem is None and sum(f.height for f in sink.tables["kernels"]) == 30


def test_changes_that_are_not_in_the_file_yet_are_named(tmp_path: Path) -> None:
    path = server().write(tmp_path / "rep.sqlite")
    (tmp_path / "rep.sqlite-wal").write_bytes(b"\x37\x7f\x06\x82" + b"\0" * 60)
    tables, report = read_export(path)
    assert "rep.sqlite-wal holds changes that were not merged into the file" in (report.problem or "")
    assert tables["kernels"].height == 30


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_export_gives_what_can_be_read_and_one_line(share: float, tmp_path: Path) -> None:
    data = server(ranks=4, cycles=60).write(tmp_path / "whole.sqlite").read_bytes()
    folder = tmp_path / "cut"
    folder.mkdir()
    path = folder / "rep.sqlite"
    path.write_bytes(data[: int(len(data) * share) // 4096 * 4096])
    _, report = read_export(path)
    assert one_line(report.problem)


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_export_never_raises(seed: int, tmp_path: Path) -> None:
    import random

    path = server(ranks=2, cycles=20).write(tmp_path / "rep.sqlite")
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    for _ in range(40):
        at = rng.randrange(100 if seed % 2 else 4096, len(data))
        data[at : at + 16] = rng.randbytes(16)
    path.write_bytes(data)
    _, report = read_export(path)
    assert report.problem is None or one_line(report.problem)


def test_a_table_that_breaks_off_leaves_the_others_readable(tmp_path: Path) -> None:
    path = server(ranks=2, cycles=200).write(tmp_path / "rep.sqlite")
    db = sqlite3.connect(path)
    root, size = (
        db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'CUPTI_ACTIVITY_KIND_KERNEL'").fetchone()[0],
        4096,
    )
    db.close()
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(data)
    tables, report = read_export(path)
    assert (report.problem or "").startswith("CUPTI_ACTIVITY_KIND_KERNEL breaks off: SQLite: ")
    assert tables["launches"].height == 2000 and tables["ranges"].height == 1600 and tables["kernels"].height == 0
    assert report.problem in notes(tables)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no SQLite file inside"),
        (b"SQLite format 3\0", "SQLite cannot read it"),
        (b"SQLite format 3\0" + b"\xff" * 5000, "SQLite cannot read it"),
        (b"not at all", "no SQLite file inside"),
        (b"\x1f\x8b\x08\0garbage", "cannot be decompressed"),
    ],
)
def test_what_is_no_export_is_said_in_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rep.sqlite"
    path.write_bytes(content)
    _, report = read_export(path)
    assert one_line(report.problem) and said in (report.problem or "")


def test_another_programs_database_is_not_taken_for_an_export(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    db = sqlite3.connect(path)
    db.executescript("CREATE TABLE urls (id INTEGER, url TEXT); INSERT INTO urls VALUES (1, 'x');")
    db.close()
    _, report = read_export(path)
    assert report.problem == "an SQLite file, but no Nsight Systems export (none of its tables is there)"


def test_a_missing_file_and_a_folder_are_said_in_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.sqlite", tmp_path):
        report = nsight_sqlite.read(Source(str(path)), 0, MemorySink())
        assert one_line(report.problem)


def test_a_path_with_odd_characters_is_opened(tmp_path: Path) -> None:
    folder = tmp_path / "a?mode=rwc&x#100%"
    folder.mkdir()
    path = server().write(folder / "rép 1.sqlite")
    tables, report = read_export(path)
    assert report.problem is None and tables["kernels"].height == 30


def test_times_that_are_none_are_left_out_and_counted(tmp_path: Path) -> None:
    export = Export()
    export.kernel(7, GEMM, 10, 20, 1)
    export.kernel(7, GEMM, LAST, LAST, 2)
    export.kernel(7, GEMM, 30, LAST, 3)
    export.kernel(7, GEMM, -LAST, 40, 4)
    export.nvtx(7, "verify", LAST - 5, None)
    tables, report = read_export(export.write(tmp_path / "rep.sqlite"))
    assert tables["kernels"]["start_ns"].to_list() == [START_NS + 10]
    assert report.unread == 4
    assert "4 events have no usable time and were left out" in notes(tables)


def test_events_that_end_before_they_start_are_mended_and_counted(tmp_path: Path) -> None:
    export = Export()
    export.kernel(7, GEMM, 100, 40, 1)
    export.launch(7, 50, 49, 1)
    tables, report = read_export(export.write(tmp_path / "rep.sqlite"))
    row = tables["kernels"].row(0, named=True)
    assert row["start_ns"] == row["end_ns"] == START_NS + 100
    assert report.partial == 2
    assert "2 events end before they start; their end was set to the start" in notes(tables)


def test_names_of_100_kb_are_cut_and_still_named(tmp_path: Path) -> None:
    export = Export()
    long = "void kernel<" + "int, " * 20_000 + ">()"
    export.kernel(7, long, 10, 20, 1)
    export.nvtx(7, "r" * 100_000, 5, 30)
    export.nvtx(7, "s" * 100_000, 5, 30, registered=True)
    tables, _ = read_export(export.write(tmp_path / "rep.sqlite"))
    assert named(tables, "kernels")["name"].item() == long[:4000]
    assert named(tables, "ranges")["name"].to_list() == ["r" * 4000, "s" * 4000]


def test_texts_and_fractions_in_number_columns_do_not_stop_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "rep.sqlite"
    db = sqlite3.connect(path)
    db.execute(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, demangledName, gridX)"
    )
    rows = [
        (10, 20, 0, 7, 1, 1, 8),
        ("30", 40, 0, 7, 2, 1, 8),  # no integer: no usable time
        (50.9, 60.2, 0, 7, 3, 1, 8),
        (70, 80, None, "[7]", "x,y", None, 1e300),
        (90, "null", 1 << 40, 7, 5, 99, 8),
    ]
    db.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    db.execute("CREATE TABLE StringIds (id, value)")
    db.execute("INSERT INTO StringIds VALUES (1, ?)", (GEMM,))
    db.commit()
    db.close()
    tables, report = read_export(path)
    assert report.problem is None
    kernels = named(tables, "kernels")
    assert kernels.select("start_ns", "end_ns").rows() == [(10, 20), (50, 60), (70, 80), (90, 90)]
    assert kernels["correlation"].to_list() == [1, 3, None, 5]
    assert kernels["name"].to_list() == [GEMM, GEMM, "(unnamed)", "(unnamed)"]
    assert kernels["device"].to_list() == [0, 0, None, None]


def test_names_that_are_no_utf8_are_kept_as_far_as_they_go(tmp_path: Path) -> None:
    export = Export()
    export.nvtx(7, "verify", 1, 2)
    export.kernel(7, GEMM, 1, 2, 1)
    path = export.write(tmp_path / "rep.sqlite")
    db = sqlite3.connect(path)
    db.execute("UPDATE NVTX_EVENTS SET text = CAST(x'766572ff696679' AS TEXT)")
    db.execute("UPDATE StringIds SET value = CAST(x'67656dff6d' AS TEXT) WHERE value = ?", (GEMM,))
    db.commit()
    db.close()
    tables, report = read_export(path)
    assert report.problem is None
    assert named(tables, "ranges")["name"].item() == "ver\ufffdify"
    assert "\ufffd" in named(tables, "kernels")["name"].item()


def test_a_name_that_the_strings_lack_is_counted(tmp_path: Path) -> None:
    export = Export()
    export.kernel(7, GEMM, 1, 2, 1, demangledName=12345)
    tables, report = read_export(export.write(tmp_path / "rep.sqlite"))
    assert named(tables, "kernels")["name"].item() == "(unnamed)"
    assert report.partial == 1 and "1 names are missing from the export" in notes(tables)


def test_rowids_far_apart_are_no_trouble(tmp_path: Path) -> None:
    export = Export()
    for number in range(3):
        export.kernel(7, GEMM, 10 + number, 20, number)
    path = export.write(tmp_path / "rep.sqlite")
    db = sqlite3.connect(path)
    db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET rowid = (rowid - 2) * 4611686018427387904")
    db.commit()
    db.close()
    assert read_export(path)[0]["kernels"]["correlation"].to_list() == [0, 1, 2]


def test_many_processes_on_one_machine_and_colliding_ids_of_two_are_told(tmp_path: Path) -> None:
    export = Export()
    export.kernel(7, GEMM, 1, 2, 1, globalPid=serial(7, vm=1))
    export.kernel(7, GEMM, 1, 2, 1, globalPid=serial(7, vm=2))
    tables, _ = read_export(export.write(tmp_path / "rep.sqlite"))
    assert any("process ids of several machines" in note for note in notes(tables))


def test_a_file_that_may_not_be_opened_is_said_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may open everything")
    path = server().write(tmp_path / "rep.sqlite")
    path.chmod(0)
    report = nsight_sqlite.read(Source(str(path)), 0, MemorySink())
    path.chmod(0o600)
    assert report.problem == "Permission denied"


def test_unique_names_by_the_hundred_thousand_stay_in_bounds(tmp_path: Path) -> None:
    import tracemalloc

    export = Export()
    for number in range(100_000):
        export.nvtx(7, f"request {number}", number * 10, number * 10 + 5)
    path = export.write(tmp_path / "rep.sqlite")

    class Dropping:
        rows = 0

        def add(self, table: str, frame: pl.DataFrame) -> None:
            self.rows += frame.height if table == "ranges" else 0

    sink = Dropping()
    nsight_sqlite.read(Source(str(path)), 0, sink)  # imports and caches
    tracemalloc.start()
    nsight_sqlite.read(Source(str(path)), 0, sink)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sink.rows == 200_000
    assert peak < 40 << 20
