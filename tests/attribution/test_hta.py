"""Idle, compute and the rest of each device, against HolisticTraceAnalysis on the traces it is tested with.

The figures below are HTA 0.5.0's own, from `TraceAnalysis.get_temporal_breakdown` and `get_comm_comp_overlap` over the
whole capture (`include_last_profiler_step=True`; by default HTA leaves the last ProfilerStep out) in the trace's own
resolution (`HTA_DISABLE_NS_ROUNDING=1`; by default it shortens every event to whole microseconds, which adds 1.5 ms of
idle to a trace of 47 ms, and fails on another). HTA's window is ours: first event on the GPU to the end of the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

from traceana import api
from traceana.attribution.analyse import Attribution, analyse
from traceana.attribution.model import BUCKETS
from traceana.store.dataset import Tables

KINETO = Path(__file__).parents[3] / "shared" / "corpus" / "traces" / "kineto"
pytestmark = pytest.mark.skipif(not KINETO.exists(), reason="the corpus of real inputs is not beside this checkout")

NONE = math.nan
#: HTA computes in floating-point microseconds since 1970
US = 0.01


@dataclass(frozen=True)
class Hta:
    """Microseconds; `overlap`: communication under compute, percent of communication."""

    window: float
    idle: float
    compute: float
    rest: float
    overlap: float


SAME = {
    "hta_a100_nccl2_allreduce_rank0of2.json.gz": Hta(660551.006, 503050.991, 115655.847, 41844.167, 15.61),
    "hta_dlrm_sampled_rank-0.json.gz": Hta(1222847.0, 675191.0, 210320.0, 337336.0, 14.95),
    "hta_dlrm_sampled_rank-1.json.gz": Hta(1231186.0, 651136.0, 271973.0, 308077.0, 19.93),
    "hta_inference_rank_1_tiny.json.gz": Hta(1629.0, 1599.0, 30.0, 0.0, NONE),
    "hta_mi250_minitoy.json.gz": Hta(8911.887, 8762.845, 110.881, 38.161, NONE),
    "hta_v100_allreduce2020_rank1of2.json.gz": Hta(1732965.0, 732352.0, 620516.0, 380097.0, 0.0),
    "param_dlrm_8rank/worker0_step_12.1694128201545.pt.trace.json.gz": Hta(13009.0, 6419.0, 1034.0, 5556.0, 4.5),
    "param_dlrm_8rank/worker1_step_12.1694128201556.pt.trace.json.gz": Hta(18749.0, 6428.0, 1246.0, 11075.0, 2.47),
    "param_dlrm_8rank/worker2_step_12.1694128201554.pt.trace.json.gz": Hta(11350.0, 7046.0, 1068.0, 3236.0, 7.88),
    "param_dlrm_8rank/worker3_step_12.1694128201557.pt.trace.json.gz": Hta(18853.0, 8145.0, 1240.0, 9468.0, 3.31),
    "param_dlrm_8rank/worker4_step_12.1694128201547.pt.trace.json.gz": Hta(16589.0, 8887.0, 1126.0, 6576.0, 0.56),
    "param_dlrm_8rank/worker5_step_12.1694128201549.pt.trace.json.gz": Hta(16392.0, 9121.0, 1041.0, 6230.0, 0.64),
    "param_dlrm_8rank/worker6_step_12.1694128201553.pt.trace.json.gz": Hta(11410.0, 7051.0, 1051.0, 3308.0, 7.56),
    "param_dlrm_8rank/worker7_step_12.1694128201553.pt.trace.json.gz": Hta(10967.0, 8308.0, 1059.0, 1600.0, 9.51),
    "tracelens_h100_qwen1.5-0.5b.json.gz": Hta(49652.832, 4005.532, 45432.698, 214.602, NONE),
    "tracelens_mi210_gpu_only.json.gz": Hta(5979.503, 636.081, 5343.422, 0.0, NONE),
    "tracelens_mi300_qwen1.5-0.5b.json.gz": Hta(47085.8, 4022.998, 43062.042, 0.76, NONE),
    "tracelens_sglang_graph_capture_bs32_rank0.json.gz": Hta(11.016, 0.001, 11.015, 0.0, NONE),
    "tracelens_sglang_mi300x_qwen3-8b_decode_graph.json.gz": Hta(473749.944, 463977.018, 9759.749, 13.177, NONE),
    "tracelens_sglang_mi300x_qwen3-8b_extend.json.gz": Hta(987288.887, 494482.01, 492768.906, 37.971, NONE),
    "tracelens_vllm_decode_full_graph_execution.json.gz": Hta(10743.182, 25.474, 10674.517, 43.191, NONE),
    "tracelens_vllm_prefilldecode_piecewise_graph_execution.json.gz": Hta(
        156466.416, 380.623, 156008.394, 77.399, NONE
    ),
}


def ours(attribution: Attribution) -> Hta:
    """The one device of a trace in the same terms."""
    (row,) = attribution.device_time.iter_rows(named=True)
    idle = row["launch_gap"] + row["other_idle"]
    exposed = sum(row[name] for name in BUCKETS if name.startswith("allreduce")) + row["other_comm_exposed"]
    hidden = row["allreduce_overlapped"] + row["other_comm_overlapped"]
    overlap = 100 * hidden / (hidden + exposed) if hidden + exposed else NONE
    window = row["window_ns"]
    return Hta(window / 1e3, idle / 1e3, row["compute"] / 1e3, (window - idle - row["compute"]) / 1e3, overlap)


def attribution_of(name: str) -> Attribution:
    with api.load([str(KINETO / name)]) as loaded:
        found = analyse(loaded.tables)
    assert found is not None
    return found


def agree(mine: Hta, theirs: Hta) -> None:
    for name in ("window", "idle", "compute", "rest"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), abs=US), name
    assert mine.overlap == pytest.approx(theirs.overlap, abs=0.006, nan_ok=True)  # HTA prints two decimals


@pytest.mark.parametrize("name", SAME)
def test_idle_compute_and_the_rest_equal_hta(name: str) -> None:
    agree(ours(attribution_of(name)), SAME[name])


def test_hta_leaves_out_what_has_no_launch_record_and_the_rest_is_equal() -> None:
    """705 kernels and 167 copies of this trace were launched before it began: HTA calls that time idle."""
    name = "hta_a100_16rank_rank0_sendrecv.json.gz"
    with api.load([str(KINETO / name)]) as loaded:
        launched = loaded.tables.frame("launches")["correlation"].drop_nulls()
        frames = {t: [loaded.tables.frame(t)] for t in ("launches", "ranges", "names", "traces", "collectives")}
        for table in ("kernels", "memops"):
            rows = loaded.tables.frame(table)
            kept = rows.filter(pl.col("correlation").is_in(launched.implode()))
            assert rows.height - kept.height == {"kernels": 705, "memops": 167}[table]
            frames[table] = [kept]
    found = analyse(Tables(frames))
    assert found is not None
    agree(ours(found), Hta(1229072.0, 848216.0, 179676.0, 201180.0, 1.47))
    whole = ours(attribution_of(name))
    assert (whole.idle, whole.compute, whole.rest) == (793_037.0, 210_998.0, 227_426.0)


def test_hta_takes_events_of_the_host_that_name_a_stream_for_compute_on_the_gpu() -> None:
    """A `Stream Wait Event` of 2 us, and 48 calls of Triton's host code (451 us): no kernel ran then."""
    theirs = Hta(19506.0, 19132.0, 371.0, 3.0, NONE)
    mine = ours(attribution_of("hta_small_event_sync_multi_stream.json.gz"))
    agree(mine, replace(theirs, idle=theirs.idle + 2, compute=theirs.compute - 2))
    theirs = Hta(57795.418, 57315.171, 471.05, 9.197, NONE)
    mine = ours(attribution_of("tracelens_vllm_graph_capture_rank_0.pt.trace.json.gz"))
    agree(mine, replace(theirs, idle=theirs.idle + 451.417, compute=theirs.compute - 451.417))


def test_hta_takes_an_allreduce_that_is_not_nccls_for_compute() -> None:
    """73 multimem allreduces of torch's symmetric memory, 2,119.548 us, and one call of Triton's host code beside them."""
    theirs = Hta(84487.178, 72817.996, 10844.384, 824.797, 0.0)
    attribution = attribution_of("tracelens_b200_vllm_tp8_rank0_eager.json.gz")
    host = 72.7  # of the call's 74.391 us, the part in which nothing ran on the GPU
    wanted = replace(
        theirs, idle=theirs.idle + host, compute=theirs.compute - 2_119.548 - host, rest=theirs.rest + 2_119.548
    )
    agree(ours(attribution), wanted)
    communication = attribution.categories.filter(family="communication").row(0, named=True)
    assert (communication["kernels"], communication["total_ns"]) == (
        74,
        2_119_548 + 21_953,
    )  # and NCCL's one all-gather
