"""Tables as people write them: columns by name, units as written, nothing guessed."""

from pathlib import Path

import pytest

from tests.parsers.bench.results import Row, attrs, got
from traceana_parsers.bench.headings import LOADS, MEASURE, UNKNOWN, read
from traceana_parsers.bench.words import loads, speculates


def table(*rows: str) -> str:
    head, *body = rows
    return "\n".join([f"| {head} |", "|" + "---|" * (head.count("|") + 1), *(f"| {row} |" for row in body)]) + "\n"


def figures(rows: list[Row], column: str = "output_tps") -> list[tuple[object, object, object]]:
    return [(r.get("series"), r.get("concurrency"), r.get(column)) for r in rows]


@pytest.mark.parametrize(
    ("heading", "column", "statistic", "unit"),
    [
        ("TTFT (ms)", "ttft", None, "ms"),
        ("p99 TTFT", "ttft", "p99", None),
        ("Median TPOT [ms]", "tpot", "median", "ms"),
        ("mean_tpot_ms", "tpot", "mean", "ms"),
        ("ms/token", "tpot", None, None),
        ("ITL (ms)", "itl", None, "ms"),
        ("Inter-chunk latency P50", "chunk", "median", None),
        ("E2E P50", "e2e", "median", None),
        ("Output tok/s", "output_tps", None, "tok/s"),
        ("**tok/s**", "output_tps", None, "tok/s"),
        ("Throughput (k tok/s)", "output_tps", None, "k tok/s"),
        ("output_throughput", "output_tps", None, None),
        ("Decode tok/s C=8", "output_tps", None, "tok/s"),
        ("tok/s/user", "user_tps", None, "tok/s/user"),
        ("Per-request tok/s", "user_tps", None, "tok/s"),
        ("Total tok/s", "total_tps", None, "tok/s"),
        ("Prefill tok/s", "input_tps", None, "tok/s"),
        ("Accept length", "accept_length_printed", None, None),
        ("acc len", "accept_length_printed", None, None),
        ("AL", "accept_length_printed", None, None),
        ("Acceptance rate (%)", "accept_rate_printed", None, "%"),
        ("tok/cycle", "tokens_per_cycle_printed", None, None),
        ("cycle time (ms)", "step_ms", None, "ms"),
        ("step", "step_ms", None, None),
    ],
)
def test_headings_of_measured_values(heading: str, column: str, statistic: str | None, unit: str | None) -> None:
    found = read(heading)
    if heading == "step":  # the number of a step, unless a unit says that it is a time
        assert found.role == UNKNOWN
        return
    assert (found.role, found.column, found.statistic, found.unit) == (MEASURE, column, statistic, unit)


@pytest.mark.parametrize(
    ("heading", "column"),
    [
        ("C", "concurrency"),
        ("# users", "concurrency"),
        ("Batch size", "concurrency"),
        ("max_concurrency", "concurrency"),
        ("Context length", "context_tokens"),
        ("ISL", "context_tokens"),
        ("OSL", "output_length"),
        ("K", "k"),
        ("num_speculative_tokens", "k"),
        ("speculative-num-steps", "num_steps"),
        ("Request rate", "request_rate"),
    ],
)
def test_headings_of_loads(heading: str, column: str) -> None:
    found = read(heading.replace("-", "_"))
    assert (found.role, found.column) == (LOADS, column)


@pytest.mark.parametrize("heading", ["Speedup", "Gain %", "E1 over vanilla", "Accuracy", "Model", "Kernel", "Δ"])
def test_headings_that_are_no_measurement(heading: str) -> None:
    assert read(heading).role not in (MEASURE, LOADS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("EAGLE3", True),
        ("MTP on", True),
        ("n-gram k=4", True),
        ("no MTP", False),
        ("MTP off", False),
        ("without speculative decoding", False),
        ("vanilla", False),
        ("AR", False),
        ("Baseline", False),
        ("EAGLE3 vs baseline", None),
        ("NCCL_PROTO=LL", None),
        ("H100", None),
    ],
)
def test_words_for_runs_with_and_without_speculation(text: str, said: bool | None) -> None:
    assert speculates(text) is said


