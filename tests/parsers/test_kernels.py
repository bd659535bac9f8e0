"""What a kernel does, from its name: every row of the table decides its examples, and real traces leave little over."""

import csv
import gzip
import json
import re
import sqlite3
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from traceana_parsers import kernels
from traceana_parsers.kernels import categories, classify, nccl_shape_hint, table

CORPUS = Path(__file__).parents[3] / "shared" / "corpus" / "traces"
CASES = [(index, name) for index, row in enumerate(table()) for name in row.examples]
COLLECTIVES = {None, "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv", "barrier"}


@pytest.mark.parametrize(("index", "name"), CASES, ids=[f"{i}-{n[:50]}" for i, n in CASES])
def test_a_row_decides_its_examples(index: int, name: str) -> None:
    row = table()[index]
    got = classify(pl.Series([name])).row(0, named=True)
    wanted = row.collective or ("unknown" if row.family == "communication" else None)
    assert got == {"category": row.category, "family": row.family, "library": row.library, "collective": wanted}
    assert kernels._decide(pl.Series([name])).to_list() == [index]


def test_the_table_is_in_order() -> None:
    assert [r.category for r in table() if not r.examples or not r.source] == []
    assert {r.category for r in table()} | {"other"} == set(categories())
    assert {r.family for r in table()} == {"compute", "communication", "copy"}
    assert {r.collective for r in table()} <= COLLECTIVES
    assert [r.pattern for r in table() if r.library or r.collective if r.family != "communication"] == []
    for row in table():
        assert not re.search(r"\(\?[=!<]", row.pattern), "look-around is not Rust"


@pytest.mark.parametrize(
    ("name", "category"),
    [
        # operators named inside a fused or templated name do not decide
        ("triton_red_fused_mul_sum_unified_attention_with_output_4", "triton"),
        ("triton_poi_fused_gemm_helper_2", "triton"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)", "elementwise"),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<cutlass::gemm::collective::Builder<int> > >(int)", "attention"),
        # the same kernel as nsys, Kineto and HIP spell it
        ("void vllm::rms_norm_kernel<__nv_bfloat16, (int)8>(T1 *)", "norm"),
        ("void vllm::rms_norm_kernel<__nv_bfloat16, 8>(__nv_bfloat16*)", "norm"),
        ("_ZN4vllm15rms_norm_kernelI14__hip_bfloat16EEvPT_", "norm"),
        # words that hold another row's word
        ("void moe_align_block_size_kernel<int>(int*)", "moe"),
        ("propagate_europe_kernel", "other"),
        ("my_brand_new_thing", "other"),
        ("", "other"),
    ],
)  # fmt: skip
def test_names_that_mislead(name: str, category: str) -> None:
    assert classify(pl.Series([name]))["category"].item() == category


def test_rows_keep_the_order_of_the_names() -> None:
    names = pl.Series(["nvjet_x", None, "ncclDevKernel_SendRecv(a)", "nvjet_x", "zzz"])
    frame = classify(names)
    assert frame.columns == ["category", "family", "library", "collective"]
    assert frame["category"].to_list() == ["gemm", None, "communication", "gemm", "other"]
    assert frame["family"].to_list() == ["compute", None, "communication", "compute", "compute"]
    assert frame["collective"].to_list() == [None, None, "send_recv", None, None]
    assert classify(pl.Series([], dtype=pl.String)).height == 0
    assert classify(pl.Series([None], dtype=pl.Null))["category"].to_list() == [None]


ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("name", "grid", "block", "hint"),
    [
        (ALL_REDUCE, 1, 128, "LL"),  # 1 token of 7168 bf16 over 8 ranks
        (ALL_REDUCE, 14, 512, "LL"),  # 32 tokens
        (ALL_REDUCE, 2, 640, "LL128"),
        (ALL_REDUCE, 1, 160, "Simple"),
        (ALL_REDUCE, 3, 544, "Simple"),
        (ALL_REDUCE, 1, 288, "Simple"),
        (ALL_REDUCE, 1, 96, None),  # the minimum of every protocol
        (ALL_REDUCE, 1, 333, None),
        (ALL_REDUCE, None, 512, None),
        (ALL_REDUCE, 8, None, None),
        (ALL_REDUCE.replace("RING", "TREE"), 8, 640, None),  # tree kernels have 640 whatever the protocol
        ("ncclDevKernel_SendRecv(ncclDevComm*)", 32, 640, None),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 2, 512, "LL"),
        ("void vllm::cross_device_reduce_1stage<float, 8>(a)", 1, 512, None),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_Sum_bf16(x)", 1, 512, None),
    ],
)
def test_the_launch_shape_hints_at_the_protocol(
    name: str, grid: int | None, block: int | None, hint: str | None
) -> None:
    assert nccl_shape_hint(grid, block, name) == hint


def kernel_times(path: Path) -> Counter[str]:
    """Nanoseconds per kernel name in a trace or a summary of one, read without the project's readers."""
    found: Counter[str] = Counter()
    if path.name.endswith(".json.gz"):
        for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
            if event.get("cat") in ("kernel", "Kernel"):
                found[event["name"]] += round(1000 * event.get("dur", 0))
    elif path.suffix == ".sqlite":
        query = "SELECT s.value, sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName GROUP BY 1"
        database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        found.update(dict(database.execute(query).fetchall()))
        database.close()
    else:
        with path.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                found[row["Name"]] += int(float(row["Total Time (ns)"]))
    return found


REAL = sorted(
    p
    for pattern in (
        "kineto/**/*.json.gz",
        "nsys/*.sqlite",
        "nsys_stats/**/*gpu_kern_sum.csv",
        "nsys_stats/*gpukernsum.csv",
    )
    for p in CORPUS.glob(pattern)
)


@pytest.mark.skipif(not REAL, reason="the corpus of real inputs is not beside this checkout")
@pytest.mark.parametrize("path", REAL, ids=[p.name for p in REAL])
def test_at_most_two_per_cent_of_a_real_traces_kernel_time_is_other(path: Path) -> None:
    times = kernel_times(path)
    if not times:
        pytest.skip("no kernels in this file")
    frame = classify(pl.Series(list(times), dtype=pl.String)).with_columns(
        pl.Series("ns", list(times.values())), name=pl.Series(list(times))
    )
    other = frame.filter(pl.col("category") == "other")
    assert other["ns"].sum() <= 0.02 * frame["ns"].sum(), other["name"].to_list()
