"""The benchmark of the diagnosis runs from end to end: what it plants is read without a gap and told from health."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.diagnosis import run
from traceana.api import diagnose


@pytest.mark.parametrize(
    ("planted", "seed"),
    [
        ((), 1),
        (("dead draft head",), 1),
        (("graphs disabled",), 2),
        (("P2P lost",), 3),
        (("late rank (trace)",), 1),
        (("P2P lost", "NCCL variable missing"), 1),
    ],
)
def test_what_was_planted_is_named_and_nothing_else_is_made_up(
    tmp_path: Path, planted: tuple[str, ...], seed: int
) -> None:
    answer = run.answer((planted, seed, str(tmp_path), False))
    for name in planted:
        assert answer.rank(run.score.BY_NAME[name].codes) is not None, answer.findings
    assert [code for code, _, _ in answer.findings if answer.judge(code) == run.score.WRONG] == []


@pytest.mark.parametrize("seed", range(4))
def test_every_line_that_is_written_is_read(tmp_path: Path, seed: int) -> None:
    run.answer((("NCCL variable missing",), seed, str(tmp_path), False))
    (read,) = diagnose([str(tmp_path / "server.log")]).inputs
    assert (read.unread, read.partial) == (0, 0)


def test_the_same_seed_gives_the_same_log(tmp_path: Path) -> None:
    for name in "ab":
        run.answer((("queue pinned",), 5, str(tmp_path / name), False))
    assert (tmp_path / "a" / "server.log").read_bytes() == (tmp_path / "b" / "server.log").read_bytes()


def test_a_finding_that_was_not_planted_counts_as_wrong_and_a_loss_is_judged_by_the_model() -> None:
    made = run.score.Answer(
        planted=("P2P lost",),
        seed=1,
        what="",
        shown=True,
        loses=False,
        draft_too_long=False,
        pcie=True,
        idle_variable=False,
        lost_after=False,
        findings=(),
        weighed=(),
    )
    judged = [made.judge(code) for code in ("COM003", "COM001", "CYC002", "ACC002")]
    assert judged == [run.score.PLANTED, run.score.FOLLOWS, run.score.WRONG, run.score.WRONG]
