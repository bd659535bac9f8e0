"""What docs/eagle3-profile.md shows is read, and its lists of keys are those of the reader."""

import json
from pathlib import Path

import polars as pl
import pytest

from tests.docs.pages import DOCS, blocks, rows, section
from traceana import api
from traceana_parsers.interface import MemorySink
from traceana_parsers.logs.profile import PROFILE
from traceana_parsers.read import read_run

PAGE = DOCS / "eagle3-profile.md"
BLOCKS = blocks(PAGE, "text")
COLUMNS = {"accept_length": "accept_length_printed", "cycle": "iteration"}


def tables(tmp_path: Path, text: str) -> dict[str, pl.DataFrame]:
    log = tmp_path / "timers.log"
    log.write_text(text)
    sink = MemorySink()
    read_run([str(log)], sink)
    return {name: pl.concat(frames) for name, frames in sink.tables.items()}


def test_there_are_the_json_line_the_hand_made_prints_and_the_block() -> None:
    assert [len(block.splitlines()) for block in BLOCKS] == [1, 3, 4]


@pytest.mark.parametrize("block", BLOCKS, ids=["json", "hand-made", "block"])
def test_every_shown_line_is_read_and_gives_the_cycle(block: str, tmp_path: Path) -> None:
    report = tables(tmp_path, block)["inputs"].row(0, named=True)
    assert report["recognised"] == len(block.splitlines())
    assert (report["unread"], report["partial"]) == (0, 0)
    cycle = api.diagnose([str(tmp_path / "timers.log")]).cycle
    assert {part.name: part.ms for part in cycle.parts}["verify"] == pytest.approx(29.97)
    assert cycle.total_ms == pytest.approx(33.1, abs=0.4)


def test_every_key_of_the_json_line_is_kept(tmp_path: Path) -> None:
    keys = [row[0].strip("`") for row in rows(section(PAGE, "## The JSON line, version 1"))]
    example = json.loads(BLOCKS[0][BLOCKS[0].index("{") :])
    assert set(example) <= set(keys)
    line = {key: example.get(key, 33) for key in keys}
    row = tables(tmp_path, f"EAGLE3_PROFILE {json.dumps(line)}\n")["cycles"].row(0, named=True)
    for key in keys:
        if key != "v":
            assert row[COLUMNS.get(key, key)] == line[key]
    assert row["accept_has_bonus"] is True


def test_the_keys_of_hand_made_prints_are_those_of_the_grammar() -> None:
    cells = [row[1] for row in rows(section(PAGE, "## Hand-made prints"))]
    documented = [key.strip("` ") for cell in cells for key in cell.split(",")]
    assert sorted(documented) == sorted(field.key for field in PROFILE.fields)


def test_an_accept_value_below_one_shows_that_the_bonus_token_is_left_out(tmp_path: Path) -> None:
    tables(tmp_path, BLOCKS[1].splitlines()[0] + "\n")
    assert api.diagnose([str(tmp_path / "timers.log")]).acceptance.accept_length == pytest.approx(1.92)
