"""What stands before a message: time, process, ranks.

Two heads are common and cheap, SGLang's and vLLM's; they are tried first, anchored. Anything else (docker compose,
kubectl, journald, Ray, mpirun, slurm, log viewers, a lost bracket) is read by parts, wherever they stand.

Sources: SGLang utils.configure_logger (0.4.6 to 0.5.23); vLLM logging_utils (0.6 to 0.33); NCCL debug.cc (2.14 to 2.30).
"""

from __future__ import annotations

from functools import lru_cache
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

_SGLANG_START = r"\[\d{4}-\d\d-\d\d \d\d:"
_VLLM_START = r"\b(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:"
#: the time of an engine's record, wherever it stands
HEAD_START = rf"{_SGLANG_START}|{_VLLM_START}"
#: where a record may begin inside a glued line; a process name belongs to the head behind it, a time to the NCCL line
RECORD_START = (
    rf"\r|{_SGLANG_START}|\([A-Za-z]\S{{0,60}}(?: [A-Z]+\d+)* pid=\d+(?:[^()]{{0,40}}\)\S{{0,8}} (?:{_SGLANG_START}|{_VLLM_START}))?"
    rf"|{_VLLM_START}|(?<!\] )(?<![\w.-])[\w.-]+:\d+:\d+ \[\d+\] NCCL"
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
        r"\[ *((?:(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)[0-9]+ +)+)[A-Za-z_]+\.py:[0-9]+\]",  # `[ TP0 scheduler.py:71]`
        r"\[RANK ([0-9]+)\]",
        r"^\[(?:[0-9]+,)?([0-9]+)\](?:<std(?:out|err)>:| )",  # mpirun
        r"^ *([0-9]+): ",  # srun --label
    ),
    "proc": (r"^.*\(([A-Za-z][^()]*?) pid=[0-9]+",),
    "pid": (r"^.*\([A-Za-z][^()]*? pid=([0-9]+)", r"[0-9A-Za-z_.-]+:([0-9]+):[0-9]+ (?:\[[0-9-]+\] )?$"),
    "level": (r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b",),
}

_TIMES = (0, 253_370_764_800_000)  # milliseconds since 1970: years 1970 ... 9998, that a printed time may have
#: colours and cursor moves; titles and links with their terminator; character sets and keypad modes
_ANSI = (
    r"\x1b\[[0-9:;<=>?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|\x1b[()*+][0-9A-Za-z]|\x1b[78=>McDEHNOZ]"
)

#: where JSON loggers put the text, then where they put the time, then the level
_JSON_KEYS = ("log", "message", "MESSAGE", "msg", "time", "asctime", "timestamp", "ts", "levelname")


def strip_ansi(lines: pl.Series) -> pl.Series:
    """The lines without terminal escape sequences; only lines that hold an escape are rewritten."""
    marked = lines.str.contains("\x1b", literal=True).arg_true()
    if not len(marked):
        return lines
    return lines.clone().scatter(marked, lines.gather(marked).str.replace_all(_ANSI, ""))


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

    held = set(inside.str.extract_many([f'"{key}"' for key in _JSON_KEYS]).explode().unique().to_list())

    def first(*keys: str) -> pl.Expr:
        """The first of the keys that a line has, else null; a key that no line holds is not looked up at all."""
        paths = [pl.col("line").str.json_path_match(f"$.{key}") for key in keys if f'"{key}"' in held]
        return pl.coalesce(*paths, pl.lit(None, pl.String))

    text, when, inner = _JSON_KEYS[:4], _JSON_KEYS[4:8], pl.col("inner")
    only = (
        inside.filter(keyed)
        .to_frame("line")
        .with_columns_seq(
            inner=first(*text),
            when=first(*when).fill_null(""),
            level=first("levelname").fill_null(""),
        )
        .select_seq(
            pl.when(inner.is_null())
            .then("line")
            .when(inner.str.contains(r"\d\d:\d\d:\d\d"))
            .then(inner)
            .otherwise(pl.concat_str("when", pl.lit(" "), "level", pl.lit(" "), inner))
            .str.strip_chars_end("\r\n")
            .alias("line")
        )
    )
    return lines.clone().scatter(braced.filter(keyed), only["line"])


