"""Exports as folders of Parquet or Arrow files: the same tables as from SQLite."""

from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.build_nsight import ERAS, GEMM, Export, serial, server
from tests.parsers.traces.nsight_reading import SPANS, Tables, named, notes, read_export
from traceana_parsers.interface import MemorySink
from traceana_parsers.sources import Source
from traceana_parsers.traces import nsight_columns
from traceana_parsers.traces.gather import table_folder

SUFFIXES = (".parquet", ".arrow")


def assert_same(one: Tables, other: Tables) -> None:
    for name in one:
        if name in SPANS:
            assert named(one, name).drop("name_id").equals(named(other, name).drop("name_id")), name
        elif name != "names":
            assert one[name].equals(other[name]), name


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("mode", ["node", "graph"])
@pytest.mark.parametrize("era", ERAS)
def test_a_folder_gives_the_same_tables_as_sqlite(era: str, mode: str, suffix: str, tmp_path: Path) -> None:
    export = server(era, mode)
    export.nvtx(4000, "open", 90_000_000, None)
    export.kernel(4001, GEMM, 95_000_000, 95_000_100, 800, globalPid=serial(4001, hw=0xF3), deviceId=1)
    whole, _ = read_export(export.write(tmp_path / "rep.sqlite"))
    parts, report = read_export(export.write_folder(tmp_path / "rep", suffix))
    assert report.problem is None and report.bytes > 0
    assert_same(whole, parts)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_batches_join_without_loss(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = server("2026.2", "node", cycles=5).write_folder(tmp_path / "rep", suffix)
    whole, _ = read_export(path)
    monkeypatch.setattr("traceana_parsers.traces.nsight_columns.BATCH", 7)
    assert_same(whole, read_export(path)[0])


def test_an_export_is_known_by_its_folder_or_any_of_its_tables(tmp_path: Path) -> None:
    folder = server().write_folder(tmp_path / "rep_pqtdir")
    table = str(folder / "NVTX_EVENTS.parquet")
    assert table_folder(str(folder)) == table_folder(table) == str(folder)
    store = tmp_path / "run=1" / "kernels"
    store.mkdir(parents=True)
    (store / "part-00000.parquet").write_bytes(b"PAR1")
    assert table_folder(str(store)) is None and table_folder(str(store / "part-00000.parquet")) is None
    assert table_folder(str(tmp_path)) is None


def test_a_table_given_alone_reads_the_whole_folder(tmp_path: Path) -> None:
    folder = server().write_folder(tmp_path / "rep")
    sink = MemorySink()
    report = nsight_columns.read(Source(str(folder / "StringIds.parquet")), 3, sink)
    assert report.problem is None and sum(f.height for f in sink.tables["kernels"]) == 30


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("content", [b"", b"PAR1", b"garbage" * 100])
def test_a_damaged_table_is_named_and_the_others_are_read(suffix: str, content: bytes, tmp_path: Path) -> None:
    folder = server().write_folder(tmp_path / "rep", suffix)
    (folder / f"CUPTI_ACTIVITY_KIND_KERNEL{suffix}").write_bytes(content)
    tables, report = read_export(folder)
    assert (report.problem or "").startswith(f"CUPTI_ACTIVITY_KIND_KERNEL{suffix} cannot be read: ")
    assert "\n" not in (report.problem or "")
    assert tables["launches"].height == 30 and tables["kernels"].height == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_cut_off_in_the_middle_never_raises(suffix: str, tmp_path: Path) -> None:
    folder = server(cycles=50).write_folder(tmp_path / "rep", suffix)
    for table in ("NVTX_EVENTS", "StringIds"):
        path = folder / f"{table}{suffix}"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2])
    tables, report = read_export(folder)
    assert report.problem and "\n" not in report.problem
    assert tables["kernels"].height == 500


def test_columns_of_another_type_are_null_not_an_error(tmp_path: Path) -> None:
    folder = Export().write_folder(tmp_path / "rep")
    pl.DataFrame(
        {
            "start": [1.0, 2.0],
            "end": [5, 6],
            "deviceId": ["a", "b"],
            "correlationId": [1, 2],
            "graphNodeId": [None, None],
        }
    ).write_parquet(folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    tables, report = read_export(folder)
    assert report.problem is None
    assert tables["kernels"]["device"].to_list() == [None, None]
    assert tables["kernels"]["correlation"].to_list() == [1, 2]


def test_a_folder_without_strings_still_gives_its_times(tmp_path: Path) -> None:
    folder = server().write_folder(tmp_path / "rep")
    (folder / "StringIds.parquet").unlink()
    tables, report = read_export(folder)
    assert report.problem is None and tables["kernels"].height == 30
    assert named(tables, "kernels")["name"].unique().to_list() == ["(unnamed)"]
    assert any("names are missing from the export" in note for note in notes(tables))


def test_what_is_no_export_is_said(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    assert nsight_columns.read(Source(str(tmp_path)), 0, MemorySink()).problem == "no table of an Nsight Systems export"
