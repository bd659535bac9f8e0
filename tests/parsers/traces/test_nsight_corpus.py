"""Real Nsight exports: the counts that nsys' own tools and independent readers found in them."""

import gzip
import json
import sqlite3
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.parsers.traces.nsight_reading import Tables, capture, everything, kernel_summary, named, notes, read_export
from traceana_parsers.interface import MemorySink
from traceana_parsers.read import read_run

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "traces"
NSYS, STATS, JAX = CORPUS / "nsys", CORPUS / "nsys_stats", CORPUS / "nsys_jax"
pytestmark = pytest.mark.skipif(not NSYS.is_dir(), reason="the corpus of real inputs is not beside this checkout")

#: file -> kernels, memory operations, launches, ranges, collectives, processes and ranks, GPUs
KNOWN = {
    "nsysai_mfu_2gpu_before.sqlite": (4010, 1020 + 269, 7466, 19118, 66, {144: 0, 145: 1}),
    "nsysai_mfu_2gpu_after.sqlite": (3587, 1146, 6682, 17113, 62, {148: 0, 149: 1}),
    "nsysai_h100_2gpu_1s.sqlite": (3442, 926, 5796, 16782, 0, {111: 0, 112: 1}),
    "nsysai_mock.sqlite": (2, 1, 9, 0, 0, {91186: None}),
    "nsysai_healthy_1pct.sqlite": (400, 0, 400, 0, 0, {0: None}),
    "nsysai_healthy_judged_1pct.sqlite": (20, 0, 20, 0, 0, {0: None}),
}


@pytest.fixture(scope="module")
def before() -> Tables:
    return read_export(NSYS / "nsysai_mfu_2gpu_before.sqlite")[0]


@pytest.mark.parametrize("name", KNOWN)
def test_every_row_of_a_real_export_arrives(name: str) -> None:
    tables, report = read_export(NSYS / name)
    kernels, memops, launches, ranges, collectives, processes = KNOWN[name]
    assert (report.problem, report.unread, report.partial) == (None, 0, 0)
    heights = tuple(tables[t].height for t in ("kernels", "memops", "launches", "ranges", "collectives"))
    assert heights == (kernels, memops, launches, ranges, collectives)
    assert report.recognised == kernels + memops + launches + ranges
    assert dict(tables["traces"].select("pid", "rank").rows()) == processes
    assert tables["traces"]["graph_mode"].unique().to_list() == ["none"]


def test_sums_agree_with_sqlite(before: Tables) -> None:
    db = sqlite3.connect(f"{(NSYS / 'nsysai_mfu_2gpu_before.sqlite').as_uri()}?mode=ro&immutable=1", uri=True)
    (start,) = db.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
    for table, ours in (("KERNEL", "kernels"), ("RUNTIME", "launches")):
        total, first, last = db.execute(
            f"SELECT sum(end - start), min(start), max(end) FROM CUPTI_ACTIVITY_KIND_{table}"
        ).fetchone()
        frame = before[ours]
        assert (frame["end_ns"] - frame["start_ns"]).sum() == total
        assert (frame["start_ns"].min(), frame["end_ns"].max()) == (start + first, start + last)
    moved = db.execute("SELECT sum(bytes) FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE copyKind = 8").fetchone()[0]
    assert before["memops"].filter(pl.col("kind") == "DtoD")["bytes"].sum() == moved
    db.close()


def test_names_are_those_of_nsys(before: Tables) -> None:
    kernels = named(before, "kernels")["name"]
    assert kernels.filter(kernels.str.starts_with("ncclDevKernel_SendRecv(")).len() == 66
    assert "aten::to" in before["names"]["name"].to_list()
    assert not before["names"]["name"].str.contains("op_id").any()
    nccl = named(before, "ranges").filter(pl.col("domain") == "NCCL")
    assert nccl.height == 462 and set(nccl["name"]) >= {"ncclGroupStart", "ncclGroupEnd", "ncclSend"}


