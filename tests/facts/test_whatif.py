"""Predictions of a run: ranges that a later run falls into, and no number where nothing carries one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fixtures.generate import founding
from traceana import api_whatif
from traceana.errors import TraceanaError
from traceana.facts.whatif_model import Asked
from traceana.report.documents import render_document
from traceana.report.whatif_page import compose

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"
SERVER, PLAIN = str(DEMO / "server.log"), str(DEMO / "plain.log")


def _by_key(paths, baseline=(), **asked):
    report = api_whatif.predict(paths, baseline, Asked(**asked))
    found: dict[str, list] = {}
    for p in report.predictions:
        found.setdefault(p.key, []).append(p)
    return report, found


def test_fewer_drafts_have_a_range_with_a_baseline_and_none_without():
    _, with_baseline = _by_key([SERVER], [PLAIN], running=8)
    assert all(p.tps is not None and p.tps.low < p.tps.high for p in with_baseline["k"])
    _, without = _by_key([SERVER], running=8)
    assert all(p.tps is None and "--baseline" in p.reason for p in without["k"])


def test_more_drafts_and_impossible_lengths_have_no_number():
    _, found = _by_key([SERVER], [PLAIN], ks=(5,), accept_lengths=(3.1, 4.5))
    assert "never measured" in found["k"][0].reason
    possible, impossible = found["accept_length"]
    assert possible.speedup is not None
    assert impossible.speedup is None
    assert "at most 4" in impossible.reason


def test_a_load_the_run_never_held_says_so():
    report, _ = _by_key([SERVER], running=7)
    assert report.base is None
    assert "7 running" in report.reason


def test_a_speculating_baseline_is_refused():
    with pytest.raises(TraceanaError, match="speculates itself"):
        api_whatif.predict([SERVER], [SERVER], Asked())


def test_stored_predictions_of_changes_that_were_not_made_are_not_scored(tmp_path):
    report, _ = _by_key([SERVER], [PLAIN], running=8, accept_lengths=(3.5,))
    stored = tmp_path / "predictions.json"
    stored.write_text(render_document(report, compose, "json"))
    assert json.loads(stored.read_text())["schema"] == "traceana/whatif/1"
    scores = {s.change: s for s in api_whatif.score(str(stored), [SERVER])}
    assert {(s.made, s.inside) for s in scores.values()} == {("no", None)}  # it is the same run
    assert "drafts 3" in scores["2 draft tokens instead of 3"].why


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"schema": "traceana/whatif/1"}', "\x00"])
def test_a_file_without_predictions_is_one_line(tmp_path, content):
    stored = tmp_path / "p.json"
    stored.write_text(content)
    with pytest.raises(TraceanaError, match=r"p\.json"):
        api_whatif.score(str(stored), [SERVER])


def test_an_eager_verify_in_a_graph_gains_at_most_its_launch_gap(tmp_path):
    founding.write(tmp_path, "eager_verify")
    log, traces, plain = (str(tmp_path / name) for name in ("server.log", "traces", "plain.log"))
    report, found = _by_key([log, traces], [plain])
    (prediction,) = found["verify_graph"]
    assert report.base is not None
    assert prediction.cycle_ms is not None
    assert prediction.cycle_ms.high == pytest.approx(report.base.cycle_ms)
    planted_ms = 122 * 0.1  # on a traced cycle of 25 to 31 ms, scaled to the log's 31 ms
    assert planted_ms * 0.95 < report.base.cycle_ms - prediction.cycle_ms.low < planted_ms * 1.3
    _, log_only = _by_key([log], [plain])
    assert "verify_graph" not in log_only  # every window of the log says `cuda graph: True`
