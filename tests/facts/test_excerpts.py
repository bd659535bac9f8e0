"""Stats lines pasted into an issue: lines are left out, and the distance of those that are left says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceana import api
from traceana.facts.model import Facts

_H = "(APIServer pid=31) INFO 03-11 09:{m:02d}:{s:02d} "
_ENGINE = (
    "[loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: {tps:.1f} tokens/s, "
    "Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 6.1%, Prefix cache hit rate: 0.0%\n"
)
_RATES = "Accepted throughput: {a:.2f} tokens/s, Drafted throughput: {d:.2f} tokens/s, "
_SPEC = (
    "[metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.50, {rates}Accepted: {accepted} tokens, Drafted: "
    "{drafted} tokens, Per-position acceptance rate: 0.700, 0.450, 0.350, Avg Draft acceptance rate: 50.0%\n"
)


def _facts(folder: Path, minutes: tuple[int, ...], rates: bool, share: float = 1.0) -> Facts:
    """Windows of 10 s at these minutes: 300 cycles, 3 drafts each, 1.5 of them accepted; `share` of the steps draft."""
    lines = []
    for m in minutes:
        tps = (300 * share * 2.5 + 300 * (1 - share)) / 10
        accepted, drafted = int(450 * share), int(900 * share)
        words = _RATES.format(a=accepted / 10, d=drafted / 10) if rates else ""
        lines += [_H.format(m=m, s=0) + _ENGINE.format(tps=tps)]
        lines += [_H.format(m=m, s=0) + _SPEC.format(rates=words, accepted=accepted, drafted=drafted)]
    (folder / "server.log").write_text("".join(lines))
    return api.read_facts([str(folder)])


@pytest.mark.parametrize("rates", [True, False])
def test_lines_minutes_apart_do_not_look_like_a_drafter_that_skips_steps(tmp_path: Path, rates: bool) -> None:
    facts = _facts(tmp_path, (1, 3, 4, 9), rates)
    assert facts.acceptance.coverage.value == 1.0
    assert facts.acceptance.tokens_per_cycle.value == pytest.approx(2.5)


def test_a_drafter_that_skips_steps_is_still_seen_in_an_excerpt(tmp_path: Path) -> None:
    facts = _facts(tmp_path, (1, 3, 4, 9), True, share=0.2)
    assert facts.speculation.drafts_every_step is False
    assert facts.acceptance.coverage.value == pytest.approx(0.2, abs=0.01)
    assert facts.acceptance.tokens_per_cycle.value == pytest.approx(1.3, abs=0.01)


def test_drafts_that_vllm_0_5_counted_are_read_with_the_word_it_doubled(tmp_path: Path) -> None:
    line = (
        "INFO 07-04 11:0{n}:01 metrics.py:316] Speculative metrics: Draft acceptance rate: 0.000, System efficiency: "
        "0.250, Number of speculative tokens: 3, Number of accepted tokens: 0, Number of draft tokens tokens: {d}, Number of "
        "emitted tokens tokens: {e}.\n"
    )
    (tmp_path / "server.log").write_text(line.format(n=1, d=3000, e=1000) + line.format(n=2, d=6000, e=2000))
    diagnosis = api.diagnose([str(tmp_path)])
    assert "ACC002" in [finding.code for finding in diagnosis.findings]


def test_engine_lines_alone_do_not_prove_that_vllm_does_not_speculate(tmp_path: Path) -> None:
    lines = [_H.format(m=2, s=s) + _ENGINE.format(tps=80.0) for s in (0, 10, 20, 30)]
    (tmp_path / "server.log").write_text("".join(lines))
    assert api.diagnose([str(tmp_path)]).verdict.sentence.startswith("No line of the log counts drafts")
    start = "(EngineCore pid=9) INFO 03-11 09:01:00 [core.py:9] Initializing a V1 LLM engine (v0.19.1) with config: model='m', "
    (tmp_path / "server.log").write_text(f"{start}speculative_config=None, tokenizer='m'\n" + "".join(lines))
    assert api.diagnose([str(tmp_path)]).verdict.sentence.startswith("This run does not speculate: 80.0 tok/s")
