"""Eight ranks with every nanosecond planted: it all comes back."""

import polars as pl
import pytest

from tests.attribution.builder import Tables, tables
from tests.attribution.planted import Planted, verify_cycles
from traceana.attribution.cycles import cycles_of_scopes
from traceana.attribution.late import last_to_arrive, late_arrivals, late_ranks
from traceana.attribution.ledger import build_ledger
from traceana.attribution.model import BUCKETS
from traceana.attribution.ranks import match_ranks, splits
from traceana.attribution.scopes import scopes_by_name
from traceana.attribution.skew import judge


@pytest.fixture(scope="module")
def planted() -> Planted:
    return verify_cycles()


@pytest.fixture(scope="module")
def trace(planted: Planted) -> Tables:
    return tables(*planted.processes)


@pytest.fixture(scope="module")
def cycles(trace: Tables) -> pl.DataFrame:
    return cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)


def test_every_planted_nanosecond_comes_back_in_its_bucket_and_phase(
    planted: Planted, trace: Tables, cycles: pl.DataFrame
) -> None:
    ledger = build_ledger(cycles, trace.ops, splits(match_ranks(trace.collectives).members))
    ledger.self_check()
    found = {
        (row["rank"], row["phase"]): {name: row[name] for name in BUCKETS if row[name]}
        for row in ledger.per_phase().iter_rows(named=True)
    }
    wanted = {key: {name: ns for name, ns in parts.items() if ns} for key, parts in planted.truth.items()}
    assert found == wanted


def test_the_window_of_all_cycles_is_the_wall_time_of_the_device(trace: Tables, cycles: pl.DataFrame) -> None:
    ledger = build_ledger(cycles, trace.ops)
    walls = (
        trace.ops.group_by("rank").agg((pl.col("end_ns").max() - pl.col("start_ns").min()).alias("wall")).sort("rank")
    )
    sums = ledger.windows.group_by("file_id").agg(pl.col("window_ns").sum()).sort("file_id")
    gaps = [4_000 + 100 * rank for rank in range(8)]  # before the first operation, owned by the first draft
    assert [w - g for w, g in zip(sums["window_ns"], gaps, strict=True)] == walls["wall"].to_list()


def test_without_a_match_across_ranks_allreduce_time_is_not_split(trace: Tables, cycles: pl.DataFrame) -> None:
    sums = build_ledger(cycles, trace.ops).rows
    assert sums["allreduce_transfer"].sum() == sums["allreduce_wait"].sum() == 0
    assert sums["allreduce_unsplit"].sum() > 0


def test_clock_offsets_come_back_exactly_and_the_late_rank_is_named(trace: Tables) -> None:
    match = match_ranks(trace.collectives)
    assert match.offsets["offset_ns"].to_list() == [1_000 * rank for rank in range(8)]
    assert match.offsets["spread_ns"].to_list() == [0] * 8
    assert match.offsets["trusted"].all()
    assert match.members["complete"].all() and match.members.height == 8 * 24 * 3
    late = late_ranks(late_arrivals(last_to_arrive(match.members), trace.ops))
    first = late.row(0, named=True)
    assert first["rank"] == 3 and first["before"] == "busy"
    assert trace.names.filter(file_id=3, name_id=first["before_name_id"])["name"].to_list() == ["gemm verify"]
    assert first["times_last"] >= 24
    assert late["wait_caused_ns"].sum() == match.members["wait_ns"].sum()


def test_the_verdict_follows_the_planted_shares() -> None:
    even = tables(*verify_cycles(ranks=4, cycles=8, lateness=0).processes)
    skewed = tables(*verify_cycles(ranks=4, cycles=8, transfer=2_000, late=2, lateness=80_000).processes)
    assert judge(match_ranks(even.collectives).members).kind == "transfer-dominated"
    verdict = judge(match_ranks(skewed.collectives).members)
    assert verdict.kind == "skew-dominated" and verdict.provenance == "measured" and verdict.ranks == 4
    assert judge(match_ranks(skewed.collectives.filter(pl.col("start_ns") < 40_000)).members).kind == "inconclusive"


def test_captures_that_begin_and_end_at_different_times_are_matched_to_the_same_instances() -> None:
    whole = tables(*verify_cycles(ranks=3, cycles=30, drift=0).processes).collectives
    cut = pl.concat(
        [
            whole.filter(rank=0),
            whole.filter(rank=1)[7:],  # began later
            whole.filter(rank=2)[3:-5],  # began later and ended early
        ]
    )
    match = match_ranks(cut)
    assert match.offsets["shift"].to_list() == [0, 7, 3]
    assert match.offsets["offset_ns"].to_list() == [0, 0, 0]
    complete = match.members.filter(pl.col("complete"))
    assert complete["ordinal"].n_unique() == 90 - 7 - 5
    ends = complete.group_by("ordinal").agg(pl.col("end_ns").n_unique().alias("ends"))
    assert (ends["ends"] == 1).all()


def test_clocks_of_different_hosts_do_not_shift_instances() -> None:
    trace = tables(*verify_cycles(ranks=4, drift=10**9).processes)
    match = match_ranks(trace.collectives, wall_clock=False)
    assert match.offsets["shift"].to_list() == [0] * 4
    assert match.offsets["offset_ns"].to_list() == [10**9 * rank for rank in range(4)]


def test_a_loop_that_never_varies_is_said_to_fit_in_several_ways() -> None:
    even = tables(*verify_cycles(ranks=2, lateness=0).processes).collectives.with_columns(
        (pl.int_range(pl.len()).over("rank") * 100_000).alias("end_ns")
    )
    even = even.with_columns((pl.col("end_ns") - 20_000).alias("start_ns"))
    match = match_ranks(even)
    assert match.notes == ()  # clocks that agree under one of them leave no doubt
    assert match.offsets["shift"].to_list() == [0, 0]
    apart = even.with_columns(pl.col("start_ns", "end_ns") + pl.when(pl.col("rank") == 1).then(30_000).otherwise(0))
    match = match_ranks(apart)
    assert "under several shifts alike; the smallest clock offset was taken" in match.notes[0]
    assert match.offsets["shift"].to_list() == [0, 0]
    assert "the smallest shift was taken" in match_ranks(even, wall_clock=False).notes[0]


def test_a_missing_rank_makes_the_transfer_an_upper_bound() -> None:
    some = tables(*verify_cycles(ranks=8, cycles=12).processes).collectives.filter(pl.col("rank") != 3)
    match = match_ranks(some)
    assert not match.members["complete"].any()
    assert (match.members["provenance"] == "derived").all()
    assert (match.members["transfer_ns"] >= 21_000).all()


def test_ranks_that_saw_other_work_are_left_out_and_said_so() -> None:
    trace = tables(*verify_cycles(ranks=3, cycles=12).processes)
    import numpy as np

    random = np.random.default_rng(1).integers(0, 5_000_000, 36)
    other = trace.collectives.filter(rank=2).with_columns(pl.Series("end_ns", np.sort(random) + 10**9))
    other = other.with_columns((pl.col("end_ns") - 30_000).alias("start_ns"))
    match = match_ranks(pl.concat([trace.collectives.filter(pl.col("rank") < 2), other]))
    assert "all_reduce of group tp: 1 of 3 ranks left out, their ends do not agree with the others'" in match.notes[0]
    assert set(match.members["rank"].to_list()) == {0, 1}
