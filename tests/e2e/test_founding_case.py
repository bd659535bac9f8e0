"""The founding case from log only to log, NCCL log and traces: the answer moves to the planted truth, for each of four."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.generate import founding
from traceana import api
from traceana.report.diagnosis import Diagnosis
from traceana.rules.weigh import FITS, OPEN, RULED_OUT, Weighed

#: what each truth must come out as
ANSWER = {"p2p_lost": "COM003", "simple_protocol": "COM005", "eager_verify": "GRF002", "late_rank": "COM008"}
#: which truth NCCL's log alone shows
IN_NCCL_LOG = {"p2p_lost", "simple_protocol"}


@pytest.fixture(scope="module", params=founding.TRUTHS)
def case(request, tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    founding.write(folder, request.param)
    return request.param, folder


def _diagnosis(folder: Path, *names: str) -> Diagnosis:
    return api.diagnose([str(folder / name) for name in names], [str(folder / "plain.log")])


def _weighed(found: Diagnosis) -> Weighed:
    (weighed,) = [w for w in found.weighed if w.symptom == "cycle_too_long"]
    return weighed


def _standing(weighed: Weighed) -> dict[str, str]:
    return {c.code: c.standing for c in weighed.candidates}


def test_from_the_log_alone_rivals_stay_open_and_no_cause_is_named(case):
    _, folder = case
    found = _diagnosis(folder, "server.log")
    weighed = _weighed(found)
    standing = _standing(weighed)
    assert {standing[code] for code in ANSWER.values()} == {OPEN}
    assert not {f.code for f in found.findings} & set(ANSWER.values())
    sized = {c.code: c for c in weighed.candidates}
    for code, most in (("COM003", 83.0 * 122 / 1000 / 1.92), ("COM005", 67.6 * 122 / 1000 / 1.92)):
        explains = sized[code].explains
        assert explains is not None
        assert explains.provenance.value == "modelled"
        assert (explains.low_ms, explains.high_ms) == (0.0, pytest.approx(most, rel=0.01))
    assert weighed.settle is not None
    assert weighed.settle.between == ("COM003", "GRF002")
    assert "NCCL_DEBUG=INFO" in weighed.settle.how


def test_nccl_s_log_settles_path_and_protocol_and_no_more(case):
    truth, folder = case
    weighed = _weighed(_diagnosis(folder, "server.log", "nccl.log"))
    standing = _standing(weighed)
    if truth in IN_NCCL_LOG:
        assert weighed.candidates[0].code == ANSWER[truth]
    for code in ("COM003", "COM005"):
        assert standing[code] == (FITS if ANSWER[truth] == code else RULED_OUT)
    assert standing["GRF002"] == standing["COM008"] == OPEN
    if truth != "simple_protocol":  # found for sure there, by NCCL's own word
        assert weighed.settle is not None
        assert "profile" in weighed.settle.how


def test_with_the_traces_the_planted_truth_leads(case):
    truth, folder = case
    weighed = _weighed(_diagnosis(folder, "server.log", "nccl.log", "traces"))
    assert weighed.candidates[0].code == ANSWER[truth]
    standing = _standing(weighed)
    others = set(ANSWER.values()) - {ANSWER[truth]}
    assert {standing[code] for code in others} == {RULED_OUT}
    if truth not in IN_NCCL_LOG:
        leader = weighed.candidates[0]
        assert leader.share is not None
        assert leader.share[0] > 0.9
        assert weighed.unexplained == (0.0, pytest.approx(0.0, abs=0.5))


def test_a_run_that_pays_has_no_symptom_to_weigh():
    folder = Path(__file__).parents[2] / "fixtures" / "rules" / "CYC002" / "healthy"
    found = api.diagnose([str(folder / "server.log")], [str(folder / "baseline.log")])
    assert found.weighed == ()
