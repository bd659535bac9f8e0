"""CSV reports of nsys stats, of both generations, alone and in captured output; projections of recipes."""

import gzip
import json
import statistics
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.nsight_reading import kernel_summary, named, notes, read_export
from traceana_parsers.traces.nsight_csv import sniff

SUM_2023 = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
SUM_2022 = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name"
ROWS = '60.0,6000,3,2000.0,1900.0,1500,2600,556.8,"void gemm<(int)128, (int)64>(Params)"\n40.0,4000,1,4000.0,4000.0,4000,4000,0.0,nvjet_tst\n'
TRACE = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
    "Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)
TRACE_ROWS = (
    '1000,500,7,24,1,1,544,1,1,96,0.000,0.033,,,,,Invented GPU 96GB (0),1,,20,"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"\n'
    "1600,80,8,108,1,1,128,1,1,32,0.000,0.000,,,,,Invented GPU 96GB (1),1,,7,nvjet_tst\n"
    "1700,20,9,,,,,,,,,,4.096,200.0,Device,Pinned,Invented GPU 96GB (1),1,,7,[CUDA memcpy Device-to-Host]\n"
    "1800,20,10,,,,,,,,,,0.000,2.0,Pinned,Device,Invented GPU 96GB (1),1,,7,[CUDA memcpy HtoD]\n"
    "1900,5,11,,,,,,,,,,0.001,,,,Invented GPU 96GB (1),1,,7,[CUDA memset]\n"
    "1950,5,12,,,,,,,,,,0.001,,,,Invented GPU 96GB (1),1,,7,[CUDA memcpy Unified Host-to-Device]\n"
)
PROJECTION = (
    "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns),Style,PID,TID,NumGPUOps,Lvl,"
    "NumChild,RangeId,ParentId,RangeStack\n"
    '"aten::to, op_id = 990347",1100,700,1000,9000,PushPop,145,146,2,1,1,2,None,:2\n'
    ":verify,1100,700,1000,9000,PushPop,145,145,61,0,0,3,,:3\n"
    "traceana:cycle,1100,900,900,9100,StartEnd,145,145,80,0,1,4,,:4\n"
)


