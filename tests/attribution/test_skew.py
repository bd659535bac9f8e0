"""Transfer or waiting, with one rank in hand, with summaries only, and on a real eight-rank capture."""

from pathlib import Path

import polars as pl
import pytest

from tests.attribution.builder import Process, tables
from traceana import api
from traceana.attribution.analyse import Attribution, analyse
from traceana.attribution.late import last_to_arrive, late_arrivals, late_ranks
from traceana.attribution.ranks import match_ranks
from traceana.attribution.skew import judge, judge_summaries, split_one_rank

DLRM = Path(__file__).parents[3] / "shared" / "corpus" / "traces" / "kineto" / "param_dlrm_8rank"


def one_rank(waits: list[int], *, bytes: int | None = 57_344, transfer: int = 30_000, block: int = 512) -> pl.DataFrame:
    process = Process()
    for at, wait in enumerate(waits):
        start = at * 1_000_000
        process.kernel(
            "allreduce", start, start + transfer + wait, process.call(start - 9, start - 5), bytes=bytes, block=block
        )
    return tables(process).collectives


def test_one_rank_gives_a_derived_transfer_per_size() -> None:
    small = one_rank([0, 0, 0, *range(1_000, 40_000, 1_500)])
    large = one_rank([0] * 25, bytes=917_504, transfer=200_000).with_columns(
        pl.col("start_ns") + 7, pl.col("end_ns") + 7
    )
    members = split_one_rank(pl.concat([small, large]))
    assert set(members["provenance"]) == {"derived"} and members.height == 29 + 25
    assert members.filter(bytes=57_344)["transfer_ns"].unique().to_list() == [30_000]
    assert members.filter(bytes=917_504)["wait_ns"].sum() == 0
    verdict = judge(members.filter(bytes=57_344))
    assert (verdict.kind, verdict.provenance, verdict.ranks) == ("mixed", "derived", 1)
    assert judge(members.filter(bytes=917_504)).kind == "transfer-dominated"


def test_one_rank_without_sizes_says_nothing_and_with_launch_shapes_it_does() -> None:
    process = Process()
    for at in range(25):
        for block, length in ((512, 30_000), (288, 9_000)):
            start = at * 1_000_000 + block
            process.kernel("allreduce", start, start + length, process.call(start - 9, start - 5), block=block)
    trace = tables(process)
    assert split_one_rank(trace.collectives).height == 0
    by_shape = split_one_rank(trace.collectives, trace.kernels)
    assert sorted(by_shape["transfer_ns"].unique().to_list()) == [9_000, 30_000]


def test_few_instances_are_inconclusive_and_say_why() -> None:
    assert split_one_rank(one_rank([0] * 19)).height == 0
    verdict = judge(split_one_rank(one_rank([0] * 19)))
    assert (verdict.kind, verdict.reason) == ("inconclusive", "0 instances, fewer than 20")
    assert verdict.wait_share is None and verdict.transfer_ns is None


def test_a_low_quantile_never_exceeds_the_instance_it_is_subtracted_from() -> None:
    members = split_one_rank(one_rank([-29_000, *range(0, 50_000, 2_000)]))
    assert (members["wait_ns"] >= 0).all()
    assert (members["transfer_ns"] + members["wait_ns"]).equals(members["end_ns"] - members["start_ns"])


@pytest.mark.parametrize(
    ("instances", "avg", "median", "most", "kind"),
    [
        (500, 90.0, 25.0, 200.0, "wait-inclusive"),  # average above three medians
        (500, 30.0, 25.0, 251.0, "wait-inclusive"),  # one instance above ten medians
        (500, 75.0, 25.0, 250.0, "even"),  # at the limits
        (19, 90.0, 25.0, 249.0, "inconclusive"),
        (3, 90.0, 25.0, 251.0, "wait-inclusive"),  # the one that stands out is not the median of three
        (2, 90.0, 25.0, 999.0, "inconclusive"),
        (500, 90.0, None, 999.0, "inconclusive"),
        (500, 90.0, 0.0, 999.0, "inconclusive"),
    ],
)
def test_kernel_summaries_tell_waiting_by_their_shape(
    instances: int, avg: float, median: float | None, most: float, kind: str
) -> None:
    summary = pl.DataFrame(
        {"name": ["ncclAllReduce"], "instances": [instances], "avg_ns": [avg], "median_ns": [median], "max_ns": [most]}
    )
    summary = summary.with_columns(pl.col("median_ns").cast(pl.Float64))
    assert judge_summaries(summary)["kind"].to_list() == [kind]