def test_loads_in_words() -> None:
    assert loads("C=8, ctx=32k") == ({"concurrency": 8, "context_tokens": 32768}, "")
    assert loads("single request, 256 tokens") == ({"concurrency": 1, "output_length": 256}, "")
    assert loads("K=2") == ({"k": 2}, "")
    assert loads("EAGLE3 tp=8") == ({}, "EAGLE3 tp=8")


def test_several_series_in_one_table(tmp_path: Path) -> None:
    text = table("c | EAGLE3 tok/s | Baseline tok/s | Ratio", "1 | 77.5 | 92.6 | 0.84", "10 | 239.6 | 457.2 | 0.52")
    rows = got(tmp_path, text).rows()
    assert figures(rows) == [("EAGLE3", 1, 77.5), ("Baseline", 1, 92.6), ("EAGLE3", 10, 239.6), ("Baseline", 10, 457.2)]
    assert [r["speculative"] for r in rows] == [True, False, True, False]


@pytest.mark.parametrize(
    "title", ["### Throughput (tok/s)", "Output tok/s by concurrency, 512 tokens each:", "tok/s\n"]
)
def test_a_title_says_what_the_numbers_are(tmp_path: Path, title: str) -> None:
    text = title + "\n\n" + table("C | EAGLE3 | Baseline", "1 | 77.5 | 92.6", "2 | 125.1 | 159.7")
    read = got(tmp_path, text)
    assert read.report.questions == []
    assert figures(read.rows())[0] == ("EAGLE3", 1, 77.5)


def test_numbers_of_nothing_known_are_asked_about_not_guessed(tmp_path: Path) -> None:
    text = "# Results\n" + table("C | EAGLE3 | Baseline", "1 | 77.5 | 92.6", "2 | 125.1 | 159.7")
    read = got(tmp_path, text)
    assert read.rows() == []
    (question,) = read.report.questions
    assert (question.line, question.headings) == (2, ("EAGLE3", "Baseline"))
    assert {"output_tps", "tpot_mean_ms"} <= set(question.choices)
    assert read.report.problem is not None
    assert read.report.problem.startswith("line 2: nothing says what is measured below 'EAGLE3', 'Baseline'; say it as")
    answered = got(tmp_path, text, columns={"eagle3": "output_tps", "Baseline": "output_tps"})
    assert figures(answered.rows())[:2] == [("EAGLE3", 1, 77.5), ("Baseline", 1, 92.6)]
    assert answered.report.problem is None


def test_the_total_of_tokens_is_asked_about(tmp_path: Path) -> None:
    """It is of all users in one tool and counts the prompt in another."""
    text = table("Users | Total tok/s", "1 | 100", "2 | 180")
    assert got(tmp_path, text).report.questions[0].headings == ("Total tok/s",)
    both = table("Users | Total tok/s | tok/s/user", "1 | 100 | 100", "2 | 180 | 90")
    assert [r["output_tps"] for r in got(tmp_path, both).rows()] == [100, 180]


def test_units_as_written_are_brought_to_one(tmp_path: Path) -> None:
    text = table(
        "Concurrency | Throughput | TTFT | TPOT | Acceptance",
        "1 | 84.0 tok/s | 0.12 s | 11.9 ms | 45.5%",
        "32 | 1.2k tok/s | 1,200 ms | 0.0261 s | 44 %",
    )
    one, many = got(tmp_path, text).rows()
    assert (one["output_tps"], one["ttft_mean_ms"], one["tpot_mean_ms"]) == (84, 120, 11.9)
    assert (many["output_tps"], many["ttft_mean_ms"], many["tpot_mean_ms"]) == (1200, 1200, pytest.approx(26.1))
    assert (one["accept_rate_printed"], many["accept_rate_printed"]) == (pytest.approx(0.455), pytest.approx(0.44))
    assert "assumed" not in attrs(one)


