"""Start-up stages with their durations, and the longest silence before the server was ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceana.facts.events import of_kind, pid_ranks, rank_of, rows
from traceana.facts.locate import Locator, seconds_between
from traceana.facts.model import Evidence, Fact, Provenance, Stage, Startup, Stopped

if TYPE_CHECKING:
    import polars as pl

#: end event -> (begin event, name); the printed seconds win over the clock
_STAGES = {
    "init_end": ("init_begin", "distributed init"),
    "load_end": ("load_begin", "load weights"),
    "weights": ("", "read weights"),
    "compile": ("", "torch.compile"),
    "capture_end": ("capture_begin", "capture CUDA graphs"),
    "init_engine": ("", "init engine (profile, KV cache, warm-up)"),
}
#: lines that come while nothing goes on
_NO_PROGRESS = ("shm_broadcast_stall", "http_error", "health_check", "shutdown", "killed")


def startup(events: pl.DataFrame, where: Locator) -> Startup:
    """Stages of the slowest rank each, the ready time, and the longest gap between recognised lines before it."""
    ranks = pid_ranks(events)
    begun: dict[tuple[str, int | None, str], dict[str, Any]] = {}
    slowest: dict[str, Stage] = {}
    relevant = [k for end, (begin, _) in _STAGES.items() for k in (begin, end) if k]
    for row in rows(of_kind(events, *relevant)):
        rank, subject = rank_of(row, ranks), row["subject"] or ""
        if row["kind"] not in _STAGES:
            begun[row["kind"], rank, subject if row["kind"] == "capture_begin" else ""] = row
            continue
        begin_kind, name = _STAGES[row["kind"]]
        begin = begun.get((begin_kind, rank, subject if begin_kind == "capture_begin" else "")) if begin_kind else None
        stage = _stage(_name(name, row["kind"], subject), row, begin, rank, where)
        kept = slowest.get(stage.name)
        if kept is None or (stage.seconds or 0) > (kept.seconds or 0):
            slowest[stage.name] = stage
    ready = list(rows(of_kind(events, "ready")))
    at: Fact[Any] = Fact(reason="no line says that the server is ready")
    if ready:
        at = Fact(
            ready[0]["ts"],
            Provenance.MEASURED,
            (where.at(ready[0]),),
            None if ready[0]["ts"] else "no time on that line",
        )
    total, gap = _span(events, ready[0] if ready else None, where)
    return Startup(tuple(slowest.values()), at, total, gap, _starts(ready), None if ready else _stopped(events, where))


def _stopped(events: pl.DataFrame, where: Locator) -> Stopped | None:
    """The last line of progress in a start without a ready line, and what follows it in the same file."""
    import polars as pl

    progress = events.filter(~pl.col("kind").is_in(_NO_PROGRESS)).tail(1)
    if not progress.height:
        return None
    last = next(rows(progress))
    behind = events.filter((pl.col("file_id") == last["file_id"]) & (pl.col("line") > last["line"]))
    waits = of_kind(behind, "shm_broadcast_stall")
    # rows of several processes may be written out of order
    silent = seconds_between(last["ts"], behind["ts"].max()) if behind.height else None
    return Stopped(
        last["kind"], silent, int(waits["repeats"].fill_null(1).sum()), (where.at(last), *where.spans(waits))
    )


def _starts(ready: list[dict[str, Any]]) -> int:
    """Server starts: SGLang says that it is ready once itself and once through uvicorn."""
    own = sum("fired up" in (row["text"] or "") for row in ready)
    return own or len(ready)


def _name(name: str, kind: str, subject: str) -> str:
    if kind in ("load_end", "capture_end") and subject:
        return f"{name}: {subject}"
    return name


def _stage(name: str, row: dict[str, Any], begin: dict[str, Any] | None, rank: int | None, where: Locator) -> Stage:
    seconds = row["value"]
    if seconds is None and begin is not None and begin["ts"] is not None and row["ts"] is not None:
        seconds = (row["ts"] - begin["ts"]).total_seconds()
    return Stage(name, seconds, rank, begin["ts"] if begin else None, row["ts"], where.at(row))


def _span(
    events: pl.DataFrame, ready: dict[str, Any] | None, where: Locator
) -> tuple[float | None, tuple[float, Evidence] | None]:
    """Seconds from the first line to the ready line, and the longest gap between recognised lines in between."""
    import polars as pl

    before = events.filter(pl.col("ts").is_not_null())
    if ready is not None:
        same = pl.col("file_id") == ready["file_id"]
        before = before.filter((pl.col("file_id") < ready["file_id"]) | (same & (pl.col("line") <= ready["line"])))
    if ready is None or before.height < 2:
        return None, None
    gaps = before.select("file_id", "line", "byte_offset", "text", "ts").with_columns(
        (pl.col("ts").shift(-1) - pl.col("ts")).dt.total_milliseconds().alias("ms")
    )
    widest = gaps.filter(pl.col("ms") == pl.col("ms").max()).head(1)
    if not widest.height:
        return None, None
    row = widest.row(0, named=True)
    return seconds_between(before["ts"].min(), before["ts"].max()), (row["ms"] / 1000.0, where.at(row))
