"""Times of collectives that somebody measured: by message size, and of one collective on each rank."""

from pathlib import Path

import pytest

from traceana import api
from traceana.facts.collective_times import CollectiveTimes


def measured(folder: Path, text: str) -> CollectiveTimes:
    (folder / "times.md").write_text(text, encoding="utf-8")
    result = api.diagnose([str(folder / "times.md")])
    assert result.collective_times is not None
    assert result.verdict.sentence == result.collective_times.verdict
    return result.collective_times


def test_set_ups_at_the_same_sizes_are_compared(tmp_path: Path) -> None:
    found = measured(
        tmp_path,
        "Allreduce latency\n\n| Size | plain (us) | tuned (us) |\n|---|---|---|\n"
        "| 32 KB | 40 | 20 |\n| 1 MB | 90 | 60 |\n",
    )
    plain, tuned = found.curves
    assert (plain.sizes_bytes, plain.times_us, tuned.times_us) == ((32768, 1 << 20), (40.0, 90.0), (20.0, 60.0))
    assert "32 KB takes 40.0 us, 100 such calls in a row 4.0 ms" in found.verdict
    assert "'tuned' takes 0.50-0.67x the time of 'plain'" in found.verdict


def test_a_large_message_is_not_counted_per_forward_and_even_ranks_do_not_wait(tmp_path: Path) -> None:
    large = measured(tmp_path, "Allreduce\n\n| Size | plain (us) |\n|---|---|\n| 64 MB | 9000 |\n")
    assert "per forward" not in large.verdict
    rows = "".join(f"| {rank} | {us} |\n" for rank, us in enumerate((10.0, 10.4, 10.9, 10.2)))
    even = measured(tmp_path, f"| Rank | allreduce kernel (us) |\n|---|---|\n{rows}")
    assert "no rank waits" in even.verdict


def test_of_one_collective_the_shortest_rank_bounds_the_transfer(tmp_path: Path) -> None:
    rows = "".join(f"| {rank} | {us} |\n" for rank, us in enumerate((10.0, 40.0, 12.0, 18.0)))
    (one,) = measured(tmp_path, f"| Rank | allreduce kernel (us) |\n|---|---|\n{rows}").by_rank
    assert (one.shortest_us, one.longest_us, one.waits_longest, one.last) == (10.0, 40.0, 1, 0)
    assert one.wait_share == pytest.approx((80 - 4 * 10) / 80)


def test_units_of_sizes_and_times_may_stand_in_the_heading_or_the_title(tmp_path: Path) -> None:
    bare = measured(tmp_path, "| size (bytes) | nccl (us) | one shot (us) |\n|---|---|---|\n| 8192 | 25 | 10 |\n")
    assert [(c.sizes_bytes, c.times_us) for c in bare.curves] == [((8192,), (25.0,)), ((8192,), (10.0,))]
    titled = measured(
        tmp_path,
        "All-reduce latency (us), TP8\n\n| Message size | ring | tree | own |\n|---|---|---|---|\n"
        "| 8KB | 28 | 35 | 14 |\n| 1MB | 90 | 99 | 108 |\n",
    )
    assert titled.curves[0].times_us == (28.0, 90.0)
    assert "'own' takes 0.50-1.20x the time of 'ring'" in titled.verdict