def test_a_unit_that_is_not_written_is_said_to_be_assumed(tmp_path: Path) -> None:
    (row,) = got(tmp_path, table("c | tok/s | TPOT", "1 | 84 | 11.9")).rows()
    assert (row["tpot_mean_ms"], attrs(row)) == (11.9, {"assumed": "TPOT in ms"})


def test_a_cell_in_another_unit_than_its_heading_is_refused(tmp_path: Path) -> None:
    read = got(tmp_path, table("c | tok/s | TTFT (ms)", "1 | 84 | 120", "2 | 150 | 0.2 s", "4 | 50 ms | 140"))
    first, second, third = read.rows()
    assert first["ttft_mean_ms"] == 120
    assert "ttft_mean_ms" not in second
    assert second["doubt"] == "'TTFT (ms)' holds '0.2 s': heading and cell contradict each other"
    assert ("output_tps" in third, third["ttft_mean_ms"]) == (False, 140)
    assert read.report.partial == 2
    assert read.report.problem == (
        "line 4: 'TTFT (ms)' holds '0.2 s': heading and cell contradict each other (and 1 more)"
    )


def test_times_that_cannot_be_in_the_assumed_unit_are_named(tmp_path: Path) -> None:
    (row,) = got(tmp_path, table("c | tok/s | TPOT", "1 | 84 | 11900")).rows()
    assert (
        row["doubt"] == "84 tok/s at 11900 ms per token needs 1000 requests at once, 1 were asked for: a unit is wrong"
    )


def test_no_numbers_and_missing_cells(tmp_path: Path) -> None:
    read = got(tmp_path, table("c | tok/s", "1 | nan", "2 | -", "4 | skip", "8 | 300", "oops | 5", "avg | 100", "16"))
    rows = read.rows()
    assert figures(rows) == [(None, 1, None), (None, 8, 300.0)]
    assert rows[0]["doubt"] == "'tok/s' holds 'nan', which is no number"
    assert read.report.partial == 3
    assert read.report.problem == "line 7: 'oops' is no concurrency; the row was not read (and 2 more)"


def test_two_numbers_in_one_cell_are_repeats(tmp_path: Path) -> None:
    rows = got(tmp_path, table("`NCCL_PROTO` | C32 tok/s", "default | `1003.5`, `998.6`", "`LL` | 998.1")).rows()
    assert [(r["series"], r["concurrency"], r["output_tps"]) for r in rows] == [
        ("NCCL_PROTO=default", 32, 1003.5),
        ("NCCL_PROTO=default", 32, 998.6),
        ("NCCL_PROTO=LL", 32, 998.1),
    ]


def test_a_matrix_of_contexts_by_users(tmp_path: Path) -> None:
    text = "## MTP off, tok/s\n" + table("ctx \\ conc | 1 | 8", "0 | 59.0 | 251.5", "16k | 57.0 | ∅")
    rows = got(tmp_path, text).rows()
    assert [(r["context_tokens"], r["concurrency"], r["output_tps"]) for r in rows] == [
        (0, 1, 59),
        (0, 8, 251.5),
        (16384, 1, 57),
    ]
    assert {r["speculative"] for r in rows} == {False}


def test_a_matrix_whose_values_could_be_anything_is_asked_about(tmp_path: Path) -> None:
    text = "## MTP on\n" + table("Context | cc1 | cc8", "0 | 10.0 | 30.0")
    read = got(tmp_path, text)
    assert (read.rows(), read.report.questions[0].headings) == ([], ("cc1", "cc8", "..."))


def test_a_matrix_that_rises_with_users_and_with_context_is_no_throughput(tmp_path: Path) -> None:
    text = table("Context | cc1 | cc8", "0 | 10.0 | 30.0", "16k | 12.0 | 40.0", "32k | 14.0 | 50.0")
    assert got(tmp_path, text).rows() == []


