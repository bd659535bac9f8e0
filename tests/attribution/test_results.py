"""The attribution of a run, process by process, kept in the store and made anew when other code made it."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from tests.attribution.builder import Process, tables
from tests.attribution.planted import Planted, verify_cycles
from traceana import api
from traceana.attribution import analyse as module
from traceana.attribution.analyse import Attribution, analyse
from traceana.attribution.model import BUCKETS
from traceana.attribution.results import is_current, version
from traceana.errors import TraceanaError
from traceana.report.interface import render
from traceana.store.dataset import RunWriter, Tables, open_run
from traceana.store.parts import Only
from traceana.store.tables import BY_RANK, STORED

FIXTURES = Path(__file__).parents[2] / "fixtures" / "traces" / "kineto"
#: first word of a planted name -> what a GPU would call it
REAL = {
    "gemm": "nvjet_tst_64x8_64x16_1x4_h_bz_splitK_TNT",
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
}


def run_of(*processes: Process) -> Tables:
    """Their tables in memory, kernels under real names."""
    for process in processes:
        if not process.rows["traces"]:
            process.trace()
    made = tables(*processes).tables
    real = pl.col("name").str.extract(r"^(\w+)").replace_strict(REAL, default=pl.col("name"))
    made["names"] = made["names"].with_columns(real.alias("name"))
    return Tables({name: [frame] for name, frame in made.items()})


@pytest.fixture(scope="module")
def planted() -> Planted:
    return verify_cycles()


@pytest.fixture(scope="module")
def run(planted: Planted) -> Tables:
    return run_of(*planted.processes)


def found_in(tables: Tables) -> Attribution:
    found = analyse(tables, "sglang")
    assert found is not None
    return found


def stored(tables: Tables, store: Path, *, results: bool) -> Tables:
    """The same run in a store, with what attribution makes of it or without."""
    with RunWriter(store) as writer:
        for name in (*BY_RANK, "traces", "names"):
            writer.add(name, tables.frame(name))
        if results:
            module.attribute(writer.flush(), writer)
        written = writer.flush()
        writer.commit("r", {"rows": {name: written.height(name) for name in STORED}})
    return open_run(str(store))[0]


def same(one: Attribution, other: Attribution) -> bool:
    frames = ("phases", "device_time", "host", "late", "categories", "rounds", "waits", "comm", "copies")
    plain = ("skew", "notes", "cycles", "source", "provenance", "engine")
    assert one.ledger is not None and other.ledger is not None
    ordered = ["rank", "device"]
    return (
        one.ledger.per_phase().equals(other.ledger.per_phase())
        and all(_sorted(getattr(one, n), ordered).equals(_sorted(getattr(other, n), ordered)) for n in frames)
        and all(getattr(one, name) == getattr(other, name) for name in plain)
    )


def _sorted(frame: pl.DataFrame, first: list[str]) -> pl.DataFrame:
    known = [name for name in first if name in frame.columns]
    return frame.sort(*known, maintain_order=True) if known else frame


def test_every_planted_nanosecond_comes_back_process_by_process(planted: Planted, run: Tables) -> None:
    attribution = found_in(run)
    assert attribution.ledger is not None
    attribution.ledger.self_check()
    found = {
        (row["rank"], row["phase"]): {name: row[name] for name in BUCKETS if row[name]}
        for row in attribution.ledger.per_phase().iter_rows(named=True)
    }
    assert found == {key: {name: ns for name, ns in parts.items() if ns} for key, parts in planted.truth.items()}
    assert (attribution.cycles, attribution.source) == (24, "ranges of the instrumentation")
    assert attribution.late.row(0, named=True)["rank"] == 3
    assert attribution.device_time.height == 8


def test_the_whole_capture_of_a_device_adds_up_without_any_cycle() -> None:
    process = Process(rank=None)
    process.kernel("gemm", 1_000, 1_400, process.call(900, 950))
    process.copy(1_300, 1_700, process.call(1_200, 1_210))
    process.kernel("gemm", 2_000, 2_500, process.call(1_900, 1_950))
    attribution = found_in(run_of(process))
    assert (attribution.cycles, attribution.ledger) == (0, None)
    row = attribution.device_time.row(0, named=True)
    assert {name: row[name] for name in ("start_ns", "window_ns", *BUCKETS) if row[name]} == {
        "start_ns": 1_000, "window_ns": 1_500, "compute": 900, "copies": 300, "launch_gap": 250, "other_idle": 50,
    }  # fmt: skip


class Watched(Tables):
    """Notes the processes that each reading of events is of."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables._frames)
        self.seen: list[tuple[str, int]] = []

    def frame(self, table: str, columns: list[str] | None = None, only: Only | None = None) -> pl.DataFrame:
        found = super().frame(table, columns, only)
        if table in BY_RANK and found.height:
            self.seen.append((table, found.select("file_id", "pid").n_unique()))
        return found


