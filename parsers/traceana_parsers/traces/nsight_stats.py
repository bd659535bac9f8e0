"""Reads what `nsys stats` printed as CSV: GPU traces into the trace tables, kernel summaries and projections as frames.

A summary has no time axis and a trace no processes: the .sqlite export says more, and is to be preferred.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from traceana_parsers.interface import FileReport, Sink
from traceana_parsers.schema import polars_schema
from traceana_parsers.sources import Source, SourceError, StreamState
from traceana_parsers.traces.nsight_common import RANGE_COUNTERS, Session
from traceana_parsers.traces.nsight_counts import Counts, Places
from traceana_parsers.traces.nsight_csv import Section, of_kind, sections, sniff, why_empty
from traceana_parsers.traces.nsight_names import Names
from traceana_parsers.traces.nsight_rows import Rows

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read", "read_kernel_summary", "read_projection", "sniff"]

# ---- kernel summaries ----

SUMMARY = ("name", "instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "std_ns")


def read_kernel_summary(path: str) -> pl.DataFrame:
    """A kernel summary: name, instances, total_ns, avg_ns, med_ns, min_ns, max_ns, std_ns; one row per name.

    nsys 2022 prints a row per launch shape: they are added up, with the spread of the whole (sample standard
    deviation); a median cannot be, and is null there. Summaries are over all devices and ranks of a capture. Raises
    SourceError, with the reason in one line, when the file has no kernel summary.
    """
    import polars as pl

    parts = []
    for section in of_kind(path, "kernel_sum"):
        parts.append(
            pl.DataFrame(
                {
                    "name": section.frame["Name"],
                    "instances": section.integer("Instances"),
                    "total_ns": section.integer("Total Time"),
                    "avg_ns": section.number("Avg"),
                    "med_ns": section.number("Med"),
                    "min_ns": section.integer("Min"),
                    "max_ns": section.integer("Max"),
                    "std_ns": section.number("StdDev"),
                }
            )
        )
    return _by_name(pl.concat(parts))


def _by_name(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of one name added up."""
    import polars as pl

    n, mean = pl.col("instances"), pl.col("total_ns").sum() / pl.col("instances").sum()
    squares = ((n - 1) * pl.col("std_ns").fill_null(0) ** 2 + n * (pl.col("avg_ns") - mean) ** 2).sum()
    single = pl.len() == 1
    return (
        rows.filter(n > 0)
        .group_by("name", maintain_order=True)
        .agg(
            n.sum().alias("instances"),
            pl.col("total_ns").sum(),
            pl.when(single).then(pl.col("avg_ns").first()).otherwise(mean).alias("avg_ns"),
            pl.when(single).then(pl.col("med_ns").first()).alias("med_ns"),
            pl.col("min_ns").min(),
            pl.col("max_ns").max(),
            pl.when(single)
            .then(pl.col("std_ns").first())
            .when(n.sum() > 1)
            .then((squares / (n.sum() - 1)).sqrt())
            .alias("std_ns"),
        )
        .sort("total_ns", descending=True, maintain_order=True)
        .select(SUMMARY)
    )


# ---- projections ----

PROJECTION = (
    "name", "domain", "start_ns", "duration_ns", "range_start_ns", "range_duration_ns",
    "style", "pid", "tid", "gpu_ops", "level", "rank",
)  # fmt: skip


def read_projection(path: str) -> pl.DataFrame:
    """NVTX ranges projected onto the GPU, from `nsys stats` (CSV) or an nsys recipe (Parquet): one row per range.

    Columns: name (without counters), domain, start_ns and duration_ns (projected: a span from the first to the last
    operation, gaps included), range_start_ns and range_duration_ns (on the host), style, pid, tid, gpu_ops (launches),
    level (0 is outermost), rank (recipes only). nsys prints `DOMAIN:name` since 2024: a colon in a name of an older
    version looks like a domain. Raises SourceError, with the reason in one line, when the file holds no projection.
    """
    import polars as pl

    table = _recipe(path) if path.endswith(".parquet") else pl.concat(map(_of_csv, of_kind(path, "projection")))
    recorded = table["recorded"].str.replace(RANGE_COUNTERS, "")
    parts = recorded.str.extract_groups(_QUALIFIED).struct
    return table.with_columns(
        parts.field("domain").replace("", None).alias("domain"), parts.field("name").fill_null(recorded).alias("name")
    ).select(PROJECTION)


#: `NCCL:ncclGroupEnd` and `:verify` (default domain), but `aten::to` as it is
_QUALIFIED = r"(?s)^(?:(?<domain>[A-Za-z0-9_.-]*):)?(?<name>[^:].*)$"
#: column of the result -> column of nsys
_PROJECTED = {
    "start_ns": "Projected Start", "duration_ns": "Projected Duration", "range_start_ns": "Orig Start",
    "range_duration_ns": "Orig Duration", "pid": "PID", "tid": "TID", "gpu_ops": "NumGPUOps", "level": "Lvl",
    "rank": "Rank",
}  # fmt: skip


