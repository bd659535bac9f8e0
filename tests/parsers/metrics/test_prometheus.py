"""Scrapes of /metrics: one, several in one file, several files; both engines' names; times as written."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from tests.parsers.bench.results import Got, got

VLLM = """# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 411.0
# HELP vllm:spec_decode_num_drafts_created Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_created gauge
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7959e+09
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 251.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 190.0
# TYPE vllm:inter_token_latency_seconds histogram
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="m"} 7.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 9.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 9.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 0.0854
"""
SGLANG = """# HELP sglang:spec_accept_length The average acceptance length of speculative decoding.
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 2.05
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 4.0
"""


def test_names_labels_kinds_and_values(tmp_path: Path) -> None:
    read = got(tmp_path, VLLM)
    rows = read.rows("metrics")
    assert len(rows) == 7  # the twin that says when a counter was made is no measurement
    first = rows[0]
    assert (first["name"], first["kind"], first["value"], first["scrape"]) == (
        "vllm:spec_decode_num_drafts_total",
        "counter",
        411,
        0,
    )
    assert json.loads(rows[2]["labels"]) == {"engine": "0", "model_name": "m", "position": "1"}
    assert {r["kind"] for r in rows if "inter_token" in r["name"]} == {"histogram"}
    assert [json.loads(r["labels"]).get("le") for r in rows[3:5]] == ["0.01", "+Inf"]
    assert (rows[0]["line"], rows[0]["byte_offset"]) == (3, VLLM.index("vllm:spec_decode_num_drafts_total{"))
    assert (read.report.format, read.report.unread, read.report.problem) == ("vllm_metrics", 0, None)


def test_names_of_sglang(tmp_path: Path) -> None:
    read = got(tmp_path, SGLANG)
    assert [(r["name"], r["value"]) for r in read.rows("metrics")] == [
        ("sglang:spec_accept_length", 2.05),
        ("sglang:num_running_reqs", 4.0),
    ]
    assert read.report.format == "sglang_metrics"


def test_the_time_of_a_single_scrape_is_the_files_own(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_text(SGLANG)
    os.utime(path, (1_770_110_120, 1_770_110_120))
    assert {r["ts"] for r in Got(path).rows("metrics")} == {datetime(2026, 2, 3, 9, 15, 20)}


@pytest.mark.parametrize(
    "between",
    ["2026-02-03T09:15:20Z", "# 2026-02-03 09:15:20+00:00", "1770110120", "Tue Feb  3 09:15:20 UTC 2026",
     "HTTP/1.1 200 OK\nDate: Tue, 03 Feb 2026 09:15:20 GMT\n"],
)  # fmt: skip
def test_several_scrapes_in_one_file_with_a_line_that_says_when(tmp_path: Path, between: str) -> None:
    text = SGLANG + between + "\n" + SGLANG.replace(" 4.0", " 8.0")
    rows = got(tmp_path, text).rows("metrics")
    assert [r["scrape"] for r in rows] == [0, 0, 1, 1]
    assert [r["value"] for r in rows if "running" in r["name"]] == [4, 8]
    assert {r["ts"] for r in rows if r["scrape"] == 1} == {datetime(2026, 2, 3, 9, 15, 20)}


def test_a_sample_that_comes_again_begins_the_next_scrape(tmp_path: Path) -> None:
    rows = got(tmp_path, VLLM * 3).rows("metrics")
    assert [r["scrape"] for r in rows] == [0] * 7 + [1] * 7 + [2] * 7
    assert ["ts" in r for r in rows] == [False] * 14 + [True] * 7  # the file's own time is that of the last


def test_times_of_samples_in_both_writings(tmp_path: Path) -> None:
    prometheus = '# TYPE sglang:x counter\nsglang:x{a="b"} 5 1770110120500\nsglang:x{a="c"} 5 1770110120500\n'
    openmetrics = '# TYPE sglang:x counter\nsglang:x_total{a="b"} 5.0 1770110120.5 # {trace_id="t"} 1.0\n# EOF\n'
    for text in (prometheus, openmetrics):
        rows = got(tmp_path, text).rows("metrics")
        assert {r["ts"] for r in rows} == {datetime(2026, 2, 3, 9, 15, 20, 500_000)}
        assert {r["value"] for r in rows} == {5}


def test_labels_with_quotes_commas_and_braces(tmp_path: Path) -> None:
    text = '# TYPE vllm:x gauge\nvllm:x{a="1,2",b="say \\"hi\\"",c="back\\\\slash",d="{}",e="new\\nline"} 1.0\n'
    (row,) = got(tmp_path, text).rows("metrics")
    assert json.loads(row["labels"]) == {"a": "1,2", "b": 'say "hi"', "c": "back\\slash", "d": "{}", "e": "new\nline"}


def test_values_that_are_no_numbers_have_none(tmp_path: Path) -> None:
    text = "# TYPE vllm:x gauge\n" + "".join(f'vllm:x{{i="{i}"}} {v}\n' for i, v in enumerate(["NaN", "+Inf", "1e3"]))
    rows = got(tmp_path, text).rows("metrics")
    assert [r.get("value") for r in rows] == [None, float("inf"), 1000.0]


def test_lines_that_are_no_metric_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    read = got(tmp_path, VLLM + "oops this is no metric\nvllm:y{ 5\n" + SGLANG)
    assert len(read.rows("metrics")) == 9
    assert (read.report.unread, read.report.unread_line) == (2, 15)
    assert read.report.unread_text == "oops this is no metric"


def test_a_scrape_that_breaks_off_keeps_what_came_before(tmp_path: Path) -> None:
    read = got(tmp_path, VLLM[:-20])
    assert len(read.rows("metrics")) >= 6
    assert read.report.recognised >= 6


def test_a_log_that_quotes_metrics_stays_a_log(tmp_path: Path) -> None:
    line = (
        "[2026-02-03 09:15:20 TP0] Decode batch, #running-req: 4, token usage: 0.01, gen throughput (token/s): 402.11\n"
    )
    read = got(tmp_path, line * 20 + VLLM)
    assert len(read.rows("decode_samples")) == 20
    assert read.rows("metrics") == []
