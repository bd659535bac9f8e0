"""What benchmark results among the inputs of a diagnosis say."""

from pathlib import Path

import pytest

from traceana import api
from traceana.report.diagnosis import Diagnosis


def diagnose(folder: Path, text: str, baseline: str | None = None) -> Diagnosis:
    (folder / "run.md").write_text(text, encoding="utf-8")
    if baseline is None:
        return api.diagnose([str(folder / "run.md")])
    (folder / "plain.md").write_text(baseline, encoding="utf-8")
    return api.diagnose([str(folder / "run.md")], [str(folder / "plain.md")])


def table(header: str, *rows: str) -> str:
    return "\n".join([f"| {header} |", "|" + "---|" * (header.count("|") + 1), *(f"| {row} |" for row in rows)]) + "\n"


def codes(result: Diagnosis) -> set[str]:
    return {finding.code for finding in result.findings}


PLAIN = table("concurrency | tok/s", "1 | 100", "4 | 360", "16 | 1100")


def test_a_table_that_loses_beyond_the_noise_is_a_finding_with_its_break_even(tmp_path: Path) -> None:
    spec = table("concurrency | MTP tok/s | accept length", "1 | 160 | 2.4", "4 | 390 | 2.4", "16 | 620 | 2.4")
    result = diagnose(tmp_path, spec, PLAIN)
    assert result.verdict.speculation == "loses"
    assert result.verdict.at_running == 16
    # cycle 1000 x 2.4 x 16 / 620, step 1000 x 16 / 1100
    assert result.verdict.break_even_accept_length == pytest.approx((2400 * 16 / 620) / (1000 * 16 / 1100), rel=1e-6)
    (finding,) = [f for f in result.findings if f.code == "CYC002"]
    assert finding.confidence == "medium"
    assert [place.path for place in finding.evidence][:1] == [str(tmp_path / "run.md")]


def test_figures_that_all_lean_one_way_within_the_noise_are_low_confidence(tmp_path: Path) -> None:
    spec = table("concurrency | MTP tok/s | accept length", "1 | 93 | 2.0", "4 | 335 | 2.0", "16 | 1010 | 2.0")
    (finding,) = diagnose(tmp_path, spec, PLAIN).findings
    assert (finding.code, finding.confidence) == ("CYC002", "low")


def test_figures_that_win_or_lean_both_ways_are_no_finding(tmp_path: Path) -> None:
    wins = table("concurrency | MTP tok/s | accept length", "1 | 170 | 2.4", "4 | 560 | 2.4", "16 | 1700 | 2.4")
    mixed = table("concurrency | MTP tok/s | accept length", "1 | 104 | 2.4", "4 | 350 | 2.4", "16 | 1120 | 2.4")
    assert diagnose(tmp_path, wins, PLAIN).verdict.speculation == "pays"
    assert not codes(diagnose(tmp_path, wins, PLAIN))
    assert not codes(diagnose(tmp_path, mixed, PLAIN))


def test_the_slower_of_two_set_ups_is_split_into_acceptance_and_cycle(tmp_path: Path) -> None:
    text = table(
        "run | MTP tok/s | tokens/cycle | cycle time (ms)", "monday | 50.0 | 3.0 | 60", "friday | 25.0 | 2.7 | 108"
    )
    result = diagnose(tmp_path, text)
    assert result.results is not None
    found = result.results.contrast
    assert found is not None
    assert (found.tps_ratio, found.acceptance_ratio, found.cycle_ratio) == (
        pytest.approx(2.0),
        pytest.approx(3.0 / 2.7),
        pytest.approx(1.8),
    )
    assert found.acceptance_ratio * found.cycle_ratio * found.rest_ratio == pytest.approx(found.tps_ratio)
    assert "the cycle 1.80x" in result.verdict.sentence
    assert "not the drafter" in result.verdict.sentence


VARIANTS = "variant | C1 tok/s | C16 tok/s | Acceptance"


