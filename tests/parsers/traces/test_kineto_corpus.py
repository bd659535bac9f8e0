"""Real traces: the counts that independent readers found in them, and what is known of how they were made."""

import gzip
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from tests.parsers.traces.reading import Tables, named, read_file
from traceana_parsers.traces.annotations import parse

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
KINETO = CORPUS / "traces" / "kineto"
CPU = CORPUS / "vllm-cpu-captures"
pytestmark = pytest.mark.skipif(not KINETO.is_dir(), reason="the corpus of real inputs is not beside this checkout")

#: file -> kernels, collectives on the GPU, graph mode, rank, world size
KNOWN = {
    "tracelens_b200_vllm_tp8_rank0_eager.json.gz": (768, 74, "none", 0, 8),
    "tracelens_sglang_mi300x_qwen3-8b_decode_graph.json.gz": (555, 0, "node", 0, 1),
    "tracelens_sglang_mi300x_qwen3-8b_extend.json.gz": (527, 0, "none", 0, 1),
    "tracelens_sglang_graph_capture_bs32_rank0.json.gz": (2, 0, "none", 0, 1),
    "tracelens_vllm_decode_full_graph_execution.json.gz": (425, 0, "node", 0, 1),
    "tracelens_vllm_prefilldecode_piecewise_graph_execution.json.gz": (413, 0, "node", 0, 1),
    "tracelens_vllm_graph_capture_rank_0.pt.trace.json.gz": (7, 0, "none", 0, 1),
    "tracelens_h100_qwen1.5-0.5b.json.gz": (1465, 0, "none", None, None),
    "tracelens_mi300_qwen1.5-0.5b.json.gz": (1516, 0, "none", None, None),
    "tracelens_mi210_gpu_only.json.gz": (562, 0, "none", None, None),
    "hta_a100_nccl2_allreduce_rank0of2.json.gz": (2700, 21, "none", 0, 2),
    "hta_v100_allreduce2020_rank1of2.json.gz": (19370, 2020, "none", 1, 2),
    "hta_a100_16rank_rank0_sendrecv.json.gz": (6080, 80, "node", 0, 16),
    "hta_dlrm_sampled_rank-0.json.gz": (1154, 10, "none", 0, 128),
    "hta_dlrm_sampled_rank-1.json.gz": (1104, 10, "none", 1, 128),
    "hta_inference_rank_1_tiny.json.gz": (4, 0, "none", 1, None),
    "hta_mi250_minitoy.json.gz": (14, 0, "none", None, None),
    "hta_small_event_sync_multi_stream.json.gz": (3, 0, "none", 0, None),
}
_CATEGORIES = {
    "kernels": ("kernel", "Kernel"),
    "memops": ("gpu_memcpy", "gpu_memset"),
    "launches": ("cuda_runtime", "cuda_driver", "Runtime"),
    "ranges": ("user_annotation", "gpu_user_annotation"),
}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_real_trace_gives_its_known_counts(name: str) -> None:
    tables, report = read_file(KINETO / name)
    kernels, collectives, mode, rank, world = KNOWN[name]
    row = tables["traces"].row(0, named=True)
    assert (tables["kernels"].height, tables["collectives"].height) == (kernels, collectives)
    assert (row["graph_mode"], row["rank"], row["world_size"], row["clock"]) == (mode, rank, world, "utc")
    assert (report.unread, report.problem) == (0, None)
    document = json.loads(gzip.decompress((KINETO / name).read_bytes()))
    counts = Counter(e.get("cat") for e in document["traceEvents"] if e.get("ph") == "X")
    for table, categories in _CATEGORIES.items():
        assert tables[table].height == sum(counts[c] for c in categories), table
    base = document.get("baseTimeNanoseconds", 0)
    total = sum(round(e["dur"] * 1000) for e in document["traceEvents"] if e.get("cat") in ("kernel", "Kernel"))
    assert (tables["kernels"]["end_ns"] - tables["kernels"]["start_ns"]).sum() == total
    first = min(e["ts"] for e in document["traceEvents"] if e.get("cat") in ("kernel", "Kernel"))
    assert abs(tables["kernels"]["start_ns"].min() - base - first * 1000) < 1


def test_every_launched_kernel_finds_its_call() -> None:
    tables, _ = read_file(KINETO / "tracelens_b200_vllm_tp8_rank0_eager.json.gz")
    joined = tables["kernels"].join(tables["launches"], on=["pid", "correlation"], how="inner")
    assert joined.height == 768
    assert (joined["start_ns"] > joined["start_ns_right"]).all()


def test_graph_replays_share_the_correlation_of_their_launch() -> None:
    tables, _ = read_file(KINETO / "tracelens_sglang_mi300x_qwen3-8b_decode_graph.json.gz")
    replay = tables["launches"].filter(pl.col("is_graph"))["correlation"].item()
    assert tables["kernels"].filter(pl.col("correlation") == replay).height == 544
    tables, _ = read_file(KINETO / "tracelens_vllm_prefilldecode_piecewise_graph_execution.json.gz")
    replays = tables["launches"].filter(pl.col("is_graph"))
    per_replay = tables["kernels"].join(replays, on=["pid", "correlation"]).group_by("correlation").len()
    assert (replays.height, per_replay["len"].max()) == (25, 15)


