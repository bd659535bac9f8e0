"""A real vLLM server with and without the timers (pytest -m vllm).

Once: tests/instrument/vllm_proof/install.sh DIRECTORY. Then TRACEANA_VLLM=DIRECTORY pytest -m vllm. The tiny models are
found in TRACEANA_VLLM_MODELS (folders target and eagle3), by default in the corpus beside the repository. What was
measured is kept in DIRECTORY/figures.jsonl, the logs beside it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.instrument.vllm_proof.scopes import compare
from tests.instrument.vllm_proof.server import Server, note

pytestmark = pytest.mark.vllm

REPOSITORY = Path(__file__).resolve().parents[3]
HOME = Path(os.environ.get("TRACEANA_VLLM", "/nowhere"))
MODELS = Path(os.environ.get("TRACEANA_VLLM_MODELS", REPOSITORY.parent / "shared" / "corpus" / "vllm-cpu-models"))
RUNS = [("eagle3", 1), ("ngram", 1), ("eagle3", 2), ("ngram", 2)]

#: timers and scopes agree within a tenth, or within what a scope itself costs
SHARE, LEAST_MS = 0.10, 0.05


@pytest.fixture(scope="module", params=RUNS, ids=[f"{method}-tp{tp}" for method, tp in RUNS])
def run(request: pytest.FixtureRequest) -> dict:
    """One method and tensor-parallel size: the plain server, then the instrumented one."""
    if not (HOME / "venv" / "bin" / "vllm").exists():
        pytest.skip("TRACEANA_VLLM names no folder made by install.sh")
    if not MODELS.exists():
        pytest.skip("no models: TRACEANA_VLLM_MODELS")
    method, tp = request.param
    out = HOME / "runs" / f"{method}-tp{tp}"
    shutil.rmtree(out, ignore_errors=True)
    found: dict = {"method": method, "tp": tp, "out": out}
    for name, profile in (("plain", ""), ("timed", "1" if tp == 1 else "comm")):
        with Server(HOME / "venv", MODELS, out / name, method, tp, profile) as server:
            server.complete("x = 1\n", 16)  # the first request compiles and allocates
            answers, alone_s = server.complete_all(1)
            together, four_s = server.complete_all(4)
            figures = {"alone_s": round(alone_s, 2), "four_s": round(four_s, 2)}
            found[name] = {"answers": answers, "together": together, **figures}
            if profile:
                server.profile(4)
                time.sleep(5)  # the last interval grows old and is printed
                found.update(
                    counters=server.counters(), lines=server.lines(), starts=server.start_lines(), server=server
                )
                switch = Path(found["starts"][0]["switch"])
                switch.unlink()
                time.sleep(3)
                server.complete_all(4)
                time.sleep(4)
                found["lines_when_off"] = len(server.lines()) - len(found["lines"])
                if tp == 1:
                    note(HOME, run=f"{method}-tp{tp}", cpu_s_off_on=pairs(server, switch))
        note(HOME, run=f"{method}-tp{tp}", server=name, **figures)
    return found


def pairs(server: Server, switch: Path) -> list[tuple[float, float]]:
    """CPU seconds of the same requests with the timers off and on, in turn in one server: cost end to end, and noise."""
    out = []
    for _ in range(8):
        used = []
        for on in (False, True):
            switch.touch() if on else switch.unlink(missing_ok=True)
            time.sleep(1.5)
            before = server.cpu_s()
            server.complete_all(1)
            used.append(round(server.cpu_s() - before, 2))
        out.append((used[0], used[1]))
    return out


def test_every_rank_prints_its_start_and_its_lines(run: dict) -> None:
    assert sorted(start["rank"] for start in run["starts"]) == list(range(run["tp"]))
    assert {line["rank"] for line in run["lines"]} == set(range(run["tp"]))
    for start in run["starts"]:
        assert start["engine"] == "vllm" and start["method"] == run["method"] and not start["missing"]


def test_the_tokens_are_the_same_with_and_without(run: dict) -> None:
    assert run["timed"]["answers"] == run["plain"]["answers"]
    assert [answer["ids"] for answer in run["timed"]["answers"]].count(None) == 0


def test_accept_length_is_that_of_the_engines_own_counters(run: dict) -> None:
    counters = run["counters"]
    own = 1 + counters["num_accepted_tokens"] / counters["num_drafts"]
    for rank in range(run["tp"]):
        lines = [line for line in run["lines"] if line["rank"] == rank and "accept_length" in line]
        requests = sum(line["accept_requests"] for line in lines)
        mine = sum(line["accept_length"] * line["accept_requests"] for line in lines) / requests
        note(
            HOME,
            run=f"{run['method']}-tp{run['tp']}",
            rank=rank,
            accept_length=round(mine, 4),
            own=round(own, 4),
            requests=requests,
        )
        assert requests == counters["num_drafts"]
        assert mine == pytest.approx(own, abs=0.001)


def test_phase_times_are_those_of_the_profilers_scopes(run: dict) -> None:
    server = run["server"]
    for rank in range(run["tp"]):
        found = compare(server.traces, server.cycles, rank)
        note(HOME, run=f"{run['method']}-tp{run['tp']}", rank=rank, **found)
        assert found["matched"] > 50
        assert found["verify"] == pytest.approx(found["verify_scope"], rel=SHARE, abs=LEAST_MS)
        assert found["draft"] == pytest.approx(found["draft_scope"], rel=SHARE, abs=LEAST_MS)
        if run["method"] == "eagle3":
            assert found["re_extend"] < found["to_first_token_scope"]


def test_diagnose_names_the_parts_as_measured(run: dict) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "traceana", "diagnose", str(run["server"].log), "--format", "json"],
        capture_output=True, text=True, check=True, cwd=REPOSITORY,
    )  # fmt: skip
    parts = {part["name"]: part["provenance"] for part in json.loads(done.stdout)["cycle"]["parts"]}
    wanted = {"draft", "verify", "re-extend"} if run["method"] == "eagle3" else {"draft", "verify"}
    assert wanted <= set(parts)
    assert {parts[name] for name in wanted} == {"measured"}


def test_the_timers_own_cost_is_small_and_in_the_line(run: dict) -> None:
    for line in run["lines"]:
        note(
            HOME,
            run=f"{run['method']}-tp{run['tp']}",
            rank=line["rank"],
            overhead_us=line["overhead_us"],
            total_ms=line["total_ms"],
        )
    costs = sorted(line["overhead_us"] / 1e3 / line["total_ms"] for line in run["lines"])
    assert costs[len(costs) // 2] < 0.05


def test_removing_the_switch_file_stops_the_lines(run: dict) -> None:
    assert run["lines_when_off"] == 0


def test_collectives_are_those_of_the_model(run: dict) -> None:
    if run["tp"] == 1:
        assert not any("comm" in line for line in run["lines"])
        return
    verify = [
        row
        for line in run["lines"]
        for row in line.get("comm", ())
        if row["in"] == "verify" and row["op"] == "all_reduce"
    ]
    # one for the embedding and two per layer, eight layers, in every cycle whatever its size
    per_line = [
        sum(row["per_cycle"] for row in line["comm"] if row["in"] == "verify" and row["op"] == "all_reduce")
        for line in run["lines"]
        if "comm" in line
    ]
    assert verify and sorted(per_line)[len(per_line) // 2] == pytest.approx(17, abs=0.5)
