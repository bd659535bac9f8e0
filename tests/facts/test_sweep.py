"""Sweeps of load points: verdicts with their noise, crossings, queueing, draft settings, which series is which."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.bench_rows import points, table
from traceana.errors import TraceanaError
from traceana.facts.bench_model import LoadPoint
from traceana.facts.model import Fact as F
from traceana.facts.model import Facts, Identity, InputFacts
from traceana.facts.sweep import sweep
from traceana.facts.sweep_model import Sweep, SweepBlock

#: tok/s of a server whose speculation pays up to 8 users and loses from 32 on
_WITH = {1: 60.0, 2: 115.0, 8: 330.0, 32: 600.0, 128: 640.0}
_WITHOUT = {1: 36.0, 2: 71.0, 8: 260.0, 32: 900.0, 128: 1400.0}


def _facts(found: tuple[LoadPoint, ...], engine: str | None = None, version: str | None = None) -> Facts:
    return Facts(
        inputs=(InputFacts("bench.md", "bench", 10, 10, 0, 0),),
        identity=Identity(engine=F(engine), version=F(version)),
        points=found,
    )


def _both(rows: list[dict[str, Any]], **options: str) -> Sweep:
    return sweep(_facts(points(rows)), None, options.get("series"), options.get("baseline_series"))


def _only(rows: list[dict[str, Any]], **options: str) -> SweepBlock:
    (block,) = _both(rows, **options).blocks
    return block


def test_one_table_with_both_series_is_one_sweep() -> None:
    block = _only([*table("EAGLE3", True, _WITH, k=3), *table("baseline", False, _WITHOUT)])
    assert [level.label for level in block.levels] == ["1", "2", "8", "32", "128"]
    assert [level.winner for level in block.levels] == [*["speculation"] * 3, *["baseline"] * 2]
    assert block.levels[0].ratio is not None
    assert block.levels[0].ratio.value == pytest.approx(60 / 36)
    (crossing,) = block.crossings
    assert 8 < crossing.at < 32
    assert crossing.low is not None
    assert crossing.high is not None
    assert crossing.low < crossing.at < crossing.high
    assert block.ceiling_ratio == pytest.approx(1400 / 640)


def test_a_single_figure_per_load_is_judged_by_an_assumed_noise_that_is_named() -> None:
    block = _only([*table("on", True, {1: 110.0, 2: 200.0}), *table("off", False, {1: 100.0, 2: 100.0})])
    close, far = (level.ratio for level in block.levels)
    assert close is not None
    assert far is not None
    assert (close.basis, close.verdict) == ("assumed", "inconclusive")
    assert close.runs_needed is not None
    assert close.runs_needed > 2
    assert far.verdict == "pays"


def test_repeats_are_judged_by_their_own_spread() -> None:
    rows = [
        *[{**table("on", True, {4: tps})[0]} for tps in (108.0, 109.0, 110.0)],
        *[{**table("off", False, {4: tps})[0]} for tps in (100.0, 101.0, 99.5)],
    ]
    (level,) = _only(rows).levels
    assert level.ratio is not None
    assert (level.ratio.basis, level.ratio.verdict) == ("runs", "pays")
    assert (level.spec.runs, level.baseline.runs) == (3, 3)


def test_a_figure_measured_once_beside_repeats_is_named_as_that() -> None:
    runs = [{"tool": "run_list", "speculative": True, "output_tps": v} for v in (61.0, 68.7, 51.6, 67.2, 60.2)]
    once = _facts(points([{"tool": "table", "speculative": False, "output_tps": 94.0}]))
    (level,) = sweep(_facts(points(runs)), once).blocks[0].levels
    assert level.ratio is not None
    assert level.ratio.value == pytest.approx(61.74 / 94.0)
    assert any("without speculation was measured once" in note for note in level.notes)


def test_requests_of_single_runs_give_the_noise() -> None:
    def side(name: str, flag: bool, tps: float, ms: float) -> Facts:
        row = {"tool": "vllm_bench", "series": name, "speculative": flag, "concurrency": 2, "output_tps": tps}
        requests = [
            {"point": 0, "request": i, "output_tokens": 101, "decode_ms": 100 * ms * (1 + 0.01 * (i % 5))}
            for i in range(16)
        ]
        return _facts(points([{**row, "tpot_mean_ms": ms}], requests))

    (level,) = sweep(side("a", True, 300.0, 6.5), side("b", False, 200.0, 9.8)).blocks[0].levels
    assert level.ratio is not None
    assert level.user_ratio is not None
    assert level.ratio.basis == "parts"
    assert level.ratio.verdict == "pays"
    assert level.user_ratio.value == pytest.approx(9.8 / 6.5)


def test_a_load_at_which_requests_queue_gets_no_verdict_and_no_break_even() -> None:
    run = {"tool": "vllm_bench", "request_rate": 20.0, "requests": 100, "output_tokens": 409600}
    with_ = {**run, "speculative": True, "output_tps": 881.5, "duration_s": 464.7, "tpot_mean_ms": 9.38}
    without = {**run, "speculative": False, "output_tps": 1042.2, "duration_s": 393.0, "tpot_mean_ms": 17.41}
    found = sweep(
        _facts(points([{**with_, "ttft_mean_ms": 214000.0, "itl_mean_ms": 24.4, "itl_of": "chunk"}])),
        _facts(points([{**without, "ttft_mean_ms": 153900.0}])),
    )
    (level,) = found.blocks[0].levels
    assert level.spec.queueing is not None
    assert "8.3 of" in level.spec.queueing
    assert level.baseline.queueing is not None
    assert level.break_even is None
    assert "no verdict on drafting" in found.verdict
    assert level.user_ratio is not None
    assert level.user_ratio.value == pytest.approx(1.86, abs=0.005)
    assert level.spec.tokens_per_cycle == pytest.approx(2.6, abs=0.005)


def test_several_draft_lengths_show_what_the_last_token_is_worth() -> None:
    lengths = {2: (2.36, 4.32), 3: (2.79, 4.09), 4: (3.08, 4.05), 5: (3.32, 4.13)}
    rows = [
        {
            "tool": "table", "series": "drafter", "speculative": True, "concurrency": 1, "k": k,
            "accept_length_printed": length, "tpot_mean_ms": ms,
        }
        for k, (length, ms) in lengths.items()
    ]  # fmt: skip
    base = {"tool": "table", "series": "vanilla", "speculative": False, "concurrency": 1, "tpot_mean_ms": 7.07}
    block = _only([*rows, base])
    assert [row.k for row in block.drafts if row.best] == [4]
    five = next(row for row in block.drafts if row.k == 5)
    assert five.accept_growth == pytest.approx(0.078, abs=0.0005)
    assert five.cycle_growth == pytest.approx(0.099, abs=0.0005)
    assert block.levels[0].spec.draft == "k=4"
    assert [(span.use, span.k) for span in block.advice.spans] == [("k=4", 4)]


def test_one_draft_length_says_nothing_about_others() -> None:
    block = _only([*table("on", True, _WITH, k=3), *table("off", False, _WITHOUT)])
    assert [(span.first, span.last, span.use) for span in block.advice.spans] == [(1, 8, "k=3"), (9, 128, "off")]
    assert any("only k=3 was measured" in text for text in block.advice.untested)
    assert any(text.startswith("8 users: within the noise") for text in block.advice.untested)


def test_figures_that_nowhere_decide_give_nothing_to_set() -> None:
    block = _only([*table("on", True, {1: 105.0, 2: 190.0}, k=3), *table("off", False, {1: 100.0, 2: 200.0})])
    assert block.advice.spans == ()
    assert block.advice.setting is None


def test_a_shorter_chain_is_foretold_only_where_steps_and_positions_are_known() -> None:
    steps = {1: 100.0, 2: 190.0, 4: 330.0, 8: 400.0, 16: 500.0}
    spec = {
        "tool": "vllm_bench", "speculative": True, "concurrency": 4, "k": 3, "output_tps": 300.0, "tpot_mean_ms": 13.0,
        "itl_mean_ms": 33.0, "itl_of": "chunk", "per_position": [0.7, 0.1, 0.02], "drafts": 100, "accepted": 82,
        "drafted": 300,
    }  # fmt: skip
    found = sweep(_facts(points([spec])), _facts(points(table("off", False, steps))))
    (row,) = found.blocks[0].drafts
    assert row.modelled
    assert row.k == 1
    assert any("measure it" in text for text in found.blocks[0].advice.untested)
    blind = sweep(_facts(points([{**spec, "per_position": None}])), _facts(points(table("off", False, steps))))
    assert blind.blocks[0].drafts == ()


def test_the_schedule_is_written_as_the_engine_reads_it() -> None:
    spec, base = points(table("on", True, _WITH, k=3)), points(table("off", False, _WITHOUT))
    vllm = sweep(_facts(spec, "vllm", "0.32.0"), _facts(base)).blocks[0].advice
    assert vllm.setting is not None
    assert '"num_speculative_tokens_per_batch_size": [[1, 8, 3], [9, 128, 0]]' in vllm.setting
    assert any("49548" in caveat for caveat in vllm.caveats)
    sglang = sweep(_facts(spec, "sglang", "0.5.14"), _facts(base)).blocks[0].advice
    assert sglang.setting == '{"1": {"candidate_steps": [3]}, "9": {"candidate_steps": [0]}}'


@pytest.mark.parametrize(
    ("engine", "version", "why"),
    [
        ("vllm", "0.20.2", "no engine of vLLM 0.20.2 reads"),
        ("sglang", "0.5.9", "has no drafting by batch size"),
        ("sglang", "0.5.12", "not to the batch size"),
        ("sglang", "0.5.13", "refuses 0 steps"),
        (None, None, "the engine is not known"),
        ("trtllm", None, "no schedule by load is known"),
    ],
)
def test_versions_without_such_a_setting_are_told_so(engine: str | None, version: str | None, why: str) -> None:
    spec, base = points(table("on", True, _WITH, k=3)), points(table("off", False, _WITHOUT))
    advice = sweep(_facts(spec, engine, version), _facts(base)).blocks[0].advice
    assert advice.setting is None
    assert any(why in caveat for caveat in advice.caveats)


def test_a_sweep_without_speculation_foretells_the_break_even() -> None:
    found = sweep(_facts(points(table("plain", False, {1: 59.0, 2: 92.0, 4: 164.0, 8: 252.0, 16: 429.0, 32: 318.0}))))
    assert found.spec is None
    (block,) = found.blocks
    needed = {(row.load, row.k): row.accept_length for row in block.plain}
    assert needed[8, 1] == pytest.approx((16 / 429.0) / (8 / 252.0))
    assert "3 draft tokens" in found.verdict
    assert found.notes == ()


def test_figures_that_do_not_say_whether_they_speculate_are_taken_as_plain_and_it_is_said() -> None:
    found = sweep(_facts(points(table("run", None, {1: 59.0, 2: 92.0, 4: 164.0}))))
    assert found.spec is None
    assert any("taken as a sweep without speculation" in note for note in found.notes)


def test_series_that_names_do_not_tell_apart_are_asked_for() -> None:
    rows = [*table("A", None, {1: 60.0}), *table("B", None, {1: 50.0})]
    with pytest.raises(TraceanaError, match=r"'A', 'B'\. Name it: --baseline-series NAME"):
        _both(rows)
    block = _only(rows, baseline_series="b")
    assert (block.series, block.baseline_series) == ("A", "B")
    with pytest.raises(TraceanaError, match="no such series"):
        _both(rows, baseline_series="C")


def test_series_of_several_servers_go_with_their_own_baseline() -> None:
    rows = [
        *table("DCP1 MTP on", True, {1: 120.0, 2: 180.0}), *table("DCP1 MTP off", False, {1: 90.0, 2: 150.0}),
        *table("DCP8 MTP on", True, {1: 85.0}), *table("DCP8 MTP off", False, {1: 77.0}),
    ]  # fmt: skip
    found = _both(rows)
    assert [(b.series, b.baseline_series) for b in found.blocks] == [
        ("DCP1 MTP on", "DCP1 MTP off"),
        ("DCP8 MTP on", "DCP8 MTP off"),
    ]


def test_context_lengths_are_swept_apart() -> None:
    rows = [
        *table("on", True, {1: 120.0, 2: 180.0}, context_tokens=0), *table("on", True, {1: 100.0}, context_tokens=16384),
        *table("off", False, {1: 90.0, 2: 150.0}, context_tokens=0),
        *table("off", False, {1: 80.0}, context_tokens=16384), *table("off", False, {1: 60.0}, context_tokens=65536),
    ]  # fmt: skip
    found = _both(rows)
    assert [(b.context_tokens, len(b.levels)) for b in found.blocks] == [(0, 2), (16384, 1)]
    assert any("65,536" in note for note in found.notes)


def test_loads_of_one_side_only_are_named() -> None:
    block = _only([*table("on", True, {1: 60.0, 4: 150.0}), *table("off", False, {1: 50.0, 64: 900.0})])
    assert block.notes == ("measured with speculation only: 4", "measured without only: 64")


def test_a_baseline_that_speculates_is_refused() -> None:
    spec = _facts(points(table("on", True, _WITH)))
    with pytest.raises(TraceanaError, match="a baseline is measured without"):
        sweep(spec, spec)
    with pytest.raises(TraceanaError, match="all of it speculates"):
        sweep(spec)
    with pytest.raises(TraceanaError, match="holds no throughput by load"):
        sweep(_facts(()))


def test_points_above_saturation_are_no_step_costs() -> None:
    flat = {1: 90.0, 2: 175.0, 4: 330.0, 8: 600.0, 16: 620.0, 32: 625.0}
    (block,) = sweep(_facts(points(table("plain", False, flat)))).blocks
    assert block.baseline_scaling is not None
    assert block.baseline_scaling.saturates_at == 8
    assert max((row.k + 1) * row.load for row in block.plain) <= 8


def test_each_load_gets_the_draft_length_that_is_fastest_there() -> None:
    by_k = {
        3: {1: 100.0, 8: 500.0, 32: 800.0},
        1: {1: 75.0, 8: 640.0, 32: 1000.0},
    }
    rows = [row for k, pairs in by_k.items() for row in table("on", True, pairs, k=k)]
    spec, base = points(rows), points(table("off", False, {1: 45.0, 8: 330.0, 32: 1900.0}))
    advice = sweep(_facts(spec, "vllm", "0.32.0"), _facts(base)).blocks[0].advice
    assert [(span.first, span.last, span.k) for span in advice.spans] == [(1, 1, 3), (2, 8, 1), (9, 32, 0)]
    assert advice.setting is not None
    assert '"num_speculative_tokens": 3' in advice.setting
    assert "[[1, 1, 3], [2, 8, 1], [9, 32, 0]]" in advice.setting


def test_an_accept_length_that_skips_cycles_is_told_from_the_multiplier() -> None:
    run = {"tool": "vllm_bench", "concurrency": 1, "requests": 16, "output_tokens": 1536, "duration_s": 6.0}
    spec = {**run, "speculative": True, "output_tps": 256.0, "tpot_mean_ms": 3.5, "itl_mean_ms": 6.2, "itl_of": "chunk"}
    ngram = {**spec, "chunks": 860, "drafts": 390, "drafted": 1560, "accepted": 670}
    base = {**run, "speculative": False, "output_tps": 170.0, "tpot_mean_ms": 5.6}
    block = sweep(_facts(points([ngram])), _facts(points([base]))).blocks[0]
    assert any("counts cycles with a draft only" in note for note in block.notes)


def test_a_series_of_neither_kind_is_left_out_by_name() -> None:
    rows = [*table("EAGLE3", True, _WITH), *table("baseline", False, _WITHOUT), *table("other box", None, {1: 10.0})]
    found = _both(rows)
    assert len(found.blocks) == 1
    assert found.notes == ("left out, as they belong to neither side: 1 load point of 'other box'",)


def test_a_baseline_that_does_not_say_so_still_has_a_step() -> None:
    spec = _facts(points(table("on", True, _WITH, k=3, accept_length_printed=2.4)))
    block = sweep(spec, _facts(points(table("run", None, _WITHOUT)))).blocks[0]
    assert block.levels[0].baseline.cycle_ms == pytest.approx(1000 / 36)
    assert block.levels[0].break_even == pytest.approx(2.4 * 36 / 60)
    assert block.plain


def test_a_cycle_shorter_than_a_step_makes_its_load_doubtful() -> None:
    slow = {1: 20.0, 8: 260.0}  # the baseline's one user: 50 ms a step, 2.5 tokens in 42 ms with drafts
    rows = [
        *table("EAGLE3", True, {1: 60.0, 8: 330.0}, k=3, accept_length_printed=2.5),
        *table("baseline", False, slow),
    ]
    block = _only(rows)
    assert [level.break_even is not None and level.break_even < 1 for level in block.levels] == [True, False]
    assert "Doubtful at 1 user: a cycle with drafts is shorter there than a step without" in block.verdict
