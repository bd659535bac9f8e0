"""What stands before a message: time, process, ranks.

Two heads are common and cheap, SGLang's and vLLM's; they are tried first, anchored. Anything else (docker compose,
kubectl, journald, Ray, mpirun, slurm, log viewers, a lost bracket) is read by parts, wherever they stand.

Sources: SGLang utils.configure_logger (0.4.6 to 0.5.23); vLLM logging_utils (0.6 to 0.33); NCCL debug.cc (2.14 to 2.30).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: `[2026-01-31 12:00:00.123 DP0 TP1] ` - the bracket may be lost in a paste
SGLANG_HEAD = r"^\[?(?P<ts>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]{8,12})(?P<tags>(?: [A-Z_]+[0-9]+)*)\] "
#: `(EngineCore_DP0 pid=12) INFO 01-31 12:00:00 [loggers.py:118] `; V0 has no bracket before the file name
VLLM_HEAD = (
    r"^(?:\((?P<proc>[A-Za-z][!-'*-~]*(?: [A-Z]+[0-9]+)*) pid=(?P<pid>[0-9]+)\) )?(?P<level>[A-Z]+) "
    r"(?P<ts>[0-9]{2}-[0-9]{2} [0-9:]{8}) \[?(?P<src>[!-Z^-~]+)\] "
)
HEADS: tuple[str, ...] = (SGLANG_HEAD, VLLM_HEAD)

HEAD_COLUMNS = ("ts", "tags", "proc", "pid", "level", "src")

#: where a record may begin inside a glued line
RECORD_START = (
    r"\r|\[\d{4}-\d\d-\d\d \d\d:|\((?:[A-Za-z]\S*)(?: [A-Z]+\d+)* pid=\d+|\b(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:"
    r"|[\w.-]+:\d+:\d+ \[\d+\] NCCL"
)

#: the parts of a head, the last occurrence before the message wins: the engine's own time stands after the outer ones
_PARTS = {
    "ts": (
        r"^.*(?:^|[^0-9])([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?)",
        r"^.*(?:^|[^0-9])([0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2})",
        r"^.*(?:^|[^0-9])([0-9]{2}/[0-9]{2}/[0-9]{4}-[0-9]{2}:[0-9]{2}:[0-9]{2})",
        r"^.*\b([A-Z][a-z]{2} +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2})\b",
    ),
    "tags": (
        r"^.*[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?((?: (?:DP|PP|ATTN_CP|MOE_DP|TP|EP)[0-9]+)+)\]",
        r"\[RANK ([0-9]+)\]",
        r"^\[(?:[0-9]+,)?([0-9]+)\](?:<std(?:out|err)>:| )",  # mpirun
        r"^ *([0-9]+): ",  # srun --label
    ),
    "proc": (r"^.*\(([A-Za-z][^()]*?) pid=[0-9]+",),
    "pid": (r"^.*\([A-Za-z][^()]*? pid=([0-9]+)", r"[0-9A-Za-z_.-]+:([0-9]+):[0-9]+ (?:\[[0-9-]+\] )?$"),
    "level": (r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b",),
}

_ANSI = r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"


def strip_ansi(lines: pl.Series) -> pl.Series:
    """The lines without terminal escape sequences; only lines that hold an escape are rewritten."""
    marked = lines.str.contains("\x1b", literal=True)
    if not marked.any():
        return lines
    import polars as pl

    frame = pl.DataFrame({"line": lines, "marked": marked})
    return frame.select(
        pl.when("marked").then(pl.col("line").str.replace_all(_ANSI, "")).otherwise("line").alias("line")
    )["line"]


def unwrap_json(lines: pl.Series) -> pl.Series:
    """Lines of container runtimes and JSON loggers (`{"log": ...}`, `{"message": ...}`) replaced by the text inside.

    The runtime's own time is put in front when the text inside has none, so that the line keeps its place in time.
    """
    import polars as pl

    braced = lines.str.starts_with("{").fill_null(False).arg_true()
    if not len(braced):
        return lines
    inside = lines.gather(braced)
    keyed = inside.str.contains(r'^\{.*"(?:log|message|MESSAGE|msg)" ?:').fill_null(False)
    if not keyed.any():
        return lines

    def text(path: str) -> pl.Expr:
        return pl.col("line").str.json_path_match(path)

    inner = pl.coalesce(text("$.log"), text("$.message"), text("$.MESSAGE"), text("$.msg"))
    when = pl.coalesce(text("$.time"), text("$.asctime"), text("$.timestamp"), text("$.ts"), pl.lit(""))
    level = pl.coalesce(text("$.levelname"), pl.lit(""))
    only = (
        inside.filter(keyed)
        .to_frame("line")
        .select(
            pl.when(inner.is_null())
            .then("line")
            .when(inner.str.contains(r"\d\d:\d\d:\d\d"))
            .then(inner)
            .otherwise(pl.concat_str(when, pl.lit(" "), level, pl.lit(" "), inner))
            .str.strip_chars_end("\r\n")
            .alias("line")
        )
    )
    return lines.clone().scatter(braced.filter(keyed), only["line"])


def parts(heads: pl.Series) -> pl.DataFrame:
    """Head columns (`HEAD_COLUMNS`, text) of the texts that stand before messages, found by parts."""
    import polars as pl

    frame = heads.to_frame("head")
    found = [
        pl.coalesce([pl.col("head").str.extract(p, 1) for p in patterns]).alias(name)
        for name, patterns in _PARTS.items()
    ]
    return frame.select(found).with_columns(src=pl.lit(None, pl.String)).select(HEAD_COLUMNS)


def typed(head: pl.DataFrame, year: int, month_limit: tuple[int, int]) -> pl.DataFrame:
    """Head columns as the tables want them: ts, dp, pp, tp, ep, proc, pid, level.

    Args:
        head: columns `HEAD_COLUMNS`, text.
        year: year for times printed without one; one less for dates after `month_limit` (month, day), so that a log
            of December read in January falls into the year before.
        month_limit: the last (month, day) that can belong to `year`.
    """
    import polars as pl

    when = _times(head["ts"], year, month_limit)
    ranks = _ranks(head)
    return (
        pl.DataFrame({"ts": when})
        .hstack(ranks)
        .hstack(head.select("proc", pl.col("pid").cast(pl.Int64, strict=False), "level"))
    )


def _times(texts: pl.Series, year: int, month_limit: tuple[int, int]) -> pl.Series:
    """Times from their texts, form by form: the next form is tried only on what the ones before left over."""
    import polars as pl

    times = texts.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms")
    left = (times.is_null() & texts.is_not_null()).arg_true()
    if not len(left):
        return times
    ts = pl.col("ts")
    limit = f"{month_limit[0]:02d}-{month_limit[1]:02d}"
    yearless = pl.when(ts.str.slice(0, 5) > limit).then(pl.lit(str(year - 1))).otherwise(pl.lit(str(year)))
    other = (
        texts.gather(left)
        .to_frame("ts")
        .select(
            pl.coalesce(
                ts.str.replace("T", " ", literal=True)
                .str.replace(",", ".", literal=True)
                .str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="ms"),
                pl.concat_str(yearless, pl.lit("-"), ts).str.to_datetime(
                    "%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms"
                ),
                ts.str.to_datetime("%m/%d/%Y-%H:%M:%S", strict=False, time_unit="ms"),
                pl.concat_str(pl.lit(f"{year} "), ts).str.to_datetime(
                    "%Y %b %e %H:%M:%S", strict=False, time_unit="ms"
                ),
            )
        )
    )
    return times.scatter(left, other["ts"])


def _ranks(head: pl.DataFrame) -> pl.DataFrame:
    """dp, pp, tp, ep from the tags and the process name; these are few, so each distinct pair is read once."""
    import polars as pl

    def rank(tag: str) -> pl.Expr:
        both = pl.coalesce(
            pl.col("tags").str.extract(rf"\b{tag}([0-9]+)", 1), pl.col("proc").str.extract(rf"[_ ]{tag}([0-9]+)", 1)
        )
        return both.cast(pl.Int32, strict=False)

    tp = pl.coalesce(
        rank("TP"),
        pl.col("tags").str.extract(r"^([0-9]+)$", 1).cast(pl.Int32, strict=False),
        pl.col("proc").str.extract(r"^VllmWorker(?: rank=|-)([0-9]+)", 1).cast(pl.Int32, strict=False),
    )
    pairs = head.select("tags", "proc")
    distinct = pairs.unique().with_columns(
        rank("DP").alias("dp"), rank("PP").alias("pp"), tp.alias("tp"), rank("EP").alias("ep")
    )
    return pairs.join(distinct, on=["tags", "proc"], how="left", nulls_equal=True, maintain_order="left").drop(
        "tags", "proc"
    )
