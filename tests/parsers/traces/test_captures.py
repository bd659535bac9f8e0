"""What belongs together when paths are given: export folders, reports of nsys stats, one capture in several forms."""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.build_nsight import Export, server
from tests.parsers.traces.nsight_reading import named
from tests.parsers.traces.test_nsight_stats import PROJECTION, ROWS, SUM_2022, SUM_2023, TRACE, TRACE_ROWS
from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.read import read_run
from traceana_parsers.schema import TABLES, empty
from traceana_parsers.sources import expand
from traceana_parsers.traces.gather import gathered

LOG = "[2026-01-01 00:00:00 TP0] Decode batch. #running-req: 1, #token: 9, token usage: 0.01, accept len: 2.10, cuda graph: True, gen throughput (token/s): 90.00, #queue-req: 0, \n"
NCCL = "node7:4000:4000 [0] NCCL INFO NCCL_PROTO set by environment to LL\n"


def read(*paths: Path) -> tuple[dict[str, pl.DataFrame], list[FileReport]]:
    sink = MemorySink()
    reports = read_run(map(str, paths), sink)
    tables = {name: pl.concat(sink.tables[name]) if name in sink.tables else empty(name) for name in TABLES}
    inputs = tables["inputs"].sort("file_id")
    assert inputs["file_id"].to_list() == list(range(len(reports))) == [r.file_id for r in reports]
    for name, frame in tables.items():
        if "file_id" in frame.columns:
            assert frame["file_id"].is_in(inputs["file_id"].implode()).all(), name
    return tables, reports


def batches(*paths: Path) -> list[list[str]]:
    return [[Path(s.path).name for s in b.sources] for b in gathered(expand(map(str, paths))) if b.instead is None]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_folder_of_tables_is_one_input_however_it_is_given(suffix: str, tmp_path: Path) -> None:
    folder = server().write_folder(tmp_path / "deep", suffix).rename(tmp_path / f"rep{suffix}dir")
    (tmp_path / "server.log").write_text(LOG)
    alone, (report,) = read(folder)
    assert (report.problem, report.path, alone["kernels"].height) == (None, str(folder), 30)
    assert alone["inputs"]["bytes"].item() == sum(p.stat().st_size for p in folder.iterdir())
    for given in (
        [folder / f"PROCESSES{suffix}"] if (folder / f"PROCESSES{suffix}").exists() else [folder],
        [folder / f"StringIds{suffix}", folder / f"NVTX_EVENTS{suffix}"],
        [folder, folder / f"StringIds{suffix}"],
        [tmp_path / "*" / f"*{suffix}"],
    ):
        tables, reports = read(*given)
        assert len(reports) == 1 and tables["kernels"].equals(alone["kernels"])
    nested, reports = read(tmp_path)
    assert [Path(r.path).name for r in reports] == [folder.name, "server.log"]
    assert nested["kernels"].height == 30 and nested["decode_samples"].height == 1


def test_several_exports_are_the_ranks_of_one_run(tmp_path: Path) -> None:
    for node, pid in enumerate((4000, 5000)):
        export = Export()
        export.title(pid, f"sglang::scheduler_TP{node}")
        export.kernel(pid, "gemm", 10, 20, 1)
        export.write_folder(tmp_path / f"node{node}_pqtdir") if node else export.write(tmp_path / "node0.sqlite")
    tables, reports = read(tmp_path)
    assert [r.problem for r in reports] == [None, None]
    assert sorted(tables["traces"].select("file_id", "rank", "pid").rows()) == [(0, 0, 4000), (1, 1, 5000)]


def test_other_files_in_an_export_folder_are_read_for_themselves(tmp_path: Path) -> None:
    folder = server().write_folder(tmp_path / "rep_pqtdir")
    (folder / "server.log").write_text(LOG)
    tables, reports = read(folder)
    assert [Path(r.path).name for r in reports] == ["rep_pqtdir", "server.log"]
    assert tables["decode_samples"].height == 1 and tables["kernels"].height == 30


