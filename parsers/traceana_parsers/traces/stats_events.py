"""Trace reports of `nsys stats`, and projections of nsys recipes, as rows of the trace tables.

Reports that lie next to each other complete one another: calls and ranges name the processes that a GPU trace does not
name, and the launch trace says which call launched which kernel.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from traceana_parsers.traces.nsight_common import RANGE_COUNTERS
from traceana_parsers.traces.nsight_csv import Section
from traceana_parsers.traces.nsight_rows import Rows
from traceana_parsers.traces.stats_summaries import QUALIFIED, Summaries

if TYPE_CHECKING:
    import polars as pl

#: order in which the reports of a capture are read: what names processes goes before what needs their names
ORDER = ("api_trace", "launch_trace", "pushpop", "projection", "gpu_trace")
_PID_BITS = 24


class Events:
    """Takes the trace reports of one capture; `kinds`: the reports that it has."""

    def __init__(self, rows: Rows, summaries: Summaries, kinds: Set[str]) -> None:
        self._rows = rows
        self._summaries = summaries
        self._kinds = kinds
        self._ties: list[pl.DataFrame] = []  # (device, start, pid, correlation) of kernels with a known launch
        self._calls: list[pl.DataFrame] = []  # (correlation, pid)
        self._made = 0  # correlation ids given out
        self.gpus: dict[int, str] = {}

    def add(self, section: Section) -> int | None:
        """Adds the rows of a section. Returns how many were used; None when it is no trace report."""
        take = {
            "api_trace": self._api_trace,
            "launch_trace": self._launch_trace,
            "pushpop": self._pushpop,
            "projection": self._projection,
            "gpu_trace": self._gpu_trace,
        }.get(section.report.kind)
        return None if take is None else take(section)

    def _api_trace(self, section: Section) -> int:
        import polars as pl

        frame = _spans(section).with_columns(
            section.integer("CorrID").alias("correlationId"),
            section.text("Name").alias("name"),
            _serial(section, "Pid", "Tid"),
        )
        calls = frame.select(pl.col("correlationId"), pl.col("globalTid") // (1 << _PID_BITS))
        self._calls.append(calls.rename({"globalTid": "pid"}).drop_nulls())
        return self._rows.named_launches(frame)

    def _launch_trace(self, section: Section) -> int:
        """Calls and the kernels they launched. It has no correlation ids: they are given out here."""
        import polars as pl

        made = pl.Series(range(self._made + 1, self._made + 1 + section.frame.height), dtype=pl.Int64)
        self._made += section.frame.height
        call = _spans(section, "API Start", "API Dur").with_columns(
            made.alias("correlationId"), section.text("API Function").alias("name"), _serial(section, "PID", "TID")
        )
        kernel = _spans(section, "Kernel Start", "Kernel Dur").with_columns(
            made.alias("correlationId"), section.integer("DevId").alias("deviceId"), _serial(section, "PID")
        )
        self._ties.append(
            kernel.select("deviceId", "start", (pl.col("globalPid") // (1 << _PID_BITS)).alias("pid"), "correlationId")
        )
        used = 0 if "api_trace" in self._kinds else self._rows.named_launches(call)
        if "gpu_trace" in self._kinds:
            return used
        grid = section.text("GridXYZ").str.extract(r"^\s*(\d+)").cast(pl.Int64, strict=False)
        block = section.text("BlockXYZ").str.extract(r"^\s*(\d+)").cast(pl.Int64, strict=False)
        kernel = kernel.with_columns(
            section.text("Kernel Name").alias("name"), grid.alias("gridX"), block.alias("blockX")
        )
        if "api_trace" in self._kinds:  # its ids are others
            kernel = kernel.with_columns(pl.lit(None, pl.Int64).alias("correlationId"))
        return used + self._rows.named_kernels(_with_nulls(kernel, "streamId", "graphNodeId"))

    def _pushpop(self, section: Section) -> int:
        frame = _spans(section).with_columns(*_range_name(section.text("Name")), _serial(section, "PID", "TID"))
        return self._rows.named_ranges(frame, "nvtx")

    def _projection(self, section: Section) -> int:
        import polars as pl

        return self.projection(
            pl.DataFrame(
                {
                    "name": section.text("Name"),
                    "proj_start": section.integer("Projected Start"),
                    "proj_duration": section.integer("Projected Duration"),
                    "start": section.integer("Orig Start"),
                    "duration": section.integer("Orig Duration"),
                    "pid": section.integer("PID"),
                    "tid": section.integer("TID"),
                    "gpu_ops": section.integer("NumGPUOps"),
                }
            )
        )

    def projection(self, table: pl.DataFrame) -> int:
        """Adds projected ranges (columns: see nsight_recipe.projections), and the ranges where no report has them."""
        import polars as pl

        known = table.filter(pl.col("name").is_not_null()).with_columns(
            (pl.col("pid") * (1 << _PID_BITS) + pl.col("tid").fill_null(0)).alias("globalTid")
        )
        known = known.with_columns(*_range_name(known["name"]))
        gpu = known.with_columns(
            pl.col("proj_start").alias("start"), (pl.col("proj_start") + pl.col("proj_duration")).alias("end")
        )
        spans = gpu.filter(pl.col("end") >= pl.col("start"))
        self._summaries.add_projection(
            spans.select("name", "domain", "pid", "gpu_ops", start_ns="start", end_ns="end"),
        )
        used = self._rows.named_ranges(gpu, "gpu_annotation") + table.height - known.height
        if "pushpop" not in self._kinds:
            own = known.with_columns((pl.col("start") + pl.col("duration")).alias("end"))
            self._rows.named_ranges(own.filter(pl.col("start").is_not_null()), "nvtx")
        return used

    def _gpu_trace(self, section: Section) -> int:
        """Kernels and memory operations; notes the GPUs' names (`NVIDIA H100 (0)`)."""
        import polars as pl

        device = section.text("Device").str.extract_groups(r"^(?<name>.*) \((?<number>\d+)\)$").struct
        numbers = device.field("number").cast(pl.Int64, strict=False)
        names = pl.DataFrame({"n": device.field("name"), "i": numbers}).unique().drop_nulls()
        self.gpus |= {number: name for name, number in names.iter_rows()}
        raw = _spans(section).with_columns(
            numbers.alias("deviceId"),
            section.integer("Strm").alias("streamId"),
            section.integer("CorrId").alias("correlationId"),
            section.integer("GrdX").alias("gridX"),
            section.integer("BlkX").alias("blockX"),
            section.integer("Bytes").replace(0, None).alias("bytes"),  # MB with three decimals: 0.000 is not nothing
            section.text("Name").alias("name"),
        )
        raw = _with_nulls(self._tied(raw), "graphNodeId")
        memory = pl.col("name").str.contains(r"^\[CUDA mem").fill_null(False)
        return self._rows.named_kernels(raw.filter(~memory)) + self._rows.named_memops(raw.filter(memory))

    def _tied(self, raw: pl.DataFrame) -> pl.DataFrame:
        """Rows of a GPU trace with globalPid, where other reports tell it, and the launch's correlation id."""
        import polars as pl

        pid = pl.lit(None, pl.Int64)
        if self._ties:
            ties = pl.concat(self._ties).unique(["deviceId", "start"], keep="none")
            raw = raw.join(ties, on=["deviceId", "start"], how="left", maintain_order="left", suffix="_made")
            by_device = _one_to_one(ties, "deviceId")
            pid = pl.coalesce(pl.col("pid"), pl.col("deviceId").replace_strict(by_device, default=None))
            if "api_trace" not in self._kinds:
                raw = raw.with_columns(pl.col("correlationId_made").alias("correlationId"))
        elif self._calls:
            calls = pl.concat(self._calls).unique()
            once = calls.unique("correlationId", keep="none").rename({"correlationId": "id"})
            seen = raw.join(once, left_on="correlationId", right_on="id", how="inner")
            by_device = _one_to_one(seen, "deviceId")
            if calls["pid"].n_unique() == 1:
                pid = pl.lit(calls["pid"][0], pl.Int64)
            elif by_device:
                pid = pl.col("deviceId").replace_strict(by_device, default=None, return_dtype=pl.Int64)
        return raw.with_columns((pid.cast(pl.Int64) * (1 << _PID_BITS)).alias("globalPid"))