def file(folder: Path, content: str, name: str = "out_report.csv") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def test_a_kernel_summary_has_its_figures(tmp_path: Path) -> None:
    table = kernel_summary(file(tmp_path, f"{SUM_2023}\n{ROWS}"))
    assert table.rows() == [
        ("void gemm<(int)128, (int)64>(Params)", 3, 6000, 2000.0, 1900.0, 1500, 2600, 556.8),
        ("nvjet_tst", 1, 4000, 4000.0, 4000.0, 4000, 4000, 0.0),
    ]
    assert table.columns == ["name", "instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "std_ns"]


@pytest.mark.parametrize(("unit", "factor"), [("us", 1e3), ("usec", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_units_of_the_header_are_minded(unit: str, factor: float, tmp_path: Path) -> None:
    header = SUM_2023.replace("(ns)", f"({unit})")
    row = kernel_summary(file(tmp_path, f"{header}\n1.0,6.5,3,2.25,2.0,1.5,2.6,0.5,k\n")).row(0, named=True)
    assert row["total_ns"] == int(6.5 * factor) and row["avg_ns"] == 2.25 * factor and row["std_ns"] == 0.5 * factor


def test_rows_per_launch_shape_of_2022_are_added_up(tmp_path: Path) -> None:
    shapes = [[100, 120, 140], [1000, 1100]]
    lines = []
    for number, times in enumerate(shapes):
        deviation = statistics.stdev(times)
        lines.append(
            f"50.0,{sum(times)},{len(times)},{statistics.mean(times)},{statistics.median(times)},{min(times)},{max(times)},"
            f'{deviation},{number}    1    1, 128    1    1,"k<(int)1>(T1)"'
        )
    row = kernel_summary(file(tmp_path, "\n".join([SUM_2022, *lines]))).row(0, named=True)
    everything = [t for times in shapes for t in times]
    assert (row["instances"], row["total_ns"], row["min_ns"], row["max_ns"]) == (5, sum(everything), 100, 1100)
    assert row["avg_ns"] == pytest.approx(statistics.mean(everything))
    assert row["std_ns"] == pytest.approx(statistics.stdev(everything))
    assert row["med_ns"] is None  # the median of the whole cannot be told from medians


def test_captured_output_with_several_reports_is_taken_apart(tmp_path: Path) -> None:
    text = (
        "NOTICE: Existing SQLite export found: rep.sqlite\n"
        "        It is assumed file was previously exported from: rep.nsys-rep\n"
        "        Consider using --force-export=true if needed.\n\n"
        "Generating SQLite file rep.sqlite from rep.nsys-rep\n"
        "Processing [rep.sqlite] with [/opt/nsight/reports/cuda_api_sum.py]... \n"
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
        "87.7,324534733,33,9834385.8,9639815.0,8106854,12643382,879892.6,cudaStreamSynchronize\n\n"
        "SKIPPED: rep.sqlite does not contain NV Tools Extension (NVTX) data.\n"
        "Processing [rep.sqlite] with [/opt/nsight/reports/cuda_gpu_kern_sum.py]... \n"
        f"{SUM_2023}\n{ROWS}"
    )
    assert kernel_summary(file(tmp_path, text))["instances"].to_list() == [3, 1]
    assert sniff(text.encode(), "stdout.log")


def test_windows_line_ends_and_compression_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "sum.csv.gz"
    path.write_bytes(gzip.compress(f"\ufeff{SUM_2023}\n{ROWS}".replace("\n", "\r\n").encode()))
    assert kernel_summary(path)["name"].to_list()[1] == "nvjet_tst"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "0 bytes: nsys stats writes an empty file when the capture has no such data"),
        (
            "SKIPPED: rep.sqlite does not contain CUDA kernel data.\n",
            "nsys stats skipped the report: rep.sqlite does not",
        ),
        (SUM_2023 + "\n", "a header of nsys stats and no rows: the capture has no such data"),
        (SUM_2023 + "\nx,y,z,,,,,,k\n", "no row of the kernel summary has its figures"),
    ],
)
def test_why_there_is_nothing_is_said_in_one_line(content: str, reason: str, tmp_path: Path) -> None:
    _, report = read_export(file(tmp_path, content))
    assert (report.problem or "").startswith(reason) and "\n" not in (report.problem or "")


def test_a_gpu_trace_becomes_kernels_and_memory_operations(tmp_path: Path) -> None:
    tables, report = read_export(file(tmp_path, f"{TRACE}\n{TRACE_ROWS}"))
    assert (report.problem, report.recognised) == (None, 6)
    kernels = named(tables, "kernels")
    assert kernels.select("start_ns", "end_ns", "device", "stream", "correlation", "grid_x", "block_x").rows() == [
        (1000, 1500, 0, 20, 7, 24, 544),
        (1600, 1680, 1, 7, 8, 108, 128),
    ]
    assert kernels["name"].to_list() == ["ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "nvjet_tst"]
    assert tables["memops"].select("kind", "bytes").rows() == [
        ("DtoH", 4_096_000),
        ("HtoD", None),  # 0.000 MB is not nothing
        ("memset", 1000),
        ("other", 1000),
    ]
    assert tables["collectives"]["collective"].to_list() == ["all_reduce"]
    row = tables["traces"].row(0, named=True)
    assert (row["tool"], row["clock"], row["start_ns"], row["end_ns"]) == ("nsight_stats", "relative", 1000, 1955)
    assert json.loads(row["devices"]) == {"0": "Invented GPU 96GB", "1": "Invented GPU 96GB"}
    assert notes(tables)[0].startswith("from nsys stats (GPU trace): no calls (cuda_api_trace) and no ranges (nvtx_")


def test_a_summary_adds_no_events_and_says_so(tmp_path: Path) -> None:
    tables, report = read_export(file(tmp_path, f"{SUM_2023}\n{ROWS}"))
    assert (report.problem, report.recognised, tables["kernels"].height) == (None, 2, 0)
    said = notes(tables)[0]
    assert said.startswith(
        "from nsys stats (kernel summary): sums over all GPUs and processes, no event with its time:"
    )
    assert said.endswith("nsys export --type sqlite --include-blobs=true rep.nsys-rep")


def test_a_projection_has_names_and_domains_apart(tmp_path: Path) -> None:
    tables, _ = read_export(file(tmp_path, PROJECTION))
    ranges = named(tables, "ranges").select("name", "domain", "pid", "tid", "start_ns", "end_ns", "kind")
    assert ranges.filter(pl.col("kind") == "gpu_annotation").rows() == [
        ("aten::to", None, 145, None, 1100, 1800, "gpu_annotation"),
        ("verify", None, 145, None, 1100, 1800, "gpu_annotation"),
        ("cycle", "traceana", 145, None, 1100, 2000, "gpu_annotation"),
    ]
    assert ranges.filter(pl.col("kind") == "nvtx").rows() == [
        ("aten::to", None, 145, 146, 1000, 10_000, "nvtx"),
        ("verify", None, 145, 145, 1000, 10_000, "nvtx"),
        ("cycle", "traceana", 145, 145, 900, 10_000, "nvtx"),
    ]
    summed = tables["summaries"].select("kind", "name", "domain", "instances", "total_ns", "gpu_ops")
    assert ("range_gpu", "cycle", "traceana", 1, 900, 80) in summed.rows()


def test_a_recipes_projection_is_read_from_parquet(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    pl.DataFrame(
        {
            "Name": [None, "NCCL:ncclGroupEnd"], "Projected Start": [10, 20], "Projected Duration": [5, 6],
            "Orig Start": [None, 18.0], "Orig Duration": [None, 3.0], "Style": [None, "PushPop"], "PID": [7, 7],
            "TID": [8, 8], "NumGPUOps": [1, 2], "Lvl": [None, 0.0], "Rank": [3, 3],
        }
    ).write_parquet(path)  # fmt: skip
    tables, report = read_export(path)
    assert (report.problem, report.recognised) == (None, 2)
    assert named(tables, "ranges").select("name", "domain", "pid", "start_ns", "end_ns", "kind").rows() == [
        ("ncclGroupEnd", "NCCL", 7, 20, 26, "gpu_annotation"),
        ("ncclGroupEnd", "NCCL", 7, 18, 21, "nvtx"),
    ]


@pytest.mark.parametrize("line", ["1,2", "1,2,3,4,5,6,7,8,9,10,11", '1.0,"2', "\0\0\0,,,,,,,,", "\ud83d,,,,,,,,x"])
def test_rows_that_do_not_fit_never_raise(line: str, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_bytes(f"{SUM_2023}\n{ROWS}{line}\n".encode("utf-8", "surrogatepass"))
    assert kernel_summary(path)["instances"].to_list()[:2] == [3, 1]
    assert read_export(path)[1].problem is None


def test_sniffing_knows_reports_by_their_header() -> None:
    assert sniff(SUM_2023.encode() + b"\n", "x") and sniff(TRACE.encode(), "x") and sniff(PROJECTION.encode(), "x")
    assert not sniff(b"Start (s),Duration (s)\n1,2\n", "out_cuda_gpu_trace.csv")
    assert not sniff(b"[2026-01-01] Decode batch, #running-req: 1, Name, Total Time\n", "x")
    assert not sniff(b"concurrency,throughput\n1,2\n", "x") and not sniff(b"", "x")


ALIGNED = """
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Min (ns)  Max (ns)  StdDev (ns)                  Name
 --------  ---------------  ---------  --------  ---------  --------  --------  -----------  --------------------------------------
     60.0        6,000,000          3   2,000.0    1,900.0     1,500     2,600        556.8  void gemm<(int)128, (int)64>(Params)
     40.0            4,000          1   4,000.0    4,000.0     4,000     4,000          0.0  nvjet_tst

"""
GERMAN = (
    "Time (%);Total Time (ns);Instances;Avg (ns);Med (ns);Min (ns);Max (ns);StdDev (ns);Name\r\n"
    '60,0;6.000.000;3;2.000,0;1900,0;1500;2600;556,8;"void gemm<(int)128, (int)64>(Params)"\r\n'
    "40,0;4000;1;4.000,0;4000,0;4000;4000;0,0;nvjet_tst\r\n"
)
WANTED = [
    ("void gemm<(int)128, (int)64>(Params)", 3, 6_000_000, 2000.0, 1900.0, 1500, 2600, 556.8),
    ("nvjet_tst", 1, 4000, 4000.0, 4000.0, 4000, 4000, 0.0),
]


@pytest.mark.parametrize(
    "text",
    [
        ALIGNED,
        "Processing [rep.sqlite] with [/opt/nsight/reports/cuda_gpu_kern_sum.py]... \n" + ALIGNED,
        GERMAN,
        "\ufeff" + GERMAN,
        GERMAN.replace(".000,0", "000,0").replace(";", "\t"),
        (SUM_2023 + "\n" + ROWS).replace(",6000,", ",6000000,").replace('"', "").replace(",", "|").replace("128| (", "128, ("),
        f"\ufeff{SUM_2023}\r\n" + ROWS.replace(",6000,", ',"6,000,000",'),
    ],
    ids=["aligned", "aligned, captured", "semicolons and decimal commas", "with a BOM", "tabs", "bars", "thousands"],
)  # fmt: skip
def test_the_same_figures_however_they_are_written(text: str, tmp_path: Path) -> None:
    assert sniff(text.encode(), "x")
    assert kernel_summary(file(tmp_path, text)).rows() == WANTED


def test_a_decimal_point_in_a_file_of_tabs_stays_one(tmp_path: Path) -> None:
    text = f"{SUM_2023}\n{ROWS}".replace('"void gemm<(int)128, (int)64>(Params)"', "gemm").replace(",", "\t")
    assert kernel_summary(file(tmp_path, text)).row(0) == ("gemm", 3, 6000, 2000.0, 1900.0, 1500, 2600, 556.8)


def test_aligned_reports_of_one_output_are_taken_apart(tmp_path: Path) -> None:
    other = ALIGNED.replace("CUDA GPU Kernel Summary (cuda_gpu_kern_sum)", "CUDA API Summary (cuda_api_sum)")
    other = other.replace("Instances", "Num Calls").replace("nvjet_tst", "cudaLaunchKernel")
    tables, report = read_export(file(tmp_path, f"{other}{ALIGNED}"))
    assert report.problem is None
    assert tables["summaries"].select("kind", "name", "total_ns").rows() == [
        ("kernel", *row[0:1], row[2]) for row in WANTED
    ] + [("api", "cudaLaunchKernel", 4000)]
