"""Crashes, hangs, failed starts: what happened first, on which rank, and where it stood."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traceana.facts.events import number, of_kind, pid_ranks, rank_of, rows
from traceana.facts.locate import Locator, seconds_between
from traceana.facts.model import CollectiveTimeout, Incident, RankActivity, Stall

if TYPE_CHECKING:
    import polars as pl

#: event kind -> incident kind
_KINDS = {
    "watchdog": "watchdog",
    "scheduler_exception": "exception",
    "worker_exception": "exception",
    "engine_dead": "engine_dead",
    "worker_died": "worker_died",
    "subprocess_crashed": "worker_died",
    "start_failed": "start_failed",
    "sigquit": "sigquit",
    "killed": "killed",
    "health_check": "health_check",
    "shm_too_small": "shm_too_small",
    "out_of_memory": "out_of_memory",
    "capture_failed": "out_of_memory",
    "custom_cuda_error": "exception",
    "cuda_error": "exception",
    "fatal_signal": "worker_died",
    "gpu_xid": "gpu_fault",
    "nccl_timeout": "collective_timeout",
    "nccl_warn": "nccl_error",
    "context_length": "context_length",
    "nan_logits": "nan_logits",
    "exception": "exception",
    "traceback": "exception",
}
#: an exception is an incident of its own only beside one of these, or at the very end of the log
_FATAL = {"watchdog", "engine_dead", "worker_died", "start_failed", "sigquit", "collective_timeout"}
_FRAME = re.compile(r"^\s*(?:sglang-\d+\s*\|\s*)?(\S+ \([\w./-]+\.py:\d+\))\s*$")
#: warnings of NCCL that tell of a failure: it warns of much that it can do without
_NCCL_FAILURE = re.compile(
    r"closed by remote peer|ibv_modify_qp failed|socket\w*Connect|Connect to .* failed|Connection re(?:fused|set)|"
    r"Got completion .* with (?:error|status)|[Pp]eer access is not supported|CUDA IPC handle|Cuda failure|Async"
)
_WAIT_S, _WAIT_SLACK = 60.0, 1.5  # between two of vLLM's lines that a worker does not answer
#: the quotes are escaped where the log went through JSON
_PYTHON_FRAME = re.compile(r'File \\?"[^"]*?([^/"\\]+\.py)\\?", line (\d+), in ([\w<>.]+)')
_THREAD = re.compile(r'Thread \S+ \((?:active|idle)[^)]*\): "MainThread"')
_LAST_ERROR = re.compile(r"(?:^|\] |\s)([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)|AssertionError)(?::\s*(.*))?$")
_HEAD = re.compile(r"^(?:\([^)]*pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d [\d:]{8} \[[^\]]+\] ?)?")
_MOST = 200


def incidents(events: pl.DataFrame, where: Locator) -> tuple[Incident, ...]:
    """All incidents in reading order; deaths that follow an orderly shutdown are left out."""
    ranks = pid_ranks(events)
    frames = _pyspy(events, ranks)
    stop = _shutdown(events)
    found: list[Incident] = []
    sites = {r["line"]: r["subject"] for r in rows(of_kind(events, "argument_site"))}
    for row in rows(of_kind(events, *_KINDS).head(_MOST * 5)):
        if stop is not None and (row["file_id"], row["line"]) > stop and not _before_shutdown(found):
            continue
        rank = rank_of(row, ranks)
        kind, text = _classify(row, sites)
        if kind is None:
            continue
        stood = _python_frames(row["follow"]) or frames.get(rank, ())
        found.append(Incident(kind, row["ts"], rank, text, where.at(row), stood))
        if len(found) >= _MOST:
            break
    return tuple(_with_dumps(found, events, ranks, frames, where))


def _before_shutdown(found: list[Incident]) -> bool:
    return any(i.kind in _FATAL for i in found)


def _shutdown(events: pl.DataFrame) -> tuple[int, int] | None:
    for row in rows(of_kind(events, "shutdown")):
        return row["file_id"], row["line"]
    return None


def _classify(row: dict[str, Any], sites: dict[int, str]) -> tuple[str | None, str]:
    """The incident kind and its text; exceptions become argument errors when they are the known ones."""
    kind = _KINDS[row["kind"]]
    text = row["text"] or ""
    if row["kind"] == "traceback":
        return None, ""  # its last line is an event of its own
    if row["kind"] == "nccl_warn":
        said = row["subject"] or ""
        return (kind, f"NCCL WARN {said}") if _NCCL_FAILURE.search(said) else (None, "")
    if row["kind"] in ("scheduler_exception", "worker_exception", "start_failed", "engine_dead"):
        last = _last_error(row["follow"])
        return kind, last or text
    if kind == "exception":
        name = row["subject"] or ""
        message = str(row["attrs"].get("message") or "")
        text = f"{name}: {message}" if message else name
        near = [site for line, site in sites.items() if 0 <= row["line"] - line <= 4]
        if name.endswith("AssertionError") and near and not message:
            return "argument_error", f"AssertionError at `{near[0]}`"
        if "'NoneType' and 'int'" in message and ("'>'" in message or near):
            return "argument_error", text + (f" at `{near[0]}`" if near else "")
        if "OutOfMemoryError" in name or "out of memory" in message.lower():
            return "out_of_memory", text
        if "d2t" in message or "draft vocab" in message.lower():
            return "draft_vocab", text
        if "context_length (" in message:
            return None, ""
    return kind, text


def _last_error(follow: str | None) -> str | None:
    """The last exception line of a traceback, without the prefixes vLLM puts on each line."""
    found = None
    for line in (follow or "").splitlines():
        match = _LAST_ERROR.search(_HEAD.sub("", line.strip()))
        if match:
            found = f"{match[1]}: {match[2]}" if match[2] else match[1]
            if line.startswith((" ", "\t")):
                continue
            break
    return found


def _python_frames(follow: str | None) -> tuple[str, ...]:
    """Frames of the first traceback behind a line, innermost first, as py-spy writes them: `verify (worker.py:701)`."""
    found: list[str] = []
    for line in (follow or "").splitlines():
        if match := _PYTHON_FRAME.search(line):
            found.append(f"{match[3]} ({match[1]}:{match[2]})")
        elif found and _LAST_ERROR.search(_HEAD.sub("", line.strip())) and not line.startswith((" ", "\t")):
            break
    return tuple(found[::-1][:12])


def _pyspy(events: pl.DataFrame, ranks: dict[int, int]) -> dict[int | None, tuple[str, ...]]:
    """Rank -> frames of its main thread, innermost first."""
    found: dict[int | None, tuple[str, ...]] = {}
    for row in rows(of_kind(events, "pyspy")):
        inside = False
        frames: list[str] = []
        for line in (row["follow"] or "").splitlines():
            if "Pyspy dump for PID" in line:
                break
            if _THREAD.search(line):
                inside, frames = True, []
            elif "Thread " in line and "MainThread" not in line and inside and frames:
                break
            elif inside and (match := _FRAME.match(line)):
                frames.append(match[1])
        found[rank_of(row, ranks)] = tuple(frames[:12])
    return found


def _with_dumps(
    found: list[Incident],
    events: pl.DataFrame,
    ranks: dict[int, int],
    frames: dict[int | None, tuple[str, ...]],
    where: Locator,
) -> list[Incident]:
    """Adds an incident for each rank that was dumped but logged no timeout of its own."""
    have = {i.rank for i in found if i.kind == "watchdog"}
    for row in rows(of_kind(events, "pyspy")):
        rank = rank_of(row, ranks)
        if rank not in have and frames.get(rank):
            found.append(Incident("stack_dump", row["ts"], rank, row["text"] or "", where.at(row), frames[rank]))
    return found


def collective_timeouts(events: pl.DataFrame, where: Locator) -> tuple[CollectiveTimeout, ...]:
    """The first collective timeout of each rank and process group, in reading order."""
    ranks = pid_ranks(events)
    found: dict[tuple[int, int | None], CollectiveTimeout] = {}
    for row in rows(of_kind(events, "nccl_timeout")):
        attrs = row["attrs"]
        rank = number(attrs.get("rank"))
        rank = rank if rank is not None else rank_of(row, ranks)
        rank = rank if rank is not None else number(attrs.get("member"))
        if rank is None or row["value"] is None:
            continue
        group = number(attrs.get("group"))
        found.setdefault(
            (rank, group),
            CollectiveTimeout(
                rank, group, int(row["value"]), row["subject"] or "", number(attrs.get("elements")), row["ts"],
                where.at(row),
            ),
        )  # fmt: skip
    return tuple(found.values())


def stall(events: pl.DataFrame, decode: pl.DataFrame, where: Locator) -> Stall | None:
    """The longest time that a vLLM process waited for a worker, by its own words; None when it never said so."""
    import polars as pl

    serving = decode.filter(pl.col("gen_tps") > 0)
    waits = _while_serving(of_kind(events, "shm_broadcast_stall"), of_kind(events, "ready"), serving)
    if not waits.height:
        return None
    runs: dict[tuple[object, ...], tuple[float, Any]] = {}
    longest = 0.0
    for row in rows(waits):
        process = (row["file_id"], row["proc"], row["pid"], row["dp"])
        each = row["value"] or _WAIT_S
        before, last = runs.get(process, (0.0, None))
        apart = seconds_between(last, row["ts"])
        goes_on = apart is None or apart <= each * _WAIT_SLACK
        runs[process] = ((before if goes_on else 0.0) + each, row["ts"])
        longest = max(longest, runs[process][0])
    end = waits.row(-1, named=True)
    behind = (pl.col("file_id") == end["file_id"]) & (pl.col("line") > end["line"])
    served = serving.filter(behind).height > 0
    return Stall(longest, len(runs), served, where.spans(waits))


def _while_serving(waits: pl.DataFrame, ready: pl.DataFrame, serving: pl.DataFrame) -> pl.DataFrame:
    """The waits without those of a start that came to its end: a ready line follows, nothing was generated since the
    one before."""
    import polars as pl

    if not waits.height or not ready.height:
        return waits
    kept = []
    for row in rows(waits):
        file, line = row["file_id"], row["line"]
        marks = ready.filter(pl.col("file_id") == file)["line"]
        since = marks.filter(marks < line).max() or 0
        generated = serving.filter((pl.col("file_id") == file) & pl.col("line").is_between(since, line)).height
        kept.append(generated > 0 or not (marks > line).any())
    return waits.filter(pl.Series(kept, dtype=pl.Boolean))


def last_seen(tables: dict[str, pl.DataFrame], where: Locator) -> tuple[RankActivity, ...]:
    """The last recognised line of each TP rank, in any table."""
    import polars as pl

    latest: dict[int, dict[str, Any]] = {}
    for name, frame in tables.items():
        ranked = frame.filter(pl.col("tp").is_not_null())
        if name == "events":
            ranked = ranked.filter(~pl.col("kind").is_in(["watchdog", "pyspy", "pyspy_failed", "sigquit"]))
        columns = [c for c in ("file_id", "line", "byte_offset", "ts", "tp", "text") if c in ranked.columns]
        for row in ranked.select(columns).group_by("tp").tail(1).iter_rows(named=True):
            kept = latest.get(row["tp"])
            if kept is None or (row["file_id"], row["line"]) > (kept["file_id"], kept["line"]):
                latest[row["tp"]] = {"text": f"a line of {name}", **row}
    return tuple(
        RankActivity(rank, row["ts"], row["text"] or "", where.at(row, row.get("text")))
        for rank, row in sorted(latest.items())
    )