def test_what_the_late_rank_did_before_is_told_apart() -> None:
    """Busy up to the collective; idle and not launched; launched and held back; nothing before."""
    early, late = Process(file_id=0, rank=0), Process(file_id=1, rank=1)
    moments = ((0, None), (1_000_000, "busy"), (2_000_000, "launch_gap"), (3_000_000, "idle"))
    for at, how in moments:
        early.kernel("allreduce", at + 10_000, at + 100_000, early.call(at + 1, at + 2))
        call_end = at + 89_000 if how == "launch_gap" else at + 300
        if how:
            work_end = at + 89_500 if how == "busy" else at + 20_000
            late.kernel("gemm slow", at + 1_000, work_end, late.call(at + 1, at + 2))
        late.kernel("allreduce", at + 90_000, at + 100_000, late.call(call_end - 100, call_end))
    trace = tables(early, late)
    arrivals = late_arrivals(last_to_arrive(match_ranks(trace.collectives).members), trace.ops)
    assert arrivals["before"].to_list() == ["start", "busy", "launch_gap", "idle"]
    assert arrivals["gap_ns"].to_list() == [0, 500, 70_000, 70_000]
    assert arrivals["wait_caused_ns"].to_list() == [80_000] * 4 and arrivals["rank"].to_list() == [1] * 4
    row = late_ranks(arrivals).row(0, named=True)
    assert (row["times_last"], row["share_last"], row["wait_caused_ns"]) == (4, 1.0, 320_000)
    assert row["before_share"] == 0.25


def test_of_ranks_without_device_work_nothing_is_said_about_before() -> None:
    processes = [Process(file_id=r, rank=r) for r in (0, 1)]
    for process in processes:
        process.kernel("allreduce", 10 + process.file_id, 60, process.call(1, 2))
    trace = tables(*processes)
    arrivals = late_arrivals(last_to_arrive(match_ranks(trace.collectives).members), trace.ops.clear())
    assert arrivals["before"].to_list() == [None]
    assert late_ranks(arrivals)["before"].to_list() == [None]


def test_broadcasts_are_not_matched_because_their_root_leaves_early() -> None:
    processes = [Process(file_id=r, rank=r) for r in (0, 1)]
    for process in processes:
        process.kernel("broadcast", 10, 60, process.call(1, 2))
    assert match_ranks(tables(*processes).collectives).members.height == 0


def test_more_ranks_than_the_group_has_are_not_matched() -> None:
    processes = [Process(file_id=r, rank=r) for r in range(4)]  # two groups of two under one name
    for process in processes:
        for at in range(0, 1_200, 100):
            process.kernel("allreduce", at, at + 60, process.call(at + 1, at + 2), group="0", size=2)
    match = match_ranks(tables(*processes).collectives)
    assert match.members.height == 0
    assert match.notes == (
        "all_reduce of group 0: 4 ranks were traced and the group has 2: several groups share the name",
    )


@pytest.fixture(scope="module")
def dlrm() -> Attribution:
    if not DLRM.exists():
        pytest.skip("the corpus of real inputs is not beside this checkout")
    with api.load([str(DLRM)]) as loaded:
        found = analyse(loaded.tables)
    assert found is not None
    return found


def test_eight_real_ranks_leave_their_allreduces_together_and_one_arrives_last(dlrm: Attribution) -> None:
    members, offsets = (dlrm.tables.frame(name) for name in ("matched_collectives", "clock_offsets"))
    assert members["complete"].all() and members.height == 3 * 8
    assert (offsets["offset_ns"].abs() <= 5_000).all() and (offsets["spread_ns"] <= 5_000).all()
    transfers = members.group_by("ordinal").agg(pl.col("transfer_ns").first()).sort("ordinal")["transfer_ns"]
    assert transfers.to_list() == [86_000, 20_000, 69_000]
    assert members.filter(pl.col("late")).sort("ordinal")["rank"].to_list() == [7, 5, 4]


def test_allreduce_time_of_195_to_1830_us_on_eight_real_ranks_is_waiting(dlrm: Attribution) -> None:
    """The same three allreduces take 195 us on rank 5 and 1,830 us on rank 1: 175 us of each are transfer."""
    ranks = (
        dlrm.tables.frame("matched_collectives")
        .group_by("rank")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("all"), pl.col("transfer_ns", "wait_ns").sum())
        .sort("rank")
    )
    assert [ns // 1_000 for ns in ranks["all"]] == [1_799, 1_830, 1_685, 1_772, 234, 195, 1_735, 1_357]
    assert set(ranks["transfer_ns"]) == {175_000}
    assert ranks["wait_ns"].to_list() == [total - 175_000 for total in ranks["all"]]
    assert (dlrm.skew.kind, dlrm.skew.provenance, dlrm.skew.ranks) == ("skew-dominated", "measured", 8)
    assert dlrm.skew.wait_share == pytest.approx(9_207 / 10_607)
    # what is neither under compute nor under another collective is waiting in the ledger, too
    waits = dlrm.device_time.sort("rank")["allreduce_wait"]
    assert [ns // 1_000 for ns in waits] == [1_503, 1_502, 1_381, 1_388, 59, 20, 1_431, 1_080]
    assert dlrm.late["rank"].to_list() == [4, 5, 7]
