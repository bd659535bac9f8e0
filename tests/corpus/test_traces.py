"""Real traces through the whole program: no finding where nothing can be judged, and figures that must come out."""

from pathlib import Path

import pytest

from traceana import api
from traceana.report.interface import TRACE_FORMATS, render
from traceana.report.trace_report import TraceReport
from traceana.rules.registry import rules

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="needs the corpus")
TRACES = CORPUS / "traces"
CAPTURES = CORPUS / "vllm-cpu-captures"
ABOUT_TRACES = {rule.code for rule in rules() if rule.needs == "trace"}
GIVEN = [
    *sorted((TRACES / "kineto").glob("*.json.gz")),
    *sorted((TRACES / "nsys").glob("*.sqlite")),
    *(TRACES / name for name in ("kineto", "kineto/param_dlrm_8rank", "nsys", "nsys_jax", "nsys_stats")),
    TRACES / "nsys_stats" / "deepseek_ocr",
    *sorted(path.parent for path in CAPTURES.rglob("traces")),
]


def read(*paths: Path) -> TraceReport:
    found = api.diagnose([str(path) for path in paths]).trace
    assert found is not None
    return found


@pytest.mark.parametrize("path", GIVEN, ids=lambda path: path.relative_to(CORPUS).as_posix())
def test_no_rule_about_traces_speaks_on_captures_without_a_planted_cause(path: Path) -> None:
    found = api.diagnose([str(path)])
    assert not {finding.code for finding in found.findings} & ABOUT_TRACES
    for fmt in ("terminal", "markdown", "json"):
        assert render(found, fmt, width=80, formats=TRACE_FORMATS)


@pytest.mark.parametrize("capture", ["tp2-eagle3-k3-scopes", "tp2-eagle3-k3-probe", "tp2-baseline"])
def test_allreduces_of_a_forward_of_the_tensor_parallel_server(capture: str) -> None:
    found = read(CAPTURES / capture)
    forwards = {p.rank: p.collectives or "" for p in found.phases if p.phase in ("verify", "forward")}
    assert set(forwards) == {0, 1}
    assert all(text.startswith("17 all_reduce") for text in forwards.values())
    assert found.on_cpu and not [note for note in found.capture if note.code == "no-gpu-events"]


def test_the_draft_of_the_tensor_parallel_server_and_the_rank_that_is_waited_for() -> None:
    found = read(CAPTURES / "tp2-eagle3-k3-scopes")
    drafts = {p.rank: p.collectives for p in found.phases if p.phase == "draft"}
    assert drafts == {0: "9 all_reduce, 3 all_gather", 1: "9 all_reduce, 3 all_gather"}
    assert (found.skew, found.skew_provenance, found.ranks) == ("skew-dominated", "measured", 2)
    assert found.late[0].rank == 1
    assert found.late[0].wait_caused_ms > 2 * found.late[1].wait_caused_ms


def test_eight_ranks_whose_allreduce_lasts_between_195_and_1830_us_wait_for_each_other() -> None:
    found = read(TRACES / "kineto" / "param_dlrm_8rank")
    assert found.traced_ranks == tuple(range(8)) and found.apart is None
    by_rank = {p.rank: p.bucket_ns for p in found.whole}
    assert len(by_rank) == 8
    assert all(120_000 < buckets["allreduce_transfer"] < 200_000 for buckets in by_rank.values())
    waits = {rank: buckets["allreduce_wait"] for rank, buckets in by_rank.items()}
    assert max(waits.values()) > 1_400_000
    assert min(waits.values()) == waits[5] < 50_000


def test_a_whole_graph_replay_is_one_launch_of_many_nodes() -> None:
    for name, nodes in (
        ("tracelens_sglang_mi300x_qwen3-8b_decode_graph", 544),
        ("tracelens_vllm_decode_full_graph_execution", 421),
    ):
        found = read(TRACES / "kineto" / f"{name}.json.gz")
        (forward,) = [p for p in found.phases if p.phase == "forward"]
        assert (forward.graph_launches, forward.graph_nodes) == (1, nodes)


def test_allreduces_of_one_rank_of_eight_are_an_estimate() -> None:
    found = read(TRACES / "kineto" / "tracelens_b200_vllm_tp8_rank0_eager.json.gz")
    assert (found.instances, found.ranks, found.skew_provenance) == (73, 1, "derived")
    assert found.gpus == ("NVIDIA B200",)
    assert {note.code for note in found.capture} >= {"ranks-missing", "profiler-overhead", "too-few-cycles"}


def test_unrelated_traces_of_one_folder_are_not_added_up() -> None:
    found = api.diagnose([str(TRACES / "kineto")])
    assert found.trace is not None and found.trace.apart is not None
    assert found.cycle.total_ms is None
    assert "not of one capture" in found.verdict.sentence


def test_summaries_of_a_model_are_shown_by_stage_with_their_own_totals() -> None:
    sums = {Path(row.path).name.split("__nsys")[0]: row for row in read(TRACES / "nsys_stats" / "deepseek_ocr").sums}
    assert len(sums) == 6
    decode = sums["per-stage__decode"]
    assert (decode.kernels, round(decode.total_ms, 1)) == (78_016, 179.1)
    assert decode.categories["gemm"] == pytest.approx(0.50, abs=0.005)
    assert sum(decode.categories.values()) > 0.95


def test_two_processes_of_one_export_are_two_gpus_whose_time_adds_up() -> None:
    found = read(TRACES / "nsys" / "nsysai_mfu_2gpu_before.sqlite")
    assert [p.rank for p in found.whole] == [0, 1]
    for gpu in found.whole:
        assert sum(gpu.bucket_ns.values()) == gpu.window_ns
        assert 290_000_000 < (gpu.window_ns or 0) < 301_000_000
        assert gpu.bucket_ns["compute"] > 250_000_000
