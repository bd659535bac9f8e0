"""Trace reports of `nsys stats`, and projections of nsys recipes, as rows of the trace tables.

Reports that lie next to each other complete one another: calls and ranges name the processes that a GPU trace does not
name, and the launch trace says which call launched which kernel.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from traceana_parsers.traces.nsight_csv import Section
from traceana_parsers.traces.nsight_rows import Rows
from traceana_parsers.traces.stats_summaries import Summaries, range_name

if TYPE_CHECKING:
    import polars as pl

#: order in which the reports of a capture are read: what names processes goes before what needs their names
ORDER = ("api_trace", "launch_trace", "pushpop", "projection", "gpu_trace")
_PID_BITS = 24
_TID = (1 << _PID_BITS) - 1


class Events:
    """Takes the trace reports of one capture; `kinds`: the reports that it has."""

    def __init__(self, rows: Rows, summaries: Summaries, kinds: Set[str]) -> None:
        self._rows = rows
        self._summaries = summaries
        self._kinds = kinds
        self._ties: list[pl.DataFrame] = []  # deviceId, start, globalPid, correlationId of kernels with a known launch
        self._calls: list[pl.DataFrame] = []  # globalTid, start, correlationId
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

        frame = _spans(section).with_columns(
            section.integer("CorrID").alias("correlationId"),
            section.text("Name").alias("name"),
            _serial(section, "Pid", "Tid"),
        )
        self._calls.append(frame.select("globalTid", "start", "correlationId").drop_nulls())
        return self._rows.named_launches(frame)

    def _launch_trace(self, section: Section) -> int:
        """Calls and the kernels they launched, several in a graph launch. It has no correlation ids of its own."""
        import polars as pl

        call = _spans(section, "API Start", "API Dur").with_columns(
            section.text("API Function").alias("name"), _serial(section, "PID", "TID")
        )
        call, new = self._numbered(call)
        kernel = _spans(section, "Kernel Start", "Kernel Dur").with_columns(
            call["correlationId"], section.integer("DevId").alias("deviceId"), _serial(section, "PID")
        )
        self._ties.append(kernel.select("deviceId", "start", "globalPid", "correlationId"))
        used = self._rows.named_launches(new)
        if "gpu_trace" in self._kinds:
            return section.frame.height
        grid = section.text("GridXYZ").str.extract(r"^\s*(\d+)").cast(pl.Int64, strict=False)
        block = section.text("BlockXYZ").str.extract(r"^\s*(\d+)").cast(pl.Int64, strict=False)
        kernel = kernel.with_columns(
            section.text("Kernel Name").alias("name"), grid.alias("gridX"), block.alias("blockX")
        )
        return max(used, self._rows.named_kernels(_with_nulls(kernel, "streamId", "graphNodeId")))

    def _numbered(self, call: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Calls with the correlation ids that the trace of calls has for them, else with made ones; and those alone."""
        import polars as pl

        key = ["globalTid", "start"]
        sign = -1 if self._kinds & {"api_trace", "gpu_trace"} else 1  # made ids must not meet real ones
        made = call.select(key).unique(maintain_order=True).with_row_index("made", self._made + 1)
        self._made += made.height
        known = pl.concat([pl.DataFrame(schema=dict.fromkeys([*key, "correlationId"], pl.Int64)), *self._calls])
        ids = made.join(known.unique(key, keep="none"), on=key, how="left", maintain_order="left")
        ids = ids.with_columns(pl.col("made").cast(pl.Int64) * sign)
        found = call.join(ids, on=key, how="left", maintain_order="left")
        new = found.filter(pl.col("correlationId").is_null()).unique(key, maintain_order=True)
        filled = found.with_columns(pl.coalesce("correlationId", "made").alias("correlationId"))
        return filled, new.with_columns(pl.col("made").alias("correlationId"))

    def _pushpop(self, section: Section) -> int:
        frame = _spans(section).with_columns(section.text("Name").alias("name"), _serial(section, "PID", "TID"))
        return self._rows.named_ranges(_named(frame), "nvtx")

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
        known = _named(known)
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

        serial = pl.lit(None, pl.Int64)
        if self._ties:
            ties = pl.concat(self._ties).unique(["deviceId", "start"], keep="none")
            raw = raw.join(ties, on=["deviceId", "start"], how="left", maintain_order="left", suffix="_tied")
            by_device = pl.col("deviceId").replace_strict(_one_to_one(ties), default=None, return_dtype=pl.Int64)
            serial = pl.coalesce("globalPid", by_device)
            if "api_trace" not in self._kinds:
                raw = raw.with_columns(pl.col("correlationId_tied").alias("correlationId"))
        elif self._calls:
            calls = pl.concat(self._calls).select("correlationId", pl.col("globalTid") & ~_TID).unique()
            calls = calls.rename({"globalTid": "globalPid"})
            if calls["globalPid"].n_unique() == 1:
                serial = pl.lit(calls["globalPid"][0], pl.Int64)
            else:
                seen = raw.join(calls.unique("correlationId", keep="none"), on="correlationId", how="inner")
                serial = pl.col("deviceId").replace_strict(_one_to_one(seen), default=None, return_dtype=pl.Int64)
        return raw.with_columns(serial.alias("globalPid"))


def _one_to_one(rows: pl.DataFrame) -> dict[int, int]:
    """globalPid by device, for devices that one process alone used."""
    import polars as pl

    pairs = rows.select("deviceId", "globalPid").drop_nulls().unique()
    return dict(pairs.filter(pl.len().over("deviceId") == 1).rows())


def _spans(section: Section, start: str = "Start", duration: str = "Duration") -> pl.DataFrame:
    import polars as pl

    begins = section.integer(start).alias("start")
    return pl.DataFrame([begins, (begins + section.integer(duration)).alias("end")])


def _serial(section: Section, pid: str, tid: str | None = None) -> pl.Series:
    """Process and thread as nsys packs them: globalTid, or globalPid without a thread."""
    made = section.integer(pid) * (1 << _PID_BITS)
    return made.alias("globalPid") if tid is None else (made + section.integer(tid)).alias("globalTid")


def _named(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges with `name` taken apart to name and domain."""
    import polars as pl

    name, domain = range_name(pl.col("name"))
    return ranges.with_columns(name.alias("name"), domain.alias("domain"))


def _with_nulls(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    import polars as pl

    return frame.with_columns(pl.lit(None, pl.Int64).alias(c) for c in columns)