def test_an_empty_export_folder_is_no_folder_of_files(tmp_path: Path) -> None:
    folder = tmp_path / "rep_pqtdir"
    folder.mkdir()
    with pytest.raises(Exception, match=r"the folder holds no files"):
        read(folder)


# ---- one capture in several forms ----


def test_a_capture_in_several_forms_is_read_once_and_the_others_say_so(tmp_path: Path) -> None:
    server().write(tmp_path / "rep.sqlite")
    server().write_folder(tmp_path / "rep_pqtdir")
    (tmp_path / "rep.nsys-rep").write_bytes(b"not documented")
    (tmp_path / "rep_cuda_gpu_kern_sum.csv").write_text(f"{SUM_2023}\n{ROWS}")
    (tmp_path / "other_cuda_gpu_kern_sum.csv").write_text(f"{SUM_2023}\n{ROWS}")
    tables, reports = read(tmp_path)
    said = {Path(r.path).name: r.problem for r in reports}
    assert said == {
        "rep.sqlite": None,
        "rep_pqtdir": "the same capture as rep.sqlite, which was read instead",
        "rep.nsys-rep": "the same capture as rep.sqlite, which was read instead",
        "rep_cuda_gpu_kern_sum.csv": "the same capture as rep.sqlite, which was read instead",
        "other_cuda_gpu_kern_sum.csv": None,
    }
    assert tables["kernels"].height == 30 and tables["traces"]["file_id"].n_unique() == 2


def test_a_report_without_nsys_gives_way_to_its_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rep.nsys-rep").write_bytes(b"not documented")
    (tmp_path / "rep_cuda_gpu_kern_sum.csv").write_text(f"{SUM_2023}\n{ROWS}")
    monkeypatch.setenv("PATH", "")
    tables, reports = read(tmp_path)
    assert tables["summaries"].height == 2
    assert [r.problem and r.problem[:16] for r in reports] == ["the same capture", None]


def test_every_report_says_its_command_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rank0.nsys-rep", "rank1.nsys-rep"):
        (tmp_path / name).write_bytes(b"not documented")
    (tmp_path / "server.log").write_text(LOG)
    monkeypatch.setenv("PATH", "")
    tables, reports = read(tmp_path)
    for report in reports[:2]:
        assert report.problem is not None and report.problem.startswith("an Nsight Systems report, and no nsys on PATH")
        assert report.problem.endswith(f"-o {Path(report.path).with_suffix('.sqlite')} {report.path}")
    assert tables["decode_samples"].height == 1


def test_reports_are_exported_with_the_rank_of_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = Export()
    export.kernel(4000, "gemm", 10, 20, 1)
    made = export.write(tmp_path / "made.db")
    bin_, inputs = tmp_path / "bin", tmp_path / "in"
    bin_.mkdir()
    inputs.mkdir()
    program = bin_ / "nsys"
    program.write_text(f"#!{sys.executable}\nimport shutil, sys\nshutil.copy({str(made)!r}, sys.argv[-2])\n")
    program.chmod(0o755)
    for rank in range(3):
        (inputs / f"rank{rank}.nsys-rep").write_bytes(b"not documented")
    monkeypatch.setenv("PATH", str(bin_))
    tables, reports = read(inputs)
    assert [r.problem for r in reports] == [None] * 3
    assert tables["traces"].select("file_id", "rank").rows() == [(0, 0), (1, 1), (2, 2)]
    assert sorted(p.name for p in inputs.iterdir()) == [f"rank{rank}.nsys-rep" for rank in range(3)]


# ---- nsys stats ----

