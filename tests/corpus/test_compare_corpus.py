"""compare and check on real inputs: what changed comes out as those who measured it say."""

from pathlib import Path

import pytest

from traceana import api_compare
from traceana.cli.sides import runs_of, with_words
from traceana.report.compare_report import CompareReport

METHODS = ("baseline", "ngram-k4", "eagle-k3", "eagle3-k3", "draft-k3")


def compared(*sides: object) -> CompareReport:
    parsed = [[[with_words(path) for path in run] for run in runs_of(str(side))] for side in sides]
    return api_compare.compare(parsed)[0]


def capture(folder: Path) -> str:
    """Log, results and scrapes of a capture, without its traces, which take longest to read."""
    return "+".join(str(folder / name) for name in ("server.log", "bench_c*.json", "bench_c*.txt", "metrics_c*.prom"))


def figure(level, name: str):
    return next(f for f in level.figures if f.name == name)


def test_46_speculation_on_and_off_by_its_two_logs(corpus: Path) -> None:
    case = corpus / "cases" / "46-vllm-8xpcie-glm51-mtp-cliff-at-8"
    (pair,) = compared(case / "server_nomtp.log", case / "server_mtp.log").pairs
    ratio = {level.concurrency: figure(level, "throughput").ratio for level in pair.levels}
    # the benchmark's own: 1.62, 1.61, 1.50, 0.80, 0.73, 1.28
    assert ratio == pytest.approx({1: 1.62, 2: 1.61, 4: 1.50, 8: 0.80, 16: 0.73, 32: 1.28}, rel=0.07)
    by_load = {level.concurrency: level for level in pair.levels}
    assert {c for c, level in by_load.items() if level.speed == "slower"} == {8, 16}
    assert {c for c, level in by_load.items() if level.speed == "faster"} >= {1, 2, 4}
    for level in pair.levels:  # acceptance is flat, the cycle is not
        assert 2.4 <= level.factors.acceptance <= 2.7
    assert 1 / by_load[8].factors.cycle == pytest.approx(101.3 / 31.7, rel=0.05)
    assert pair.differences[0].what == "speculation"
    assert pair.harmless == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_busy_machine_is_no_change_of_the_server(corpus: Path, method: str) -> None:
    captures = corpus / "vllm-cpu-captures"
    (pair,) = compared(capture(captures / "clean" / method), capture(captures / method)).pairs
    assert [level.concurrency for level in pair.levels] == [1, 2, 4]
    assert pair.differences == ()  # no setting differs
    assert pair.comparable.answer == "yes"
    assert {"generated texts", "prompt lengths", "output tokens per request"} <= set(pair.comparable.same)
    for level in pair.levels:
        assert level.source == "requests"
        assert figure(level, "tokens per cycle").ratio == pytest.approx(1.0, abs=0.01)
        assert level.changed in ("cycle", "nothing", "several")
        assert level.factors.acceptance == pytest.approx(1.0, abs=0.01)
        assert any("from run to run is not in it" in note for note in level.notes)
    assert "The cycle, not acceptance" in pair.sentence
    assert pair.explanations[0].startswith("no setting differs; machine noise fits")


def test_n_gram_is_compared_by_its_tokens_per_cycle(corpus: Path) -> None:
    clean = corpus / "vllm-cpu-captures" / "clean"
    (pair,) = compared(capture(clean / "baseline"), capture(clean / "ngram-k4")).pairs
    gains = [figure(level, "time per token") for level in pair.levels]
    assert [1 / f.ratio for f in gains] == pytest.approx([1.61, 1.35, 1.60], abs=0.01)
    for level in pair.levels:
        assert level.factors.acceptance == pytest.approx(1.761, abs=0.005)  # not 2.71, the acceptance length


def test_a_busy_run_does_not_pass_and_a_run_against_itself_is_no_regression(corpus: Path) -> None:
    captures = corpus / "vllm-cpu-captures"
    clean, busy = str(captures / "clean" / "ngram-k4"), str(captures / "ngram-k4")

    def result(new: str, noise: float | None) -> str:
        chosen, baseline = ([[with_words(p) for p in run] for run in runs_of(capture(Path(s)))] for s in (new, clean))
        return api_compare.check(chosen, clean, baseline, {}, run_noise=noise)[0].result

    assert result(clean, None) == "inconclusive"
    assert result(clean, 0.001) == "pass"
    assert result(busy, 0.02) == "regression"


def test_46_by_log_and_benchmark_together_compares_each_context_length(corpus: Path) -> None:
    case = corpus / "cases" / "46-vllm-8xpcie-glm51-mtp-cliff-at-8"
    sides = [f"{case}/server_{name}.log+{case}/decode-matrix_{name}.json" for name in ("nomtp", "mtp")]
    (pair,) = compared(*sides).pairs
    ratio = {v.concurrency: figure(v, "throughput").ratio for v in pair.levels if v.context_tokens == 0}
    assert ratio == pytest.approx({1: 1.62, 2: 1.61, 4: 1.50, 8: 0.80, 16: 0.73, 32: 1.28}, abs=0.006)
    assert len({v.context_tokens for v in pair.levels}) == 4


def test_47_eagle_by_context_gains_less_the_longer_it_is(corpus: Path) -> None:
    table = corpus / "cases" / "47-kimi-k26-eagle3-concurrency-sweep" / "bench.md"
    (pair,) = compared(f"{table}#DCP1 MTP off", f"{table}#DCP1 MTP on").pairs
    ratio = {(v.concurrency, v.context_tokens): figure(v, "throughput").ratio for v in pair.levels}
    # page: 122.0 / 92.4 at one user, 1129.0 / 957.7 at 32, 2245.8 / 2222.6 at 128; 484.6 / 489.5 at 16 with 16k
    assert [ratio[key] for key in ((1, 0), (32, 0), (128, 0), (16, 16384))] == pytest.approx(
        [1.320, 1.179, 1.010, 0.990], abs=0.001
    )
    assert next(v for v in pair.levels if v.concurrency == 128).speed != "faster"


def test_38_half_the_speed_at_nearly_the_same_acceptance(corpus: Path) -> None:
    table = corpus / "cases" / "38-cycle-cost-not-acceptance" / "bench.md"
    (pair,) = compared(f"{table}#healthy", f"{table}#slow").pairs
    (level,) = pair.levels
    assert 1 / level.factors.throughput == pytest.approx(2.11, abs=0.005)
    assert 1 / level.factors.cycle == pytest.approx(1.92, abs=0.005)
    assert 1 / level.factors.acceptance == pytest.approx(2.72 / 2.42, abs=0.005)
    (best,) = compared(f"{table}#on/TQ off", f"{table}#slow").pairs
    assert 1 / best.levels[0].factors.acceptance == pytest.approx(1.23, abs=0.005)
