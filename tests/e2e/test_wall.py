"""The 30 ms wall: what was planted in eight ranks comes back to the nanosecond, and is named in the right order."""

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fixtures.generate.__main__ import write
from traceana import api
from traceana.cli.app import app
from traceana.report.diagnosis import Diagnosis

FIXTURES = Path(__file__).parents[2] / "fixtures"
WALL = FIXTURES / "traces" / "wall"
ANSWER = json.loads((FIXTURES / "traces" / "wall.json").read_text())


@pytest.fixture(scope="module")
def wall() -> Diagnosis:
    return api.diagnose([str(WALL)])


def test_every_planted_nanosecond_comes_back_from_the_ledger() -> None:
    shown = CliRunner().invoke(app, ["ledger", str(WALL), "--format", "json"])
    assert shown.exit_code == 0
    ledger = json.loads(shown.stdout)
    assert ledger["cycles"] == ANSWER["cycles"]
    found: dict[str, dict[str, dict[str, int]]] = {}
    for phase in ledger["phases"]:
        buckets = {name: ns for name, ns in phase["bucket_ns"].items() if ns}
        assert sum(buckets.values()) == phase["window_ns"]
        found.setdefault(str(phase["rank"]), {})[phase["phase"]] = buckets
    assert found == ANSWER["ns"]


def test_the_planted_causes_are_named_in_the_order_of_what_they_cost(wall: Diagnosis) -> None:
    assert [finding.code for finding in wall.findings] == ANSWER["findings"]
    cost = [finding.explains_ms_per_cycle.high for finding in wall.findings if finding.explains_ms_per_cycle]
    assert len(cost) == 3
    assert cost == sorted(cost, reverse=True)


def test_what_a_finding_explains_is_what_was_planted(wall: Diagnosis) -> None:
    def planted(rank: int, bucket: str) -> float:
        return float(ANSWER["ns"][str(rank)]["verify"][bucket]) / ANSWER["cycles"] / 1e6

    by_code = {finding.code: finding for finding in wall.findings}
    gap, transfer, wait = (by_code[code].explains_ms_per_cycle for code in ("GRF002", "COM006", "COM008"))
    assert gap is not None and transfer is not None and wait is not None
    assert gap.high == pytest.approx(max(planted(rank, "launch_gap") for rank in range(8)), rel=1e-12)
    assert transfer.high == pytest.approx(planted(0, "allreduce_transfer"), rel=1e-12)
    assert wait.high == pytest.approx(planted(0, "allreduce_wait"), rel=1e-9)


def test_the_slow_rank_is_named_with_what_it_was_doing(wall: Diagnosis) -> None:
    late = next(finding for finding in wall.findings if finding.code == "COM008")
    assert late.title.startswith(f"Rank {ANSWER['slow_rank']} arrives last at 100 %")
    assert "its GPU was still computing" in late.why
    assert late.evidence[0].path.endswith(f"TP-{ANSWER['slow_rank']}.trace.json.gz")


def test_the_protocol_is_a_hint_and_never_a_claim(wall: Diagnosis) -> None:
    transfer = next(finding for finding in wall.findings if finding.code == "COM006")
    assert "hint at Simple (the kernel's name never tells it)" in transfer.why
    assert "Simple" not in transfer.title


def test_the_verdict_says_where_the_cycle_goes_and_of_which_window(wall: Diagnosis) -> None:
    assert wall.verdict.sentence == (
        "A cycle takes 30.0 ms on the GPU (median of 20 cycles on 8 GPUs): 31 % launch gaps, 30 % compute, "
        "27 % allreduce transfer, 11 % waiting for late ranks."
    )


def test_the_generator_writes_what_is_committed(tmp_path: Path) -> None:
    made = {path.relative_to(tmp_path): path for path in write(tmp_path)}
    committed = {path.relative_to(FIXTURES) for path in FIXTURES.glob("rules/*/*/traces/*")}
    others = (*WALL.iterdir(), WALL.with_suffix(".json"), *(FIXTURES / "joined").iterdir())
    committed |= {path.relative_to(FIXTURES) for path in others}
    assert set(made) == committed
    for name, path in made.items():
        ours, theirs = path.read_bytes(), (FIXTURES / name).read_bytes()
        if path.suffix == ".gz":  # zlib may pack differently elsewhere
            ours, theirs = gzip.decompress(ours), gzip.decompress(theirs)
        assert ours == theirs, name