def test_tables_of_other_things_give_nothing_and_ask_nothing(tmp_path: Path) -> None:
    text = (
        table("Fruit | Count | Total (kg)", "apple | 5 | 1.2", "pear | 6 | 3.4") + "\n" + table("Day | Rain", "1 | 2")
    )
    read = got(tmp_path, text)
    assert (read.rows(), read.report.questions, read.report.format) == ([], [], "unknown")


def test_rank_and_rich_frames_are_tables_too(tmp_path: Path) -> None:
    text = """Aggregate tok/s
╭────────────┬──────┬─────────────╮
│ ctx \\ conc │    1 │           2 │
├────────────┼──────┼─────────────┤
│ 0          │ 95.6 │ 148.5 (2/2) │
╰────────────┴──────┴─────────────╯
+-----+-------+
| c   | tok/s |
+=====+=======+
| 4   | 240   |
+-----+-------+
"""
    assert figures(got(tmp_path, text).rows()) == [(None, 1, 95.6), (None, 2, 148.5), (None, 4, 240.0)]


def test_the_table_of_one_batch_runs_has_an_itl_per_token(tmp_path: Path) -> None:
    text = table(
        "batch size | input len | latency (s) | input throughput (tok/s) | output throughput (tok/s) | acc length | "
        "ITL (ms) | input cost ($/1M) | output cost ($/1M)",
        "8 | 1024 | 4.20 | 16384.00 | 555.50 | 1.93 | 14.40 | 0.01 | 0.02",
    )
    point = got(tmp_path, text).point
    assert (point["tool"], point["tpot_mean_ms"], point["duration_s"]) == ("one_batch", 14.4, 4.2)
    assert (point["context_tokens"], attrs(point)["input_tps"]) == (1024, 16384)
    assert "itl_mean_ms" not in point


def test_comma_semicolon_and_tab_separated_files(tmp_path: Path) -> None:
    for separator in ",;\t":
        text = "\n".join(
            separator.join(row.split()) for row in ("concurrency eagle3_tps baseline_tps", "1 77.5 92.6", "8 300 340")
        )
        rows = got(tmp_path, text).rows()
        assert figures(rows)[:2] == [("eagle3", 1, 77.5), ("baseline", 1, 92.6)]
        assert [r["line"] for r in rows] == [2, 2, 3, 3]


def test_columns_named_like_the_keys_of_vllm(tmp_path: Path) -> None:
    text = "max_concurrency,output_throughput,median_tpot_ms,spec_accept_len,accept_pct\n4,409.6,9.3,2.23,41.0\n"
    point = got(tmp_path, text).point
    assert (point["concurrency"], point["output_tps"], point["tpot_median_ms"]) == (4, 409.6, 9.3)
    assert (point["accept_length_printed"], point["accept_rate_printed"]) == (2.23, pytest.approx(0.41))


def test_a_decimal_comma_is_not_read_as_two_columns(tmp_path: Path) -> None:
    read = got(tmp_path, "concurrency,tok/s\n1,77\n2,125,1\n")
    assert figures(read.rows()) == [(None, 1, 77.0)]
    assert read.report.problem == "line 3: 3 cells below 2 headings; the row was not read"


AIPERF_CSV = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25,std
Time to First Token (ms),"1,050.50",1,2,99.00,95.00,90.00,75.00,50.00,25.00,4.00
Inter Token Latency (ms),15.00,1,2,3,3,3,3,14.50,3,1
Request Latency (ms),2000.00,1,2,3,3,3,3,1990.00,3,1

