"""Predictions against a later run: scored where the change was made, else `not made` or why nobody can tell."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.generate import founding
from traceana import api, api_compare, api_whatif
from traceana.errors import TraceanaError
from traceana.facts.whatif import whatif
from traceana.facts.whatif_choice import worthwhile
from traceana.facts.whatif_model import Asked, Score
from traceana.facts.whatif_score import scores
from traceana.report.compare_page import compose as compare_page
from traceana.report.documents import render_document
from traceana.report.whatif_page import compose

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"
SERVER, PLAIN = DEMO / "server.log", DEMO / "plain.log"


def stored(folder: Path, paths: list[Path], baseline: Path, **asked: object) -> str:
    report = api_whatif.predict([str(p) for p in paths], [str(baseline)], Asked(**asked))
    file = folder / "predictions.json"
    file.write_text(render_document(report, compose, "json"))
    return str(file)


def with_two_drafts(folder: Path) -> Path:
    """The demo's log as a run with two drafts would print it."""
    text = SERVER.read_text().replace("speculative_num_steps=3", "speculative_num_steps=2")
    later = folder / "later.log"
    later.write_text(text.replace("num_draft_tokens=4", "num_draft_tokens=3"))
    return later


def compared(before: list[Path], after: list[Path], predictions: str):
    sides = [[[(str(path), None) for path in run]] for run in (before, after)]
    report, _ = api_compare.compare(sides, None, predictions)
    (found,) = report.predicted
    return found, render_document(report, compare_page, "terminal", width=100)


def by_change(found: object) -> dict[str, Score]:
    return {s.change: s for s in found}


def test_only_the_change_that_was_made_is_scored(tmp_path):
    predictions = stored(tmp_path, [SERVER], PLAIN, running=8, accept_lengths=(3.9,))
    found, shown = compared([SERVER], [with_two_drafts(tmp_path)], predictions)
    scored = by_change(found.scores)
    made = scored["2 draft tokens instead of 3"]
    assert (made.made, made.inside) == ("yes", True)
    assert scored["1 draft token instead of 3"].made == "no"
    assert scored["accept length 3.9"].made == "no"
    assert {s.inside for s in found.scores if s.made == "no"} == {None}
    assert "not made (it drafts 2 tokens): 1 draft token instead of 3" in shown
    assert found.notes == ()


def test_a_run_that_was_made_slower_falls_below_its_range(tmp_path):
    predictions = stored(tmp_path, [SERVER], PLAIN, running=8)
    later = with_two_drafts(tmp_path)
    half = re.sub(r"(token/s\): )([\d.]+)", lambda m: f"{m[1]}{float(m[2]) / 2:.2f}", later.read_text())
    later.write_text(half)
    found, shown = compared([SERVER], [later], predictions)
    assert by_change(found.scores)["2 draft tokens instead of 3"].inside is False
    assert "below" in shown


def test_another_first_side_and_another_difference_are_said(tmp_path):
    predictions = stored(tmp_path, [SERVER], PLAIN, running=8)
    later = with_two_drafts(tmp_path)
    later.write_text(
        later.read_text().replace("mem_fraction_static=0.82", "mem_fraction_static=0.82, attention_backend='fa3'")
    )
    found, _ = compared([SERVER], [later], predictions)
    assert any("also differs in" in note and "attention_backend" in note for note in found.notes)
    found, _ = compared([PLAIN], [later], predictions)
    assert any("another run" in note for note in found.notes)


def test_a_load_that_the_later_run_never_held_scores_nothing(tmp_path):
    predictions = stored(tmp_path, [SERVER], PLAIN, running=8)
    later = tmp_path / "later.log"
    later.write_text("".join(x for x in SERVER.read_text().splitlines(keepends=True) if "#running-req: 8," not in x))
    found, shown = compared([SERVER], [later], predictions)
    assert found.scores == ()
    assert "no steady window at 8 running requests" in " ".join(shown.split())
    with pytest.raises(TraceanaError, match="8 running"):
        api_whatif.score(predictions, [str(later)])


def test_a_file_without_predictions_ends_the_comparison_in_one_line(tmp_path):
    broken = tmp_path / "p.json"
    broken.write_text('{"schema": "traceana/whatif/1"')
    with pytest.raises(TraceanaError, match=r"p\.json: not written by"):
        compared([SERVER], [PLAIN], str(broken))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("truths")
    for truth in founding.TRUTHS:
        founding.write(folder / truth, truth)
    return {truth: folder / truth for truth in founding.TRUTHS}


def facts(folder: Path, *names: str):
    return api.read_facts([str(folder / name) for name in names])


ALL = ("server.log", "nccl.log", "traces")


@pytest.mark.parametrize(
    ("before", "after", "names", "key", "made"),
    [
        ("p2p_lost", "eager_verify", ALL, "allreduce_floor", "yes"),
        ("p2p_lost", "p2p_lost", ALL, "allreduce_floor", "no"),
        ("p2p_lost", "late_rank", ("server.log", "nccl.log"), "nccl_path", "yes"),
        ("p2p_lost", "p2p_lost", ("server.log", "nccl.log"), "nccl_path", "no"),
        ("simple_protocol", "late_rank", ("server.log", "nccl.log"), "nccl_path", "yes"),
        ("simple_protocol", "simple_protocol", ("server.log", "nccl.log"), "nccl_path", "no"),
        ("eager_verify", "eager_verify", ALL, "verify_graph", "no"),
        ("late_rank", "late_rank", ALL, "no_wait", "no"),
        ("late_rank", "eager_verify", ALL, "no_wait", "yes"),
    ],
)
def test_lines_of_nccl_and_traces_tell_whether_a_change_was_made(runs, before, after, names, key, made):
    one, other, plain = facts(runs[before], *names), facts(runs[after], *names), facts(runs[before], "plain.log")
    predicted = whatif(one, plain, Asked())
    assert predicted.base is not None
    (score,) = [s for s in scores(predicted.base, predicted.predictions, one, [other]) if s.key == key]
    assert score.made == made
    assert (score.inside is None) == (made != "yes")


def test_without_a_trace_nobody_can_tell_that_a_wait_is_gone(runs):
    one, later = facts(runs["late_rank"], *ALL), facts(runs["late_rank"], "server.log")
    predicted = whatif(one, None, Asked())
    assert predicted.base is not None
    found = {s.key: s for s in scores(predicted.base, predicted.predictions, one, [later])}
    assert found["no_wait"].made == "unknown"
    assert "trace" in found["no_wait"].why


def test_a_report_shows_what_may_gain_and_is_silent_where_nothing_does(runs):
    log = facts(runs["eager_verify"], *ALL)
    found = worthwhile(log, None, None)
    assert found is not None
    assert found.predictions[0].key == "verify_graph"
    healthy = Path(__file__).parents[2] / "fixtures" / "rules" / "CYC002" / "healthy"
    calm, base = (facts(healthy, name) for name in ("server.log", "baseline.log"))
    assert worthwhile(calm, base, None) is None
    assert worthwhile(facts(runs["eager_verify"], "plain.log"), None, None) is None


def test_traced_times_are_not_carried_over_to_another_load(runs):
    run = facts(runs["eager_verify"], *ALL)
    more = replace(run.regimes[0], running=4)
    found = whatif(replace(run, regimes=(*run.regimes, more)), None, Asked(running=4))
    graph = next(p for p in found.predictions if p.key == "verify_graph")
    assert graph.speedup is None
    assert "of 1 running" in (graph.reason or "")
