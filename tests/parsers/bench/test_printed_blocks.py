"""Printed results: every generation of the serving block, one-batch runs, speculative sweeps, trtllm-bench."""

from pathlib import Path

import pytest

from tests.parsers.bench.results import attrs, got

VLLM = """Namespace(backend='vllm', model='acme/m-8b', dataset_name='random', random_input_len=1024, random_output_len=256, \
temperature=0.0, ignore_eos=True, header=None, request_rate=inf, max_concurrency=4)
Starting main benchmark run...
Traffic request rate: inf
Maximum request concurrency: 4
============ Serving Benchmark Result ============
Successful requests:                     32
Failed requests:                         1
Benchmark duration (s):                  20.00
Total input tokens:                      32768
Total generated tokens:                  8192
Request throughput (req/s):              1.60
Output token throughput (tok/s):         409.60
Peak output token throughput (tok/s):    300.00
Total token throughput (tok/s):          2048.00
---------------Time to First Token----------------
Mean TTFT (ms):                          120.50
Median TTFT (ms):                        118.00
P99 TTFT (ms):                           180.00
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          9.30
---------------Inter-token Latency----------------
Mean ITL (ms):                           20.40
---------------Speculative Decoding---------------
Acceptance rate (%):                     41.00
Acceptance length:                       2.23
Drafts:                                  3670
Draft tokens:                            11010
Accepted tokens:                         4514
Per-position acceptance (%):
  Position 0:                            60.00
  Position 1:                            40.00
  Position 2:                            23.00
==================================================
"""
SGLANG_046 = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max reqeuest concurrency:                16
Successful requests:                     64
Benchmark duration (s):                  40.00
Total input tokens:                      16384
Total generated tokens:                  32768
Total generated tokens (retokenized):    32700
Request throughput (req/s):              1.60
Input token throughput (tok/s):          409.60
Output token throughput (tok/s):         819.20
Total token throughput (tok/s):          1228.80
Concurrency:                             15.60
Accept length:                           2.50
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   9750.00
---------------Time to First Token----------------
Mean TTFT (ms):                          210.00
---------------Inter-Token Latency----------------
Mean ITL (ms):                           18.80
Median ITL (ms):                         18.20
==================================================
"""


def test_the_block_of_vllm_with_its_arguments_and_positions(tmp_path: Path) -> None:
    read = got(tmp_path, VLLM)
    point = read.point
    assert (point["tool"], point["concurrency"], point["request_rate"]) == ("vllm_bench", 4, float("inf"))
    assert (point["output_tps"], point["requests"], point["failed"]) == (409.6, 32, 1)
    assert (point["model"], point["dataset"], point["temperature"]) == ("acme/m-8b", "random", 0.0)
    assert (point["output_length"], point["line"]) == (256, 5)
    assert (point["accept_rate_printed"], point["accept_length_printed"], point["k"]) == (0.41, 2.23, 3)
    assert point["per_position"] == pytest.approx([0.6, 0.4, 0.23])
    assert (point["drafts"], point["drafted"], point["accepted"]) == (3670, 11010, 4514)
    assert attrs(point)["max_output_tokens_per_s"] == 300


def test_the_block_of_sglang_as_the_first_versions_printed_it(tmp_path: Path) -> None:
    point = got(tmp_path, SGLANG_046).point
    assert (point["tool"], point["concurrency"], point["concurrency_seen"]) == ("sglang_bench", 16, 15.6)
    assert (point["accept_length_printed"], point["accept_scope"], point["e2e_mean_ms"]) == (2.5, "lifetime", 9750)
    assert "itl_of" not in point  # without a time per token nothing tells what the gap is per


@pytest.mark.parametrize(("itl", "per"), [(7.9, "token"), (19.0, "chunk"), (60.0, None)])
def test_what_a_printed_itl_of_sglang_is_per_shows_beside_the_time_per_token(
    tmp_path: Path, itl: float, per: str | None
) -> None:
    text = SGLANG_046.replace("18.80", str(itl)).replace(
        "---------------Inter", "Mean TPOT (ms):   7.80\n---------------Inter"
    )
    assert got(tmp_path, text).point.get("itl_of") == per


def test_two_blocks_in_one_text_are_two_points(tmp_path: Path) -> None:
    rows = got(tmp_path, VLLM + "some words\n" + SGLANG_046).rows()
    assert [r["tool"] for r in rows] == ["vllm_bench", "sglang_bench"]
    assert "model" not in rows[1]  # the arguments belonged to the first


def test_a_block_that_breaks_off_keeps_what_came_before(tmp_path: Path) -> None:
    point = got(tmp_path, VLLM[: VLLM.index("Median TTFT")]).point
    assert (point["output_tps"], point["ttft_mean_ms"]) == (409.6, 120.5)
    assert "tpot_mean_ms" not in point


def test_a_block_inside_a_server_log_is_read_beside_it(tmp_path: Path) -> None:
    line = (
        "[2026-02-03 09:15:{:02d} TP0] Decode batch, #running-req: 4, #token: 2183, token usage: 0.01, accept len: 2.05, "
        "cuda graph: True, gen throughput (token/s): 402.11, #queue-req: 0\n"
    )
    log = "".join(line.format(second) for second in range(30))
    read = got(tmp_path, log + SGLANG_046 + log)
    assert len(read.rows("decode_samples")) == 60
    assert read.point["output_tps"] == 819.2
    assert read.report.format == "sglang + sglang_bench"
    assert read.report.unread == 0
    assert read.report.recognised == 60 + SGLANG_046.count("\n") - 1  # the empty line before it is nobody's


def test_lines_of_a_server_inside_a_block_do_not_break_it(tmp_path: Path) -> None:
    noise = "(EngineCore pid=7) INFO 02-03 09:15:20 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s\n"
    text = VLLM.replace("Total input", noise + "Total input")
    assert got(tmp_path, text).point["input_tokens"] == 32768


ONE_BATCH = """batch size: 8
input_len: 1024
output_len: 256
latency: 4.20 s
input throughput: 16384.00 tok/s
output throughput: 555.50 tok/s
last_ttft: 0.50 s
last generation throughput: 560.10 tok/s
acc_length: 1.93 \n
cache hit rate: 0.0000
batch size: 16
latency: 5.00 s
output throughput: 900.00 token/s
(input + output) throughput: 4100.00 token/s
"""


def test_one_batch_runs_of_both_generations(tmp_path: Path) -> None:
    first, second = got(tmp_path, ONE_BATCH).rows()
    assert (first["concurrency"], first["output_tps"], first["accept_length_printed"]) == (8, 555.5, 1.93)
    assert (first["ttft_mean_ms"], first["duration_s"], first["output_tokens"]) == (500, 4.2, 2048)
    assert (second["concurrency"], second["output_tps"], second["duration_s"]) == (16, 900, 5)
    assert "accept_length_printed" not in second


def test_a_batch_size_alone_is_no_result(tmp_path: Path) -> None:
    read = got(tmp_path, "batch size: 8\nloading...\nbatch size: 16\nloading...\n")
    assert read.rows() == []
    assert read.report.format == "unknown"


def test_lines_of_a_speculative_sweep(tmp_path: Path) -> None:
    text = (
        "Start i=0: batch_size=1, steps=0, topk=0, num_draft_tokens=0\n"
        "Finish i=0: batch_size=1, steps=0, topk=0, num_draft_tokens=0, speed=84.22 token/s, step_time=11.87 ms\n"
        "Finish i=1: batch_size=1, steps=3, topk=1, num_draft_tokens=4, speed=61.70 token/s, step_time=33.20 ms\n"
    )
    plain, spec = got(tmp_path, text).rows()
    assert (plain["speculative"], plain["step_ms"], plain["user_tps"]) == (False, pytest.approx(11.87), 84.22)
    assert (spec["num_steps"], spec["topk"], spec["num_draft_tokens"], spec["speculative"]) == (3, 1, 4, True)
    assert "num_steps" not in plain


TRTLLM = """===========================================================
= PYTORCH BACKEND
===========================================================
Model:			acme/m-235b
= REQUEST DETAILS
Number of requests:             64
Number of concurrent requests:  7.5000
Average Input Length (tokens):  3600.0000
Average Output Length (tokens): 256.0000
===========================================================
= PERFORMANCE OVERVIEW
===========================================================
Request Throughput (req/sec):                     3.2000
Total Output Throughput (tokens/sec):             819.2000
Per User Output Throughput [w/ ctx] (tps/user):   109.2000
Total Latency (ms):                               20000.0000
Average request latency (ms):                     2400.0000
Average time-to-first-token [TTFT] (ms):          110.0000
Average time-per-output-token [TPOT] (ms):        8.9000

