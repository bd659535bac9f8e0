"""The store: what goes in comes out, columns explain themselves, and a run is there whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from traceana import api
from traceana.errors import TraceanaError
from traceana.report.interface import render
from traceana.store.dataset import RunWriter, Tables, is_store, open_run
from traceana.store.tables import ATTRIBUTION_TABLES, BY_RANK, STORED
from traceana_parsers.schema import Column, arrow_schema, empty, polars_schema

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
VALUES: dict[str, list[object]] = {
    "i8": [3, None, 127, -128],
    "i32": [7, None, 2**31 - 1, -(2**31)],
    "i64": [7, None, 2**63 - 1, -(2**63)],
    "f64": [0.1, None, 1e300, -0.0],
    "str": ["plain", None, "", "宽 \x1b[31m \0 \n \u202e '\""],
    "bool": [True, None, False, True],
    "ts": [datetime(2026, 2, 3, 9, 15, 20, 123000), None, datetime(1970, 1, 1), datetime(9998, 12, 31)],
    "list_f64": [[0.5, 0.25], None, [], [1e-300]],
}


def rows_of(table: str) -> pl.DataFrame:
    """Four rows that hold every kind of value, nulls and empty lists too."""
    columns = [
        pl.Series(c.name, VALUES[c.dtype], dtype=polars_schema(table, STORED)[c.name], strict=True)
        for c in STORED[table]
    ]
    return pl.DataFrame(columns)


def by_rank(table: str, *frames: pl.DataFrame) -> pl.DataFrame:
    """Rows as a store gives them: rank by rank where it has a folder per rank, those of no known rank last."""
    rows = pl.concat(frames)
    return rows.sort("rank", nulls_last=True, maintain_order=True) if table in BY_RANK else rows


def known(column: Column) -> bool:
    return column.dtype in VALUES


@pytest.mark.parametrize("table", STORED)
def test_every_value_of_every_column_comes_back(table: str, tmp_path: Path) -> None:
    assert all(known(c) for c in STORED[table]), "a new column type: give it values above"
    rows = rows_of(table)
    with RunWriter(tmp_path) as writer:
        writer.add(table, rows)
        writer.add(table, rows.head(0))
        writer.add(table, rows.reverse())
        assert writer.flush().frame(table).equals(by_rank(table, rows, rows.reverse()))
        writer.add(table, rows)  # more after a flush
        writer.commit("r", {})
    tables, manifest = open_run(str(tmp_path))
    back = tables.frame(table)
    assert back.equals(by_rank(table, rows, rows.reverse(), rows))
    assert dict(back.schema) == polars_schema(table, STORED)
    assert tables.height(table) == 12
    first = STORED[table][0].name
    assert tables.frame(table, [first]).columns == [first]
    assert manifest["run"] == "r"
    for other in STORED:
        if other != table:
            assert tables.frame(other).equals(empty(other, STORED))
            assert tables.height(other) == 0


@pytest.mark.parametrize("table", STORED)
def test_every_column_says_what_it_means_and_in_which_unit(table: str, tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.add(table, rows_of(table))
        run = writer.commit("r", {})
    part, *others = sorted((run / table).rglob("part-*.parquet"))
    assert len(others) == (3 if table in BY_RANK else 0)
    schema = pq.read_schema(part)
    assert schema.names == [c.name for c in STORED[table]]
    for column in STORED[table]:
        assert len(column.meaning) > 3, f"{table}.{column.name} has no meaning"
        metadata = schema.field(column.name).metadata
        assert metadata[b"meaning"].decode() == column.meaning
        assert metadata[b"unit"].decode() == column.unit
    assert schema.metadata[b"table"].decode() == table
    assert arrow_schema(table, STORED).equals(schema)


def test_tables_in_memory_and_on_disk_are_the_same(tmp_path: Path) -> None:
    rows = rows_of("events")
    in_memory = Tables({"events": [rows, rows]})
    with RunWriter(tmp_path) as writer:
        writer.add("events", rows)
        writer.add("events", rows)
        on_disk = writer.flush()
        for tables in (in_memory, on_disk):
            assert tables.frame("events").equals(pl.concat([rows, rows]))
            assert tables.height("events") == 8
            assert tables.frame("settings").equals(empty("settings"))


def events_of(ranks: list[int | None], rows: int = 40_000) -> pl.DataFrame:
    """Kernels of several ranks, in turn; file and process follow from the rank."""
    rank = pl.Series("rank", [ranks[i % len(ranks)] for i in range(rows)], pl.Int32)
    known = pl.DataFrame({"rank": rank, "file_id": rank.fill_null(99), "pid": rank.fill_null(99) + 1_000}).with_columns(
        pl.int_range(rows).alias("start_ns")
    )
    schema = polars_schema("kernels")
    return known.select(
        (pl.col(c) if c in known.columns else pl.lit(None)).cast(kind).alias(c) for c, kind in schema.items()
    )


def test_events_lie_in_one_folder_per_rank_and_other_programs_read_the_layout(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.add("kernels", events_of([0, 3, 10, None]))
        run = writer.commit("r", {})
    folders = sorted(p.name for p in (run / "kernels").iterdir())
    assert folders == ["rank=0", "rank=10", "rank=3", "rank=__HIVE_DEFAULT_PARTITION__"]
    found = pl.read_parquet(tmp_path / "run=*" / "kernels" / "*" / "*.parquet", hive_partitioning=True)
    assert set(found["run"]) == {"r"}
    assert found.group_by("rank").len().sort("rank").rows() == [(None, 10_000), (0, 10_000), (3, 10_000), (10, 10_000)]


def test_one_rank_is_read_without_touching_the_files_of_others(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.add("kernels", events_of([0, 1, None]))
        run = writer.commit("r", {})
    tables, _ = open_run(str(tmp_path))
    for part in (run / "kernels" / "rank=1").iterdir():  # what reads it fails: the pages' checksums no longer fit
        data = part.read_bytes()
        with part.open("r+b") as file:
            file.write(data[:4] + bytes(b ^ 0x5A for b in data[4:2_000]))
    assert tables.frame("kernels", only={"rank": 0}).height == 13_334
    assert tables.frame("kernels", ["start_ns"], {"rank": None}).equals(
        events_of([0, 1, None]).filter(pl.col("rank").is_null()).select("start_ns")
    )
    with pytest.raises(TraceanaError, match="damaged"):
        tables.frame("kernels", only={"rank": 1})


def test_rows_are_picked_alike_in_memory_and_on_disk(tmp_path: Path) -> None:
    rows = events_of([2, None, 5, 7])
    with RunWriter(tmp_path) as writer:
        writer.add("kernels", rows)
        on_disk = writer.flush()
        for only in (
            {"rank": 5}, {"rank": None}, {"file_id": 2, "pid": 1_002}, {"file_id": 2, "pid": 1_005}, {"rank": 6},
            {"rank": (2, 7)}, {"start_ns": range(10, 14)}, {"start_ns": ()}, {"name_id": 1}, {"name_id": None, "rank": 7},
        ):  # fmt: skip
            wanted = Tables({"kernels": [rows, rows]}).frame("kernels", ["rank", "start_ns"], only)
            found = on_disk.frame("kernels", ["rank", "start_ns"], only)
            assert pl.concat([found, found]).sort("rank", "start_ns").equals(wanted.sort("rank", "start_ns")), only
            assert (found.height > 0) == (
                only not in ({"file_id": 2, "pid": 1_005}, {"rank": 6}, {"start_ns": ()}, {"name_id": 1})
            )


def test_results_of_another_version_are_left_out_and_events_of_another_version_refused(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.add("kernels", events_of([0]))
        writer.add("ledger", rows_of("ledger"))
        writer.add("attribution", rows_of("attribution"))
        run = writer.commit("r", {"rows": {"kernels": 40_000, "ledger": 4, "attribution": 4}})
    assert open_run(str(tmp_path))[0].height("ledger") == 4
    other = pl.DataFrame({"another": [1]})
    other.write_parquet(run / "ledger" / "part-00000.parquet")
    tables, _ = open_run(str(tmp_path))
    assert [tables.height(name) for name in ATTRIBUTION_TABLES if tables.height(name)] == []
    assert tables.height("kernels") == 40_000
    other.write_parquet(run / "kernels" / "rank=0" / "part-00000.parquet")
    with pytest.raises(TraceanaError, match="another version"):
        open_run(str(tmp_path))


FIRES = sorted({p.parent for p in FIXTURES.glob("*/fires/*.log")})


@pytest.mark.parametrize("folder", FIRES[::3], ids=lambda p: p.parent.name)
def test_a_store_gives_the_same_diagnosis_as_its_logs(folder: Path, tmp_path: Path) -> None:
    logs = [str(p) for p in sorted(folder.glob("*.log")) if p.name != "baseline.log"]
    api.ingest(logs, str(tmp_path / "store"))
    base = folder / "baseline.log"
    bases, stored_bases = [], []
    if base.exists():
        api.ingest([str(base)], str(tmp_path / "base"))
        bases, stored_bases = [str(base)], [str(tmp_path / "base")]
    from_logs = render(api.diagnose(logs, bases), "json")
    from_store = render(api.diagnose([str(tmp_path / "store")], stored_bases), "json")
    assert json.loads(from_store) == json.loads(from_logs)
    assert api.diagnose(logs, bases).findings


def test_nothing_is_visible_before_commit_and_nothing_is_left_without_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with RunWriter(store) as writer:
        writer.add("events", rows_of("events"))
        writer.flush()
        assert not is_store(str(store))
        assert [p.name for p in store.iterdir()] == [writer.folder.name]
        assert writer.folder.name.startswith(".")
    assert not store.exists()


def test_a_failing_commit_leaves_the_run_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)

    def fails(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("traceana.store.dataset.sync", fails)
    with pytest.raises(TraceanaError, match="No space left"):
        write(tmp_path, 2)
    assert open_run(str(tmp_path))[1]["n"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["run=r"]


def test_a_writer_that_is_killed_leaves_no_run(tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from traceana.store.dataset import RunWriter\n"
        "from tests.store.test_dataset import rows_of\n"
        "writer = RunWriter(Path(sys.argv[1])).__enter__()\n"
        "writer.add('events', rows_of('events'))\n"
        "writer.flush()\n"
        "os._exit(9)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, timeout=60, check=False)
    assert done.returncode == 9
    assert len(list(tmp_path.iterdir())) == 1
    assert not is_store(str(tmp_path))
    write(tmp_path, 1)
    assert open_run(str(tmp_path))[1]["n"] == 1


def write(store: Path, n: int, run: str = "r", rows: int = 4) -> None:
    """A run whose every row says `n`."""
    frame = pl.DataFrame({"text": [str(n)] * rows}).select(
        pl.col("text") if name == "text" else pl.lit(None, kind).alias(name)
        for name, kind in polars_schema("events").items()
    )
    with RunWriter(store) as writer:
        writer.add("events", frame)
        writer.commit(run, {"n": n, "rows": {"events": rows}})


def test_the_last_of_two_writers_wins_and_the_newest_run_is_opened(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2)
    assert open_run(str(tmp_path))[1]["n"] == 2
    time.sleep(0.01)
    write(tmp_path, 3, run="another")
    assert open_run(str(tmp_path))[1]["n"] == 3
    assert open_run(str(tmp_path / "run=r"))[1]["n"] == 2
    assert is_store(str(tmp_path / "run=r"))


def test_a_reader_goes_on_with_the_run_it_opened(tmp_path: Path) -> None:
    write(tmp_path, 1)
    tables, _ = open_run(str(tmp_path))
    write(tmp_path, 2, rows=9)
    assert tables.frame("events")["text"].to_list() == ["1"] * 4
    assert open_run(str(tmp_path))[0].frame("events")["text"].to_list() == ["2"] * 9


def test_readers_and_writers_at_once_see_whole_runs_only(tmp_path: Path) -> None:
    write(tmp_path, 0)
    stop = threading.Event()
    failed: list[BaseException] = []

    def keep_writing(start: int) -> None:
        n = start
        try:
            while not stop.is_set():
                write(tmp_path, n, rows=1 + n % 7)
                n += 2
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=keep_writing, args=(start,)) for start in (1, 2)]
    for writer in writers:
        writer.start()
    seen = set()
    end = time.monotonic() + 2.0
    while time.monotonic() < end:
        assert is_store(str(tmp_path))
        tables, manifest = open_run(str(tmp_path))
        rows = tables.frame("events")
        assert rows.height == manifest["rows"]["events"]
        assert rows["text"].n_unique() == 1
        seen.add(manifest["n"])
    stop.set()
    for writer in writers:
        writer.join(30)
    assert not failed
    assert len(seen) > 2
    assert [p.name for p in tmp_path.iterdir()] == ["run=r"]


@pytest.mark.parametrize("name", ["", "a/b", "../up", "a\0b", "x" * 101, "new\nline"])
def test_a_run_has_a_plain_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(TraceanaError, match="no name for a run"):
        write(tmp_path / "store", 1, run=name)
    assert not (tmp_path / "store").exists()