API = (
    "Start (ns),Duration (ns),Name,Result,CorrID,Pid,Tid,T-Pri,Thread Name\n"
    "900,50,cudaLaunchKernel,0,7,500,501,20,python3\n1500,40,cudaLaunchKernel_v7000,0,8,500,501,20,python3\n"
)
PUSHPOP = (
    "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,"
    "RangeStack,NameTree\n800,1600,800,0,800,:verify,500,501,0,0,1,,:1,:verify\n"
)
LAUNCHES = (
    "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),Kernel Dur (ns),Total Dur (ns),PID,TID,"
    "DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
    '900,50,950,50,1000,500,600,500,501,0,cudaLaunchKernel,  24    1    1, 544    1    1,"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"\n'
    "1500,40,1540,60,1600,80,180,600,601,1,cudaLaunchKernel, 108    1    1, 128    1    1,nvjet_tst\n"
)


def test_reports_of_one_capture_complete_one_another(tmp_path: Path) -> None:
    (tmp_path / "rep_cuda_gpu_trace.csv").write_text(f"{TRACE}\n{TRACE_ROWS}")
    (tmp_path / "rep_cuda_api_trace.csv").write_text(API)
    (tmp_path / "rep_nvtx_pushpop_trace.csv").write_text(PUSHPOP)
    tables, reports = read(tmp_path)
    assert [(r.problem, r.recognised) for r in reports] == [(None, 2), (None, 6), (None, 1)]
    assert tables["launches"].select("pid", "tid", "correlation").rows() == [(500, 501, 7), (500, 501, 8)]
    assert set(tables["kernels"]["pid"]) == {500} == set(tables["memops"]["pid"])  # the one process that makes calls
    assert named(tables, "ranges").select("name", "domain", "pid", "tid", "start_ns", "end_ns").rows() == [
        ("verify", None, 500, 501, 800, 1600)
    ]
    assert tables["traces"].select("file_id", "pid").rows() == [(0, 500)]


def test_the_launch_trace_alone_ties_kernels_to_their_calls(tmp_path: Path) -> None:
    (tmp_path / "cuda_kern_exec_trace.csv").write_text(LAUNCHES)
    tables, _ = read(tmp_path)
    kernels = named(tables, "kernels").select("pid", "device", "start_ns", "end_ns", "correlation", "grid_x", "block_x")
    assert kernels.rows() == [(500, 0, 1000, 1500, 1, 24, 544), (600, 1, 1600, 1680, 2, 108, 128)]
    assert tables["launches"].select("pid", "start_ns", "end_ns", "correlation").rows() == [
        (500, 900, 950, 1),
        (600, 1500, 1540, 2),
    ]
    assert tables["collectives"]["collective"].to_list() == ["all_reduce"]


def test_the_launch_trace_names_the_processes_of_a_gpu_trace(tmp_path: Path) -> None:
    (tmp_path / "r_cuda_kern_exec_trace.csv").write_text(LAUNCHES)
    (tmp_path / "r_cuda_gpu_trace.csv").write_text(f"{TRACE}\n{TRACE_ROWS}")
    tables, _ = read(tmp_path)
    joined = tables["kernels"].join(tables["launches"], on=["pid", "correlation"])
    assert joined.select("pid", "device", "start_ns", "start_ns_right").rows() == [
        (500, 0, 1000, 900),
        (600, 1, 1600, 1500),
    ]
    assert set(tables["memops"]["pid"]) == {600}  # the process of that GPU


def test_the_launch_trace_finds_its_calls_in_the_trace_of_calls(tmp_path: Path) -> None:
    """And a graph launch, whose kernels are several rows, is one call."""
    graph = LAUNCHES + "1500,40,1540,60,1700,80,280,600,601,1,cudaLaunchKernel, 108    1    1, 128    1    1,second\n"
    (tmp_path / "r_cuda_kern_exec_trace.csv").write_text(graph)
    (tmp_path / "r_cuda_api_trace.csv").write_text(API)
    tables, _ = read(tmp_path)
    calls = tables["launches"].select("pid", "start_ns", "correlation").rows()
    assert calls == [(500, 900, 7), (500, 1500, 8), (600, 1500, -2)]  # one is not in the trace of calls
    kernels = named(tables, "kernels").select("pid", "name", "correlation").rows()
    assert kernels == [
        (500, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 7),
        (600, "nvjet_tst", -2),
        (600, "second", -2),
    ]


