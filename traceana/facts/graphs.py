"""CUDA graphs: what was captured, what was switched off, and which windows replayed one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traceana.facts.events import number, of_kind, pid_ranks, rank_of, rows
from traceana.facts.locate import Locator, seconds_between
from traceana.facts.model import Capture, Evidence, Fact, GraphFacts, Provenance, Settings

if TYPE_CHECKING:
    import polars as pl

_LARGEST = re.compile(r"largest=(\d+)")
_MODE = re.compile(r"cudagraph_mode['\"]?[:=] ?['\"]?(?:<?CUDAGraphMode\.)?([A-Z_]+)")
_NO_ATTENTION = ("PIECEWISE", "NONE")
_MAX_SIZE_SETTINGS = ("cuda_graph_max_bs", "cuda_graph_max_bs_decode")


def graph_facts(
    windows: pl.DataFrame, events: pl.DataFrame, settings: Settings, k: int | None, last_ts: object, where: Locator
) -> GraphFacts:
    """Graph coverage of decode forwards (with speculation: of the target's verify)."""
    import polars as pl

    captures = _captures(events, last_ts, where)
    sizes = _sizes(events, captures)
    off = _switched_off(settings, events, where)
    printed = windows.filter(pl.col("cuda_graph").is_not_null() & (pl.col("running") > 0))
    eager, graph = printed.filter(~pl.col("cuda_graph")), printed.filter("cuda_graph")
    return GraphFacts(
        captured_max=_captured_max(sizes, events, settings, k, where),
        captured_sizes=sizes[0],
        switched_off=off,
        without_attention=_without_attention(settings, events, where),
        windows_graph=graph.height,
        windows_eager=eager.height,
        eager_running=_loads(eager),
        graph_running=_loads(graph),
        eager_evidence=where.spans(eager),
        captures=captures,
        runtime_modes=tuple(
            of_kind(events, "runtime_mode")
            .group_by("subject")
            .agg(pl.col("value").sum().cast(pl.Int64))
            .sort("subject")
            .iter_rows()
        ),
    )


def _loads(frame: pl.DataFrame) -> tuple[int, int] | None:
    low, high = frame["running"].min(), frame["running"].max()
    return (low, high) if isinstance(low, int) and isinstance(high, int) else None


def _sizes(events: pl.DataFrame, captures: tuple[Capture, ...]) -> tuple[tuple[int, ...], tuple[Evidence, ...]]:
    """Captured batch sizes of the target's decode or verify graph, and where they are printed."""
    for capture in captures:
        if capture.sizes and not capture.name.startswith("draft") and "prefill" not in capture.name:
            return capture.sizes, tuple(e for e in (capture.begin or capture.end,) if e is not None)
    for row in rows(of_kind(events, "capture_sizes")):
        return _ints(row["attrs"].get("sizes")), ()
    return (), ()


def _ints(text: str | None) -> tuple[int, ...]:
    return tuple(sorted({int(n) for n in re.findall(r"\d+", text or "")}))


def _captured_max(
    sizes: tuple[tuple[int, ...], tuple[Evidence, ...]],
    events: pl.DataFrame,
    settings: Settings,
    k: int | None,
    where: Locator,
) -> Fact[int]:
    if sizes[0]:
        return Fact(max(sizes[0]), Provenance.MEASURED, sizes[1])
    for row in rows(of_kind(events, "graph_sizes")):
        largest = [int(n) for n in _LARGEST.findall(row["subject"] or "")]
        if largest:
            tokens = max(largest)
            note = f"largest captured size is {tokens} tokens; a request has {(k or 0) + 1} in a forward"
            return Fact(tokens // ((k or 0) + 1), Provenance.DERIVED, (where.at(row),), note)
    for name in _MAX_SIZE_SETTINGS:
        found = settings.get(name)
        if found is not None and isinstance(found.parsed, int) and not isinstance(found.parsed, bool):
            return Fact(found.parsed, Provenance.DERIVED, (found.evidence,) if found.evidence else (), f"from {name}")
    return Fact(reason="no line lists the captured batch sizes")


def _switched_off(settings: Settings, events: pl.DataFrame, where: Locator) -> Fact[str]:
    for name in ("disable_cuda_graph", "enforce_eager"):
        found = settings.get(name)
        if found is not None and found.parsed is True:
            return Fact(name, Provenance.MEASURED, (found.evidence,) if found.evidence else ())
    for row in rows(of_kind(events, "enforce_eager")):
        return Fact("enforce_eager", Provenance.MEASURED, (where.at(row),))
    return Fact(reason="nothing in the log switches CUDA graphs off")


def _without_attention(settings: Settings, events: pl.DataFrame, where: Locator) -> Fact[str]:
    """vLLM's cudagraph_mode when it leaves a verify's attention outside the graph: PIECEWISE or NONE, else unknown.

    The engine lowers the mode where the attention backend has no graph for several tokens per request; the last such
    line counts. Without one, PIECEWISE in the engine's own configuration.
    """
    for row in reversed(list(rows(of_kind(events, "cudagraph_mode")))):
        if row["subject"] in _NO_ATTENTION:
            return Fact(row["subject"], Provenance.MEASURED, (where.at(row),))
        return Fact(reason=f"cudagraph_mode is {row['subject']}")
    found = settings.get("compilation_config")
    match = _MODE.search(found.value) if found is not None else None
    if found is None or match is None:
        return Fact(reason="no line names cudagraph_mode")
    if match[1] != "PIECEWISE":  # NONE in the configuration is enforce_eager, or a CPU
        return Fact(reason=f"cudagraph_mode is {match[1]}")
    return Fact(match[1], Provenance.MEASURED, (found.evidence,) if found.evidence else ())


def _captures(events: pl.DataFrame, last_ts: object, where: Locator) -> tuple[Capture, ...]:
    """Begin and end lines paired by rank and name; progress bars belong to the capture that is open."""
    ranks = pid_ranks(events)
    done: list[Capture] = []
    open_: dict[tuple[int | None, str], dict[str, Any]] = {}
    for row in rows(of_kind(events, "capture_begin", "capture_end", "capture_progress")):
        name = (row["subject"] or "").strip() or "decode"
        rank = rank_of(row, ranks)
        if row["kind"] == "capture_begin":
            open_[rank, name] = row
        elif row["kind"] == "capture_end":
            begin = open_.pop((rank, name), None) or (open_.pop((rank, "progress"), None))
            done.append(_capture(name, rank, begin, row, last_ts, where))
        else:
            _progress(open_, row, rank)
    done.extend(_capture(name, rank, row, None, last_ts, where) for (rank, name), row in open_.items())
    return tuple(c for c in done if c.ended or c.begin is not None)


def _progress(open_: dict[tuple[int | None, str], dict[str, Any]], row: dict[str, Any], rank: int | None) -> None:
    """A progress bar carries no rank: it speaks for the newest open capture, or opens one of its own."""
    progress = row["attrs"].get("progress")
    if open_:
        newest = next(reversed(open_))
        open_[newest]["progress"] = progress
        finished = progress and len(set(progress.split("/"))) == 1
        if finished and newest[1] == "progress":
            del open_[newest]
        return
    at, _, total = (progress or "").partition("/")
    if at != total:
        open_[rank, "progress"] = {**row, "progress": progress}


def _capture(
    name: str,
    rank: int | None,
    begin: dict[str, Any] | None,
    end: dict[str, Any] | None,
    last_ts: object,
    where: Locator,
) -> Capture:
    sizes: tuple[int, ...] = ()
    for row in (begin, end):
        sizes = sizes or _ints(row["attrs"].get("sizes") if row else None)
    progress = begin.get("progress") if begin else None
    complete = end is not None or bool(progress and len(set(progress.split("/"))) == 1)
    silent = None
    if not complete and begin is not None:
        silent = seconds_between(begin["ts"], last_ts)
    return Capture(
        name="CUDA" if name == "progress" else name,
        rank=rank,
        ended=complete,
        elapsed_s=end["value"] if end else None,
        sizes=sizes,
        progress=progress,
        begin=where.at(begin) if begin else None,
        end=where.at(end) if end else None,
        silent_s=silent,
    )


def kv_tokens(events: pl.DataFrame, where: Locator) -> Fact[int]:
    """KV pool size in tokens, as the engine prints it."""
    for row in rows(of_kind(events, "limits")):
        if row["value"] is not None:
            return Fact(int(row["value"]), Provenance.MEASURED, (where.at(row),))
    for row in rows(of_kind(events, "kv_cache")):
        tokens = row["value"] if row["value"] is not None else number(row["attrs"].get("tokens"))
        if tokens is not None:
            return Fact(int(tokens), Provenance.MEASURED, (where.at(row),))
    return Fact(reason="no line gives the KV pool's size")
