"""A log and traces together: one diagnosis where they are of one run, kept apart where they are not."""

from pathlib import Path

import pytest

from traceana import api
from traceana.report import jsonout, terminal
from traceana.report.diagnosis import Diagnosis
from traceana.report.trace_report import TraceReport

FIXTURES = Path(__file__).parents[2] / "fixtures"
WALL = str(FIXTURES / "traces" / "wall")
CAPTURES = Path(__file__).parents[3] / "shared" / "corpus" / "vllm-cpu-captures"


def together(log: str) -> tuple[Diagnosis, TraceReport]:
    found = api.diagnose([str(FIXTURES / "joined" / log), WALL])
    assert found.trace is not None
    return found, found.trace


@pytest.fixture(scope="module")
def same() -> tuple[Diagnosis, TraceReport]:
    return together("same_run.log")


def test_the_capture_is_found_inside_the_log_though_the_log_prints_no_time_zone(
    same: tuple[Diagnosis, TraceReport],
) -> None:
    match = same[1].match
    assert match is not None
    assert (match.verdict, match.clock, match.start) == ("same", "UTC+08:00", "2026-01-01 08:00:00")
    assert "if the log's clock shows UTC+08:00" in match.how[0]
    assert match.against == ()


def test_the_logs_cycle_is_split_in_the_shares_of_the_traced_one_and_keeps_its_length(
    same: tuple[Diagnosis, TraceReport],
) -> None:
    found, trace = same
    assert trace.joined is not None
    assert trace.joined.log_ms == pytest.approx(28.8, abs=0.05)
    assert trace.joined.ratio == pytest.approx(30.03 / 28.8, abs=0.01)
    assert trace.joined.doubts == ()
    assert sum(sum(parts.values()) for parts in trace.joined.split.values()) == pytest.approx(trace.joined.log_ms)
    assert found.cycle.total_ms == trace.joined.log_ms
    assert {part.name for part in found.cycle.parts} == {"draft", "verify", "re-extend", "other"}
    assert {part.provenance for part in found.cycle.parts} == {"derived"}
    gap, window = trace.joined.split["verify"]["launch_gap"], sum(trace.joined.split["verify"].values())
    verify = [p for p in trace.phases if p.phase == "verify"]
    traced = sum(p.bucket_ns["launch_gap"] for p in verify) / sum(p.window_ns or 0 for p in verify)
    assert gap / window == pytest.approx(traced)


def test_findings_of_log_and_traces_stand_in_one_list_with_ms_per_token(same: tuple[Diagnosis, TraceReport]) -> None:
    codes = [finding.code for finding in same[0].findings]
    assert codes == ["GRF002", "COM006", "COM008", "GRF001"]
    first = same[0].findings[0]
    assert first.explains_ms_per_token is not None and first.explains_ms_per_cycle is not None
    assert first.explains_ms_per_token.high == pytest.approx(first.explains_ms_per_cycle.high / 2.4, rel=0.01)
    assert first.explains_ms_per_token.provenance == "derived"
    assert same[0].verdict.limiter_reason == "GRF002"


def test_a_log_and_a_trace_that_contradict_each_other_are_named_and_never_averaged() -> None:
    found, trace = together("same_run_faster.log")
    assert trace.joined is not None and trace.match is not None
    assert trace.match.verdict == "same"
    assert found.cycle.total_ms == pytest.approx(18.0, abs=0.05)
    assert trace.joined.split == {}
    assert [part.name for part in found.cycle.parts] == ["unknown"]
    assert trace.joined.doubts[0].startswith("the log says 18.0 ms, the trace 30.0 ms (1.67x)")


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("other_day.log", "in every time zone"),
        ("other_ranks.log", "the traces are of a job of 8 ranks, the log's tensor-parallel group has 3"),
    ],
)
def test_traces_of_another_run_are_kept_apart(log: str, why: str) -> None:
    alone = api.diagnose([str(FIXTURES / "joined" / log)])
    found, trace = together(log)
    assert trace.match is not None and trace.match.verdict == "different"
    assert trace.joined is None
    assert any(why in text for text in trace.match.against)
    assert (found.cycle, found.findings, found.levels) == (alone.cycle, alone.findings, alone.levels)
    assert any("these traces are not of this run" in row.reason for row in found.not_checked)
    assert "kept apart" in terminal.render(found)


def test_a_store_of_log_and_traces_gives_the_same_joined_answer(
    same: tuple[Diagnosis, TraceReport], tmp_path: Path
) -> None:
    store = str(tmp_path / "store")
    api.ingest([str(FIXTURES / "joined" / "same_run.log"), WALL], store)
    again = api.diagnose([store])
    assert again.trace == same[1]
    assert (again.cycle, again.findings) == (same[0].cycle, same[0].findings)


def test_the_joined_answer_survives_the_json_document(same: tuple[Diagnosis, TraceReport]) -> None:
    assert jsonout.decode(jsonout.render(same[0])) == same[0]


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="needs the corpus")
@pytest.mark.parametrize("capture", ["tp2-eagle3-k3-scopes", "clean/eagle3-k3", "v028/eagle3-k3-iterdetails"])
def test_a_real_server_and_its_traces_are_recognised_by_their_processes_and_their_time(capture: str) -> None:
    folder = CAPTURES / capture
    found = api.diagnose([str(folder / "server.log"), *map(str, (folder / "traces").glob("*.json.gz"))])
    assert found.trace is not None and found.trace.match is not None
    assert found.trace.match.verdict == "same"
    assert found.trace.match.clock == "UTC"
    assert "the log names the traced process" in found.trace.match.how[0]


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="needs the corpus")
def test_traces_of_one_server_beside_the_log_of_another_are_kept_apart() -> None:
    log = CAPTURES / "clean" / "eagle3-k3" / "server.log"
    traces = map(str, (CAPTURES / "tp2-eagle3-k3-scopes" / "traces").glob("*.json.gz"))
    found = api.diagnose([str(log), *traces])
    assert found.trace is not None and found.trace.match is not None
    assert found.trace.match.verdict == "different"