Metric,Value
Output Token Throughput (tokens/sec),256.00
Request Count,40
"""


def test_the_two_part_csv_of_aiperf_and_genai_perf(tmp_path: Path) -> None:
    point = got(tmp_path, AIPERF_CSV).point
    assert (point["tool"], point["output_tps"], point["requests"]) == ("aiperf", 256, 40)
    assert (point["ttft_mean_ms"], point["ttft_p90_ms"], point["tpot_median_ms"]) == (1050.5, 90, 14.5)


def test_the_csv_of_guidellm_is_pointed_to_its_json(tmp_path: Path) -> None:
    read = got(tmp_path, "Run Info,Run Info,Benchmark\nRun ID,Run Index,Type\n,,\na,0,generative_benchmark\n")
    assert read.report.problem is not None
    assert "benchmarks.json" in read.report.problem


def test_a_rate_beside_message_sizes_is_no_time_of_a_collective(tmp_path: Path) -> None:
    """`tok/s` once broke the reader: what a heading's unit measures is asked for as everywhere else."""
    text = table("KV size | tok/s | req/s", "16 GB | 123 | 2", "32 GB | 150 | 3")
    made = got(tmp_path, text)
    assert made.rows("collective_points") == []
    assert [r.get("output_tps") for r in made.rows("bench_points")] == [123.0, 150.0]
    # two sizes are no two runs of one measurement
    assert [r.get("label") for r in made.rows("bench_points")] == ["KV size 16 GB", "KV size 32 GB"]


@pytest.mark.parametrize(
    ("heading", "series"),
    [
        ("EAGLE-3 tok/s", "EAGLE-3"),
        ("p-eagle tok/s", "p-eagle"),
        ("no-spec tok/s", "no-spec"),
        ("End-to-end tok/s", None),
    ],
)
def test_a_method_with_a_hyphen_names_its_series(heading: str, series: str | None) -> None:
    found = read(heading)
    assert (found.column, found.series) == ("output_tps", series)


def test_sizes_of_the_server_in_rows_are_set_ups_and_not_repeats(tmp_path: Path) -> None:
    text = (
        "**Baseline output tok/s**\n" + table("TP \\ Concurrency | 1 | 4", "1 | 100 | 310", "2 | 150 | 480")
        + "\n**DFlash output tok/s**\n" + table("TP \\ Concurrency | 1 | 4", "1 | 260 | 700", "2 | 340 | 950")
        + "\n**Average accept length**\n" + table("TP \\ Concurrency | 1 | 4", "1 | 5.1 | 5.2", "2 | 5.3 | 5.0")
    )  # fmt: skip
    rows = [r for r in got(tmp_path, text).rows() if r["concurrency"] == 4]
    assert {(r["series"], r["speculative"], r["output_tps"], r.get("accept_length_printed")) for r in rows} == {
        ("TP1", False, 310, None),
        ("TP2", False, 480, None),
        ("TP1", True, 700, 5.2),
        ("TP2", True, 950, 5.0),
    }


def test_a_baseline_among_draft_lengths_belongs_to_them(tmp_path: Path) -> None:
    text = "### Single stream (concurrency 1)\n\n" + table(
        "num_speculative_tokens | decode tok/s | vs baseline", "baseline (off) | 30.5 | 1.00x", "1 | 36.1 | 1.18x",
        "2 (the default) | 38.0 | 1.25x",
    )  # fmt: skip
    rows = got(tmp_path, text).rows()
    assert len({r["series"] for r in rows}) == 1
    assert [(r["concurrency"], r.get("k"), r["speculative"]) for r in rows] == [
        (1, None, False), (1, 1, True), (1, 2, True),
    ]  # fmt: skip


def test_what_is_called_a_baseline_speculates_when_it_accepts_more_than_one_token(tmp_path: Path) -> None:
    rows = got(tmp_path, table("head | mean acceptance length", "vanilla | 2.31", "pruned | 2.12")).rows()
    assert [(r["series"], r["speculative"]) for r in rows] == [("vanilla", True), ("pruned", True)]


@pytest.mark.parametrize("heading", ["pos accept", "Per-position acceptance (%)", "E2E Output Token Throughput"])
def test_what_looks_like_a_measure_and_is_another(heading: str) -> None:
    assert read(heading).role == UNKNOWN


def test_underscores_inside_a_name_stay(tmp_path: Path) -> None:
    (row,) = got(tmp_path, table("quant | tok/s | accept_ratio", "IQ4_XS | 38 | 0.731")).rows()
    assert (row["series"], row["accept_rate_printed"]) == ("IQ4_XS", 0.731)