def test_sums_are_not_added_twice(tmp_path: Path) -> None:
    """The same kernels in a summary of either generation, in the GPU summary and by range."""
    (tmp_path / "a_cuda_gpu_kern_sum.csv").write_text(f"{SUM_2023}\n{ROWS}")
    (tmp_path / "a_cuda_gpu_kern_sum_base.csv").write_text(f"{SUM_2023}\n{ROWS}")
    header = SUM_2023.replace(",Name", ",Category,Operation")
    gpu = "6.0,6000,3,2000.0,1900.0,1500,2600,556.8,CUDA_KERNEL,gemm\n1.0,10,1,10.0,10.0,10,10,0.0,MEMORY_OPER,[CUDA memset]\n"
    (tmp_path / "a_cuda_gpu_sum.csv").write_text(f"{header}\n{gpu}")
    by_range = (
        "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
        "Kernel Name\n:verify,PushPop,500,501,2,3,6000,2000.0,1900.0,1500,2600,556.8,nvjet_tst\n"
        ",,,,0,1,4000,4000.0,4000.0,4000,4000,,nvjet_tst\n"
    )
    (tmp_path / "a_nvtx_kern_sum.csv").write_text(by_range)
    (tmp_path / "a_nvtxgpuproj.csv").write_text(PROJECTION)
    rows = read(tmp_path)[0]["summaries"].select("kind", "name", "within", "pid", "instances", "total_ns")
    kernels = rows.filter(pl.col("kind") == "kernel")
    assert kernels.filter(pl.col("within").is_null())["instances"].to_list() == [3, 1]
    assert kernels.filter(pl.col("within").is_not_null()).rows() == [
        ("kernel", "nvjet_tst", "verify", 500, 3, 6000),
        ("kernel", "nvjet_tst", "(none)", None, 1, 4000),
    ]
    assert rows.filter(pl.col("kind") == "memory").rows() == [("memory", "[CUDA memset]", None, None, 1, 10)]


def test_captures_with_names_of_their_own_stay_apart(tmp_path: Path) -> None:
    for name in ("all_cuda_gpu_kern_sum.csv", "decode_cuda_gpu_kern_sum.csv", "old_gpukernsum.csv"):
        (tmp_path / name).write_text(f"{SUM_2022 if 'old' in name else SUM_2023}\n{ROWS if 'old' not in name else ''}")
    assert batches(tmp_path) == [
        ["all_cuda_gpu_kern_sum.csv"],
        ["decode_cuda_gpu_kern_sum.csv"],
        ["old_gpukernsum.csv"],
    ]
    tables, _ = read(tmp_path)
    assert tables["summaries"].group_by("file_id").len().sort("file_id").rows() == [(0, 2), (1, 2)]


def test_sizes_are_put_to_the_memory_operations(tmp_path: Path) -> None:
    (tmp_path / "cuda_gpu_mem_time_sum.csv").write_text(
        "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation\n"
        "100.0,500,2,250.0,250.0,200,300,70.7,[CUDA memcpy Device-to-Host]\n"
    )
    (tmp_path / "cuda_gpu_mem_size_sum.csv").write_text(
        "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
        "1.500,2,0.750,0.750,0.500,1.000,0.354,[CUDA memcpy Device-to-Host]\n"
    )
    row = read(tmp_path)[0]["summaries"].row(0, named=True)
    assert (row["kind"], row["instances"], row["total_ns"], row["bytes"]) == ("memory", 2, 500, 1_500_000)