def parts(heads: pl.Series) -> pl.DataFrame:
    """Head columns (`HEAD_COLUMNS`, text) of the texts that stand before messages, found by parts."""
    import polars as pl

    head = pl.col("head")
    found = heads.to_frame("head").select_seq(
        *(head.str.extract(patterns[0], 1).alias(name) for name, patterns in _PARTS.items()),
        pl.lit(None, pl.String).alias("src"),
    )
    columns = found.to_dict()
    for name, (_, *others) in _PARTS.items():
        if others and found[name].null_count():  # only what the first pattern left over
            left = found[name].is_null().arg_true()
            rest = heads.gather(left).to_frame("head").select_seq(pl.coalesce(head.str.extract(p, 1) for p in others))
            columns[name] = columns[name].scatter(left, rest.to_series())
    return pl.DataFrame({name: columns[name] for name in HEAD_COLUMNS})


def typed(head: pl.DataFrame, year: int, month_limit: tuple[int, int]) -> pl.DataFrame:
    """Head columns as the tables want them: ts, dp, pp, tp, ep, proc, pid, level.

    Args:
        head: columns `HEAD_COLUMNS` (others are ignored), text.
        year: year for times printed without one; one less for dates after `month_limit` (month, day), so that a log
            of December read in January falls into the year before.
        month_limit: the last (month, day) that can belong to `year`.
    """
    import polars as pl

    when = _times(head["ts"], year, month_limit)
    ranks = _ranks(head)
    pid = head["pid"].cast(pl.Int64, strict=False)
    return pl.DataFrame([when, *ranks.get_columns(), head["proc"], pid, head["level"]])


def _times(texts: pl.Series, year: int, month_limit: tuple[int, int]) -> pl.Series:
    """Times from their texts, form by form: the next form is tried only on what the ones before left over.

    Null for what is no time, and for years that no date holds.
    """
    times = texts.str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="ms", cache=False)
    if times.null_count() > texts.null_count():
        left = (times.is_null() & texts.is_not_null()).arg_true()
        times = times.scatter(left, _other_times(texts.gather(left), year, month_limit))
    since = times.to_physical()
    strange = (since < _TIMES[0]) | (since >= _TIMES[1])
    return times.set(strange.fill_null(False), None) if strange.any() else times


def _other_times(texts: pl.Series, year: int, month_limit: tuple[int, int]) -> pl.Series:
    import polars as pl

    ts = pl.col("ts")
    end = pl.datetime(year, *month_limit, 23, 59, 59, time_unit="ms")

    def yearless(form: str) -> pl.Expr:
        this, last = (
            pl.concat_str(pl.lit(f"{y} "), ts).str.to_datetime(f"%Y {form}", strict=False, time_unit="ms")
            for y in (year, year - 1)
        )
        return pl.when(this <= end).then(this).otherwise(last)

    return (
        texts.to_frame("ts").select(
            pl.coalesce(
                ts.str.replace("T", " ", literal=True)
                .str.replace(",", ".", literal=True)
                .str.to_datetime("%Y-%m-%d %H:%M:%S%.f", strict=False, time_unit="ms"),
                yearless("%m-%d %H:%M:%S"),
                ts.str.to_datetime("%m/%d/%Y-%H:%M:%S", strict=False, time_unit="ms"),
                yearless("%b %e %H:%M:%S"),
            )
        )
    )["ts"]


def _ranks(head: pl.DataFrame) -> pl.DataFrame:
    """dp, pp, tp, ep from the tags and the process name; these are few, so each distinct pair is read once."""
    import polars as pl

    pairs = pl.DataFrame([head["tags"], head["proc"]])
    distinct = pairs.unique()
    if distinct.height == 1:
        ranks = _ranks_of(*distinct.row(0)).items()
        return pl.select(pl.repeat(rank, head.height, dtype=pl.Int32).alias(name) for name, rank in ranks)
    found = distinct.hstack(_read_ranks(distinct))
    return pairs.join(found, on=["tags", "proc"], how="left", nulls_equal=True, maintain_order="left").drop(
        "tags", "proc"
    )


@lru_cache(maxsize=256)
def _ranks_of(tags: str | None, proc: str | None) -> dict[str, int | None]:
    import polars as pl

    return _read_ranks(pl.DataFrame({"tags": [tags], "proc": [proc]}, {"tags": pl.String, "proc": pl.String})).row(
        0, named=True
    )


def _read_ranks(pairs: pl.DataFrame) -> pl.DataFrame:
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
    return pairs.select_seq(rank("DP").alias("dp"), rank("PP").alias("pp"), tp.alias("tp"), rank("EP").alias("ep"))
