"""BEN001: what a benchmark's requests say about real traffic."""

from typing import Any

from tests.rules.builders import at, fact
from tests.rules.node_builders import found
from traceana.facts.bench_model import LoadPoint, PointSource
from traceana.facts.model import Facts
from traceana.rules import ben001_benchmark_not_representative as ben001
from traceana.rules.interface import Clear, Confidence, NotApplicable


def point(tool: str = "vllm_bench", speculative: bool = True, tokens: int = 8192, **more: Any) -> LoadPoint:
    fields: dict[str, Any] = {
        "accept_length": fact(1.6) if speculative else fact(None),
        "requests": 32,
        "output_tokens": tokens,
        "evidence": (at(7),),
        **more,
    }
    return LoadPoint(PointSource.BENCH, tool, None, speculative, 8.0, **fields)


def test_random_tokens_under_speculation_are_told():
    finding = found(ben001.check(Facts(points=(point(dataset="random"),)), None))
    assert "accept length 1.60 was measured on them" in finding.title
    assert finding.confidence is Confidence.MEDIUM


def test_each_client_has_its_own_name_for_random_tokens():
    texts = Facts(points=(point("sglang_bench", dataset="random"),))
    assert isinstance(ben001.check(texts, None), Clear), "SGLang's random cuts real texts"
    assert found(ben001.check(Facts(points=(point("sglang_bench", dataset="random-ids"),)), None))


def test_random_tokens_do_no_harm_without_speculation():
    assert isinstance(ben001.check(Facts(points=(point(speculative=False, dataset="random"),)), None), Clear)


def test_a_baseline_that_generated_other_tokens_is_other_work():
    run, base = Facts(points=(point(dataset="custom"),)), Facts(points=(point(speculative=False, tokens=9216),))
    finding = found(ben001.check(run, base))
    assert "8,192 against 9,216 tokens" in finding.title
    assert isinstance(ben001.check(run, Facts(points=(point(speculative=False, tokens=8300),))), Clear)
    other_load = Facts(points=(point(speculative=False, tokens=9216, requests=64),))
    assert isinstance(ben001.check(run, other_load), Clear), "more requests are more tokens"


def test_without_a_benchmark_nothing_is_asked():
    assert isinstance(ben001.check(Facts(), None), NotApplicable)


def test_clients_that_ask_for_other_texts_are_told():
    run = Facts(points=(point(arguments=(("ignore_eos", "True"), ("seed", "0"))),))
    base = Facts(points=(point(speculative=False, arguments=(("ignore_eos", "False"), ("seed", "1"))),))
    finding = found(ben001.check(run, base))
    assert "ignore_eos is True, in the baseline False" in finding.title
    assert "seed" not in finding.title, "another seed is another sample of the same texts"
    assert "the same client arguments in both runs" in finding.fix


def test_an_argument_that_only_one_result_names_is_no_difference():
    run = Facts(points=(point(arguments=(("ignore_eos", "True"),)),))
    outcome = ben001.check(run, Facts(points=(point(speculative=False),)))
    assert isinstance(outcome, Clear)
    assert "answers run past their own end" in outcome.note
