"""Traces from file to report: the whole way, on our own fixtures and on real captures."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from traceana import api
from traceana.cli.app import app
from traceana.errors import TraceanaError
from traceana.report.diagnosis import Diagnosis

ROOT = Path(__file__).parents[2]
KINETO = ROOT / "fixtures" / "traces" / "kineto"
CAPTURES = ROOT.parent / "shared" / "corpus" / "vllm-cpu-captures"
RANKS = [str(path) for path in sorted(KINETO.glob("*-TP-*.trace.json.gz"))]


@pytest.fixture(scope="module")
def two_ranks() -> Diagnosis:
    return api.diagnose(RANKS)


def test_every_phase_of_every_rank_has_a_ledger_that_adds_up(two_ranks: Diagnosis) -> None:
    trace = two_ranks.trace
    assert trace is not None
    assert {(p.rank, p.phase) for p in trace.phases} == {
        (rank, phase) for rank in (0, 1) for phase in ("draft", "verify", "re-extend", "other")
    }
    for phase in trace.phases:
        assert sum(phase.buckets.values()) == pytest.approx(phase.window_ms, abs=1e-9)


def test_a_graph_launch_is_told_from_its_kernels_and_its_host_time_is_known(two_ranks: Diagnosis) -> None:
    assert two_ranks.trace is not None
    verify = next(p for p in two_ranks.trace.phases if p.phase == "verify")
    assert (verify.graph_launches, verify.graph_nodes, verify.graph_call_ms) == (1, 6, pytest.approx(0.35))


def test_the_rank_that_waits_and_the_one_that_does_not(two_ranks: Diagnosis) -> None:
    assert two_ranks.trace is not None
    waits = {p.rank: p.buckets["allreduce_wait"] for p in two_ranks.trace.phases if p.phase == "verify"}
    assert waits[0] > 0
    assert waits[1] == 0


def test_too_few_cycles_give_no_cycle_time(two_ranks: Diagnosis) -> None:
    assert two_ranks.trace is not None
    assert two_ranks.cycle.total_ms is None
    assert any(note.what.startswith("3 cycles were captured") for note in two_ranks.trace.capture)


def test_a_store_gives_the_same_answer_as_its_traces(two_ranks: Diagnosis, tmp_path: Path) -> None:
    api.ingest(RANKS, str(tmp_path / "store"))
    assert api.diagnose([str(tmp_path / "store")]).trace == two_ranks.trace


def test_a_log_beside_traces_keeps_its_own_answer() -> None:
    log = str(ROOT / "fixtures" / "demo" / "server.log")
    alone, both = api.diagnose([log]), api.diagnose([log, *RANKS])
    assert both.trace is not None
    assert alone.trace is None
    assert (both.levels, both.findings, both.cycle) == (alone.levels, alone.findings, alone.cycle)


def test_the_ledger_command_prints_the_section_and_its_json() -> None:
    shown = CliRunner().invoke(app, ["ledger", *RANKS])
    assert shown.exit_code == 0
    assert "allreduce wait" in shown.stdout
    assert "Findings" not in shown.stdout
    packed = CliRunner().invoke(app, ["ledger", *RANKS, "--format", "json"])
    assert json.loads(packed.stdout)["cycles"] == 3


def test_a_ledger_of_a_log_says_that_it_needs_a_trace() -> None:
    with pytest.raises(TraceanaError, match="none of the inputs is a profiler trace"):
        CliRunner().invoke(app, ["ledger", str(ROOT / "fixtures" / "demo" / "server.log")], catch_exceptions=False)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="needs the corpus")
def test_collectives_per_phase_of_a_real_two_rank_server() -> None:
    found = api.diagnose([str(CAPTURES / "tp2-eagle3-k3-scopes")])
    assert found.trace is not None
    seen = {(p.rank, p.phase): p.collectives for p in found.trace.phases}
    for rank in (0, 1):
        assert (seen[rank, "verify"] or "").startswith("17 all_reduce")
        assert seen[rank, "draft"] == "9 all_reduce, 3 all_gather"
    assert found.trace.skew == "skew-dominated"
    assert found.trace.late[0].rank == 1
    assert found.run.engine == "vllm"


def _export(path: Path) -> None:
    """A small Nsight Systems export: two kernels of 40 and 10 us on one device, launched by one process."""
    with sqlite3.connect(path) as db:
        db.executescript(
            """
            CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'nvjet_tst_64x8'), (2, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'),
                (3, 'cudaLaunchKernel_v7000');
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, 2000, 0, 281474993487873, 1, 3, 0),
                (3000, 4000, 0, 281474993487873, 2, 3, 0);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
                streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER,
                gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
                (5000, 45000, 0, 1, 7, 1, 281474993487872, 1, 1, 8, 1, 1, 128, 1, 1),
                (50000, 60000, 0, 1, 7, 2, 281474993487872, 2, 2, 8, 1, 1, 512, 1, 1);
            """
        )


def test_an_nsight_export_is_read_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rank0.sqlite"
    _export(path)
    before = path.read_bytes()
    found = api.diagnose([str(path)])
    assert found.trace is not None
    assert found.trace.categories == pytest.approx({"gemm": 0.8, "communication": 0.2})
    assert [(row.format, row.problem) for row in found.inputs] == [("nsight", None)]
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["rank0.sqlite"]


def test_a_damaged_export_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rank0.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4000)
    with pytest.raises(TraceanaError) as error:
        api.diagnose([str(path)])
    assert "\n" not in str(error.value)
    assert "rank0.sqlite" in str(error.value)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="needs the corpus")
@pytest.mark.parametrize("path", sorted((CAPTURES.parent / "traces" / "nsys").glob("*.sqlite")), ids=lambda p: p.name)
def test_real_nsight_exports_are_read(path: Path) -> None:
    found = api.diagnose([str(path)])
    assert found.trace is not None
    assert sum(found.trace.categories.values()) > 0.9
    assert found.inputs[0].problem is None


def test_a_log_is_spared_the_readers_of_traces() -> None:
    code = (
        "import sys\n"
        "from traceana import api\n"
        f"api.diagnose([{str(ROOT / 'fixtures' / 'demo' / 'server.log')!r}])\n"
        "loaded = {m for m in sys.modules if m.startswith(('traceana_parsers.traces.', 'traceana.attribution.'))}\n"
        "print(sorted(loaded & {'traceana_parsers.traces.kineto', 'traceana_parsers.traces.nsight_sqlite', "
        "'traceana.attribution.analyse'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[]\n", done.stdout + done.stderr
