"""Collectives of random groups of ranks against the truth they were made from: who belongs together, who waited, whose
clock is how far off. Ranks begin and end their captures at different instances, on clocks of their own."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from traceana.attribution.ranks import match_ranks
from traceana.attribution.skew import judge
from traceana_parsers.schema import polars_schema

INSTANCES = 30
#: ns by which ranks leave one collective apart, as seen on eight A100s
APART = 3_000


@dataclass(frozen=True)
class Call:
    """One rank's part of one collective, on its own clock."""

    rank: int
    instance: int
    start: int
    end: int


@dataclass(frozen=True)
class Group:
    """A communicator: what all its ranks did, and the clock of each minus the true time."""

    name: str
    collective: str
    calls: list[Call]
    clocks: list[int]
    first: list[int]  # instance at which each rank's capture begins


@st.composite
def groups(draw: st.DrawFn) -> list[Group]:
    made = []
    for name, collective in draw(
        st.sampled_from([[("tp", "all_reduce")], [("tp", "all_reduce"), ("dp", "all_gather")]])
    ):
        random = Random(draw(st.integers(0, 1 << 30)))
        ranks = draw(st.integers(2, 4))
        clocks = draw(st.lists(st.sampled_from([0, 1_000, -40_000, 10**9, -(10**15)]), min_size=ranks, max_size=ranks))
        cuts = draw(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=ranks, max_size=ranks))
        calls, now = [], 1_795_000_000_000_000_000
        for instance in range(INSTANCES):
            now += random.randrange(50_000, 900_000)
            arrivals = [now + random.randrange(0, 40_000) for _ in range(ranks)]
            leave = max(arrivals) + random.randrange(5_000, 30_000)
            for rank, arrival in enumerate(arrivals):
                if cuts[rank][0] <= instance < INSTANCES - cuts[rank][1]:
                    end = leave + random.randrange(0, APART)
                    calls.append(Call(rank, instance, arrival + clocks[rank], end + clocks[rank]))
            now = leave
        made.append(Group(name, collective, calls, clocks, [cut[0] for cut in cuts]))
    return made


def table(found: list[Group], seed: int) -> pl.DataFrame:
    """The `collectives` table, rows in any order, on streams of any number."""
    random = Random(seed)
    rows = [
        {
            "file_id": call.rank, "rank": call.rank, "pid": 100 + call.rank, "device": call.rank % 2, "start_ns": call.start,
            "end_ns": call.end, "name_id": 0, "stream": random.randrange(7, 10), "collective": group.collective,
            "group_name": group.name, "group_size": len(group.clocks),
        }
        for group in found
        for call in group.calls
    ]  # fmt: skip
    random.shuffle(rows)
    return pl.DataFrame(rows, schema=polars_schema("collectives"), orient="row")


@settings(max_examples=40, deadline=None)
@given(groups(), st.booleans(), st.integers(0, 99))
def test_instances_waits_late_ranks_and_clocks_come_back(found: list[Group], wall_clock: bool, seed: int) -> None:
    match = match_ranks(table(found, seed), wall_clock=wall_clock)
    assert match.notes == ()
    wanted = {}
    for group in found:
        by_instance: dict[int, list[Call]] = {}
        for call in group.calls:
            by_instance.setdefault(call.instance, []).append(call)
        for instance, calls in by_instance.items():
            if len(calls) < 2:
                continue
            transfer = min(call.end - call.start for call in calls)
            for call in calls:
                wanted[group.name, instance - group.first[0], call.rank] = (
                    call.start, call.end, transfer, call.end - call.start - transfer, len(calls) == len(group.clocks),
                )  # fmt: skip
    members = match.members
    keys = zip(members["group"], members["ordinal"], members["rank"], strict=True)
    values = members.select("start_ns", "end_ns", "transfer_ns", "wait_ns", "complete").rows()
    assert dict(zip(keys, values, strict=True)) == wanted
    measured = members.filter(pl.col("provenance") == "measured")
    assert measured.height == members["complete"].sum()
    late = members.filter("late")
    assert late.height == members.select("group", "ordinal").n_unique()
    assert (late["wait_ns"] == 0).all()
    for name, rank, offset, trusted in match.offsets.select("group", "rank", "offset_ns", "trusted").rows():
        clocks = next(group.clocks for group in found if group.name == name)
        assert trusted and abs(offset - (clocks[rank] - clocks[0])) <= APART
    arrival = members.join(match.offsets, on=["group", "collective", "rank"])
    assert (arrival["arrival_ns"] == arrival["start_ns"] - arrival["offset_ns"]).all()
    assert judge(members).provenance == ("measured" if members["complete"].all() else "derived")


@settings(max_examples=30, deadline=None)
@given(groups(), st.integers(0, 9_999))
def test_a_rank_that_did_something_else_is_never_matched(found: list[Group], seed: int) -> None:
    """Another run in the same rhythm: whatever the shift, its ends do not fall together with the others'."""
    stranger = Random(seed)
    group = found[0]
    other = len(group.clocks) - 1
    now, calls = 1_795_000_000_000_000_000, [call for call in group.calls if call.rank != other]
    for instance in range(INSTANCES):
        now += stranger.randrange(50_000, 900_000)
        calls.append(Call(other, instance, now, now + 20_000))
    changed = Group(group.name, group.collective, calls, group.clocks, group.first)
    match = match_ranks(table([changed], seed))
    assert other not in match.members["rank"].to_list()
    assert "left out, their ends do not agree" in match.notes[0]