def test_only_collectives_are_ever_read_of_more_than_one_process_at_a_time(run: Tables) -> None:
    watched = Watched(run)
    assert same(found_in(watched), found_in(run))
    assert {table for table, processes in watched.seen if processes > 1} == {"collectives"}
    assert ("kernels", 1) in watched.seen and ("launches", 1) in watched.seen and ("ranges", 1) in watched.seen


def test_a_store_says_the_same_as_the_traces_and_does_not_do_the_work_again(
    run: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, with_results = stored(run, tmp_path / "a", results=False), stored(run, tmp_path / "b", results=True)
    fresh = found_in(run)
    assert same(found_in(without), fresh)
    assert is_current(with_results) and not is_current(without)

    def never(*_: object) -> None:
        raise AssertionError("attributed again")

    monkeypatch.setattr(module, "attribute", never)
    assert same(found_in(with_results), fresh)
    with pytest.raises(AssertionError, match="attributed again"):
        analyse(without)


def test_results_that_other_code_made_are_made_anew(
    run: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = stored(run, tmp_path, results=True)
    version.cache_clear()
    monkeypatch.setattr("traceana.attribution.results._CODE", {"traceana.attribution": ("late.py",)})
    assert not is_current(kept)
    called: list[int] = []
    attribute = module.attribute

    def counted(*arguments: object) -> None:
        called.append(1)
        attribute(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "attribute", counted)
    assert same(found_in(kept), found_in(run)) and len(called) == 2
    monkeypatch.undo()
    version.cache_clear()
    assert is_current(kept)


def test_results_of_which_a_file_was_lost_are_made_anew_but_lost_events_are_refused(
    run: Tables, tmp_path: Path
) -> None:
    stored(run, tmp_path, results=True)
    shutil.rmtree(tmp_path / "run=r" / "ledger")
    kept, _ = open_run(str(tmp_path))
    assert not is_current(kept)
    assert same(found_in(kept), found_in(run))
    shutil.rmtree(tmp_path / "run=r" / "kernels" / "rank=5")
    with pytest.raises(TraceanaError, match=r"kernels: \d+ rows, but \d+ were written"):
        open_run(str(tmp_path))


def test_ranks_of_one_merged_file_that_share_a_process_id_are_not_mixed() -> None:
    ranks = [Process(file_id=0, rank=r, pid=7) for r in (0, 1)]
    ranks[1].ids = ranks[0].ids  # one table of names
    for process, length in zip(ranks, (300, 700), strict=True):
        for at in range(0, 3_000, 1_000):
            process.range("verify", at, at + 900)
            process.kernel("gemm", at + 100, at + 100 + length, process.call(at + 10, at + 20))
    attribution = found_in(run_of(*ranks))
    assert attribution.ledger is not None
    assert attribution.ledger.rows.group_by("rank").agg(pl.col("compute").sum()).sort("rank").rows() == [
        (0, 900), (1, 2_100),
    ]  # fmt: skip
    assert attribution.cycles == 3


def test_a_rank_without_ranges_is_read_off_its_replays_and_both_sources_are_named() -> None:
    ranged, replayed = Process(file_id=0, rank=0), Process(file_id=1, rank=1)
    for at in range(0, 40_000, 1_000):
        ranged.range("verify", at, at + 900)
        ranged.kernel("gemm", at + 100, at + 500, ranged.call(at + 10, at + 20))
        graph = replayed.call(at + 10, at + 20, graph=True)
        replayed.kernel("gemm", at + 100, at + 900, graph, node=1)
    found = found_in(run_of(ranged, replayed))
    assert found.source == "ranges of the instrumentation and the periodic pattern of graph launches"
    assert found.provenance == "derived"


@pytest.mark.parametrize("names", [["1767225600.5-TP-0.trace.json.gz", "1767225600.5-TP-1.trace.json.gz"], []])
def test_ingested_traces_are_reported_as_the_traces_are(names: list[str], tmp_path: Path) -> None:
    paths = [str(FIXTURES / name) for name in names] or [str(p) for p in sorted(FIXTURES.glob("rank0*.json.gz"))]
    done = api.ingest(paths, str(tmp_path))
    assert done.rows["attribution"] == 1 and done.rows["processes"] == len(paths)
    assert is_current(open_run(str(tmp_path))[0])
    assert render(api.diagnose([str(tmp_path)]), "json") == render(api.diagnose(paths), "json")