-- Per-Request Time-per-Output-Token [TPOT] Breakdown (ms)

[TPOT] AVERAGE: 8.9000
[TPOT] P50    : 8.7000
[TPOT] P99    : 12.1000
[AL] MINIMUM: 1.04
[AL] AVERAGE: 1.86
[AL] P50    : 1.78
"""


def test_the_overview_of_trtllm_bench(tmp_path: Path) -> None:
    point = got(tmp_path, TRTLLM).point
    assert (point["tool"], point["output_tps"], point["user_tps"]) == ("trtllm_bench", 819.2, 109.2)
    assert (point["duration_s"], point["tpot_median_ms"], point["tpot_p99_ms"]) == (20, 8.7, 12.1)
    assert (point["accept_length_printed"], point["concurrency_seen"], point["output_length"]) == (1.86, 7.5, 256)
    assert attrs(point)["al_p50"] == 1.78


def test_acceptance_details_of_several_batch_sizes_stay_apart(tmp_path: Path) -> None:
    text = "".join(f"Batch Size: {n}\n-- Acceptance Length Details --\n[AL] AVERAGE: 1.{n}\n" for n in (8, 16, 64))
    rows = got(tmp_path, text).rows()
    assert [(r["concurrency"], r["accept_length_printed"]) for r in rows] == [(8, 1.8), (16, 1.16), (64, 1.64)]


def _plain(block: str) -> str:
    """The block of a server that does not speculate."""
    lines = block.splitlines(keepends=True)
    return "".join(line for line in lines if "Accept length" not in line)


def test_a_block_without_acceptance_beside_one_with_is_the_baseline(tmp_path: Path) -> None:
    rows = got(tmp_path, SGLANG_046 + "\nand now the other server\n" + _plain(SGLANG_046)).rows()
    assert [row.get("speculative") for row in rows] == [True, False]
    assert "without speculation" in attrs(rows[1])["assumed"]
    (alone,) = got(tmp_path, _plain(SGLANG_046)).rows()
    assert "speculative" not in alone


def test_words_above_a_block_name_it_when_they_say_with_or_without(tmp_path: Path) -> None:
    text = (
        "# Results\n### Without MTP, conc=16\n```\n" + _plain(SGLANG_046) + "```\n### MTP = 3\n```\n" + SGLANG_046
        + "```\nEAGLE3 was not tried.\n\n\nThe machine was idle.\nThe driver is new.\nAll else is as it was.\n" + SGLANG_046
    )  # fmt: skip
    rows = got(tmp_path, text).rows()
    assert [(r.get("series"), r["speculative"], r.get("k")) for r in rows] == [
        ("Without MTP", False, None), ("MTP = 3", True, 3), ("MTP = 3", True, 3),
    ]  # fmt: skip


def test_the_line_of_sglangs_eagle_benchmark_is_named_by_the_line_before(tmp_path: Path) -> None:
    text = (
        "baseline:\n#questions: 40, Throughput: 151.10 token/s, Acceptance length: 1.00\n\nEAGLE-3 (num_steps=4):\n"
        "#questions: 40, Throughput: 290.50 token/s, Acceptance length: 4.12\n"
    )
    rows = got(tmp_path, text).rows()
    assert [(r["series"], r["speculative"], r["output_tps"], r.get("num_steps")) for r in rows] == [
        ("baseline", False, 151.1, None), ("EAGLE-3 (num_steps=4)", True, 290.5, 4),
    ]  # fmt: skip
    assert rows[1]["accept_length_printed"] == 4.12


def test_base_and_its_load_above_a_block(tmp_path: Path) -> None:
    rows = got(tmp_path, f"*) base (concurrency = 16):\n```\n{_plain(SGLANG_046)}```\n").rows()
    assert [(r["series"], r["speculative"]) for r in rows] == [("base", False)]