def _one_to_one(rows: pl.DataFrame, column: str) -> dict[int, int]:
    """Process by device, for devices that one process alone used."""
    import polars as pl

    pairs = rows.select(column, "pid").drop_nulls().unique()
    return dict(pairs.filter(pl.len().over(column) == 1).rows())


def _spans(section: Section, start: str = "Start", duration: str = "Duration") -> pl.DataFrame:
    import polars as pl

    begins = section.integer(start).alias("start")
    return pl.DataFrame([begins, (begins + section.integer(duration)).alias("end")])


def _serial(section: Section, pid: str, tid: str | None = None) -> pl.Series:
    """Process and thread as nsys packs them: globalTid, or globalPid without a thread."""
    made = section.integer(pid) * (1 << _PID_BITS)
    return made.alias("globalPid") if tid is None else (made + section.integer(tid)).alias("globalTid")


def _range_name(recorded: pl.Series) -> tuple[pl.Series, pl.Series]:
    """(name, domain) of ranges as nsys prints them."""
    cut = recorded.str.replace(RANGE_COUNTERS, "")
    parts = cut.str.extract_groups(QUALIFIED).struct
    return parts.field("name").fill_null(cut).alias("name"), parts.field("domain").replace("", None).alias("domain")


def _with_nulls(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.lit(None, pl.Int64).alias(c) for c in columns)