def test_step_names_of_real_engines_are_understood() -> None:
    wanted = {
        "tracelens_b200_vllm_tp8_rank0_eager.json.gz": [("prefill", 888)],
        "tracelens_sglang_mi300x_qwen3-8b_extend.json.gz": [("prefill", 15360), ("prefill", 15360)],
        "tracelens_sglang_mi300x_qwen3-8b_decode_graph.json.gz": [("step", 0), ("step", None)],
        "tracelens_vllm_prefilldecode_piecewise_graph_execution.json.gz": [("step", 8155)],
        "tracelens_sglang_graph_capture_bs32_rank0.json.gz": [("capture", None), ("other", None)],
    }
    for file, steps in wanted.items():
        names = set(named(read_file(KINETO / file)[0], "ranges")["name"])
        found = [a for a in map(parse, sorted(names)) if a is not None and a.engine != "nccl"]
        assert sorted([(a.role, a.context_tokens) for a in found], key=str) == sorted(steps, key=str), file


def test_nccl_metadata_of_a_real_capture() -> None:
    tables, _ = read_file(KINETO / "hta_a100_nccl2_allreduce_rank0of2.json.gz")
    groups = (
        tables["collectives"]
        .group_by("collective", "group_size", "group_name")
        .agg(pl.len(), pl.min("bytes"), pl.max("bytes").alias("most"))
    )
    assert sorted(groups.rows()) == [
        ("all_reduce", 2, "0", 15, 8196000, 31502336),
        ("broadcast", 2, "0", 6, 424, 212480),
    ]


def test_eight_ranks_show_the_skew_of_one_allreduce() -> None:
    totals = {}
    for path in sorted((KINETO / "param_dlrm_8rank").glob("*.json.gz")):
        tables, report = read_file(path)
        assert report.problem is None
        reduces = tables["collectives"].filter(pl.col("collective") == "all_reduce")
        assert (reduces.height, tables["collectives"].filter(pl.col("collective") == "send_recv").height) == (3, 5)
        totals[tables["traces"]["rank"].item()] = (reduces["end_ns"] - reduces["start_ns"]).sum()
    assert sorted(totals) == list(range(8))
    assert max(totals.values()) > 5 * min(totals.values())


@pytest.fixture(scope="module", params=[0, 1], ids=["rank 0", "rank 1"])
def worker(request: pytest.FixtureRequest) -> tuple[int, Tables]:
    path = next((CPU / "tp2-eagle3-k3-scopes" / "traces").glob(f"rank{request.param}.*.pt.trace.json.gz"))
    return request.param, read_file(path)[0]


def inside(tables: Tables, name: str) -> list[dict[str, int]]:
    """Collectives by kind within each range of a name."""
    calls = tables["collectives"]
    found = []
    for start, end in named(tables, "ranges").filter(pl.col("name") == name).select("start_ns", "end_ns").iter_rows():
        within = calls.filter((pl.col("start_ns") >= start) & (pl.col("end_ns") <= end))
        found.append(dict(within.group_by("collective").len().iter_rows()))
    return found


def test_collectives_of_a_verify_and_of_a_draft_over_two_cpu_ranks(worker: tuple[int, Tables]) -> None:
    rank, tables = worker
    row = tables["traces"].row(0, named=True)
    assert (row["rank"], row["world_size"], row["host"], row["graph_mode"]) == (rank, 2, "vm", "unknown")
    assert set(tables["collectives"]["device"]) == {None}
    # 2 x 8 layers and the embedding; the logits are gathered after the range
    verifies = inside(tables, "execute_context_0(0)_generation_1(4)")
    assert len(verifies) == 24
    assert {v["all_reduce"] for v in verifies} == {17}
    drafts = inside(tables, "gpu_model_runner: draft")
    assert {(d["all_reduce"], d["all_gather"]) for d in drafts} == {(9, 3)}


def test_both_cpu_ranks_share_one_clock() -> None:
    paths = sorted((CPU / "tp2-eagle3-k3-scopes" / "traces").glob("rank*.json.gz"))
    spans = [read_file(p)[0]["traces"].select("start_ns", "end_ns").row(0) for p in paths]
    assert len(spans) == 2
    overlap = min(end for _, end in spans) - max(start for start, _ in spans)
    assert overlap > 0.98 * max(end - start for start, end in spans)


@pytest.mark.parametrize("path", sorted(CPU.glob("**/traces/*.json.gz")), ids=lambda p: f"{p.parts[-3]}-{p.name[:20]}")
def test_every_real_cpu_capture_is_read_whole(path: Path) -> None:
    tables, report = read_file(path)
    assert (report.unread, report.problem) == (0, None)
    if "async_llm" in path.name:
        assert report.recognised == 0
        return
    roles = Counter(a.role for a in map(parse, named(tables, "ranges")["name"]) if a is not None)
    speculative = "baseline" not in path.parts[-3]
    assert (roles["verify"] > 0) == speculative, roles
    assert roles["prefill"] > 0