def test_runs_side_by_side_in_a_cell_are_repeats_where_the_heading_says_so(tmp_path: Path) -> None:
    text = table(
        "mtp_k | tok/s (round 1 / 2) | draft acceptance", "0 | 90.1 / 88.4 | ", "2 | 81.2 / 80.0 | 57.1 / 55.0 %"
    )
    rows = [
        (r.get("k"), r["speculative"], r["output_tps"], round(r.get("accept_rate_printed", 0), 6))
        for r in got(tmp_path, text).rows()
    ]
    assert rows == [(None, False, 90.1, 0), (None, False, 88.4, 0), (2, True, 81.2, 0.571), (2, True, 80.0, 0.55)]


def test_a_range_is_said_and_not_read(tmp_path: Path) -> None:
    found = got(tmp_path, table("prompts | accept len | tok/s", "prose | 2.8–3.4 | ~29–33", "random | 1.00 | 15.2"))
    assert [r["output_tps"] for r in found.rows() if "output_tps" in r] == [15.2]
    assert "a range" in (found.report.problem or "")


def test_generated_tokens_in_the_first_column_are_a_length(tmp_path: Path) -> None:
    rows = got(
        tmp_path, table("Tokens | DFlash | Baseline", "64 | 90 tok/s | 36 tok/s", "512 | 30 tok/s | 35 tok/s")
    ).rows()
    assert {(r["output_length"], r["series"], r["output_tps"]) for r in rows} == {
        (64, "DFlash", 90), (64, "Baseline", 36), (512, "DFlash", 30), (512, "Baseline", 35),
    }  # fmt: skip


def test_numbers_of_tokens_are_no_throughput_beside_one(tmp_path: Path) -> None:
    text = table(
        "PP | TG | N_KV | T_PP s | S_PP t/s | T_TG s | S_TG t/s", "1024 | 256 | 4096 | 0.7 | 1460 | 4.3 | 59.5"
    )
    (row,) = got(tmp_path, text).rows()
    assert (row["output_tps"], row["context_tokens"]) == (59.5, 4096)


def test_accepted_of_drafted_gives_the_counts(tmp_path: Path) -> None:
    text = table(
        "task | tok/s | rounds | accepted | a.len | pos accept", "code | 80.5 | 200 | 290/400 | 2.45 | 0.80, 0.65"
    )
    (row,) = got(tmp_path, text).rows()
    assert (row["accepted"], row["drafted"], row["accept_rate_printed"]) == (290, 400, 0.725)
    assert row["accept_length_printed"] == 2.45


def test_throughputs_of_other_prompts_without_a_unit_are_asked_for(tmp_path: Path) -> None:
    found = got(
        tmp_path,
        table(
            "config | struct tok/s | code | prose | rounds/s",
            "k7 | 1010 | 780 | 370 | 150",
            "k9 | 1090 | 760 | 330 | 140",
        ),
    )
    assert sorted(r["output_tps"] for r in found.rows()) == [1010, 1090]
    assert "'code', 'prose' not read" in (found.report.problem or "")


def test_a_row_that_could_not_be_read_takes_nothing_from_the_next(tmp_path: Path) -> None:
    rows = got(
        tmp_path, table("workload | accept len | tok/s", "prose | 2.8-3.4 | 29-33", "random | 1.10 | 15.2")
    ).rows()
    assert [r["label"] for r in rows if "output_tps" in r] == ["random"]


def test_aligned_columns_below_a_rule_of_dashes_are_a_table(tmp_path: Path) -> None:
    text = (
        "Summary (elapsed=61.0s)\n"
        "category  base_avg_pred_t/s  spec_avg_pred_t/s  speedup  accept_rate\n"
        "--------  -----------------  -----------------  -------  -----------\n"
        "coding    41.50              70.20              1.69x    0.7012\n"
        "qa        41.61              55.10              1.32x    0.6120\n"
        "\nThat is all.\n"
    )
    rows = got(tmp_path, text).rows()
    assert [(r["dataset"], r["speculative"], r["output_tps"], r.get("accept_rate_printed")) for r in rows] == [
        ("coding", False, 41.5, None), ("coding", True, 70.2, 0.7012),
        ("qa", False, 41.61, None), ("qa", True, 55.1, 0.612),
    ]  # fmt: skip


