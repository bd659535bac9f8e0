"""Rows of an Nsight export as rows of the trace tables, batch by batch, and what is counted about each process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana_parsers.interface import Sink
from traceana_parsers.schema import polars_schema
from traceana_parsers.traces.nsight_common import LAST_NS, Session, pid_expr, tid_expr
from traceana_parsers.traces.nsight_counts import Counts, Places
from traceana_parsers.traces.nsight_names import API_NAME, KERNEL_NAME, RANGE_NAME, Names

if TYPE_CHECKING:
    import polars as pl

#: columns asked of each table
KERNEL_INTS = (
    "start", "end", "globalPid", "deviceId", "streamId", "correlationId", "demangledName", "shortName", "graphNodeId",
    "gridX", "blockX",
)  # fmt: skip
RUNTIME_INTS = ("start", "end", "globalTid", "correlationId", "nameId")
MEMOP_INTS = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", "bytes", "copyKind")
GRAPH_INTS = ("start", "end", "globalPid", "deviceId", "streamId", "correlationId", "graphId", "graphExecId")
RANGE_INTS = ("start", "end", "globalTid", "endGlobalTid", "textId", "domainId")

#: CUPTI's copyKind, where the export has no ENUM_CUDA_MEMCPY_OPER; the rest is `other`
COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}


class Rows:
    """Turns batches of an export's tables into rows of the trace tables."""

    def __init__(
        self, file_id: int, session: Session, places: Places, names: Names, counts: Counts, sink: Sink
    ) -> None:
        self._counts = counts
        self._file_id = file_id
        self._offset = session.offset_ns
        self._places = places
        self._names = names
        self._sink = sink
        self._open: list[pl.DataFrame] = []

    # ---- one table each; all return the number of rows used ----

    def launches(self, raw: pl.DataFrame) -> int:
        """RUNTIME rows: every call that carries a correlation id."""
        import polars as pl

        raw = self._timed(raw.filter(pl.col("correlationId").is_not_null()), "globalTid")
        return self._launches(raw, self._or_unnamed(self._names.of_strings(raw["nameId"], API_NAME)))

    def named_launches(self, raw: pl.DataFrame) -> int:
        """Calls with their names in a column `name`."""
        raw = self._timed(raw, "globalTid")
        return self._launches(raw, self._or_unnamed(self._names.of_texts(raw["name"], API_NAME)))

    def _launches(self, raw: pl.DataFrame, names: pl.Series) -> int:
        import polars as pl

        frame = raw.with_columns(
            names,
            self._names.is_graph_launch(names).alias("is_graph"),
            tid_expr("globalTid").alias("tid"),
            pl.col("correlationId").alias("correlation"),
        )
        self._counts.graph_calls(frame)
        return self._add("launches", frame)

    def kernels(self, raw: pl.DataFrame) -> int:
        """KERNEL rows; those that communicate also become `collectives`."""
        raw = self._timed(raw, "globalPid")
        ids = raw["demangledName"].fill_null(raw["shortName"])
        return self._kernels(raw, self._or_unnamed(self._names.of_strings(ids, KERNEL_NAME)))

    def named_kernels(self, raw: pl.DataFrame) -> int:
        """Kernels with their names in a column `name`."""
        raw = self._timed(raw, "globalPid")
        return self._kernels(raw, self._or_unnamed(self._names.of_texts(raw["name"], KERNEL_NAME)))

    def _kernels(self, raw: pl.DataFrame, names: pl.Series) -> int:
        import polars as pl

        frame = self._on_device(raw).with_columns(
            names,
            pl.col("graphNodeId").replace(0, None).alias("graph_node"),
            pl.col("gridX").alias("grid_x"),
            pl.col("blockX").alias("block_x"),
        )
        self._counts.replays(frame)
        collectives = self._names.collectives(names)
        if collectives is not None:
            talking = frame.with_columns(collectives.alias("collective")).filter(pl.col("collective").is_not_null())
            self._emit("collectives", talking)
        return self._add("kernels", frame)

    def copies(self, raw: pl.DataFrame) -> int:
        """MEMCPY rows."""
        import polars as pl

        kinds = pl.col("copyKind").replace_strict(
            dict(self._places.copy_kinds), default="other", return_dtype=pl.String
        )
        return self._memops(self._timed(raw, "globalPid").with_columns(kinds.fill_null("other").alias("kind")))

    def fills(self, raw: pl.DataFrame) -> int:
        """MEMSET rows."""
        import polars as pl

        return self._memops(self._timed(raw, "globalPid").with_columns(pl.lit("memset").alias("kind")))

    def named_memops(self, raw: pl.DataFrame) -> int:
        """Memory operations named by nsys stats: `[CUDA memcpy Device-to-Host]`, until 2022 `[CUDA memcpy DtoH]`."""
        import polars as pl

        short = pl.col("name").str.replace_all("Host", "H").str.replace_all("Device", "D").str.replace_all("Peer", "P")
        word = short.str.extract(r"^\[CUDA (?:memcpy )?(.*)\]$").str.replace_all("-", "")
        kind = word.replace_strict({w: w for w in ("memset", *COPY_KINDS.values())}, default="other")
        return self._memops(self._timed(raw, "globalPid").with_columns(kind.fill_null("other").alias("kind")))

    def _memops(self, raw: pl.DataFrame) -> int:
        import polars as pl

        words = pl.when(pl.col("kind") == "memset").then(pl.lit("Memset")).otherwise("Memcpy " + pl.col("kind"))
        names = self._names.of_texts(raw.select(words.alias("name"))["name"], RANGE_NAME)
        return self._add("memops", self._on_device(raw).with_columns(names))

    def graphs(self, raw: pl.DataFrame) -> int:
        """GRAPH_TRACE rows: replays traced as a whole. CUPTI writes 0 for both times when it has none."""
        import polars as pl

        untimed = (pl.col("start") == 0) & (pl.col("end") == 0)
        raw = self._timed(raw, "globalPid", untimed)
        names = pl.repeat("CUDA graph", raw.height, dtype=pl.String, eager=True)
        frame = self._on_device(raw).with_columns(
            self._names.of_texts(names, RANGE_NAME), pl.coalesce("graphId", "graphExecId").alias("graph_id")
        )
        return self._add("graphs", frame, pl.col("end_ns") > pl.col("start_ns"))

    def ranges(self, raw: pl.DataFrame) -> int:
        """NVTX ranges; those that end on another thread are left out, open ones wait for `close_ranges`."""
        import polars as pl

        ends, begins = pl.col("endGlobalTid"), pl.col("globalTid")
        across = (ends.is_not_null() & begins.is_not_null() & (ends != begins)).fill_null(False)
        kept = raw.filter(~across)
        self._counts.odd.across_threads += raw.height - kept.height
        opened = kept["end"].is_null()
        if opened.any():
            self._open.append(kept.filter(opened))
            kept = kept.filter(~opened)
        return self._ranges(kept)

    def close_ranges(self) -> int:
        """The ranges that were open when the capture stopped, closed at the last event of the file."""
        import polars as pl

        used = 0
        for raw in self._open:
            self._counts.odd.open_ranges += raw.height
            end = pl.lit(None, pl.Int64) if self._counts.end_ns is None else pl.lit(self._counts.end_ns - self._offset)
            used += self._ranges(raw.with_columns(pl.max_horizontal("start", end).alias("end")))
        self._open.clear()
        return used

    def _ranges(self, raw: pl.DataFrame) -> int:
        import polars as pl

        raw = self._timed(raw, "globalTid")
        if not raw.height:
            return 0
        frame = raw.with_columns(
            self._range_names(raw),
            self._domain(raw),
            tid_expr("globalTid").alias("tid"),
            pl.lit("nvtx").alias("kind"),
        )
        return self._add("ranges", frame)

    def named_ranges(self, raw: pl.DataFrame, kind: str) -> int:
        """Ranges with their names, without counters, and domains in columns `name` and `domain`."""
        import polars as pl

        raw = self._timed(raw, "globalTid")
        tid = tid_expr("globalTid") if kind == "nvtx" else pl.lit(None, pl.Int64)
        names = self._or_unnamed(self._names.of_texts(raw["name"], RANGE_NAME))
        return self._add("ranges", raw.with_columns(names, tid.alias("tid"), pl.lit(kind).alias("kind")))

    def _range_names(self, raw: pl.DataFrame) -> pl.Series:
        """The text pushed with the range, else the registered string."""
        texts, registered = raw["text"], raw["textId"]
        if not texts.null_count():
            return self._names.of_texts(texts, RANGE_NAME)
        names = self._names.of_strings(registered, RANGE_NAME)
        if texts.null_count() < len(texts):
            names = self._names.of_texts(texts, RANGE_NAME).fill_null(names)
        return self._or_unnamed(names)

    def _domain(self, raw: pl.DataFrame) -> pl.Series:
        import polars as pl

        ids = raw["domainId"].fill_null(0)
        if not (ids != 0).any():
            return pl.repeat(None, raw.height, dtype=pl.String, eager=True).alias("domain")
        table = {}
        for pid, number in raw.select("pid", ids.alias("domainId")).unique().iter_rows():
            if number != 0:
                named = "NCCL" if number in self._places.nccl_domains else f"domain {number}"
                table[(pid, number)] = self._places.domains.get((pid, number), named)
        keys = [{"pid": pid, "domainId": number, "domain": name} for (pid, number), name in table.items()]
        known = pl.DataFrame(keys, schema={"pid": pl.Int64, "domainId": pl.Int64, "domain": pl.String})
        at = raw.select("pid", ids.alias("domainId"))
        return at.join(known, on=["pid", "domainId"], how="left", maintain_order="left", nulls_equal=True)["domain"]

    # ---- what the tables share ----

    def _timed(self, raw: pl.DataFrame, serial: str, untimed: pl.Expr | None = None) -> pl.DataFrame:
        """Rows with usable times, with pid, rank, start_ns and end_ns; an end is never before its start."""
        import polars as pl

        start, end = pl.col("start"), pl.col("end")
        good = start.is_between(-LAST_NS, LAST_NS) & (end.is_null() | end.is_between(-LAST_NS, LAST_NS))
        kept = raw.filter(good)
        self._counts.odd.impossible += raw.height - kept.height
        self._counts.odd.without_end += kept["end"].null_count()
        self._counts.odd.backwards += int((kept["end"] < kept["start"]).sum())
        kept = kept.with_columns(
            pid_expr(serial).fill_null(pl.lit(self._places.only_pid, pl.Int64)).alias("pid"),
            (start + self._offset).alias("start_ns"),
            (pl.max_horizontal(start, end) + self._offset).alias("end_ns"),
        )
        if untimed is not None:
            self._counts.untimed(kept.filter(untimed))
        return kept.with_columns(self._places.ranks.expr())

    def _on_device(self, raw: pl.DataFrame) -> pl.DataFrame:
        """Rows with device, stream and correlation; the device is the GPU's index where the export maps it."""
        import polars as pl

        device = pl.col("deviceId")
        if self._places.gpus:
            mapped = pl.lit(None, pl.Int64)
            for (pid, number), gpu in self._places.gpus.items():
                mapped = pl.when((pl.col("pid") == pid) & (device == number)).then(gpu).otherwise(mapped)
            device = pl.coalesce(mapped, device)
        return raw.with_columns(
            device.alias("device"), pl.col("streamId").alias("stream"), pl.col("correlationId").alias("correlation")
        )

    def _or_unnamed(self, names: pl.Series) -> pl.Series:
        return names.fill_null(self._names.unnamed()) if names.null_count() else names

    def _emit(self, table: str, frame: pl.DataFrame) -> None:
        import polars as pl

        schema = polars_schema(table)
        constant = {"file_id": self._file_id}
        made = [
            (pl.col(c) if c in frame.columns else pl.lit(constant.get(c))).cast(kind, strict=False).alias(c)
            for c, kind in schema.items()
        ]
        self._sink.add(table, frame.select(made))

    def _add(self, table: str, frame: pl.DataFrame, timed: pl.Expr | None = None) -> int:
        """Hands rows to the sink and counts them; `timed`: rows whose times are real."""
        if not frame.height:
            return 0
        self._emit(table, frame)
        self._counts.add(table, frame, timed)
        return frame.height

    def finish(self) -> None:
        """To be called after the last row."""
        self._counts.finish()
