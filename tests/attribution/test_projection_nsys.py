"""The projection equals nsys' own `nvtx_gpu_proj_trace`, row for row, on a real two-GPU capture."""

import csv
import gzip
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from traceana.attribution.codes import dense_codes
from traceana.attribution.nesting import nest
from traceana.attribution.projection import project

TRACES = Path(__file__).parents[3] / "shared" / "corpus" / "traces"
CAPTURE = TRACES / "nsys" / "nsysai_mfu_2gpu_before.sqlite"
REFERENCE = TRACES / "nsys_stats" / "v2023.4__nsysai_mfu_2gpu_before__nvtx_gpu_proj_trace_full.csv.gz"
pytestmark = pytest.mark.skipif(not CAPTURE.exists(), reason="the corpus of real inputs is not beside this checkout")

PID, TID = "((globalTid >> 24) & 16777215)", "(globalTid & 16777215)"


def rows(query: str, *names: str) -> pl.DataFrame:
    with sqlite3.connect(f"file:{CAPTURE}?mode=ro&immutable=1", uri=True) as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return pl.DataFrame(found, schema=dict.fromkeys(names, pl.Int64), orient="row")


@pytest.fixture(scope="module")
def ranges() -> pl.DataFrame:
    return rows(
        f"SELECT rowid, 0, 0, {PID}, {TID}, start, end FROM NVTX_EVENTS "
        "WHERE eventType IN (59, 60, 70, 71) AND endGlobalTid IS NULL AND end IS NOT NULL",
        "id", "file_id", "rank", "pid", "tid", "start_ns", "end_ns",
    )  # fmt: skip


@pytest.fixture(scope="module")
def reference() -> list[dict[str, str]]:
    with gzip.open(REFERENCE, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_start_duration_and_operations_equal_nsys_for_every_range(
    ranges: pl.DataFrame, reference: list[dict[str, str]]
) -> None:
    launches = rows(
        f"SELECT 0, 0, {PID}, {TID}, start, end, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
        "file_id", "rank", "pid", "tid", "start_ns", "end_ns", "correlation",
    ).with_columns(pl.lit(False).alias("is_graph"))  # fmt: skip
    ops = pl.concat(
        rows(
            "SELECT 0, 0, (globalPid >> 24) & 16777215, deviceId, start, end, correlationId "
            f"FROM CUPTI_ACTIVITY_KIND_{table}",
            "file_id", "rank", "pid", "device", "start_ns", "end_ns", "correlation",
        )
        for table in ("KERNEL", "MEMCPY", "MEMSET")
    )  # fmt: skip
    found = project(ranges, launches, ops)
    ids = ranges["id"].to_numpy()[found["range"].to_numpy()]
    mine = dict(
        zip(
            ids.tolist(),
            zip(
                found["proj_start_ns"].to_list(),
                (found["proj_end_ns"] - found["proj_start_ns"]).to_list(),
                found["n_ops"].to_list(),
                strict=True,
            ),
            strict=True,
        )
    )
    theirs = {
        int(row["RangeId"]): (
            int(row["Projected Start (ns)"]),
            int(row["Projected Duration (ns)"]),
            int(row["NumGPUOps"]),
        )
        for row in reference
    }
    assert len(theirs) == 9621
    assert mine == theirs
    assert (found["busy_ns"] <= found["proj_end_ns"] - found["proj_start_ns"]).all()
    assert (found["busy_ns"] <= found["sum_ns"]).all()


def test_parents_and_levels_equal_nsys(ranges: pl.DataFrame, reference: list[dict[str, str]]) -> None:
    (lane,), _ = dense_codes([ranges], ("pid", "tid"))
    nesting = nest(lane, ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy())
    ids = np.append(ranges["id"].to_numpy(), -1)
    above = nesting.parents().tolist()
    parents = ids[above].tolist()
    place = {one: at for at, one in enumerate(ids[:-1].tolist())}
    for row in reference:
        at = place[int(row["RangeId"])]
        level, up = 0, above[at]
        while up >= 0:
            level, up = level + 1, above[up]
        assert (parents[at], level) == (int(row["ParentId"] or -1), int(row["Lvl"]))