def test_a_page_whose_only_table_is_another_says_which_and_what_to_do(tmp_path: Path) -> None:
    found = got(tmp_path, table("Variant | M=16 | M=128", "polls | 57.3 | 60.1", "no reduction | 30.2 | 33.9"))
    assert not found.rows()
    assert "line 1: nothing in the table below 'Variant'" in (found.report.problem or "")
    assert "HEADING=COLUMN" in (found.report.problem or "")


def test_a_line_of_text_above_a_rule_of_dashes_is_no_heading(tmp_path: Path) -> None:
    text = (
        "the throughput of the run was 12 tok/s, as always\n------  ---------  ------\nName    Self time  Calls\n"
        "------  ---------  ------\naten    1.2 %      45\n"
    )
    found = got(tmp_path, text)
    assert not found.rows()
    assert "throughput of" not in (found.report.problem or "")


def test_a_setting_beside_throughputs_by_load_is_no_throughput(tmp_path: Path) -> None:
    text = "**Output throughput (tok/s)**\n\n" + table(
        "method | spec_len | concurrency 1 | concurrency 8", "vanilla (no spec) | 0 | 150 | 900", "ngram | 5 | 210 | 1000",
    )  # fmt: skip
    text += "\n**Total drafted tokens**\n\n" + table(
        "method | spec_len | concurrency 1 | concurrency 8",
        "vanilla (no spec) | 0 | 0 | 0",
        "ngram | 5 | 40000 | 39000",
    )
    rows = [(r["series"], r["concurrency"], r.get("k"), r["output_tps"]) for r in got(tmp_path, text).rows()]
    assert sorted(rows) == [
        ("ngram", 1, 5, 210), ("ngram", 8, 5, 1000), ("vanilla (no spec)", 1, None, 150), ("vanilla (no spec)", 8, None, 900),
    ]  # fmt: skip


def test_a_rule_of_single_dashes_is_a_rule(tmp_path: Path) -> None:
    rows = got(tmp_path, "| C | baseline (tok/s) | spec (tok/s) |\n|:-:|:-:|-|\n| 8 | 430 | 560 |\n").rows()
    assert [(r["series"], r["speculative"], r["output_tps"]) for r in rows] == [
        ("baseline", False, 430),
        ("spec", True, 560),
    ]


def test_an_index_without_a_heading_does_not_tell_set_ups_apart_and_titles_do(tmp_path: Path) -> None:
    one = "+----+-------------------+---------------------+\n"
    head = "|    |   max_concurrency |   output_throughput |\n" + one.replace("-", "=")
    text = "".join(
        f"# {name}\n```\n{one}{head}|  0 |  1.000 |  {tps}.125 |\n{one}|  1 |  4.000 |  {3 * tps}.250 |\n{one}```\n"
        for name, tps in (("Spec V1", 120), ("Spec V2", 140))
    )
    rows = [(r["series"], r["concurrency"], r["output_tps"]) for r in got(tmp_path, text).rows()]
    assert rows == [("Spec V1", 1, 120.125), ("Spec V1", 4, 360.25), ("Spec V2", 1, 140.125), ("Spec V2", 4, 420.25)]


def test_requests_asked_for_and_served_are_two_things(tmp_path: Path) -> None:
    text = table(
        "Input/Output Length | QPS | Request throughput (req/s) | Output token throughput (tok/s)",
        "1024/200 | 1 | 0.85 | 170", "1024/200 | 2 | 1.43 | 286",
    )  # fmt: skip
    rows = got(tmp_path, text).rows()
    assert [(r["request_rate"], r["context_tokens"], r["output_length"], r["output_tps"]) for r in rows] == [
        (1, 1024, 200, 170), (2, 1024, 200, 286),
    ]  # fmt: skip