def test_a_log_that_is_called_like_a_report_is_a_log(tmp_path: Path) -> None:
    (tmp_path / "rep_cuda_gpu_trace.csv").write_text(LOG)
    tables, (report,) = read(tmp_path)
    assert (report.format, tables["decode_samples"].height) == ("sglang", 1)


def test_a_recipe_in_the_folders_of_nsys_jax_is_one_capture(tmp_path: Path) -> None:
    for name in ("nvtx_gpu_proj_trace/trace.parquet", "nvtx_gpu_proj_trace/files.parquet", "device-metadata.parquet"):
        path = tmp_path / "proc1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "proc1" / "report_nvtx_pushpop_trace.csv.xz").touch()
    (found,) = batches(tmp_path)
    assert sorted(found) == [
        "device-metadata.parquet",
        "files.parquet",
        "report_nvtx_pushpop_trace.csv.xz",
        "trace.parquet",
    ]


# ---- text kept in exports ----


@pytest.mark.parametrize("form", ["sqlite", "gz", "folder"])
def test_output_kept_in_an_export_is_read_as_a_log(form: str, tmp_path: Path) -> None:
    export = server()
    export.output(4000, "/tmp/nvidia/nsight_systems/streams/pid_4000_stdout.log", NCCL + LOG * 3)
    export.output(4000, "/tmp/nvidia/nsight_systems/streams/pid_4000_stderr.log", "nothing that is known\n")
    path = export.write_folder(tmp_path / "rep") if form == "folder" else export.write(tmp_path / "rep.sqlite")
    if form == "gz":
        (tmp_path / "rep.sqlite.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        path = tmp_path / "rep.sqlite.gz"
    (tmp_path / "zz.log").write_text(LOG)
    tables, reports = read(path, tmp_path / "zz.log")
    assert [(r.path, r.inside) for r in reports] == [
        (str(path), None),
        (str(tmp_path / "zz.log"), None),
        (f"{path}:pid_4000_stdout.log", str(path)),
    ]
    row = tables["settings"].row(0, named=True)
    assert (row["name"], row["value"], row["file_id"], row["line"], row["origin"]) == (
        "NCCL_PROTO",
        "LL",
        2,
        1,
        "nccl_env",
    )
    assert sorted(tables["decode_samples"].select("file_id", "line").rows()) == [(1, 1), (2, 2), (2, 3), (2, 4)]
    assert tables["inputs"]["format"].to_list() == ["nsight", "sglang", "sglang"]


def test_the_store_is_the_same_when_a_capture_is_read_again(tmp_path: Path) -> None:
    """A run is named by the contents of its files; texts inside them are no files."""
    from traceana import api

    export = server()
    export.output(4000, "pid_4000_stdout.log", LOG)
    folder = export.write_folder(tmp_path / "rep_pqtdir")
    names = {api.ingest([str(folder)], str(tmp_path / f"store{n}")).run_id for n in range(2)}
    assert len(names) == 1
    shutil.rmtree(tmp_path / "store0")


def test_a_table_that_only_describes_a_capture_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "thread-metadata.parquet"
    pl.DataFrame({"Name": ["python3"], "Priority": [20], "PID": [7], "TID": [7]}).write_parquet(path)
    tables, (report,) = read(path)
    assert report.recognised == 0 and (report.problem or "").startswith("a table that describes the capture of an nsys")
    assert tables["traces"].height == 0


def test_a_trace_that_holds_less_than_its_summary_is_called_incomplete(tmp_path: Path) -> None:
    (tmp_path / "cuda_gpu_trace.csv").write_text(f"{TRACE}\n{TRACE_ROWS}")
    (tmp_path / "cuda_gpu_kern_sum.csv").write_text(f"{SUM_2023}\n{ROWS}")
    tables, _ = read(tmp_path)
    assert "the GPU trace is incomplete: it holds 2 of the 4 kernels in the summary" in tables["traces"]["notes"].item()
