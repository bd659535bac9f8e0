"""What changed between two runs, whether it is real, what could explain it."""

import math
import random
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.facts.compare_builders import conditions, facts, point, run, side
from traceana.errors import TraceanaError
from traceana.facts.bench_model import PointSource
from traceana.facts.compare import compare
from traceana.facts.conditions import Counters
from traceana.facts.model import Facts, InputFacts, Provenance
from traceana.facts.trace_model import RunMatch, TraceFacts, TracePhase

FIVE = (61.0, 68.7, 51.6, 67.2, 60.2)


def pair(before, after):
    """The comparison of two sides, each a run or a tuple of runs."""
    sides = [
        side(name, *(runs if isinstance(runs, tuple) else (runs,))) for name, runs in (("A", before), ("B", after))
    ]
    return compare(sides).pairs[0]


def noise(seed: int, n: int = 20, sd: float = 0.03) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(math.exp(sd * rng.gauss(0, 1)) for _ in range(n))


def test_half_the_speed_at_nearly_the_same_acceptance_is_the_cycle() -> None:
    found = pair(run(facts(point(21.1, e=2.72, cycle=122))), run(facts(point(10.0, e=2.42, cycle=234))))
    (level,) = found.levels
    assert 1 / level.factors.throughput == pytest.approx(2.11)
    assert 1 / level.factors.cycle == pytest.approx(1.92, abs=0.005)
    assert 1 / level.factors.acceptance == pytest.approx(2.72 / 2.42)
    assert level.factors.acceptance * level.factors.cycle * level.factors.batch * level.factors.unexplained == (
        pytest.approx(level.factors.throughput)
    )
    assert "the cycle 1.92x slower, acceptance 1.12x slower, together 2.11x slower" in found.sentence


def test_a_busy_machine_shows_as_the_cycle_alone_without_any_setting_that_differs() -> None:
    same = conditions(4, texts="t")
    found = pair(
        run(facts(point(515, at=4, e=1.858, spread=noise(1)), settings={"max_num_seqs": "8"}), same),
        run(facts(point(381, at=4, e=1.858, spread=noise(2)), settings={"max_num_seqs": "8"}), same),
    )
    (level,) = found.levels
    assert (level.changed, level.speed) == ("cycle", "slower")
    assert "The cycle, not acceptance" in found.sentence
    assert found.differences == ()
    assert found.comparable.answer == "yes"
    assert "generated texts" in found.comparable.same
    assert found.explanations[0].startswith("no setting differs; machine noise fits")
    assert any("run to run is not in it" in note for note in level.notes)
    assert level.runs_needed == 2


def test_a_figure_that_was_never_repeated_decides_nothing() -> None:
    found = pair(run(facts(point(94.0))), run(facts(point(61.7, runs=FIVE))))
    (level,) = found.levels
    assert level.speed == "inconclusive"
    assert any("94.0 was measured once and never repeated" in note for note in level.notes)
    five = next(repeats for repeats in level.repeats if not repeats.single)
    assert five.cv == pytest.approx(0.11, abs=0.001)
    assert 0.2 < five.shows < 0.3  # what five runs a side can show: no difference of 11 %
    assert level.runs_needed is not None
    assert "run each set-up" in found.next_step


def test_repeats_of_both_sides_settle_it() -> None:
    before = tuple(run(facts(point(tps))) for tps in (94.0, 92.5, 95.1))
    after = tuple(run(facts(point(tps))) for tps in (61.0, 62.5, 60.2))
    (level,) = pair(before, after).levels
    assert level.speed == "slower"
    assert level.runs_needed_from is None
    assert next(f for f in level.figures if f.name == "cycle").basis == "runs"


def test_other_prompts_or_lengths_are_not_comparable() -> None:
    one = run(facts(point(77.5)), conditions())
    other = run(facts(point(96.1)), conditions(dataset="one fixed prompt", output_tokens=2048, temperature=0.7))
    found = pair(one, other)
    assert found.comparable.answer == "no"
    assert {row.what for row in found.differences if row.unfair} == {
        "dataset", "output tokens per request", "temperature"
    }  # fmt: skip
    assert "same model, prompts" in found.next_step