def test_the_set_up_whose_acceptance_collapsed_is_named(tmp_path: Path) -> None:
    rows = ("image | 80 | - | 0.52", "barrier | 82 | 640 | 0.55 C1, 0.47 C16", "fused allreduce | 33 | - | 0.05")
    result = diagnose(tmp_path, table(VARIANTS, *rows))
    assert result.results is not None
    odd = result.results.odd
    assert odd is not None
    assert (odd.row.series, odd.value, odd.others, odd.set_ups) == ("fused allreduce", 0.05, (0.52, 0.55), 3)
    (finding,) = result.findings
    assert (finding.code, finding.confidence) == ("ACC009", "low")


def test_a_name_that_says_nothing_of_an_allreduce_is_no_cause(tmp_path: Path) -> None:
    rows = ("image | 80 | - | 0.52", "other | 82 | 640 | 0.55 C1, 0.47 C16", "new checkpoint | 33 | - | 0.05")
    result = diagnose(tmp_path, table(VARIANTS, *rows))
    assert "new checkpoint" in result.verdict.sentence
    assert not codes(result)


def test_set_ups_that_disagree_with_each_other_have_no_odd_one_out(tmp_path: Path) -> None:
    rows = ("a | 80 | - | 0.52", "b | 82 | - | 0.21", "c | 33 | - | 0.09")
    result = diagnose(tmp_path, table(VARIANTS, *rows))
    assert result.results is not None
    assert result.results.odd is None


def test_acceptance_beside_several_loads_belongs_to_none_of_them_unless_it_says_so(tmp_path: Path) -> None:
    result = diagnose(tmp_path, table(VARIANTS, "a | 80 | 500 | 0.52", "b | 82 | 640 | 0.55 C1, 0.47 C16"))
    assert result.results is not None
    rates = {(row.series, row.load): row.side.accept_rate for row in result.results.rows}
    assert rates == {("a", "1"): None, ("a", "16"): None, ("b", "1"): 0.55, ("b", "16"): 0.47}


def test_results_alone_ask_for_a_log_once_and_not_for_every_rule(tmp_path: Path) -> None:
    result = diagnose(tmp_path, table("concurrency | MTP tok/s | accept length", "1 | 160 | 2.4"))
    assert [row.reason for row in result.not_checked] == ["no log is among the inputs"]
    assert "--baseline" in result.verdict.sentence


def test_without_results_there_is_no_such_part() -> None:
    fixtures = Path(__file__).parents[2] / "fixtures" / "rules" / "ACC001" / "fires"
    assert api.diagnose([str(next(fixtures.glob("*.log")))]).results is None


def test_a_workload_is_no_odd_one_out_and_set_ups_are_compared_on_the_same_prompts(tmp_path: Path) -> None:
    rows = (
        "code | MTP | 90 | 0.90 | 4.2 | 40",
        "math | MTP | 85 | 0.88 | 4.1 | 41",
        "prose | MTP | 30 | 0.30 | 1.9 | 60",
    )
    found = diagnose(
        tmp_path, table("workload | method | tok/s | accept rate | tokens/cycle | cycle (ms)", *rows)
    ).results
    assert found is not None
    assert (found.odd, found.contrast) == (None, None)
    text = table(
        "phase | our tok/s | our tokens/cycle | our ms/step | lab tok/s | lab tokens/cycle | lab ms/step",
        "code | 30 | 6.0 | 200 | 60 | 6.0 | 100", "prose | 12 | 2.4 | 200 | 16 | 2.4 | 150",
    )  # fmt: skip
    other = diagnose(tmp_path, text).results
    assert other is not None
    assert other.contrast is not None
    assert other.contrast.tps_ratio == 2.0
    assert {other.contrast.fast.side.tokens_per_cycle, other.contrast.slow.side.tokens_per_cycle} == {6.0}


def test_rows_that_share_a_name_are_told_apart_by_their_draft(tmp_path: Path) -> None:
    from traceana.report.results_sections import results_sections

    found = diagnose(tmp_path, table("num_speculative_tokens | tok/s c=1", "4 | 55.6", "2 | 54.9")).results
    (section,) = results_sections(found)
    names = [row.label for row in section.tables[0].rows]
    assert [name.rpartition(", ")[2] for name in names] == ["k=2", "k=4"]


