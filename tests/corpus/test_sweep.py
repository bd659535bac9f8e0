"""`sweep` on what people posted: every figure that the corpus' notes and the founding documents name."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from traceana.api_sweep import sweep
from traceana.facts.sweep_model import Sweep, SweepBlock, SweepLevel


@cache
def swept(spec: tuple[str, ...], baseline: tuple[str, ...] = (), **named: str) -> Sweep:
    return sweep(spec, baseline, **named)


def case(corpus: Path, number: str) -> Path:
    (folder,) = (corpus / "cases").glob(f"{number}-*")
    return folder


def one(found: Sweep) -> SweepBlock:
    (block,) = found.blocks
    return block


def ratios(block: SweepBlock) -> dict[str, float]:
    return {level.label: level.ratio.value for level in block.levels if level.ratio is not None}


def at(block: SweepBlock, label: str) -> SweepLevel:
    return next(level for level in block.levels if level.label == label)


# --- the founding documents -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def seeds(corpus: Path) -> dict[str, Any]:
    folder = corpus.parent / "seeds"
    if not folder.is_dir():
        pytest.skip("the founding documents are not beside this checkout")
    tables = json.loads((folder / "tables.json").read_text())
    return {**tables, "expected": json.loads((folder / "expected.json").read_text())}


def kimi(seeds: dict[str, Any], folder: Path, form: str) -> SweepBlock:
    rows = seeds["k2.5_eagle3_vs_baseline"]["rows"]
    lines = [("concurrency", "EAGLE3 tok/s", "baseline tok/s"), *((r["c"], r["eagle3"], r["baseline"]) for r in rows)]
    path = folder / f"sweep.{form}"
    if form == "csv":
        path.write_text("\n".join(",".join(map(str, line)) for line in lines))
    else:
        marked = ["| " + " | ".join(map(str, line)) + " |" for line in lines]
        path.write_text("\n".join([marked[0], "|---|---|---|", *marked[1:]]) + "\n")
    return one(sweep([str(path)]))


@pytest.mark.parametrize("form", ["csv", "md"])
def test_the_table_of_the_verdict_gives_its_ratios_winners_and_no_crossover(
    seeds: dict[str, Any], tmp_path: Path, form: str
) -> None:
    block = kimi(seeds, tmp_path, form)
    expected = seeds["expected"]["ratios_k2.5"]
    assert [level.load for level in block.levels] == [row["c"] for row in expected]
    assert [level.winner for level in block.levels] == [row["winner"] for row in expected]
    assert list(ratios(block).values()) == pytest.approx([row["ratio"] for row in expected], abs=5e-5)
    won_by = [100 * (1 / ratio - 1) for ratio in ratios(block).values()]
    assert won_by == pytest.approx([row["win_pct"] for row in expected], abs=0.05)
    assert block.crossings == ()


def test_the_ceilings_of_the_verdict(seeds: dict[str, Any], tmp_path: Path) -> None:
    block, expected = kimi(seeds, tmp_path, "csv"), seeds["expected"]["scaling_k2.5"]
    assert block.scaling is not None
    assert block.baseline_scaling is not None
    assert block.baseline_scaling.gain == pytest.approx(expected["baseline_c1_to_peak"], abs=0.005)
    assert block.scaling.gain == pytest.approx(expected["eagle3_c1_to_peak"], abs=0.005)
    assert block.baseline_scaling.saturates_at == expected["baseline_saturates_at_c"]
    assert block.ceiling_ratio == pytest.approx(expected["ceiling_ratio"], abs=0.05)


def test_the_table_of_the_communication_bottleneck(seeds: dict[str, Any], tmp_path: Path) -> None:
    rows = seeds["k2.6_eagle3_vs_ar"]["rows"]
    lines = [f"| {r['metric']} | {r['ar']} | {r['eagle3']} |" for r in rows]
    path = tmp_path / "table.md"
    path.write_text("\n".join(["| run | AR tok/s | EAGLE3 tok/s |", "|---|---|---|", *lines]) + "\n")
    block = one(sweep([str(path)]))
    assert sorted(ratios(block).values()) == pytest.approx(sorted(seeds["expected"]["speedups_k2.6"]), abs=5e-5)
    assert block.crossings == ()


def test_five_runs_against_one_measurement_that_nobody_repeated(seeds: dict[str, Any], tmp_path: Path) -> None:
    runs, expected = seeds["three_step_run"]["runs"], seeds["expected"]["three_step"]
    five, once = tmp_path / "three.txt", tmp_path / "two.txt"
    five.write_text(
        "".join(
            f"Run {i}/5: {r['tokens']} tokens in {r['seconds']}s = {r['tps']} tok/s\n" for i, r in enumerate(runs, 1)
        )
    )
    once.write_text(f"Run 1/1: 2048 tokens in 21.79s = {seeds['three_step_run']['two_step_tps']} tok/s\n")
    (level,) = one(sweep([str(five)], [str(once)])).levels
    assert level.spec.gen_tps == pytest.approx(expected["mean_of_runs_tps"], abs=0.005)
    assert level.ratio is not None
    assert level.ratio.value - 1 == pytest.approx(expected["vs_two_step_94.0"], abs=0.005)
    assert level.ratio.basis == "runs"
    assert level.ratio.high - level.ratio.low > 0.2  # type: ignore[operator]
    assert any("measured once" in note for note in level.notes)


# --- cases ------------------------------------------------------------------------------------------------------------


def test_05_no_draft_setting_reaches_its_break_even(corpus: Path) -> None:
    block = one(swept((str(case(corpus, "05") / "bench.md"),)))
    assert at(block, "1").break_even == pytest.approx(2.13, abs=0.005)
    assert at(block, "1").spec.cycle_ms == pytest.approx(9.59, abs=0.01)
    assert at(block, "4").break_even == pytest.approx(2.35, abs=0.005)
    assert at(block, "4").spec.cycle_ms == pytest.approx(16.6, abs=0.05)
    chain = next(row for row in block.drafts if row.load == 1 and row.draft == "k=3")
    assert chain.cycle_ms == pytest.approx(11.6, abs=0.05)
    assert all(row.ratio is not None and row.ratio < 1 for row in block.drafts)


def test_13_half_as_many_requests_decode_at_once(corpus: Path) -> None:
    folder = case(corpus, "13")
    found = swept((str(folder / "bench_mtp.txt"),), (str(folder / "bench_baseline.txt"),))
    (level,) = one(found).levels
    assert level.ratio is not None
    assert level.user_ratio is not None
    assert level.ratio.value == pytest.approx(0.85, abs=0.005)
    assert level.user_ratio.value == pytest.approx(1.86, abs=0.005)
    assert level.baseline.decoding == pytest.approx(18.1, abs=0.05)
    assert level.spec.decoding == pytest.approx(8.3, abs=0.05)
    assert level.spec.tokens_per_cycle == pytest.approx(2.6, abs=0.01)
    assert level.spec.queueing
    assert level.baseline.queueing
    assert level.break_even is None
    assert "no verdict on drafting" in found.verdict


def test_16_the_cycle_is_nearly_five_steps_long(corpus: Path) -> None:
    (level,) = one(swept((str(case(corpus, "16") / "bench.md"),))).levels
    assert level.break_even == pytest.approx(4.9, abs=0.02)
    assert level.ratio is not None
    assert level.ratio.value == pytest.approx(1.22, abs=0.005)
    assert (level.baseline.ttft_ms, level.spec.ttft_ms) == (47, 76)


_EXPECTED_46 = {
    # users: tok/s without, with, break-even, ratio
    1: (59.0, 95.6, 1.60, 1.62), 2: (92.4, 148.5, 1.62, 1.61), 4: (164.3, 247.3, 1.87, 1.50),
    8: (251.5, 201.5, 3.20, 0.80), 16: (429.2, 313.3, 3.59, 0.73), 32: (318.1, 405.6, 1.89, 1.28),
}  # fmt: skip


def test_46_the_benchmarks_give_the_table_and_the_cliff(corpus: Path) -> None:
    folder = case(corpus, "46")
    found = swept((str(folder / "decode-matrix_mtp.json"),), (str(folder / "decode-matrix_nomtp.json"),))
    block = found.blocks[0]
    assert block.context_tokens == 0
    for level in block.levels:
        without, with_, even, ratio = _EXPECTED_46[int(level.load or 0)]
        assert level.baseline.gen_tps == pytest.approx(without, abs=0.06)
        assert level.spec.gen_tps == pytest.approx(with_, abs=0.06)
        assert level.break_even == pytest.approx(even, abs=0.012)
        assert level.ratio is not None
        assert level.ratio.value == pytest.approx(ratio, abs=0.01)
        assert level.spec.tokens_per_cycle == pytest.approx(2.7, abs=0.3)
    assert [(c.below_tokens, c.above_tokens) for c in block.cliffs if c.of == "baseline"] == [(16, 32)]
    needed = {(row.load, row.k): row.accept_length for row in block.plain}
    assert needed[8, 3] == pytest.approx(3.2, abs=0.02)  # foretold without the drafter, and what it then needed


def test_46_two_server_logs_alone_give_the_same_sweep_within_5_percent(corpus: Path) -> None:
    folder = case(corpus, "46")
    logs = one(swept((str(folder / "server_mtp.log"),), (str(folder / "server_nomtp.log"),)))
    bench = swept((str(folder / "decode-matrix_mtp.json"),), (str(folder / "decode-matrix_nomtp.json"),)).blocks[0]
    assert [level.load for level in logs.levels] == [level.load for level in bench.levels]
    for here, there in zip(logs.levels, bench.levels, strict=True):
        assert here.spec.gen_tps == pytest.approx(there.spec.gen_tps, rel=0.05)
        assert here.baseline.gen_tps == pytest.approx(there.baseline.gen_tps, rel=0.05)
        assert here.winner == there.winner
    assert {(c.of, c.below_tokens, c.above_tokens) for c in logs.cliffs} == {
        ("speculation", 16, 32),
        ("baseline", 16, 32),
    }
    assert [(span.first, span.last, span.k) for span in logs.advice.spans] == [(1, 4, 3), (5, 16, 0), (17, 32, 3)]
    assert [(c.after, c.before, c.rises, c.cliff) for c in logs.crossings] == [
        (4, 8, False, True),
        (16, 32, True, True),
    ]
    assert logs.advice.setting is None  # this version has none
    assert any("both runs jump between 16 and 32 tokens" in note for note in logs.notes)


def test_46_a_log_beside_the_benchmark_tells_the_number_of_drafts(corpus: Path) -> None:
    folder = case(corpus, "46")
    spec = (str(folder / "decode-matrix_mtp.json"), str(folder / "server_mtp.log"))
    block = swept(spec, (str(folder / "decode-matrix_nomtp.json"),)).blocks[0]
    assert {level.spec.k for level in block.levels} == {3}
    assert at(block, "8").spec.tokens_per_forward == 32
    assert at(block, "8").spec.source == "bench"


def test_47_the_crossover_moves_down_with_parallelism_and_context(corpus: Path) -> None:
    blocks = {(b.series, b.context_tokens): b for b in swept((str(case(corpus, "47") / "bench.md"),)).blocks}
    short = blocks["DCP1 MTP on", 0]
    for users, expected in {"1": 1.32, "8": 1.40, "32": 1.18, "64": 1.12, "128": 1.01}.items():
        assert ratios(short)[users] == pytest.approx(expected, abs=0.006)
    assert short.crossings == ()
    long = blocks["DCP1 MTP on", 16384]
    assert [ratios(long)[users] for users in ("1", "8", "16")] == pytest.approx([1.27, 1.18, 0.99], abs=0.006)
    assert 8 < long.crossings[0].at < 16
    assert ratios(blocks["DCP1 MTP on", 131072])["2"] == pytest.approx(0.94, abs=0.005)
    split = blocks["DCP8 MTP on", 0]
    assert [ratios(split)[users] for users in ("32", "64", "128")] == pytest.approx([1.00, 0.93, 0.86], abs=0.006)
    assert 32 < split.crossings[0].at < 64


def test_57_the_fifth_draft_token_costs_more_than_it_earns(corpus: Path) -> None:
    found = swept((str(case(corpus, "57") / "bench.md"),))
    blocks = {block.series: block for block in found.blocks}
    eagle3, eagle1 = blocks["Eagle 3"], blocks["Eagle 1"]
    assert [row.cycle_ms for row in eagle3.drafts] == pytest.approx(
        [10.20, 11.41, 12.47, 13.71, 14.53, 15.19], abs=0.006
    )
    assert [row.cycle_ms for row in eagle1.drafts] == pytest.approx([9.18, 9.82, 10.71, 11.45, 12.10, 12.84], abs=0.006)
    fifth = next(row for row in eagle3.drafts if row.k == 5)
    assert fifth.accept_growth == pytest.approx(0.078, abs=0.0005)
    assert fifth.cycle_growth == pytest.approx(0.099, abs=0.0006)
    assert [row.k for row in eagle3.drafts if row.best] == [4]
    assert eagle3.levels[0].baseline.runs == 1  # one figure, copied down the column


# --- vLLM on two CPU cores --------------------------------------------------------------------------------------------

_CLEAN = {
    "ngram-k4": ((1.61, 1.35, 1.60), 1.761, 2.708, (1.095, 1.303, 1.104)),
    "eagle-k3": ((1.33, 1.48, 1.65), 2.153, 2.186, (1.615, 1.454, 1.302)),
    "eagle3-k3": ((0.97, 0.95, 1.29), 1.858, 1.870, (1.908, 1.966, 1.439)),
    "draft-k3": ((1.12, 1.21, 1.28), 1.847, 1.858, (1.643, 1.527, 1.447)),
}


def capture(corpus: Path, name: str, kind: str = "json") -> tuple[str, ...]:
    return tuple(str(corpus / "vllm-cpu-captures" / name / f"bench_c{c}.{kind}") for c in (1, 2, 4))


@pytest.mark.parametrize("method", _CLEAN)
def test_captures_give_speed_tokens_per_chunk_and_break_even_row_by_row(corpus: Path, method: str) -> None:
    speeds, tokens, length, even = _CLEAN[method]
    block = one(swept(capture(corpus, f"clean/{method}"), capture(corpus, "clean/baseline")))
    assert [level.user_ratio.value for level in block.levels if level.user_ratio] == pytest.approx(speeds, abs=0.0051)
    assert [level.break_even for level in block.levels] == pytest.approx(even, abs=0.0011)
    for level in block.levels:
        assert level.spec.tokens_per_cycle == pytest.approx(tokens, abs=0.0006)
        assert level.spec.accept_length == pytest.approx(length, abs=0.0006)
        assert level.ratio is not None
        assert level.ratio.basis == "parts"
        assert level.ratio.low < level.ratio.value < level.ratio.high  # type: ignore[operator]


def test_a_look_up_drafter_is_not_promised_what_its_accept_length_says(corpus: Path) -> None:
    block = one(swept(capture(corpus, "clean/ngram-k4"), capture(corpus, "clean/baseline")))
    level = block.levels[0]
    assert level.spec.accept_length is not None
    assert level.spec.tokens_per_cycle is not None
    assert level.break_even is not None
    assert level.spec.accept_length / level.break_even == pytest.approx(2.47, abs=0.01)
    assert level.spec.tokens_per_cycle / level.break_even == pytest.approx(1.61, abs=0.01)


def test_a_printed_block_beside_its_file_is_no_second_measurement(corpus: Path) -> None:
    spec = (*capture(corpus, "clean/eagle-k3"), *capture(corpus, "clean/eagle-k3", "txt"))
    block = one(swept(spec, capture(corpus, "clean/baseline")))
    assert [level.spec.runs for level in block.levels] == [1, 1, 1]


def test_a_drafter_that_loses_by_three_percent_in_one_run_is_left_open(corpus: Path) -> None:
    block = one(swept(capture(corpus, "clean/eagle3-k3"), capture(corpus, "clean/baseline")))
    for level in block.levels[:2]:
        assert level.ratio is not None
        assert level.ratio.verdict == "inconclusive"
        assert level.ratio.runs_needed is not None
        assert level.ratio.runs_needed > 2


@pytest.mark.parametrize("method", _CLEAN)
def test_the_same_runs_on_a_busy_machine_contradict_nothing_beyond_the_noise(corpus: Path, method: str) -> None:
    clean = one(swept(capture(corpus, f"clean/{method}"), capture(corpus, "clean/baseline")))
    busy = one(swept(capture(corpus, method), capture(corpus, "baseline")))
    flipped = 0
    for here, there in zip(clean.levels, busy.levels, strict=True):
        assert here.spec.accept_length == there.spec.accept_length
        assert here.ratio is not None
        assert there.ratio is not None
        flipped += here.winner != there.winner
        assert {here.ratio.verdict, there.ratio.verdict} != {"pays", "loses"}
    assert flipped or method == "eagle-k3"  # the figures alone would have said the opposite
