"""Tables whose headings do not say what they mean: the question names the option that answers it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hostile.cli import traceana

UNCLEAR = Path(__file__).parents[2] / "fixtures" / "bench" / "unclear.csv"
ANSWER = ("--columns", "eagle3=output_tps", "--columns", "Baseline=output_tps")


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, Path]:
    """The same table twice, for commands that want two."""
    paths = tmp_path / "a.csv", tmp_path / "b.csv"
    for path in paths:
        path.write_bytes(UNCLEAR.read_bytes())
    return paths


def commands(a: Path, b: Path) -> dict[str, tuple[str, ...]]:
    return {
        "sweep": ("sweep", str(a)),
        "compare": ("compare", f"{a}#baseline", f"{b}#eagle3"),
        "check": ("check", f"{a}#eagle3", "--against", f"{b}#eagle3"),
    }


@pytest.mark.parametrize("name", ["sweep", "compare", "check"])
def test_every_command_asks_and_takes_the_answer(name: str, copies: tuple[Path, Path]) -> None:
    command = commands(*copies)[name]
    asked = traceana(*command)
    assert asked.code == 2
    assert "say it as HEADING=COLUMN (--columns)" in asked.err
    answered = traceana(*command, *ANSWER)
    assert answered.code in (0, 3), answered.err
    assert "--columns" not in answered.err


def test_the_answer_gives_the_numbers_of_the_table() -> None:
    (block,) = json.loads(traceana("sweep", UNCLEAR, *ANSWER, "--format", "json").out)["blocks"]
    ratios = [level["ratio"]["value"] for level in block["levels"]]
    assert ratios == pytest.approx([92.4 / 86.1, 437.0 / 520.5])


@pytest.mark.parametrize("said", ["eagle3", "=output_tps", "eagle3=tok", "eagle3=", ""])
def test_an_answer_of_another_form_gets_one_line(said: str) -> None:
    refused = traceana("sweep", UNCLEAR, "--columns", said)
    assert refused.code == 2
    assert "give HEADING=COLUMN" in refused.err


def test_the_question_names_columns_that_the_option_takes() -> None:
    asked = traceana("sweep", UNCLEAR).err
    for choice in asked.rpartition("COLUMN one of ")[2].strip().split(", "):
        assert "give HEADING=COLUMN" not in traceana("sweep", UNCLEAR, "--columns", f"eagle3={choice}").err
