"""ACC011: acceptance at temperature 0 and above, and drafters that do not sample."""

from dataclasses import replace
from typing import Any

import pytest

from tests.rules.builders import at, drafting, fact, level, setting
from tests.rules.node_builders import found
from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Facts
from traceana.rules import acc011_acceptance_falls_with_temperature as acc011
from traceana.rules.interface import CannotTell, Clear, Confidence, NotApplicable


def point(temperature: float | None, length: float | None, running: float = 8.0, **more: Any) -> LoadPoint:
    fields: dict[str, Any] = {
        "accept_length": fact(length),
        "cycle_ms": fact(20.0),
        "k": 3,
        "dataset": "custom",
        "input_tokens": 18_944,
        "temperature": temperature,
        "evidence": (at(7),),
        **more,
    }
    return LoadPoint(PointSource.BENCH, "vllm_bench", None, True, running, **fields)


def run(*points: LoadPoint, **more: Any) -> Facts:
    return drafting(level(8, 20.0, 1.5, 3), points=points, **more)


def test_acceptance_that_falls_with_the_temperature_is_told():
    finding = found(acc011.check(run(point(1.0, 1.5)), run(point(0.0, 2.5))))
    assert finding.title == "Accept length is 1.50 at temperature 1 and 2.50 at 0"
    assert finding.confidence is Confidence.MEDIUM
    assert "67 % of the accepted drafts" in finding.why
    explains = finding.explains_ms_per_token
    assert explains is not None
    assert (explains.low_ms, explains.high_ms) == (0.0, pytest.approx(20 / 1.5 - 20 / 2.5))


def test_both_temperatures_in_one_run_do_as_well():
    assert found(acc011.check(run(point(0.7, 1.6), point(0.0, 2.5)), None))


def test_other_prompts_lower_the_confidence_and_another_dataset_ends_it():
    other = point(0.0, 2.5, input_tokens=12_000)
    assert found(acc011.check(run(point(1.0, 1.5)), run(other))).confidence is Confidence.LOW
    assert isinstance(acc011.check(run(point(1.0, 1.4)), run(point(0.0, 2.5, dataset="sharegpt"))), CannotTell)


def test_a_little_less_is_no_finding():
    assert isinstance(acc011.check(run(point(1.0, 2.3)), run(point(0.0, 2.5))), Clear)


def test_the_log_s_accept_length_counts_where_the_result_names_none_and_one_temperature_ran():
    cold = drafting(level(8, 20.0, 2.5, 3), points=(point(0.0, None),))
    assert "2.50 at 0" in found(acc011.check(run(point(1.0, None)), cold)).title
    mixed = drafting(level(8, 20.0, 2.5, 3), points=(point(0.0, None), point(0.5, None, 4.0)))
    assert isinstance(acc011.check(run(point(1.0, None)), mixed), Clear), "whose accept length is it?"


@pytest.mark.parametrize(
    "row",
    [
        setting("speculative_config.draft_sample_method", "probabilistic", "engine_config"),
        setting("speculative_config", {"draft_sample_method": "gumbel"}, "non_default_args"),
        setting("speculative_use_rejection_sampling", True),
    ],
)
def test_a_drafter_that_samples_is_not_the_cause(row):
    outcome = acc011.check(run(point(1.0, 1.5), settings=(row,)), run(point(0.0, 2.5)))
    assert isinstance(outcome, Clear)
    assert "drafts are sampled" in outcome.note


def test_low_acceptance_without_a_run_at_0_asks_for_one():
    outcome = acc011.check(run(point(0.8, 1.3)), None)
    assert isinstance(outcome, CannotTell)
    assert "--temperature 0" in outcome.capture
    assert isinstance(acc011.check(run(point(0.8, 2.2)), None), Clear)


def test_without_a_temperature_nothing_is_asked():
    for points in ((), (point(None, 1.5),), (point(0.0, 1.5),)):
        assert isinstance(acc011.check(run(*points), run(point(0.0, 2.5))), NotApplicable)


@pytest.mark.parametrize(
    ("engine", "version", "says"),
    [
        ("vllm", "0.21.0", '"gumbel"'),
        ("vllm", "0.22.0", '"probabilistic"'),
        ("vllm", "0.30.0", '"probabilistic"'),
        ("sglang", "0.5.20", "--speculative-use-rejection-sampling"),
    ],
)
def test_the_fix_is_the_running_release_s_own(engine: str, version: str, says: str):
    facts = run(point(1.0, 1.5), engine=engine)
    facts = replace(facts, identity=replace(facts.identity, version=fact(version)))
    finding = found(acc011.check(facts, run(point(0.0, 2.5))))
    assert says in finding.fix[0]
    assert len(finding.fix) == 2