def test_a_load_in_the_corner_is_that_of_all_rows(tmp_path: Path) -> None:
    rows = got(tmp_path, "Decode, tok/s/user:\n\n" + table("conc-1 | baseline | spec", "ISL 4k | 24.3 | 31.4")).rows()
    assert [(r["concurrency"], r["context_tokens"], r["user_tps"]) for r in rows] == [(1, 4096, 24.3), (1, 4096, 31.4)]


def test_columns_that_differ_in_numbers_only_are_two_set_ups(tmp_path: Path) -> None:
    text = table("bs | no spec (tok/s) | eagle3 3-1-4 (tok/s) | eagle3 5-4-16 (tok/s)", "8 | 640 | 810 | 700")
    assert {(r["series"], r["output_tps"]) for r in got(tmp_path, text).rows()} == {
        ("no spec", 640), ("eagle3 3-1-4", 810), ("eagle3 5-4-16", 700),
    }  # fmt: skip


def test_throughput_per_gpu_is_no_throughput_and_acceptance_above_one_is_a_length(tmp_path: Path) -> None:
    text = table(
        "Setting | TPS | TPS/GPU | Acceptance",
        "MTP off, BS128 | 5300 | 662.5 | ",
        "MTP on, BS128 | 7100 | 887.5 | 1.81",
    )
    rows = got(tmp_path, text).rows()
    assert [(r["concurrency"], r["output_tps"], r.get("accept_length_printed")) for r in rows] == [
        (128, 5300, None), (128, 7100, 1.81),
    ]  # fmt: skip
    percent = got(tmp_path, table("k | tok/s | acceptance", "1 | 50 | 85", "3 | 55 | 58")).rows()
    assert [r["accept_rate_printed"] for r in percent] == [0.85, 0.58]


def test_throughput_per_user_and_of_all_users_by_set_up(tmp_path: Path) -> None:
    text = table(
        "BS | TPS/user base | TPS/user MTP3 | Total TPS base | Total TPS MTP3 | AL", "16 | 60 | 95 | 960 | 1520 | 2.7"
    )
    rows = [
        (r["series"], r["user_tps"], r["output_tps"], r.get("accept_length_printed"))
        for r in got(tmp_path, text).rows()
    ]
    assert sorted(rows) == [("MTP3", 95, 1520, 2.7), ("base", 60, 960, None)]


def test_prompt_processing_of_llama_bench_is_no_output(tmp_path: Path) -> None:
    text = table(
        "model | backend | test | t/s", "m 8B | CUDA | pp512 | 1420.3 ± 5.1", "m 8B | CUDA | tg128 | 38.2 ± 0.1"
    )
    assert [r["output_tps"] for r in got(tmp_path, text).rows()] == [38.2]


def test_a_table_in_html_is_read_like_any_other(tmp_path: Path) -> None:
    text = (
        "## Throughput\n\n<table>\n<tr><th>Concurrency</th><th>Baseline tok/s</th><th><b>EAGLE3</b> tok/s</th></tr>\n"
        "<tr><td>1</td><td>81.5</td><td>140.2</td></tr>\n<tr>\n<td>32</td>\n<td>1,410</td>\n<td>1,190 </td>\n</tr></table>\n"
    )
    assert {(r["concurrency"], r["series"], r["speculative"], r["output_tps"]) for r in got(tmp_path, text).rows()} == {
        (1, "Baseline", False, 81.5), (1, "EAGLE3", True, 140.2), (32, "Baseline", False, 1410), (32, "EAGLE3", True, 1190),
    }  # fmt: skip
    assert got(tmp_path, "<table><tr><td>1").rows() == []


def test_a_baseline_that_is_the_same_at_another_temperature_is_kept(tmp_path: Path) -> None:
    text = table("Temperature | EAGLE3 tok/s | baseline tok/s", "0 | 190 | 100", "0.7 | 150 | 100")
    rows = [(r["temperature"], r["speculative"], r["output_tps"]) for r in got(tmp_path, text).rows()]
    assert sorted(rows) == [(0, False, 100), (0, True, 190), (0.7, False, 100), (0.7, True, 150)]
