"""Whether a log and traces are of one run: clocks without a zone, years that are not printed, processes, ranks."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import polars as pl
import pytest

from tests.rules.builders import level
from tests.rules.trace_builders import facts, phase, spread, trace
from traceana.facts.joined import join, match_run
from traceana.facts.model import CycleFacts, CyclePart, Fact, Facts, Identity, Parallelism, Provenance, Speculation
from traceana.facts.trace_model import RunMatch, TraceFacts

START = datetime(2026, 3, 1, 23, 30)  # of the capture, UTC


def log(*times: datetime, pid: int | None = None) -> list[pl.DataFrame]:
    schema = {"ts": pl.Datetime("ms"), "pid": pl.Int64}
    return [pl.DataFrame([(time, pid) for time in times], schema=schema, orient="row")]


def traces(*pids: int, start: datetime | None = START, clock: str = "utc") -> pl.DataFrame:
    begin = None if start is None else int(start.replace(tzinfo=timezone.utc).timestamp()) * 10**9
    rows = [(pid, clock, begin, None if begin is None else begin + 10**9) for pid in pids or (500,)]
    schema = {"pid": pl.Int64, "clock": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def around(hours: float, minutes: int = 5) -> list[pl.DataFrame]:
    """A log of ten minutes around the capture, on a clock so many hours ahead of UTC."""
    local = START + timedelta(hours=hours)
    return log(local - timedelta(minutes=minutes), local + timedelta(minutes=minutes))


def match(frames: list[pl.DataFrame], rows: pl.DataFrame, found: TraceFacts | None = None, **known: object) -> RunMatch:
    made = found or trace(phase("verify", compute=1.0))
    return match_run(replace(facts(made), **known), made, frames, rows)


@pytest.mark.parametrize(
    ("hours", "name"), [(0, "UTC"), (2, "UTC+02:00"), (-7, "UTC-07:00"), (5.5, "UTC+05:30"), (5.75, "UTC+05:45")]
)
def test_the_zone_of_the_log_is_found_and_named(hours: float, name: str) -> None:
    found = match(around(hours), traces())
    assert (found.verdict, found.clock) == ("same", name)
    assert found.start == (START + timedelta(hours=hours)).isoformat(sep=" ")
    assert f"if the log's clock shows {name}" in found.how[0]


def test_a_long_log_fits_under_several_offsets_and_says_so() -> None:
    found = match(around(0, minutes=300), traces())
    assert found.clock == "UTC"
    assert "not the only one that fits: 41 of 105 offsets do" in found.how[0]


def test_a_capture_of_another_day_is_of_another_run() -> None:
    found = match(around(24 * 3), traces())
    assert (found.verdict, found.clock) == ("different", None)
    assert "is outside of the log" in found.against[0]


def test_a_log_that_prints_no_year_is_not_held_to_the_year_of_its_file() -> None:
    last_year = log(*(t.replace(year=2025) for t in around(1)[0]["ts"].to_list()))
    assert match(last_year, traces()).clock == "UTC+01:00"


def test_a_leap_day_in_a_log_of_another_year_is_no_error() -> None:
    leap = log(datetime(2024, 2, 29, 23, 0), datetime(2024, 2, 29, 23, 50))
    assert match(leap, traces()).verdict == "different"


def test_shared_processes_are_proof_even_where_the_log_covers_another_time() -> None:
    later = [frame.with_columns(pl.lit(4242).alias("pid")) for frame in around(24 * 3)]
    found = match(later, traces(4242, 4243))
    assert found.verdict == "same"
    assert found.how == ("the log names the traced process (4242)",)
    assert len(found.against) == 1


@pytest.mark.parametrize("rows", [traces(clock="relative"), traces(start=None)])
def test_without_a_common_clock_nothing_is_claimed(rows: pl.DataFrame) -> None:
    assert match(around(0), rows) == RunMatch("unknown")
    assert match(log(), traces()) == RunMatch("unknown")


def test_another_engine_other_ranks_or_a_run_that_does_not_draft_contradict() -> None:
    drafting = trace(phase("verify", compute=1.0), phase("draft", compute=1.0), engine="vllm", world_size=8)
    found = match(
        around(0), traces(), drafting, identity=Identity(engine=Fact("sglang")), parallelism=Parallelism(tp=Fact(6)),
        speculation=Speculation(active=Fact(False)),
    )  # fmt: skip
    assert found.verdict == "different"
    assert [text.split(",")[0] for text in found.against] == [
        "the traces hold annotations of vllm", "the traces are of a job of 8 ranks", "the traced run drafts",
    ]  # fmt: skip


def test_absurd_times_are_no_error() -> None:
    for start in (1 << 62, -(1 << 62), 0):
        rows = traces().with_columns(pl.lit(start).alias("start_ns"), pl.lit(start).alias("end_ns"))
        assert match(around(0), rows).verdict == "different"


# ---- the two cycles ----


def traced(ms: float, batch: float | None = 4) -> TraceFacts:
    """A verify of 3/4 of the cycle, half of it launch gap."""
    phases = (phase("draft", compute=ms / 4), phase("verify", compute=ms * 3 / 8, launch_gap=ms * 3 / 8))
    return trace(*phases, cycle=spread(ms), batch=None if batch is None else spread(batch))


def logged(ms: float | None, batch: int | None = 4, **parts: float) -> CycleFacts:
    made = [CyclePart(name.replace("_", "-"), value, Provenance.MEASURED) for name, value in parts.items()]
    return CycleFacts(Fact(ms, reason="no window"), tuple(made), "windows", batch)


def joined(found: TraceFacts, cycle: CycleFacts, *levels: object) -> tuple[TraceFacts, CycleFacts]:
    return join(Facts(trace=found, regimes=levels), found, cycle)  # type: ignore[arg-type]


def test_the_logs_cycle_keeps_its_length_and_takes_the_shares_of_the_trace() -> None:
    found, cycle = joined(traced(22.0), logged(20.0))
    assert found.joined is not None
    assert found.joined.ratio == pytest.approx(1.1)
    assert found.joined.split["verify"] == pytest.approx({"compute": 7.5, "launch_gap": 7.5})
    assert cycle.total_ms.value == 20.0
    assert {p.name: p.ms for p in cycle.parts} == pytest.approx({"draft": 5.0, "verify": 15.0})


def test_another_load_is_compared_with_the_logs_window_of_that_load() -> None:
    found, cycle = joined(traced(22.0, batch=2), logged(40.0, batch=8), level(2, 21.0, tokens=2.0, k=3))
    assert found.joined is not None
    assert (found.joined.log_ms, found.joined.log_running) == (pytest.approx(21.0), 2)
    assert sum(sum(parts.values()) for parts in found.joined.split.values()) == pytest.approx(21.0)
    assert cycle == logged(40.0, batch=8)


def test_a_load_the_log_never_saw_is_said_and_not_split() -> None:
    found, cycle = joined(traced(22.0, batch=2), logged(20.0, batch=8))
    assert found.joined is not None and found.joined.split == {}
    assert "another load, not compared" in found.joined.doubts[0]
    assert cycle == logged(20.0, batch=8)


def test_a_batch_that_no_annotation_tells_is_taken_from_the_log_and_said() -> None:
    found, _ = joined(traced(20.0, batch=None), logged(20.0))
    assert found.joined is not None and found.joined.split
    assert "is not in the traces: taken as 4" in found.joined.doubts[0]


def test_timers_of_the_log_keep_their_phases_and_disagreement_is_named() -> None:
    timed = logged(20.0, draft=5.0, verify=15.0)
    found, cycle = joined(traced(22.0), timed)
    assert found.joined is not None and found.joined.doubts == ()
    assert found.joined.split["verify"] == pytest.approx({"compute": 7.5, "launch_gap": 7.5})
    assert cycle == timed
    other, _ = joined(traced(20.0), logged(20.0, draft=15.0, verify=5.0))
    assert other.joined is not None
    assert other.joined.doubts == (
        "draft: 15.0 ms by the log's timers, 5.0 ms traced",
        "verify: 5.0 ms by the log's timers, 15.0 ms traced",
    )


@pytest.mark.parametrize("log_ms", [10.0, 30.0])
def test_cycles_too_far_apart_are_not_split(log_ms: float) -> None:
    found, cycle = joined(traced(20.0), logged(log_ms))
    assert found.joined is not None and found.joined.split == {}
    assert "not carried over" in found.joined.doubts[0]
    assert cycle == logged(log_ms)


def test_nothing_is_joined_without_both_cycles_or_with_another_run() -> None:
    assert joined(traced(20.0), logged(None))[0].joined is None
    assert joined(replace(traced(20.0), cycle=None), logged(20.0))[0].joined is None
    assert joined(replace(traced(20.0), match=RunMatch("different")), logged(20.0))[0].joined is None
