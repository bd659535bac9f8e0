"""Tables that lie on their side: a measured value per row, a set-up or a statistic per column."""

from pathlib import Path

from tests.parsers.bench.results import Row, got
from tests.parsers.bench.test_tables import table


def of(rows: list[Row], series: str) -> Row:
    (row,) = [r for r in rows if r.get("series") == series]
    return row


def test_each_column_of_a_comparison_is_a_set_up(tmp_path: Path) -> None:
    text = "## MATH, Concurrency = 48, Temperature = 0\n\n" + table(
        "Metric | MTP one | MTP five | Δ",
        "Benchmark duration (s) | 120.5 | 101.2 | -16 %",
        "Output token throughput (tok/s) | 900.5 | 1,204.4 | +34 %",
        "Median TPOT (ms) | 31.2 | 24.6 | -21 % (better)",
        "P99 TPOT (ms) | 41.2 | 34.6 | -16 %",
        "Acceptance rate (%) | 81.5 | 44.2 | -37 pts",
        "Acceptance length | 1.81 | 3.21 | +77 %",
        "Draft tokens | 120,300 | 440,100 | +265 %",
        "Accepted tokens | 98,044 | 194,524 | +98 %",
        "Per-position acceptance (%) - Pos 0 | 81.5 | 75.1 | -6 pts",
        "Per-position acceptance (%) - Pos 1 | - | 55.4 | -",
    )
    rows = got(tmp_path, text).rows()
    assert len(rows) == 2
    one, five = of(rows, "MTP one"), of(rows, "MTP five")
    assert (one["concurrency"], one["output_tps"], one["tpot_median_ms"], one["tpot_p99_ms"]) == (48, 900.5, 31.2, 41.2)
    assert (round(five["accept_rate_printed"], 6), five["accept_length_printed"]) == (0.442, 3.21)
    assert (one["drafted"], one["accepted"], one.get("num_draft_tokens")) == (120_300, 98_044, None)
    assert five["duration_s"] == 101.2
    assert one["speculative"] is True


def test_with_and_without_in_the_columns_of_one_row_with_a_unit(tmp_path: Path) -> None:
    rows = got(tmp_path, table(" | autoregressive | EAGLE3", "decode (tok/s) | 41.2 | 60.4")).rows()
    assert [(r["series"], r["speculative"], r["output_tps"]) for r in rows] == [
        ("autoregressive", False, 41.2),
        ("EAGLE3", True, 60.4),
    ]


def test_names_of_workloads_are_not_taken_for_measures(tmp_path: Path) -> None:
    rows = got(
        tmp_path, table("workload | baseline tok/s | MTP tok/s", "Code generation | 40 | 55", "Decode | 41 | 50")
    ).rows()
    assert sorted(r["output_tps"] for r in rows) == [40, 41, 50, 55]


def test_columns_of_statistics_are_one_run_of_a_client_that_times_each_token(tmp_path: Path) -> None:
    text = (
        "┃ Statistic ┃ avg ┃ min ┃ max ┃ p99 ┃ p50 ┃\n"
        "┡━━━━━━━━━━━╇━━━━━╇━━━━━╇━━━━━╇━━━━━╇━━━━━┩\n"
        "│ Time To First Token (ms) │ 41.5 │ 30.1 │ 60.2 │ 59.9 │ 40.3 │\n"
        "│ Inter Token Latency (ms) │ 6.2 │ 5.1 │ 9.2 │ 9.0 │ 6.1 │\n"
        "│ Output Sequence Length (tokens) │ 311.7 │ 100.0 │ 512.0 │ 500.0 │ 300.0 │\n"
        "│ Output Token Throughput (per sec) │ 1,150.94 │ N/A │ N/A │ N/A │ N/A │\n"
        "└───────────┴─────┴─────┴─────┴─────┴─────┘\n"
    )
    (row,) = got(tmp_path, text).rows()
    assert (row["ttft_mean_ms"], row["ttft_p99_ms"], row["ttft_median_ms"]) == (41.5, 59.9, 40.3)
    assert (row["tpot_mean_ms"], row.get("itl_mean_ms"), row["output_tps"]) == (6.2, None, 1150.94)


def test_keys_and_values_are_one_run(tmp_path: Path) -> None:
    text = (
        "+---------------------------------+----------+\n| Key | Value |\n"
        "+=================================+==========+\n| Time taken for tests (s) | 50.5 |\n"
        "+---------------------------------+----------+\n| Number of concurrency | 16 |\n"
        "+---------------------------------+----------+\n| Output token throughput (tok/s) | 612.5 |\n"
        "+---------------------------------+----------+\n| Average time to first token (s) | 0.19 |\n"
        "+---------------------------------+----------+\n| Average time per output token (s) | 0.0241 |\n"
        "+---------------------------------+----------+\n"
    )
    (row,) = got(tmp_path, text).rows()
    assert (row["concurrency"], row["duration_s"], row["output_tps"]) == (16, 50.5, 612.5)
    assert (row["ttft_mean_ms"], row["tpot_mean_ms"]) == (190.0, 24.1)


def test_a_tools_own_name_of_a_value_is_no_name_of_a_set_up(tmp_path: Path) -> None:
    text = table(
        " | AR | MTP", "tokens generated | 60 | 60", "decode throughput (`generation_tps`) | 7.5 tok/s | 5.5 tok/s",
        "wall time (`generation_s`) | 40.5 s | 55.1 s", "prefill, 30 prompt tokens (`prompt_tps`) | 90 tok/s | 88 tok/s",
    )  # fmt: skip
    rows = got(tmp_path, text).rows()
    assert [(r["series"], r["speculative"], r["output_tps"], r["duration_s"]) for r in rows] == [
        ("AR", False, 7.5, 40.5), ("MTP", True, 5.5, 55.1),
    ]  # fmt: skip


def test_rows_of_one_measure_for_two_set_ups_stay_apart(tmp_path: Path) -> None:
    text = table(
        "Metric | C=1 | C=8", "Baseline throughput (tok/s) | 80 | 520", "EAGLE3 throughput (tok/s) | 150 | 700"
    )
    assert {(r["series"], r["concurrency"], r["output_tps"]) for r in got(tmp_path, text).rows()} == {
        ("Baseline", 1, 80), ("Baseline", 8, 520), ("EAGLE3", 1, 150), ("EAGLE3", 8, 700),
    }  # fmt: skip
