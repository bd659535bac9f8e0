"""Benchmark results and scrapes as they come when something went wrong: said in one line, the rest kept and counted."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.parsers.bench.results import got
from traceana_parsers.bench.catalog import forms
from traceana_parsers.bench.form import JsonForm
from traceana_parsers.bench.objects import Broken, Found, Objects
from traceana_parsers.sources import StreamState

EXAMPLES = [form.example for form in forms() if isinstance(form, JsonForm)]
GOOD = next(form.example for form in forms() if form.tool == "vllm_bench")
DEEP = '{"a":' * 100_000

#: text, points kept, unread values, words of the problem
BROKEN = {
    "glued": (GOOD * 3, 3, 0, None),
    "the last one cut off": (GOOD + "\n" + GOOD[:200], 1, 1, "the value is cut off"),
    "the first one cut off": (
        GOOD[:200] + "\n" + GOOD + "\n" + GOOD + "\n",
        2,
        1,
        "line 1, byte 0: the value is cut off",
    ),
    "cut off at a comma": (GOOD[: GOOD.index(",") + 1] + "\n" + GOOD + "\n", 1, 1, "line 1, byte 0"),
    "a list": (f"[{GOOD},\n{GOOD}]", 2, 0, None),
    "a list cut off": (f"[{GOOD},\n{GOOD},\n{GOOD[:100]}", 2, 2, "cut off"),
    "over many lines, then on one": (json.dumps(json.loads(GOOD), indent=4) + "\n" + GOOD, 2, 0, None),
    "without indents": (json.dumps(json.loads(GOOD), indent=0) + "\n" + GOOD + "\n", 2, 0, None),
    "nested too deep": (f"{GOOD}\n{DEEP}\n{GOOD}\n", 2, 1, "line 2"),
    "lists too deep": (GOOD + "\n" + "[" * 100_000 + "\n" + GOOD + "\n", 2, 1, "line 2"),
    "other words between": (f"{GOOD}\nsome log line\n{GOOD}\n", 2, 1, "line 2"),
    "bytes between": (f"{GOOD}\n\x00\x01\udcff\n{GOOD}\n", 2, 1, "line 2"),
    "a number of many digits": (GOOD + "\n" + GOOD.replace("80.0", "1" * 5000) + "\n", 1, 1, "line 2"),
    "no numbers": (GOOD.replace("20.5", "NaN"), 1, 0, None),
    "a byte order mark and carriage returns": (f"\ufeff{GOOD}\r\n{GOOD}\r\n", 2, 0, None),
    "half a surrogate": (GOOD.replace('"vllm"', '"\\ud800"'), 1, 0, None),
}


@pytest.mark.parametrize(("text", "kept", "unread", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_json_keeps_the_rest(tmp_path: Path, text: str, kept: int, unread: int, words: str | None) -> None:
    read = got(tmp_path, text.encode("utf-8", "surrogateescape"))
    assert len(read.rows()) == kept
    assert (read.report.recognised, read.report.unread) == (kept, unread)
    assert read.report.problem is None if words is None else words in str(read.report.problem)
    assert "\n" not in str(read.report.problem)
    if unread:
        assert str(read.report.problem).endswith("were read")


#: value of a key, what is said of it
DOUBTS = {
    '"mean_ttft_ms": NaN': "ttft_mean_ms is not a number",
    '"mean_ttft_ms": Infinity': "ttft_mean_ms is infinite",
    '"mean_ttft_ms": -5': "ttft_mean_ms is negative (-5)",
    '"spec_decode_acceptance_rate": 4000': "accept_rate_printed is outside 0 ... 1 (40)",
    '"spec_decode_acceptance_length": 0.4': "accept_length_printed is below 1 (0.4)",
    '"spec_decode_accepted_tokens": 99999': "more tokens accepted (99999) than drafted (1080)",
    '"output_throughput": 800.0': "output tokens / duration = 80.0 tok/s, but 800 tok/s is written",
    '"mean_tpot_ms": 12000.0': "80 tok/s at 12000 ms per token needs 960 requests at once, 2 were asked for: a unit is wrong",
}


@pytest.mark.parametrize(("field", "doubt"), DOUBTS.items(), ids=DOUBTS.keys())
def test_values_that_cannot_be_are_named_and_left_out(tmp_path: Path, field: str, doubt: str) -> None:
    name, _, value = field.partition(": ")
    obj = json.loads(GOOD)
    text = json.dumps({**obj, name.strip('"'): "@"}).replace('"@"', value)
    read = got(tmp_path, text)
    assert read.point["doubt"].split("; ")[0] == doubt


def test_zero_is_how_tools_write_that_there_was_none(tmp_path: Path) -> None:
    obj = {**json.loads(GOOD), "mean_itl_ms": 0.0, "spec_decode_acceptance_length": 0.0, "std_ttft_ms": 0.0}
    point = got(tmp_path, json.dumps(obj)).point
    assert not {"itl_mean_ms", "accept_length_printed", "doubt"} & point.keys()
    assert point["ttft_std_ms"] == 0.0  # one request has no spread


@pytest.mark.parametrize("value", ["text", {}, [], None, True, 1e300, -1e300, 10**400])
def test_a_value_of_another_type_is_no_value(tmp_path: Path, value: object) -> None:
    for name in ("completed", "max_concurrency", "mean_tpot_ms", "itls", "model_id", "date", "spec_decode_num_drafts"):
        obj = {**json.loads(GOOD), name: value}
        (point,) = got(tmp_path, json.dumps(obj)).rows()
        assert point["output_tps"] == 80.0


def test_lists_of_different_lengths_are_not_paired(tmp_path: Path) -> None:
    obj = {**json.loads(GOOD), "ttfts": [0.1, 0.2, 0.3], "output_lens": [5], "itls": [[0.1], "x", 3]}
    read = got(tmp_path, json.dumps(obj))
    assert read.rows("bench_requests") == []
    assert read.point["doubt"] == "lists of 1 to 3 requests: per-request values were not read"


def test_a_million_lines_do_not_pile_up(tmp_path: Path) -> None:
    """Broken lines cost no more than their own length, and rows go on in batches."""
    read = got(tmp_path, GOOD + "\n" + "{bad}\n" * 100_000 + GOOD + "\n")
    assert (len(read.rows()), read.report.unread, read.report.lines) == (2, 100_000, 100_002)


def test_a_table_of_very_many_rows_is_cut_and_says_so(tmp_path: Path) -> None:
    text = "concurrency,tok/s\n" + "".join(f"{i % 512 + 1},{i}\n" for i in range(1, 25_001))
    read = got(tmp_path, text)
    assert len(read.rows()) == 20_000
    assert read.report.problem == "line 1: 5,000 rows beyond 20,000 were not read"


@pytest.mark.parametrize(
    "text",
    [
        "|" * 100_000,
        ("|" * 300 + "\n") * 50,
        "| a |\n|---|\n" * 500,
        "-" * 5000 + "\n|\n",
        "|-|\n|-|\n|-|\n",
        "| --- |\n",
    ],
)
def test_bars_without_a_table(tmp_path: Path, text: str) -> None:
    read = got(tmp_path, text)
    assert read.rows() == []


def test_text_from_results_keeps_to_one_line_and_a_length(tmp_path: Path) -> None:
    obj = {
        **json.loads(GOOD),
        "label": "x" * 10_000 + "\n\x1b[31m",
        "note": "y" * 10_000,
        **{f"n{i}": i for i in range(500)},
    }
    point = got(tmp_path, json.dumps(obj)).point
    assert len(point["series"]) <= 300
    assert len(point["attrs"]) < 40_000
    json.loads(point["attrs"])


pieces = st.sampled_from(
    [*EXAMPLES, "{", "}", "[", "]", ",", '"', "\\", "\n", "NaN", '{"a": 1}', "0", " ", "é", "\x00"]
)


class Stream:
    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size, self._at = data, size, 0

    def read1(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + self._size]
        self._at += len(piece)
        return piece

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12), st.integers(1, 5000))
def test_values_are_found_at_their_place_however_the_bytes_come(parts: list[str], size: int) -> None:
    data = "".join(parts).encode()
    found = list(Objects(Stream(data, size), StreamState()))
    for one in found:
        assert 0 <= one.offset <= len(data)
        assert one.line == 1 + data[: one.offset].count(b"\n")
        if isinstance(one, Found) and isinstance(one.value, dict) and data[one.offset : one.offset + 1] == b"{":
            again = next(iter(Objects(Stream(data[one.offset :], 1 << 20), StreamState())))
            assert isinstance(again, Found)
            assert str(again.value) == str(one.value)  # NaN is not equal to itself
    assert all(isinstance(one, Found | Broken) for one in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=4), st.integers(1, 200))
def test_whole_values_are_never_lost(parts: list[str], size: int) -> None:
    data = "\n".join(parts).encode()
    found = [one for one in Objects(Stream(data, size), StreamState()) if isinstance(one, Found)]
    assert [one.value for one in found if "NaN" not in str(one.value)] == [
        json.loads(part) for part in parts if "NaN" not in part
    ]


_LINES = [
    "============ Serving Benchmark Result ============",
    "Successful requests:                     32",
    "Output token throughput (tok/s):         409.60",
    "Mean TPOT (ms):                          9.30",
    "  Position 7:     23.00",
    "==================================================",
    "batch size: 8",
    "latency: 4.2 s",
    "output throughput: 555 tok/s",
    "[AL] AVERAGE: 1.86",
    "| c | EAGLE3 tok/s | base tok/s |",
    "|---|---|---|",
    "| 1 | 77.5 | 92.6 |",
    "| K=2 | nan | 5 ms | 7 |",
    "| ctx \\ conc | 1 | 8 |",
    "╭───┬───╮",
    "│ c │ tok/s │",
    "├───┼───┤",
    "│ 8 │ 120 (8/8) │",
    "╰───┴───╯",
    "Run 1/5: 2048 tokens in 33.59s = 61.0 tok/s",
    "       8    2   float  sum  -1  8.49  0.00  0.00  0  8.37  0.00  0.00  0",
    "# Rank 0 Group 0 Pid 1 on a device 0 [0x16] X",
    "Finish i=0: batch_size=1, steps=0, topk=0, num_draft_tokens=0, speed=8.2 token/s, step_time=11 ms",
    "Namespace(model='m', temperature=0.0, dataset_name='random', random_output_len=9)",
    "## MTP on (tok/s)",
    "",
    "[2026-02-03 09:15:20 TP0] Decode batch, #running-req: 4, token usage: 0.01, gen throughput (token/s): 402.11",
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_LINES) | st.text(max_size=40), max_size=40), st.sampled_from(["\n", "\r\n"]))
def test_any_order_of_lines_is_read_and_every_row_stands_where_it_says(lines: list[str], end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = end.join(lines).encode("utf-8", "replace")
        read = got(Path(folder), data)
        for table in ("bench_points", "collective_points"):
            for row in read.rows(table):
                assert row["line"] == 1 + data[: row["byte_offset"]].count(b"\n")
        assert 0 <= read.report.recognised <= max(read.report.lines, 0)
        assert "\n" not in str(read.report.problem)