def test_acceptance_by_load_without_a_speed_is_shown(tmp_path: Path) -> None:
    text = "MTP, num_speculative_tokens=2\n\n" + table("Concurrency | acceptance", "1 | 57.5%", "8 | 55.0%")
    found = diagnose(tmp_path, text).results
    assert found is not None
    assert [row.load for row in found.rows] == ["1", "8"]
    assert [row.side.accept_rate for row in found.rows] == pytest.approx([0.575, 0.55])
    assert [row.side.accept_length for row in found.rows] == pytest.approx([2.15, 2.1])


def test_every_draft_length_that_loses_is_a_finding_of_low_confidence(tmp_path: Path) -> None:
    text = table("mtp_k | tok/s", "0 | 90.1", "2 | 83.2", "4 | 64.0", "6 | 54.0")
    (finding,) = diagnose(tmp_path, text).findings
    assert (finding.code, finding.confidence) == ("CYC002", "low")


def test_a_slower_cycle_at_the_same_acceptance_is_named_where_only_throughput_and_cycle_are_given(
    tmp_path: Path,
) -> None:
    text = table("phase | our tok/s | our accept | lab tok/s | lab accept", "code | 30 | 0.95 | 60 | 0.95")
    text += "\nPer step:\n\n" + table("phase | our ms/step | lab ms/step", "code | 220 | 110")
    result = diagnose(tmp_path, text)
    assert result.results is not None
    found = result.results.contrast
    assert found is not None
    assert (found.tps_ratio, found.cycle_ratio, found.acceptance_ratio) == (2.0, 2.0, 1.0)
    assert "mostly the cycle, not the drafter" in result.verdict.sentence


def test_results_that_do_not_say_whether_they_speculate_are_not_taken_for_plain_ones(tmp_path: Path) -> None:
    sentence = diagnose(tmp_path, PLAIN).verdict.sentence
    assert sentence.startswith("3 results at 1 to 16 users: 100.0-1,100.0 tok/s")
    assert sentence.endswith("Nothing in the inputs says whether they speculate.")


def test_one_token_per_cycle_beside_drafters_is_a_baseline_and_no_collapse(tmp_path: Path) -> None:
    rows = ("AR decoding | 8 | 60 | 1.00", "drafter A | 8 | 100 | 3.0", "drafter B | 8 | 101 | 3.1")
    result = diagnose(tmp_path, table("set-up | concurrency | tok/s | accept length", *rows))
    assert result.results is not None
    assert result.results.odd is None
    assert "ACC009" not in codes(result)


def test_settings_a_hair_below_one_baseline_figure_are_noise(tmp_path: Path) -> None:
    spec = table("concurrency | k | MTP tok/s | accept length", "8 | 3 | 99.5 | 2.0", "8 | 5 | 99.9 | 2.2")
    plain = table("concurrency | tok/s", "8 | 100")
    assert not codes(diagnose(tmp_path, spec, plain))


def test_a_difference_in_neither_acceptance_nor_cycle_is_said_to_be_in_neither(tmp_path: Path) -> None:
    head = "run | MTP tok/s | tokens/cycle | cycle time (ms)"
    sentence = diagnose(tmp_path, table(head, "one | 100 | 2.0 | 20", "two | 50 | 2.0 | 20")).verdict.sentence
    assert "mostly in neither" in sentence
    assert "the rest 2.00x" in sentence


def test_repeats_of_one_throughput_with_other_acceptance_are_runs(tmp_path: Path) -> None:
    rows = ("1 | 100 | 3.0", "1 | 100 | 3.1", "1 | 50 | 1.5")
    result = diagnose(tmp_path, table("concurrency | MTP tok/s | accept length", *rows))
    assert result.results is not None
    assert [row.side.runs_tps for row in result.results.rows] == [(100.0, 100.0, 50.0)]
