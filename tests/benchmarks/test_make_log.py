"""The benchmark's generated log holds what its truth says: else a benchmark would call a wrong reader exact."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from traceana_parsers.interface import MemorySink
from traceana_parsers.read import read_run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name: str) -> ModuleType:
    """A script of benchmarks/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("decode_share", [0.4, 1.0])
def test_reader_and_reference_find_what_the_generator_wrote(tmp_path: Path, decode_share: float) -> None:
    path = tmp_path / "server.log"
    truth = script("make_log").make(path, 300_000, decode_share)
    sink = MemorySink()
    (report,) = read_run([str(path)], sink)
    decode = pl.concat(sink.tables["decode_samples"])
    counts = {
        "lines": report.lines,
        "decode": decode.height,
        "prefill": sum(frame.height for frame in sink.tables.get("prefill_samples", [])),
        "profile": sum(frame.height for frame in sink.tables.get("cycles", [])),
        "sum_running": int(decode["running"].sum()),
        "sum_gen_tps_x100": int((decode["gen_tps"] * 100).round().sum()),
    }
    assert counts == truth
    assert (report.unread, report.partial) == (0, 0)

    columns = script("reference_re").decode_fields(str(path))
    assert len(columns[0]) == truth["decode"]
    assert sum(columns[2]) == truth["sum_running"]
    assert sum(round(value * 100) for value in columns[8]) == truth["sum_gen_tps_x100"]


def test_a_log_of_another_recipe_is_not_taken_for_this_one(tmp_path: Path) -> None:
    make = script("make_log").make
    path = tmp_path / "server.log"
    first = make(path, 20_000)
    assert make(path, 20_000) == first
    assert path.stat().st_size < 25_000
    assert make(path, 60_000)["lines"] > first["lines"]
    assert json.loads(path.with_name("server.log.truth.json").read_text())
