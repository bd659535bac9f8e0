"""Plain lists of runs as people paste them."""

from pathlib import Path

import pytest

from tests.parsers.bench.results import got

FOUNDING = """Warmup 1/2: 55 tokens in 0.90s = 61.1 tok/s
Warmup 2/2: 41 tokens in 0.70s = 58.6 tok/s
Run 1/5: 2048 tokens in 33.59s = 61.0 tok/s (prompt: 32 tokens)
Run 2/5: 2048 tokens in 29.81s = 68.7 tok/s (prompt: 31 tokens)
Run 3/5: 2048 tokens in 39.66s = 51.6 tok/s (prompt: 26 tokens)
Run 4/5: 1519 tokens in 22.61s = 67.2 tok/s (prompt: 28 tokens)
Run 5/5: 2048 tokens in 34.03s = 60.2 tok/s (prompt: 34 tokens)
Average: 61.7 tok/s
"""


def test_five_runs_and_the_warm_up_kept_apart(tmp_path: Path) -> None:
    read = got(tmp_path, FOUNDING)
    rows = read.rows()
    assert [r["warmup"] for r in rows] == [True, True] + [False] * 5
    runs = [r["output_tps"] for r in rows if not r["warmup"]]
    assert runs == [61.0, 68.7, 51.6, 67.2, 60.2]
    assert sum(runs) / 5 == pytest.approx(61.74)
    assert [r["output_tokens"] for r in rows[2:]] == [2048, 2048, 2048, 1519, 2048]
    assert [r["context_tokens"] for r in rows[2:]] == [32, 31, 26, 28, 34]
    assert [r["line"] for r in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert all("doubt" not in r for r in rows)
    assert (read.report.format, read.report.recognised) == ("run_list", 7)


@pytest.mark.parametrize(
    "line",
    [
        "Run 1: 2048 tokens in 33.59 s (61.0 tok/s)",
        "[1/5] 2048 tokens in 33.59s, 61.0 tokens/s",
        "  - run #1 - 2048 output tokens in 33.59 sec -> 61.0 t/s",
        "2026-02-03 09:15:20 run 1/5: 2048 toks in 33590 ms = 61.0 tok/s",
        "Request 1 | 2048 completion tokens in 33.59s | 61.0 tok/s",
    ],
)
def test_other_ways_to_write_a_run(tmp_path: Path, line: str) -> None:
    point = got(tmp_path, line + "\n").point
    assert (point["output_tokens"], point["duration_s"], point["output_tps"]) == (2048, pytest.approx(33.59), 61.0)


def test_headings_and_a_new_count_begin_another_list(tmp_path: Path) -> None:
    run = "Run {}/2: 100 tokens in 1.0s = 100.0 tok/s\n"
    text = (
        f"Baseline:\n{run.format(1)}{run.format(2)}\n## EAGLE3, 2 steps\n{run.format(1)}{run.format(2)}{run.format(1)}"
    )
    rows = got(tmp_path, text).rows()
    assert [(r["series"], r["speculative"]) for r in rows] == [
        ("Baseline", False),
        ("Baseline", False),
        ("EAGLE3, 2 steps", True),
        ("EAGLE3, 2 steps", True),
        ("EAGLE3, 2 steps 2", True),
    ]


def test_a_speed_that_does_not_fit_its_tokens_and_seconds_is_named(tmp_path: Path) -> None:
    point = got(tmp_path, "Run 1/1: 2048 tokens in 33.59s = 94.0 tok/s\n").point
    assert point["doubt"] == "output tokens / duration = 61.0 tok/s, but 94 tok/s is written"


def test_lines_of_llama_cpp_are_no_run_list(tmp_path: Path) -> None:
    line = "       eval time =     161.86 ms /     8 tokens (   20.23 ms per token,    49.43 tokens per second)\n"
    assert got(tmp_path, line).rows() == []