def _of_csv(section: Section) -> pl.DataFrame:
    import polars as pl

    texts = {"recorded": section.text("Name"), "style": section.text("Style")}
    return pl.DataFrame(texts | {ours: section.integer(theirs) for ours, theirs in _PROJECTED.items()})


def _recipe(path: str) -> pl.DataFrame:
    """The table of a recipe: nanoseconds, some columns as floats because they have gaps."""
    import polars as pl

    try:
        table = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise SourceError(f"{path}: no readable Parquet file: {' '.join(str(error).split())[:200]}") from error
    if not {"Name", "Projected Start", "Projected Duration"} <= set(table.columns):
        raise SourceError(f"{path}: no NVTX projection of an nsys recipe in it")

    def column(name: str, kind: type[pl.DataType]) -> pl.Expr:
        return (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind, strict=False)

    return table.select(
        column("Name", pl.String).alias("recorded"),
        column("Style", pl.String).alias("style"),
        *(column(theirs, pl.Int64).alias(ours) for ours, theirs in _PROJECTED.items()),
    )


# ---- GPU traces ----

_AGAIN = "export the capture with --type sqlite"
_TRACE = f"from nsys stats: no processes, ranks, ranges or launches; {_AGAIN}"
_NO_EVENTS = f"from nsys stats: no GPU events with their times; {_AGAIN}"


def read(source: Source, file_id: int, sink: Sink) -> FileReport:
    """Adds GPU traces in a CSV file to the trace tables. Never raises for what is in it; `problem` says what is wrong.

    Other reports have no place in the tables: their rows are counted, and a row in `traces` says what they are.
    """
    report = FileReport(file_id, source.path, format="nsight")
    state = StreamState()
    counts = Counts()
    rows = Rows(file_id, Session(), Places(), Names(file_id, None, sink), counts, sink)
    seen: dict[str, None] = {}
    gpus: dict[int, str] = {}
    try:
        report.modified = source.modified
        for section in sections(source, state):
            seen[section.report.what] = None
            if section.report.kind == "gpu_trace":
                report.recognised += _gpu_trace(section, rows, gpus)
            else:
                report.recognised += section.frame.height
        report.bytes = state.size
        report.problem = state.problem or (None if report.recognised else why_empty(source, state, None, list(seen)))
    except (SourceError, OSError) as error:
        report.problem = str(error).removeprefix(f"{source.path}: ")
        return report
    report.unread += counts.odd.impossible
    if seen:
        _add_trace(report, counts, list(seen), gpus, sink)
    return report


def _gpu_trace(section: Section, rows: Rows, gpus: dict[int, str]) -> int:
    """Kernels and memory operations of a trace; notes the GPUs' names (`NVIDIA H100 (0)`)."""
    import polars as pl

    start = section.integer("Start")
    device = section.text("Device").str.extract_groups(r"^(?<name>.*) \((?<number>\d+)\)$").struct
    numbers = device.field("number").cast(pl.Int64, strict=False)
    for name, number in pl.DataFrame({"n": device.field("name"), "i": numbers}).unique().drop_nulls().iter_rows():
        gpus[number] = name
    raw = pl.DataFrame(
        {
            "start": start,
            "end": start + section.integer("Duration"),
            "globalPid": pl.repeat(None, len(start), dtype=pl.Int64, eager=True),
            "deviceId": numbers,
            "streamId": section.integer("Strm"),
            "correlationId": section.integer("CorrId"),
            "gridX": section.integer("GrdX"),
            "blockX": section.integer("BlkX"),
            "graphNodeId": pl.repeat(None, len(start), dtype=pl.Int64, eager=True),
            "bytes": section.integer("Bytes").replace(0, None),  # MB with three decimals: 0.000 is not nothing
            "name": section.text("Name"),
        }
    )
    memory = pl.col("name").str.contains(r"^\[CUDA mem").fill_null(False)
    return rows.named_kernels(raw.filter(~memory)) + rows.named_memops(raw.filter(memory))


def _add_trace(report: FileReport, counts: Counts, seen: list[str], gpus: dict[int, str], sink: Sink) -> None:
    import polars as pl

    process = counts.of(None)
    what = _NO_EVENTS if process.first_ns is None else _TRACE
    row = {
        "file_id": report.file_id,
        "tool": "nsight_stats",
        "clock": "relative",
        "start_ns": process.first_ns,
        "end_ns": process.last_ns,
        "graph_mode": "unknown",
        "devices": json.dumps({str(d): gpus.get(d) for d in sorted(process.devices)}),
        "notes": json.dumps([f"{', '.join(seen)} {what}"]),
    }
    sink.add("traces", pl.DataFrame([row], schema=polars_schema("traces"), orient="row"))
