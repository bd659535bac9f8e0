"""Printed tables of GPU time by kernel: what is a kernel table, in which units, and that no kernel counts twice."""

from pathlib import Path

import polars as pl
import pytest

from tests.parsers.bench.results import got
from traceana import api
from traceana_parsers.interface import MemorySink
from traceana_parsers.read import read_run

HEAD = "| Kernel | GPU time | Share | Launches |\n|---|---|---|---|\n"
ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"


def summaries(folder: Path, text: str) -> pl.DataFrame:
    path = folder / "kernels.md"
    path.write_text(text, encoding="utf-8")
    sink = MemorySink()
    read_run([str(path)], sink)
    return pl.concat(sink.tables["summaries"]) if "summaries" in sink.tables else pl.DataFrame()


def test_a_table_of_kernels_is_read_with_its_shares(tmp_path: Path) -> None:
    rows = f"| `{ALLREDUCE}` | 30.5 ms | 61% | 500 |\n| nvjet_tst_64x8 | 9.5 ms | 19% | 400 |\n"
    found = summaries(tmp_path, HEAD + rows)
    assert found.select("name", "instances", "total_ns", "share").rows() == [
        (ALLREDUCE, 500, 30_500_000, 0.61),
        ("nvjet_tst_64x8", 400, 9_500_000, 0.19),
    ]


@pytest.mark.parametrize(
    ("head", "cells", "total_ns"),
    [
        ("Kernel | Total (ms) | Calls", "2.5 | 10", 2_500_000),
        ("Kernel | Total (us) | Calls", "2.5 | 10", 2_500),
        ("Name | Count | Avg (µs)", "10 | 7.5", 75_000),
        ("Operation | CUDA time | # of calls", "3 s | 10", 3_000_000_000),
    ],
)
def test_units_come_from_the_heading_or_the_cell(tmp_path: Path, head: str, cells: str, total_ns: int) -> None:
    bars = "|---" * (head.count("|") + 1)
    found = summaries(tmp_path, f"| {head} |\n{bars}|\n| {ALLREDUCE} | {cells} |\n")
    assert found["total_ns"].to_list() == [total_ns]


@pytest.mark.parametrize(
    "text",
    [
        "| Kernel | Total | Calls |\n|---|---|---|\n| " + ALLREDUCE + " | 2.5 | 10 |\n",  # no unit anywhere
        "| Name | Time (ms) | Count |\n|---|---|---|\n| Monday | 12 | 4 |\n",  # no kernel's name
        "| Kernel | Note |\n|---|---|\n| " + ALLREDUCE + " | slow |\n",
    ],
)
def test_other_tables_are_no_kernels(tmp_path: Path, text: str) -> None:
    assert summaries(tmp_path, text).height == 0