def test_the_kernel_summary_of_nsys_can_be_recomputed(before: Tables) -> None:
    theirs = kernel_summary(STATS / "v2023.4__cuda_gpu_kern_sum.csv")
    ours = (
        named(before, "kernels")
        .group_by("name")
        .agg(pl.len().cast(pl.Int64).alias("n"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("sum"))
    )
    joined = theirs.join(ours, on="name", how="left")
    assert joined["n"].equals(joined["instances"].rename("n"))
    assert joined["sum"].equals(joined["total_ns"].rename("sum"))


def test_rows_of_2022_add_up_to_the_summary_of_2023() -> None:
    new = kernel_summary(STATS / "v2023.4__cuda_gpu_kern_sum.csv")
    old = kernel_summary(STATS / "v2022.4__gpukernsum.csv")
    flash = new.filter(pl.col("name").str.contains("flash_fwd")).row(0, named=True)
    added = old.filter(pl.col("name") == flash["name"]).row(0, named=True)
    assert (added["instances"], added["total_ns"], added["min_ns"], added["max_ns"]) == (68, 272317378, 150752, 7867915)
    assert added["std_ns"] == pytest.approx(flash["std_ns"], rel=1e-6)


def test_the_projection_of_nsys_follows_from_the_tables(before: Tables) -> None:
    """nsys' own rule: the operations launched, on its thread, by the calls within a range."""
    ops = pl.concat([before[t].select("pid", "correlation", "start_ns", "end_ns") for t in ("kernels", "memops")])
    calls = before["launches"].select("pid", "tid", "correlation", call="start_ns", until="end_ns")
    by_thread = {
        key: part.sort("call")
        for key, part in ops.join(calls, on=["pid", "correlation"]).partition_by("pid", "tid", as_dict=True).items()
    }
    ours: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    (offset,) = {n - m for n, m in ((before["ranges"]["start_ns"].min(), 60111430336),)}
    for (pid, tid), ranges in before["ranges"].partition_by("pid", "tid", as_dict=True).items():
        part = by_thread.get((pid, tid))
        if part is None:
            continue
        call, until, start, end, corr = (
            part[c].to_numpy() for c in ("call", "until", "start_ns", "end_ns", "correlation")
        )
        for low, high in ranges.select("start_ns", "end_ns").iter_rows():
            at = np.arange(np.searchsorted(call, low), np.searchsorted(call, high, side="right"))
            at = at[until[at] <= high]
            if len(at):
                figures = (int(start[at].min()) - offset, int(end[at].max() - start[at].min()), len(set(corr[at])))
                ours[(low - offset, high - low)].append(figures)
    theirs: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    table = pl.read_csv(STATS / "v2023.4__nsysai_mfu_2gpu_before__nvtx_gpu_proj_trace_full.csv.gz")
    columns = ("Orig Start (ns)", "Orig Duration (ns)", "Projected Start (ns)", "Projected Duration (ns)", "NumGPUOps")
    for start, length, projected, duration, count in table.select(columns).iter_rows():
        theirs[(start, length)].append((projected, duration, count))
    assert table.height == 9621
    assert {k: sorted(v) for k, v in ours.items()} == {k: sorted(v) for k, v in theirs.items()}


def test_a_gpu_trace_has_the_times_of_the_export() -> None:
    trace, _ = read_export(STATS / "v2023.4__mock__cuda_gpu_trace.csv")
    export, _ = read_export(NSYS / "nsysai_mock.sqlite")
    offset = 1776781226557295056
    assert (trace["kernels"]["start_ns"] + offset).to_list() == export["kernels"]["start_ns"].to_list()
    assert (
        trace["kernels"]
        .drop("start_ns", "end_ns", "pid", "name_id")
        .equals(export["kernels"].drop("start_ns", "end_ns", "pid", "name_id"))
    )
    assert named(trace, "kernels")["name"].equals(named(export, "kernels")["name"])
    assert trace["memops"]["kind"].to_list() == export["memops"]["kind"].to_list()


def test_a_sparse_hand_made_export_is_read_with_its_gaps_named() -> None:
    tables, _ = read_export(NSYS / "nsysai_healthy_1pct.sqlite")
    assert tables["traces"]["clock"].item() == "relative"
    assert json.loads(tables["traces"]["devices"].item()) == {"0": "NVIDIA H100 80GB HBM3"}
    assert any(note.startswith("no NVTX table") for note in notes(tables))
    assert tables["kernels"].join(tables["launches"], on=["pid", "correlation"]).height == 400


def test_only_the_allowed_variables_of_a_real_environment_are_read_out() -> None:
    for path in NSYS.glob("*.sqlite"):
        tables, _ = read_export(path)
        assert set(tables["settings"]["name"]) <= {"NCCL_DEBUG", "NCCL_VERSION", "CUDA_HOME", "CUDA_VERSION"}
        assert "[removed]" not in everything(tables)


def test_the_exporters_own_folder_samples_are_read() -> None:
    tables, report = read_export(CORPUS / "nsys_export_samples")
    assert (report.problem or "").startswith("an Nsight Systems export without GPU work, CUDA calls or ranges; capture")
    assert tables["traces"]["clock"].item() == "utc"  # the samples hold the events of domains only
    assert any(note.startswith("no NVTX ranges") for note in notes(tables))


@pytest.mark.parametrize("path", sorted(STATS.glob("**/*.csv")), ids=lambda p: p.name)
def test_every_report_of_nsys_stats_is_recognised(path: Path) -> None:
    _, report = read_export(path)
    assert report.problem is None and report.recognised > 0
    if "kern_sum" in path.name and "nvtx" not in path.name:
        table = kernel_summary(path)
        assert (table["avg_ns"] * table["instances"] - table["total_ns"]).abs().max() <= 0.05 * table[
            "instances"
        ].max() + 1


@pytest.mark.parametrize("process", range(4))
def test_recipes_of_nsys_jax_are_read(process: int) -> None:
    tables, reports = capture(*sorted(JAX.glob(f"proc{process}__*")))
    assert not any(r.problem for r in reports) and all(r.recognised for r in reports)
    ranges = named(tables, "ranges")
    projected = ranges.filter(pl.col("kind") == "gpu_annotation")
    assert projected.height == {0: 14_304}.get(
        process, 14_298
    )  # apart from the row of what was launched outside of ranges
    assert projected.filter((pl.col("domain") == "NCCL") & (pl.col("name") == "ncclGroupEnd")).height > 0
    assert ranges.height - projected.height == {0: 27_891}.get(process, 27_885)
    row = tables["traces"].row(0, named=True)
    assert (row["rank"], row["host"]) == (process, "nvdl-a112-luna04")
    assert json.loads(row["devices"]) == {str(process): "NVIDIA A100-SXM4-40GB"}


def test_a_compressed_report_is_read() -> None:
    path = STATS / "v2023.4__nsysai_mfu_2gpu_before__nvtx_gpu_proj_trace_full.csv.gz"
    lines = gzip.decompress(path.read_bytes()).count(b"\n")
    tables, (report,) = capture(path)
    assert report.recognised == tables["ranges"].filter(pl.col("kind") == "gpu_annotation").height == lines - 1


@pytest.mark.parametrize(("folder", "captures"), [("nsys", 6), ("nsys_stats", 10), ("nsys_jax", 4)])
def test_whole_folders_of_the_corpus_are_read_without_a_problem(folder: str, captures: int) -> None:
    sink = MemorySink()
    reports = read_run([str(CORPUS / folder)], sink)
    assert [(r.path, r.problem) for r in reports if r.problem or not r.recognised or r.unread] == []
    assert pl.concat(sink.tables["traces"])["file_id"].n_unique() == captures