def test_what_neither_side_states_is_not_taken_to_be_the_same() -> None:
    found = pair(run(facts(point(77.5))), run(facts(point(96.1))))
    assert found.comparable.answer == "doubtful"
    assert "prompts" in found.comparable.reasons[0]
    assert "dataset" not in found.comparable.same


def test_token_totals_that_differ_by_a_rounding_are_the_same() -> None:
    found = pair(
        run(facts(point(77.5)), conditions(output_tokens=4096)), run(facts(point(78)), conditions(output_tokens=4090))
    )
    assert found.comparable.answer == "yes"


def test_lost_nccl_variables_are_sized_before_they_are_accused() -> None:
    before = facts(point(66, cycle=19.0, e=2.05), nccl={"NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "16777216"})
    after = facts(point(61.7, cycle=30.0, e=2.05), nccl={"NCCL_P2P_LEVEL": "SYS"})
    rows = {row.what: row for row in pair(run(before), run(after)).differences}
    assert rows["NCCL_BUFFSIZE"].sized.fit == "none"
    assert rows["NCCL_PROTO"].sized.fit == "all"
    assert "68 us" in rows["NCCL_PROTO"].sized.words
    assert "162 allreduces" in rows["NCCL_PROTO"].sized.words  # 11 ms / 68 us
    assert "LL" in rows["NCCL_PROTO"].confirm
    order = list(rows)
    assert order.index("NCCL_P2P_LEVEL") < order.index("NCCL_PROTO") < order.index("NCCL_BUFFSIZE")


def test_what_acts_on_the_other_part_explains_nothing() -> None:
    before = facts(point(100, e=3.0, cycle=30), settings={"disable_cuda_graph": "False", "foo": "1"})
    after = facts(point(66, e=2.0, cycle=30), settings={"disable_cuda_graph": "True", "foo": "2", "port": "1"})
    found = pair(run(before), run(after))
    rows = {row.what: row.sized for row in found.differences}
    assert found.levels[0].changed == "acceptance"
    assert rows["disable_cuda_graph"].fit == "none"
    assert rows["foo"].fit == "unknown"
    assert "port" not in rows
    assert found.harmless == 1


def test_one_gpu_has_no_allreduce_to_blame() -> None:
    sides = [facts(point(66, cycle=c), nccl={"NCCL_PROTO": p}, tp=1) for c, p in ((19.0, "LL"), (30.0, "Simple"))]
    (row,) = pair(run(sides[0]), run(sides[1])).differences
    assert row.sized.fit == "none"


def test_only_loads_both_sides_have_are_compared_and_the_others_named() -> None:
    found = pair(
        run(facts(*(point(50.0 * c, at=c) for c in (1, 2, 8)))),
        run(facts(*(point(40.0 * c, at=c) for c in (2, 8, 32)))),
    )
    assert [level.concurrency for level in found.levels] == [2, 8]
    assert found.only_before == ("1 running",)
    assert found.only_after == ("32 running",)


def test_no_common_load_is_said() -> None:
    found = pair(run(facts(point(50, at=1), point(60, at=2))), run(facts(point(50, at=4))))
    assert found.levels == ()
    assert "no load in common" in found.sentence
    assert "B holds no throughput" in pair(run(facts(point(50))), run(facts())).sentence


def test_context_lengths_are_a_second_axis() -> None:
    points = [[point(tps, at=1, context=c) for c, tps in ((0, 90), (16384, 80))] for _ in range(2)]
    found = pair(run(facts(*points[0])), run(facts(*points[1])))
    assert [(v.concurrency, v.context_tokens) for v in found.levels] == [(1, 0), (1, 16384)]


def test_a_log_beside_a_benchmark_by_context_is_no_further_load() -> None:
    log = point(85, at=1, source=PointSource.LOG)
    points = [point(tps, at=1, context=c) for c, tps in ((0, 90), (16384, 80))]
    found = pair(run(facts(log, *points)), run(facts(log, *points)))
    assert [v.context_tokens for v in found.levels] == [0, 16384]
    assert "with 16,384 context tokens" in found.sentence


def test_several_set_ups_in_one_file_are_asked_for() -> None:
    table = run(facts(point(77.5, series="eagle3"), point(92.6, series="baseline")))
    with pytest.raises(TraceanaError, match=r"side A holds several set-ups.*baseline, eagle3.*#WORDS"):
        pair(table, run(facts(point(90))))


def test_a_log_and_a_benchmark_are_compared_with_a_warning() -> None:
    found = pair(run(facts(point(50, source=PointSource.LOG))), run(facts(point(50, spread=noise(1)))))
    assert found.levels[0].source == "mixed"
    assert any("different means" in note for note in found.levels[0].notes)


def test_other_clients_and_restarted_counters_are_said_and_never_averaged_in() -> None:
    counters = Counters(5, 9000, 4608, 4000.0, ("vllm:generation_tokens_total went down by 500: the server restarted",))
    (noisy, quiet) = run(facts(point(50)), conditions(), counters=counters), run(facts(point(60)), conditions())
    report = compare([side("A", noisy), side("B", quiet)])
    assert "4,000 generated tokens more" in " ".join(report.sides[0].notes)
    assert "went down by 500" in " ".join(report.sides[0].notes)
    assert report.pairs[0].comparable.answer == "doubtful"


def test_a_broken_input_is_named_beside_the_figures_it_left() -> None:
    cut = replace(facts(point(50)), inputs=(InputFacts("a.json", "vllm_bench", 1, 1, 0, 0, problem="ends early"),))
    doubtful = conditions(doubt="the totals contradict the throughput")
    report = compare([side("A", run(cut, doubtful)), side("B", run(facts(point(60)), conditions()))])
    assert report.sides[0].notes == ("a.json: ends early", "the totals contradict the throughput")
    assert report.pairs[0].comparable.answer == "doubtful"


def test_fewer_than_one_token_per_cycle_is_split_into_nothing() -> None:
    (level,) = pair(run(facts(point(50, e=0.1, cycle=10))), run(facts(point(60)))).levels
    assert level.waterfall.per == "cycle"


def test_a_doubtful_result_decides_nothing() -> None:
    found = pair(run(facts(point(100)), conditions()), run(facts(point(20)), conditions(doubt="made of whole cloth")))
    assert found.levels[0].speed == "inconclusive"
    assert "B: made of whole cloth" in found.levels[0].notes


def test_paired_requests_take_the_prompts_spread_out() -> None:
    prompts = noise(3, 24, 0.3)
    busy = tuple(f * g for f, g in zip(prompts, noise(4, 24, 0.02), strict=True))
    before, after = point(100, spread=prompts), point(90, spread=busy)
    alike = pair(run(facts(before), conditions()), run(facts(after), conditions())).levels[0]
    other = pair(run(facts(before), conditions()), run(facts(after), conditions(prompt_lengths="bb"))).levels[0]
    assert alike.speed == "slower"
    assert other.speed == "inconclusive"


def test_phases_that_both_time_make_a_waterfall_that_adds_up_as_printed() -> None:
    before = facts(
        point(92, cycle=22.2, e=2.05), parts={"draft": 1.9, "verify": 19.05, "re-extend": 0.85, "other": 0.4}
    )
    after = facts(
        point(58, cycle=33.1, e=1.92), parts={"draft": 1.91, "verify": 29.97, "re-extend": 0.84, "other": 0.41}
    )
    waterfall = pair(run(before), run(after)).levels[0].waterfall
    assert waterfall.why_not_split is None
    assert [part.name for part in waterfall.parts] == ["acceptance", "draft", "verify", "re-extend", "other"]
    assert sum(part.ms for part in waterfall.parts) == pytest.approx(waterfall.difference_ms, abs=1e-12)
    first, last, change = map(Decimal, waterfall.printed)
    assert first + sum(Decimal(part.printed) for part in waterfall.parts) == last
    assert last - first == change
    verify = next(part for part in waterfall.parts if part.name == "verify")
    assert verify.ms > 0.8 * waterfall.difference_ms


def traced(wait: float) -> Facts:
    """A run whose ledger has two ranks, one of which waits in the verify's allreduces."""
    phases = tuple(
        TracePhase(
            rank,
            0,
            phase,
            50,
            window_ms=sum(ms for _, ms in buckets),
            buckets=dict(buckets),
            window_ns=round(50e6 * sum(ms for _, ms in buckets)),
        )
        for rank in (0, 1)
        for phase, buckets in (
            ("draft", (("compute", 1.5), ("launch_gap", 0.5))),
            ("verify", (("compute", 12.0), ("allreduce_transfer", 3.0), ("allreduce_wait", wait * rank))),
        )
    )
    no_skew = {"skew": "mixed", "skew_provenance": Provenance.MEASURED, "skew_reason": "", "late": (), "categories": ()}
    trace = TraceFacts(
        50,
        "ranges",
        Provenance.MEASURED,
        phases,
        instances=1,
        ranks=2,
        transfer_ms=None,
        wait_ms=None,
        notes=(),
        **no_skew,
    )
    return replace(facts(point(90, cycle=17.0 + wait / 2)), trace=trace)


def test_traces_of_both_runs_split_the_difference_by_phase_and_bucket() -> None:
    waterfall = pair(run(traced(0.0)), run(traced(8.0))).levels[0].waterfall
    parts = {part.name: part.ms for part in waterfall.parts}
    assert set(parts) == {
        "acceptance", "draft: compute", "draft: launch gap", "verify: compute", "verify: allreduce transfer",
        "verify: allreduce wait",
    }  # fmt: skip
    assert parts["verify: allreduce wait"] == pytest.approx(4.0 / 2.0)  # mean of two ranks, 2 tokens a cycle
    assert sum(parts.values()) == pytest.approx(waterfall.difference_ms, abs=1e-12)
    assert [name for name, ms in parts.items() if ms] == ["verify: allreduce wait"]


@pytest.mark.parametrize(
    "spoilt", [{"apart": "files of two jobs"}, {"match": RunMatch("different", against=("another model",))}]
)
def test_traces_that_are_not_one_capture_of_this_run_split_nothing(spoilt: dict) -> None:
    before, after = (replace(f, trace=replace(f.trace, **spoilt)) for f in (traced(0.0), traced(8.0)))
    waterfall = pair(run(before), run(after)).levels[0].waterfall
    assert [part.name for part in waterfall.parts] == ["acceptance", "cycle"]


def test_ranks_of_two_files_on_equal_devices_are_two_gpus() -> None:
    """Without a rank in the file, two traces of device 0 are told apart by their path."""
    runs = []
    for wait in (0.0, 8.0):
        one = traced(wait)
        phases = tuple(replace(p, rank=None, path=f"{p.rank}.json") for p in one.trace.phases)
        runs.append(run(replace(one, trace=replace(one.trace, phases=phases))))
    parts = {part.name: part.ms for part in pair(*runs).levels[0].waterfall.parts}
    assert parts["verify: allreduce wait"] == pytest.approx(4.0 / 2.0)


def test_phases_of_another_load_are_not_taken_for_this_one() -> None:
    before, after = (facts(point(500, at=8), parts={"draft": 2.0, "verify": v}, batch=1) for v in (19.0, 30.0))
    waterfall = pair(run(before), run(after)).levels[0].waterfall
    assert "1 running" in waterfall.why_not_split
    assert [part.name for part in waterfall.parts] == ["acceptance", "cycle"]


def test_a_phase_one_run_does_not_time_is_unknown_and_not_zero() -> None:
    before = facts(point(92, cycle=22.0), parts={"draft": 2.0, "verify": 19.0, "other": 1.0})
    after = facts(point(58, cycle=33.0), parts={"draft": 2.0, "verify": 30.0})
    waterfall = pair(run(before), run(after)).levels[0].waterfall
    assert "other phases" in waterfall.why_not_split


def test_timers_alone_are_compared_by_their_cycles() -> None:
    before, after = (facts(parts={"draft": 2.0, "verify": v}) for v in (19.0, 30.0))
    (level,) = pair(run(before), run(after)).levels
    assert level.source == "timers"
    assert next(f for f in level.figures if f.name == "cycle").ratio == pytest.approx(32 / 21)


def test_every_further_side_is_compared_with_the_first() -> None:
    report = compare([side(n, run(facts(point(tps)))) for n, tps in (("A", 50), ("B", 60), ("C", 70))])
    assert [(p.before, p.after) for p in report.pairs] == [("A", "B"), ("A", "C")]
    assert [p.levels[0].figures[0].ratio for p in report.pairs] == pytest.approx([1.2, 1.4])


def test_the_engine_and_moved_models_are_told_apart() -> None:
    before, after = (
        facts(point(50), model="/a/Tern-32B", version="0.5.9"),
        facts(point(50), model="/b/Tern-32B", version="0.5.10"),
    )
    found = pair(run(before), run(after))
    assert [row.what for row in found.differences] == ["engine version"]
    other = pair(run(before), run(facts(point(50), model="/b/Kite-8B")))
    assert other.comparable.answer == "no"


def test_speculation_on_and_off_is_the_comparison_and_no_suspect() -> None:
    plain = facts(point(80, e=1.0), active=False, k=None)
    found = pair(run(plain), run(facts(point(120, e=2.5))))
    assert [row.what for row in found.differences] == ["speculation"]
    assert found.differences[0].sized.fit == "all"
    assert "machine noise" not in " ".join(found.explanations)


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.floats(1, 8), st.floats(1, 8), st.floats(0.1, 1e3), st.floats(0.1, 1e3))
@settings(max_examples=40, deadline=None)
def test_the_factors_multiply_to_the_throughput_whatever_the_figures(t0, t1, e0, e1, c0, c1) -> None:
    (level,) = pair(run(facts(point(t0, e=e0, cycle=c0))), run(facts(point(t1, e=e1, cycle=c1)))).levels
    f = level.factors
    assert f.acceptance * f.cycle * f.batch * f.unexplained == pytest.approx(f.throughput, rel=1e-9)
    assert f.throughput == pytest.approx(t1 / t0, rel=1e-9)
    if f.shares is not None:
        assert sum(f.shares) == pytest.approx(1.0)
    w = level.waterfall
    first, last, change = map(Decimal, w.printed)
    assert first + sum(Decimal(p.printed) for p in w.parts) == last == first + change


@pytest.mark.parametrize(
    ("after_version", "names"),
    [
        ("0.5.9", {"cuda_graph_new_switch", "pass_config", "enforce_eager"}),  # one release: a difference
        ("0.5.11", {"engine version", "enforce_eager"}),  # the newer one prints more, and changed nothing else
    ],
)
def test_what_only_a_newer_release_prints_is_no_difference_of_the_runs(after_version: str, names: set[str]) -> None:
    old = {"enforce_eager": "False", "pass_config": "{'fuse': True, 'sp': False}"}
    new = {"enforce_eager": "True", "pass_config": "{'fuse': True, 'rms': False}", "cuda_graph_new_switch": "True"}
    before = facts(point(92, cycle=22.0), settings=old, version="0.5.9")
    after = facts(point(58, cycle=33.0), settings=new, version=after_version)
    found = pair(run(before), run(after))
    assert {row.what for row in found.differences} == names
    untold = [text for text in found.comparable.unknown if "only one of the two releases prints" in text]
    assert bool(untold) == (after_version != "0.5.9")
    for text in untold:
        assert "cuda_graph_new_switch and 1 more" in text