def torch_table(*rows: tuple[str, ...]) -> str:
    head = ("Name", "Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "CUDA total", "# of Calls")
    rule = "  ".join("-" * 14 for _ in head)
    lines = [rule, "  ".join(name.rjust(14) for name in head), rule]
    lines += ["  ".join(cell.rjust(14) for cell in row) for row in rows]
    return "\n".join([*lines, rule, "Self CUDA time total: 40.000ms"]) + "\n"


def test_operators_of_a_printed_profile_do_not_count_the_kernels_they_launch_again(tmp_path: Path) -> None:
    text = torch_table(
        ("aten::mm", "3 %", "1.200ms", "1.500ms", "24.000ms", "60.00%", "24.000ms", "300"),
        ("nvjet_tst_64x8", "0 %", "0.000us", "0.000us", "24.000ms", "60.00%", "24.000ms", "300"),
        (ALLREDUCE, "0 %", "0.000us", "0.000us", "16.000ms", "40.00%", "16.000ms", "200"),
    )
    found = summaries(tmp_path, text)
    assert found.select("name", "instances", "total_ns").rows() == [
        ("nvjet_tst_64x8", 300, 24_000_000),
        (ALLREDUCE, 200, 16_000_000),
    ]
    assert found["share"].sum() == pytest.approx(1.0)


def test_a_cut_off_row_ends_the_table_and_keeps_what_came(tmp_path: Path) -> None:
    whole = torch_table((ALLREDUCE, "0 %", "0.000us", "0.000us", "16.000ms", "40.00%", "16.000ms", "200"))
    cut = whole[: whole.index("Self CUDA time total") - 60] + "\n  half a ro"
    assert summaries(tmp_path, cut)["name"].to_list() == [ALLREDUCE]


def test_a_kernel_summary_of_nsys_inside_other_text_is_read_also_where_its_rule_is_broken(tmp_path: Path) -> None:
    text = (
        "With the change:\n```\n"
        " Time (%)  Total Time (ns)  Instances  Avg (ns)   Med (ns)   Name                                      \n"
        " --------  ---------------  ---------  ---------  ---------  ---------------\n"
        "--------------------------------\n"
        "     75.0        3,000,000        100    30000.0    21000.0  ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)\n"
        "     25.0        1,000,000         50    20000.0    20000.0  nvjet_tst_192x192_64x3_2x1_v_bz_coopB_NTN   \n"
        "```\n"
    )
    rows = got(tmp_path, text).rows("summaries")
    assert [(r["name"][:24], r["instances"], r["total_ns"], r["med_ns"]) for r in rows] == [
        ("ncclDevKernel_AllReduce_", 100, 3_000_000, 21_000), ("nvjet_tst_192x192_64x3_2", 50, 1_000_000, 20_000),
    ]  # fmt: skip


def test_steps_and_collectives_that_torch_annotates_are_no_kernels(tmp_path: Path) -> None:
    names = ("ProfilerStep*", "nccl:all_reduce", f"{ALLREDUCE}(x)", "nvjet_tst_192x192_64x3")
    head = "Name  Self CPU %  Self CPU  CPU total %  CPU total  Self CUDA  Self CUDA %  CUDA total  # of Calls"
    rows = [f"{name}  0.00%  0.000us  0.00%  0.000us  10.000ms  25.00%  10.000ms  4" for name in names]
    found = got(tmp_path, "\n".join(["-----  -----", head, "-----  -----", *rows]) + "\n").rows("summaries")
    assert [row["name"] for row in found] == [f"{ALLREDUCE}(x)", "nvjet_tst_192x192_64x3"]


@pytest.mark.parametrize("count", ["1e999", "-3", "0", "9" * 400])
def test_counts_that_no_kernel_can_have_are_left_out(tmp_path: Path, count: str) -> None:
    found = summaries(tmp_path, HEAD + f"| {ALLREDUCE} | 30 ms | 61% | {count} |\n| nvjet_tst | 9 ms | 19% | 4 |\n")
    assert "nvjet_tst" in found["name"].to_list()


@pytest.mark.parametrize(("time", "calls"), [("1e999us", "3"), ("3us", "0" * 15 + "1"), ("3us", "9" * 5000)])
def test_rows_of_a_printed_profile_beyond_any_number_are_left_out(tmp_path: Path, time: str, calls: str) -> None:
    odd = ("nvjet_odd", "0 %", "0.000us", "0.000us", time, "1.00%", time, calls)
    good = (ALLREDUCE, "0 %", "0.000us", "0.000us", "16.000ms", "40.00%", "16.000ms", "200")
    assert summaries(tmp_path, torch_table(odd, good))["name"].to_list() == [ALLREDUCE]


def test_a_table_of_shares_without_counts_is_diagnosed(tmp_path: Path) -> None:
    path = tmp_path / "kernels.md"
    path.write_text(f"| Kernel | GPU time | Share |\n|---|---|---|\n| {ALLREDUCE} | 30 ms | 61% |\n", encoding="utf-8")
    result = api.diagnose([str(path)])
    assert result.trace is not None
    (capture,) = result.trace.sums
    assert (capture.categories["communication"], capture.collectives) == (pytest.approx(0.61), ())


def test_a_printed_profile_of_a_cpu_is_no_table_that_asks_for_its_columns(tmp_path: Path) -> None:
    head = ("Name", "Self CPU %", "Self CPU", "CPU total", "# of Calls")
    rule = "  ".join("-" * 14 for _ in head)
    rows = [("aten::mm", "3 %", "1.200ms", "1.500ms", "300"), ("aten::slice", "1 %", "0.400ms", "0.400ms", "90")]
    written = ["  ".join(cell.rjust(14) for cell in row) for row in (head, *rows)]
    lines = [rule, written[0], rule, *written[1:], rule]
    read = got(tmp_path, "\n".join([*lines, "Self CPU time total: 40.000ms"]) + "\n")
    assert (read.rows(), read.report.questions, read.report.problem) == ([], [], None)
