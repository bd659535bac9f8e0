"""The results in fixtures/bench have the right answers that fixtures/README.md gives."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.parsers.bench.results import Got, got

FOLDER = Path(__file__).parents[3] / "fixtures" / "bench"


@pytest.mark.parametrize(
    ("name", "gaps", "per_chunk"),
    [("vllm-plain.jsonl", (11.2, 12.6, 14.1), 1.0), ("vllm-eagle.jsonl", (24.9, 29.8, 41.5), 2.48)],
)
def test_three_loads_with_their_chunks(name: str, gaps: tuple[float, ...], per_chunk: float) -> None:
    rows = Got(FOLDER / name).rows()
    assert [r["concurrency"] for r in rows] == [1, 4, 8]
    for row, gap in zip(rows, gaps, strict=True):
        assert row["itl_mean_ms"] == pytest.approx(gap, rel=0.01)
        assert (row["output_tokens"] - row["requests"]) / row["chunks"] == pytest.approx(per_chunk, rel=0.06)
        assert "doubt" not in row


def test_two_tables_of_the_same_runs() -> None:
    rows = Got(FOLDER / "table.md").rows()
    assert len(rows) == 6
    plain, spec = ({r["concurrency"]: r for r in rows if r["speculative"] is said} for said in (False, True))
    assert [round(spec[c]["output_tps"] / plain[c]["output_tps"], 2) for c in (1, 4, 8)] == [1.07, 1.06, 0.84]
    assert (plain[8]["ttft_mean_ms"], spec[8]["tpot_mean_ms"], spec[8]["accept_length_printed"]) == (50, 16.7, 2.45)
    assert {r["k"] for r in spec.values()} == {3}


def test_runs_without_their_warm_up() -> None:
    rows = Got(FOLDER / "runs.txt").rows()
    assert [r["output_tps"] for r in rows if not r["warmup"]] == [80.0, 83.9, 76.9]


def test_what_is_not_written_is_asked() -> None:
    read = Got(FOLDER / "unclear.csv")
    assert read.rows() == []
    assert read.report.questions[0].headings == ("eagle3", "baseline")
    answered = Got(FOLDER / "unclear.csv", columns={"eagle3": "output_tps", "baseline": "output_tps"}).rows()
    assert [r["output_tps"] for r in answered] == [92.4, 86.1, 437.0, 520.5]


def test_a_broken_line_between_two_results() -> None:
    read = Got(FOLDER / "broken.jsonl")
    assert [r["output_tps"] for r in read.rows()] == [80, 600]
    assert read.rows()[0]["doubt"] == "itl_mean_ms is not a number"
    assert (read.report.unread, read.report.problem) == (
        1,
        "line 2, byte 263: the value is cut off; 2 objects were read",
    )


def test_allreduce_times() -> None:
    rows = Got(FOLDER / "all_reduce.txt").rows("collective_points")
    first = rows[0]
    assert (first["bytes"], first["time_us"], first["ranks"], first["version"]) == (16384, 21.40, 4, "2.28.9")
    assert first["series"] == "NCCL_PROTO=LL"
    assert [("wrong" in r) for r in rows] == [True, True, True, False, True, True]  # N/A is not 0


def test_the_generated_files_are_those_that_the_script_writes(tmp_path: Path) -> None:
    copy = tmp_path / "make.py"
    copy.write_text((FOLDER / "make.py").read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run([sys.executable, str(copy)], check=True)
    for name in ("vllm-plain.jsonl", "vllm-eagle.jsonl"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def test_old_nccl_tests_print_no_root(tmp_path: Path) -> None:
    text = (
        "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "       16384          4096   float     sum    12.10    1.35    1.35  0e+00    11.20    1.46    1.46  0e+00\n"
        "     8388608       2097152   float     sum     1310    6.40    6.40  0e+00     1305    6.43    6.43  0e+00\n"
        "       32768          8192   float     sum      -1    13.00    2.52    2.52      0    12.90    2.54    2.54      0\n"
    )
    rows = got(tmp_path, text).rows("collective_points")
    assert [(r["bytes"], r["time_us"]) for r in rows if not r["in_place"]] == [
        (16384, 12.1), (8388608, 1310), (32768, 13.0),
    ]  # fmt: skip
