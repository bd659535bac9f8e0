"""What the reports say of traces: alone, beside a log, without cycles, without events, of several captures."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.golden import check_golden
from tests.report.hostile import TEXTS, spoil
from traceana import api
from traceana.facts.model import Spread
from traceana.facts.trace_model import CollectiveSum, TracePhase, TraceSums
from traceana.report.diagnosis import Diagnosis
from traceana.report.interface import TRACE_FORMATS, render
from traceana.report.trace_report import CaptureReport, TraceReport

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wall(request: pytest.FixtureRequest) -> Diagnosis:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return api.diagnose(["fixtures/traces/wall"])


@pytest.fixture(scope="module")
def joined() -> Diagnosis:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return api.diagnose(["fixtures/joined/same_run.log", "fixtures/traces/wall"])


@pytest.mark.parametrize("width", [80, 160])
def test_a_report_of_traces_looks_as_reviewed(wall: Diagnosis, width: int) -> None:
    check_golden(f"wall_{width}.txt", render(wall, "terminal", width=width))


def test_a_report_of_log_and_traces_looks_as_reviewed(joined: Diagnosis) -> None:
    check_golden("joined_80.txt", render(joined, "terminal", width=80))
    check_golden("joined.md", render(joined, "markdown"))


def test_the_ledger_looks_as_reviewed(wall: Diagnosis) -> None:
    check_golden("ledger_80.txt", render(wall, "terminal", width=80, formats=TRACE_FORMATS))
    check_golden("ledger.md", render(wall, "markdown", formats=TRACE_FORMATS))


def test_a_report_of_traces_opens_with_the_capture_and_leaves_out_what_only_a_log_tells(wall: Diagnosis) -> None:
    shown = render(wall, "terminal", width=100)
    heads = [line.split("  ")[0] for line in shown.splitlines() if line and not line.startswith(" ")]
    assert heads[1:8] == ["Verdict", "Capture", "Trace cycle", "Findings", "Floor", "What if", "Not checked"]
    assert "Load levels" not in shown
    assert shown.count("no log is among the inputs") == 1


def with_trace(wall: Diagnosis, **changes: object) -> Diagnosis:
    assert wall.trace is not None
    return replace(wall, trace=replace(wall.trace, **changes))


def test_captures_of_sums_show_time_by_category_and_never_add_up(wall: Diagnosis) -> None:
    uneven = CollectiveSum(
        "all_reduce", "ncclDevKernel_AllReduce", "nccl", 1_220, 0.095, 0.03, 0.02, 3.0, "wait-inclusive"
    )
    sums = (
        TraceSums("a/decode.csv", 1_000, 12.5, 12.5, {"gemm": 0.75, "communication": 0.25}, (uneven,)),
        TraceSums("a/prefill.csv", 10, 2.5, 2.5, {"gemm": 1.0}),
    )
    alone = with_trace(
        wall, phases=(), whole=(), cycles=0, cycle=None, comm=(), instances=0, skew="inconclusive", late=()
    )
    shown = render(
        replace(alone, trace=replace(alone.trace or pytest.fail("no trace"), sums=sums)), "terminal", width=120
    )
    assert "2 captures of sums, without the time of any event" in shown
    assert "decode  prefill" in shown
    assert "75 %    100 %" in shown
    assert "1,220 all-reduces by NCCL of mean 95.0 us, median 30.0 us, 20.0 us to 3,000 us: very uneven" in shown
    assert "Trace cycle" not in shown and "Whole trace" not in shown


def test_traces_of_several_captures_are_shown_one_by_one(wall: Diagnosis) -> None:
    shown = render(with_trace(wall, apart="2 of them say that they are rank 0"), "terminal", width=100)
    assert "not of one capture: 2 of them say that they are rank 0; nothing is added up over these traces" in shown
    assert "mean of ranks" not in shown
    assert "kernel time of the whole capture" not in shown


def test_a_capture_without_a_cycle_shows_each_gpu_from_its_first_to_its_last_operation(wall: Diagnosis) -> None:
    whole = tuple(
        TracePhase(rank, rank, "capture", 1, "t.json", window_ms=10.0, window_ns=10**7, bucket_ns={"compute": 10**7})
        for rank in (0, 1)
    )
    shown = render(with_trace(wall, cycles=0, cycle=None, phases=(), whole=whole), "terminal", width=100)
    assert "no cycle was found: each GPU from its first to its last operation" in shown
    assert "ms, whole capture    r0    r1" in shown


def test_notes_that_one_command_cures_stand_together_with_it(wall: Diagnosis) -> None:
    notes = tuple(CaptureReport("warning", f"note-{n}", f"what {n}", f"why {n}", "the command") for n in range(3))
    shown = render(with_trace(wall, capture=notes), "terminal", width=100)
    assert shown.count("capture: the command") == 1
    assert "warning: what 2: why 2" in shown


def test_more_ranks_than_fit_keep_the_late_one(wall: Diagnosis) -> None:
    assert wall.trace is not None
    phases = tuple(replace(p, rank=rank, device=rank) for rank in range(40) for p in wall.trace.phases[:4])
    late = (replace(wall.trace.late[0], rank=33),)
    shown = render(with_trace(wall, phases=phases, late=late), "terminal", width=160)
    assert "r33" in shown
    assert "16 of 40 shown: --format json has all" in shown


def test_a_single_rank_needs_no_table_by_rank(wall: Diagnosis) -> None:
    assert wall.trace is not None
    alone = tuple(p for p in wall.trace.phases if p.rank == 0)
    shown = render(with_trace(wall, phases=alone), "terminal", width=100)
    assert "mean of ranks" not in shown
    assert "last to arrive" not in shown


@pytest.mark.parametrize("fmt", ["terminal", "markdown", "json"])
@pytest.mark.parametrize("text", TEXTS[:-3])
def test_hostile_names_in_traces_are_drawn_in_every_format(joined: Diagnosis, text: str, fmt: str) -> None:
    shown = render(spoil(joined, [text]), fmt, width=80)
    assert "\x1b" not in shown and "\x07" not in shown and "\x9b" not in shown


def test_an_empty_trace_report_can_be_drawn() -> None:
    empty = TraceReport(0, "", "measured", (), "inconclusive", "derived", "", 0, 0, None, None, (), {}, ())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        log = api.diagnose(["fixtures/demo/server.log"])
    for trace in (empty, replace(empty, cycle=Spread(0, 0.0, 0.0, 0.0, 0.0))):
        for fmt in ("terminal", "markdown", "json"):
            assert render(replace(log, trace=trace), fmt)
