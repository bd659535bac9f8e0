"""What people posted in public: the answer that a log can carry must come out, and no more than that."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from traceana import api
from traceana.report.diagnosis import Diagnosis, Level
from traceana.report.interface import render


def case(corpus: Path, number: str, *names: str, baseline: str | None = None) -> Diagnosis:
    folder = next((corpus / "cases").glob(f"{number}-*"))
    return api.diagnose([str(folder / name) for name in names], [str(folder / baseline)] if baseline else ())


def found(diagnosis: Diagnosis) -> dict[str, str]:
    return {f.code: f.confidence for f in diagnosis.findings}


def level(diagnosis: Diagnosis, running: int) -> Level:
    return next(entry for entry in diagnosis.levels if entry.running == running)


def test_01_acceptance_is_the_limiter_at_a_constant_cycle(corpus: Path) -> None:
    d = case(corpus, "01", "server.log")
    assert found(d) == {"ACC003": "high"}
    assert d.verdict.limiter == "acceptance"
    assert d.verdict.speculation == "unknown"  # no baseline, no verdict
    assert d.cycle.total_ms == pytest.approx(10.9, abs=0.05)
    assert [w.cycle_ms for w in d.windows if w.steady] == pytest.approx([10.9] * 4, abs=0.06)
    assert d.acceptance.accept_length == pytest.approx(1.9, abs=0.02)
    assert d.run.speculative["num_draft_tokens"] == 4  # 2.17 / 0.54: told from the numbers
    assert not d.windows[0].steady  # 0.39 tok/s is warm-up


def test_02_the_cap_and_the_queue_are_seen_and_no_speed_is_claimed(corpus: Path) -> None:
    d = case(corpus, "02", "server.log")
    assert "CAP003" in found(d)
    assert "GRF001" not in found(d)  # this version prints no `cuda graph` and the arguments are not in the excerpt
    assert d.cycle.total_ms is None


def test_08_engines_are_told_apart_and_their_acceptance_joined(corpus: Path) -> None:
    d = case(corpus, "08", "server.log")
    assert [s["name"] for s in d.streams] == ["Engine 002", "Engine 004"]
    assert [s["accept_length"] for s in d.streams] == [2.87, 2.98]
    assert d.findings == ()


def test_08_the_bad_image_is_not_taken_for_a_run_without_speculation(corpus: Path) -> None:
    d = case(corpus, "08", "server_bad.log")
    assert d.acceptance.accept_length == pytest.approx(1.24)
    assert d.run.speculative["active"] is True


def test_09_the_draft_is_too_long_and_not_a_bug(corpus: Path) -> None:
    d = case(corpus, "09", "server.log")
    assert set(found(d)) == {"ACC004"}
    assert d.acceptance.accept_length == pytest.approx(2.92, abs=0.02)
    assert "3 drafts keep" in d.findings[0].title
    assert d.findings[0].severity != "critical"


def test_11_the_batch_runs_above_the_captured_sizes(corpus: Path) -> None:
    d = case(corpus, "11", "server.log", "server_capture.log")
    finding = next(f for f in d.findings if f.code == "GRF001")
    assert (finding.confidence, finding.severity) == ("high", "warning")
    assert "36-46" in finding.title
    assert "32" in finding.title
    assert "35.1" in finding.why + str(finding.explains_ms_per_token)
    assert "38.8" in finding.why + str(finding.explains_ms_per_token)
    assert any("--cuda-graph-max-bs" in line for line in finding.fix)


def test_21_ngram_is_judged_by_coverage(corpus: Path) -> None:
    d = case(corpus, "21", "server.log")
    assert set(found(d)) == {"ACC005"}
    assert d.acceptance.tokens_per_cycle == pytest.approx(1.16, abs=0.02)
    assert d.acceptance.tokens_per_cycle < d.acceptance.accept_length


def test_23_the_pool_is_full_and_an_old_retraction_is_read(corpus: Path) -> None:
    assert found(case(corpus, "23", "server.log"))["CAP001"] == "high"
    old = case(corpus, "23", "server_old_retract.log")
    assert set(found(old)) == {"CAP002"}
    assert old.findings[0].severity == "info"  # before and after are not in the excerpt


@pytest.mark.parametrize("name", ["server.log", "server_29580.log"])
def test_24_a_capture_that_does_not_end_is_found_with_medium_confidence(corpus: Path, name: str) -> None:
    assert found(case(corpus, "24", name)) == {"STB001": "medium"}


@pytest.mark.parametrize("name", ["server_ep_capture.log", "server_slow_draft_capture.log"])
def test_24_slow_captures_that_end_are_no_finding(corpus: Path, name: str) -> None:
    assert found(case(corpus, "24", name)) == {}


def test_25_the_protocol_comes_from_the_tuning_line(corpus: Path) -> None:
    d = case(corpus, "25", "nccl.log")
    assert found(d) == {}
    assert any("1,026,048 bytes by Ring/Simple" in note for note in d.run.notes)


def test_31_custom_allreduce_is_refused_on_pcie(corpus: Path) -> None:
    assert found(case(corpus, "31", "server.log")) == {"COM001": "high"}


def test_33_the_environment_reached_both_ranks_and_switches_p2p_off(corpus: Path) -> None:
    assert found(case(corpus, "33", "nccl.log")) == {"COM003": "high"}
    assert found(case(corpus, "33", "nccl_p2p_disabled_pairs.log")) == {"COM003": "high"}


def test_34_nccl_lines_between_a_benchmark_are_read(corpus: Path) -> None:
    d = case(corpus, "34", "nccl_tests_shm2.txt")
    assert all(entry.unread == 0 for entry in d.inputs)


def test_35_the_rank_that_stands_in_verify_is_named(corpus: Path) -> None:
    d = case(corpus, "35", "server.log")
    assert set(found(d)) == {"STB002"}
    text = d.findings[0].title + d.findings[0].why
    assert "verify" in text
    assert "6" in text


@pytest.mark.parametrize("name", ["server_26357.log", "server_3752.log", "server_7553_dp.log"])
def test_35_without_stacks_the_confidence_is_low(corpus: Path, name: str) -> None:
    assert found(case(corpus, "35", name)) == {"STB002": "low"}


def test_44_incomplete_arguments_are_recognised(corpus: Path) -> None:
    d = case(corpus, "44", "server.log")
    assert found(d) == {"CFG002": "medium"}
    fix = " ".join(d.findings[0].fix)
    assert all(flag in fix for flag in ("num-steps", "eagle-topk", "num-draft-tokens"))


#: running -> (tok/s with, cycle ms, tok/s without, step ms, break-even, speed-up), of EXPECT.md and the case's notes
MTP = {
    1: (95.6, 28.3, 59.0, 17.8, 1.60, 1.62),
    2: (148.5, 37.0, 92.4, 22.6, 1.62, 1.61),
    4: (247.3, 42.2, 164.3, 25.0, 1.72, 1.50),
    8: (201.5, 100.0, 251.5, 31.7, 3.20, 0.80),
    16: (313.3, 129.9, 429.2, 37.3, 3.50, 0.73),
    32: (405.6, 200.0, 318.1, 105.3, 1.89, 1.28),
}


@pytest.mark.parametrize("running", MTP)
def test_46_the_on_off_table_comes_out_of_the_two_logs(corpus: Path, running: int) -> None:
    d = case(corpus, "46", "server_mtp.log", baseline="server_nomtp.log")
    with_, cycle, without, step, even, speedup = MTP[running]
    row = level(d, running)
    assert row.gen_tps == pytest.approx(with_, rel=0.06)  # the benchmark's own figures, requests' first tokens included
    assert row.cycle_ms == pytest.approx(cycle, rel=0.01)
    assert row.baseline_gen_tps == pytest.approx(without, rel=0.06)
    assert row.baseline_step_ms == pytest.approx(step, rel=0.01)
    assert row.break_even_accept_length == pytest.approx(even, rel=0.03)
    assert row.speedup == pytest.approx(speedup, abs=0.09)
    assert 2.5 <= row.accept_length <= 2.75  # flat: the drafter is innocent


def test_46_the_cliff_is_found_in_both_runs_and_the_drafter_is_not_blamed(corpus: Path) -> None:
    d = case(corpus, "46", "server_mtp.log", baseline="server_nomtp.log")
    first = d.findings[0]
    assert (first.code, first.severity, first.confidence) == ("CYC004", "critical", "high")
    assert "32 tokens" in first.title
    assert first.explains_ms_per_token is not None
    assert d.verdict.limiter == "cycle"
    assert not any(code.startswith("ACC") for code in found(d))
    assert d.baseline is not None
    assert "CYC004" in found(d.baseline)
    assert found(case(corpus, "46", "server_mtp.log"))["CYC004"] == "medium"  # one run alone is weaker evidence


def test_46_allreduces_can_explain_no_more_than_a_part_of_the_cycle(corpus: Path) -> None:
    folder = next((corpus / "cases").glob("46-*"))
    d = api.diagnose([str(folder / "server_mtp.log")], said=api.Said("RTX PRO 6000"))
    assert d.floor is not None
    assert (d.floor.layers, d.floor.hidden, d.floor.shape_from) == (78, 6144, "by the model's name")
    for entry in d.floor.levels:
        cycle = entry.phases[-1]
        (floor,) = cycle.floors
        assert floor.low_ms == 0  # its own allreduce is on, which nobody measured
        assert floor.provenance.value == "assumed"
        assert cycle.gap_low_ms is not None
        assert cycle.gap_low_ms > 0.75 * cycle.measured_ms


def test_46_without_the_gpu_nothing_is_compared(corpus: Path) -> None:
    d = case(corpus, "46", "server_mtp.log", baseline="server_nomtp.log")
    assert d.floor is not None
    assert not d.floor.levels
    assert "--gpu" in d.floor.missing[0]


@pytest.mark.parametrize("capture", ["eagle3-k3", "tp2-eagle3-k3-scopes", "ngram-k4", "baseline"])
def test_on_the_cpu_no_floor_of_a_gpu_is_spoken_of(corpus: Path, capture: str) -> None:
    assert api.diagnose([str(corpus / "vllm-cpu-captures" / capture)], said=api.Said("H100", 32, 4096)).floor is None


def test_53_the_eagle_flag_with_an_eagle3_draft(corpus: Path) -> None:
    d = case(corpus, "53", "server.log")
    assert set(found(d)) == {"ACC001"}
    assert d.findings[0].severity == "critical"


def test_55_dp_ranks_are_summed_and_warm_up_lines_dropped(corpus: Path) -> None:
    d = case(corpus, "55", "server.log")
    assert [s["name"] for s in d.streams] == ["DP0", "DP2", "DP5", "DP6", "DP7"]
    assert any("820 tok/s together, accept length 2.58 to 2.94" in note for note in d.run.notes)
    assert d.windows_steady == 0
    assert d.findings == ()
    assert case(corpus, "55", "server_node1.log").findings == ()


def test_61_old_formats_are_read(corpus: Path) -> None:
    d = case(corpus, "61", "lines.log")
    assert d.inputs[0].unread == 0
    assert d.inputs[0].recognised == 7


CAPTURES = sorted(
    str(p.relative_to(root))
    for root in [Path(__file__).parents[3] / "shared/corpus/vllm-cpu-captures"]
    for p in root.rglob("server.log")
)
FAILED = {"crash-eagle3-aux-mismatch", "crash-illegal-instruction", "startup-fail-d2t"}


@pytest.mark.parametrize("name", CAPTURES)
def test_vllm_captures_are_read_whole_and_healthy_ones_stay_silent(corpus: Path, name: str) -> None:
    d = api.diagnose([str(corpus / "vllm-cpu-captures" / name)])
    assert d.inputs[0].unread == 0
    assert d.inputs[0].partial == 0
    assert d.run.version in ("0.32.0", "0.28.0")
    codes = set(found(d))
    assert codes == ({"STB003"} if name.split("/", maxsplit=1)[0] in FAILED else set())


@pytest.mark.parametrize("name", ["clean/ngram-k4", "ngram-k4"])
def test_vllm_ngram_is_judged_by_tokens_per_cycle_not_by_acceptance_length(corpus: Path, name: str) -> None:
    d = api.diagnose([str(corpus / "vllm-cpu-captures" / name / "server.log")])
    assert d.acceptance.accept_length == pytest.approx(2.71, abs=0.03)
    assert d.acceptance.tokens_per_cycle == pytest.approx(1.76, abs=0.03)
    assert d.acceptance.coverage == pytest.approx(0.456, abs=0.02)
    assert "1.77 tokens per cycle" in d.verdict.sentence or "1.76 tokens per cycle" in d.verdict.sentence
    assert "2.7" not in d.verdict.sentence


@pytest.mark.parametrize(
    ("name", "length"), [("clean/eagle-k3", 2.186), ("clean/eagle3-k3", 1.870), ("clean/draft-k3", 1.858)]
)
def test_vllm_accept_length_equals_the_engines_counters(corpus: Path, name: str, length: float) -> None:
    d = api.diagnose([str(corpus / "vllm-cpu-captures" / name / "server.log")])
    assert d.acceptance.accept_length == pytest.approx(length, rel=0.01)
    assert d.acceptance.tokens_per_cycle == d.acceptance.accept_length


def test_vllm_iteration_lines_give_a_measured_cycle(corpus: Path) -> None:
    d = api.diagnose([str(corpus / "vllm-cpu-captures/eagle3-k3-iterdetails/server.log")])
    assert d.cycle.provenance == "measured"
    assert d.cycle.at_running == 2
    assert 8 < d.cycle.total_ms < 16


def test_every_log_gives_json_that_others_can_read(corpus: Path) -> None:
    logs = sorted(p for p in corpus.rglob("*.log") if "decode-matrix" not in p.name)
    assert len(logs) > 50
    for log in logs:
        text = render(api.diagnose([str(log)]), "json")
        assert json.loads(text)["schema"] == "traceana/diagnosis/1"
        assert "NaN" not in text


def test_the_command_line_pipes_into_json_tool(corpus: Path) -> None:
    log = next((corpus / "cases").glob("01-*")) / "server.log"
    command = f"{sys.executable} -m traceana.cli.app diagnose {log} --format json | {sys.executable} -m json.tool"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert '"schema": "traceana/diagnosis/1"' in done.stdout


def test_05_a_table_with_and_without_speculation_shows_the_break_even(corpus: Path) -> None:
    d = case(corpus, "05", "bench.md")
    assert d.results is not None
    assert d.results.sweep is not None
    (block,) = d.results.sweep.blocks
    one, four = block.levels
    assert (one.break_even, four.break_even) == (pytest.approx(2.13, abs=0.01), pytest.approx(2.35, abs=0.01))
    assert (one.spec.cycle_ms, four.spec.cycle_ms) == (pytest.approx(9.59, abs=0.01), pytest.approx(16.6, abs=0.05))
    assert found(d) == {"CYC002": "low"}  # every figure was measured once


def test_13_fewer_requests_decode_at_once_and_drafting_is_not_blamed(corpus: Path) -> None:
    d = case(corpus, "13", "bench_mtp.txt", baseline="bench_baseline.txt")
    assert found(d) == {"CAP004": "medium"}
    assert "8.27 requests decode at once with speculation, 18.1 without" in d.findings[0].title
    assert d.verdict.speculation == "unknown"


def test_16_the_cycle_is_4_9_steps_long_and_one_measurement_decides_nothing(corpus: Path) -> None:
    d = case(corpus, "16", "bench.md")
    assert d.verdict.break_even_accept_length == pytest.approx(4.89, abs=0.01)
    assert d.verdict.speedup == pytest.approx(1.22, abs=0.01)
    assert d.verdict.speculation == "unknown"
    assert not d.findings


def test_38_the_cycle_and_not_acceptance_makes_the_slow_run_slow(corpus: Path) -> None:
    d = case(corpus, "38", "bench.md")
    assert d.results is not None
    assert d.results.contrast is not None
    assert d.results.contrast.tps_ratio == pytest.approx(2.11, abs=0.005)
    assert d.results.contrast.cycle_ratio == pytest.approx(234 / 122)
    assert "not the drafter" in d.verdict.sentence


def test_42_acceptance_without_a_speed_is_shown_as_such(corpus: Path) -> None:
    d = case(corpus, "42", "bench.txt")
    assert d.verdict.sentence.startswith("Accept length 1.86")
    assert not d.findings


def test_47_speculation_is_ahead_up_to_128_users_and_behind_at_16k_context(corpus: Path) -> None:
    d = case(corpus, "47", "bench.md")
    assert d.results is not None
    assert d.results.sweep is not None
    first = d.results.sweep.blocks[0]
    assert [round(v.ratio.value, 2) for v in first.levels if v.ratio] == [1.32, 1.17, 1.41, 1.4, 1.19, 1.18, 1.12, 1.01]
    assert not found(d)


def test_50_the_set_up_that_corrupts_hidden_states_is_named_with_low_confidence(corpus: Path) -> None:
    d = case(corpus, "50", "bench.md")
    assert found(d) == {"ACC009": "low"}
    assert "no end barrier" in d.verdict.sentence


def test_57_draft_lengths_are_compared_and_nothing_is_wrong(corpus: Path) -> None:
    d = case(corpus, "57", "bench.md")
    assert d.verdict.speculation == "pays"
    assert not found(d)


def test_27_an_allreduce_whose_longest_call_is_ninety_medians_is_called_uneven(corpus: Path) -> None:
    d = case(corpus, "27", "kernels.txt")
    assert d.trace is not None
    (capture,) = d.trace.sums
    assert capture.categories["communication"] == pytest.approx(0.785)
    assert capture.collectives[0].verdict == "wait-inclusive"
    assert "10,417 us, the median one 116 us" in d.verdict.sentence


def test_29_a_printed_kernel_table_gives_the_share_of_communication(corpus: Path) -> None:
    d = case(corpus, "29", "kernels.md")
    assert d.trace is not None
    (capture,) = d.trace.sums
    assert capture.categories["communication"] == pytest.approx(0.314, abs=0.001)
    (allreduce,) = capture.collectives
    assert allreduce.mean_ms * 1000 == pytest.approx(22.3, abs=0.05)
    assert allreduce.library == "sglang_custom"


def test_34_the_floor_of_a_small_allreduce_is_said(corpus: Path) -> None:
    d = case(corpus, "34", "nccl_tests_tree8.txt")
    assert "8 B takes 42.6 us, 100 such calls in a row 4.3 ms" in d.verdict.sentence


def test_48_a_quoted_graph_line_shows_a_misjudged_topology(corpus: Path) -> None:
    d = case(corpus, "48", "nccl_graph_fragments.txt")
    assert found(d) == {"COM004": "high"}


def test_58_times_by_rank_are_mostly_waiting(corpus: Path) -> None:
    d = case(corpus, "58", "per_rank.md")
    assert d.collective_times is not None
    (one,) = d.collective_times.by_rank
    assert (one.shortest_us, one.waits_longest) == (pytest.approx(10.519), 3)
    assert case(corpus, "58", "kernels_mi355x.md").trace is not None
