"""Cycles without any range: graph replays that come round in the same order. A guess with a reason, always `derived`.

A replay is known by its graph id, or by the kernels it ran (how many, and the first one's name). If the sequence of a
thread's replays repeats after p of them, p replays are a cycle. The one that takes by far the longest is the verify
(the target model is larger than the drafter); what else can be told depends on p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from traceana.attribution.codes import dense_codes, rows_by_code
from traceana.attribution.intervals import IntArray
from traceana.attribution.model import PERIOD_MATCH, PROCESS, REPLAY_SHARE
from traceana.attribution.ops import HIDDEN, THREAD
from traceana.attribution.scopes import SCOPES

#: begins to give operations, slab after slab in order of start
Slabs = Callable[[], Iterable[pl.DataFrame]]

#: the longest period looked for: a piecewise graph replays one piece per layer
_MAX_PERIOD = 512
#: periods up to this are a few whole graphs per cycle; longer ones are pieces, which get no phase
_MAX_WHOLE_GRAPHS = 12
#: the verify takes at least this many times as long as any other graph of the cycle
_VERIFY_LEAD = 1.5
#: fewer repetitions than this are no pattern
_MIN_ROUNDS = 5
#: of two periods that match about equally, the shorter
_SAME_MATCH = 0.005


def scopes_of_replays(launches: pl.DataFrame, slabs: Slabs, graphs: pl.DataFrame) -> pl.DataFrame:
    """Rows of scopes.SCOPES from the graph launches of each thread; empty where no period is found.

    A period of one replay has the phase `forward`: a verify and a plain decode step look alike.

    Args:
        launches, graphs: the tables, of the launches at least those of graphs. slabs: gives all operations (see
            ops.device_ops), each once, slab after slab in order of start.
    """
    calls = _replays(launches, slabs(), graphs)
    if not calls.height:
        return pl.DataFrame(schema=SCOPES)
    (lane,), lanes = dense_codes([calls], THREAD)
    code = calls.get_column("code").to_numpy()
    start, end, took = (calls.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "busy_ns"))
    periods = [(rows, find_period(code[rows])) for rows in rows_by_code(lane, lanes)]
    repeating = [(rows, period) for rows, period in periods if period is not None]
    mostly = _mostly_replays([calls[rows] for rows, _ in repeating], slabs())
    found: list[pl.DataFrame] = []
    for (rows, period), most in zip(repeating, mostly, strict=True):
        if most:
            firsts, names = _rounds(code[rows], period, start[rows], took[rows])
            found.append(_rows(calls, rows, firsts, names, start, end))
    if not found:
        return pl.DataFrame(schema=SCOPES)
    made = pl.concat(found)
    first = made.filter(pl.col("phase") == "cycle").sort(*PROCESS, "host_start_ns")
    numbers = first.select(*THREAD, "cycle", pl.int_range(pl.len()).over(PROCESS).alias("number"))
    made = made.join(numbers, on=[*THREAD, "cycle"], nulls_equal=True)
    return made.with_columns(pl.col("number").alias("cycle")).select(pl.col(n).cast(kind) for n, kind in SCOPES.items())


def _replays(launches: pl.DataFrame, slabs: Iterable[pl.DataFrame], graphs: pl.DataFrame) -> pl.DataFrame:
    """Graph launches that can be told apart, in order, each with `code` (which graph) and busy_ns (summed GPU time)."""
    key = [*PROCESS, "correlation"]
    calls = launches.filter(pl.col("is_graph") & pl.col("correlation").is_not_null())
    if not calls.height:
        return calls
    work = pl.concat([_replayed(ops, key) for ops in slabs]).group_by(key, maintain_order=True).agg(
        pl.col("nodes").sum(), pl.col("first").first(), pl.col("busy_ns").sum(), pl.col("whole").any(),
        pl.col("last_ns").max(),
    )  # fmt: skip
    ids = graphs.filter(pl.col("graph_id").is_not_null()).select(*key, "graph_id").unique(key, keep="first")
    calls = calls.join(work, on=key, nulls_equal=True).join(ids, on=key, how="left", nulls_equal=True)
    calls = calls.filter(pl.col("graph_id").is_not_null() | ~pl.col("whole")).sort("start_ns", maintain_order=True)
    known = pl.col("graph_id").is_not_null()
    signature = pl.struct(
        "graph_id", pl.when(~known).then("nodes").alias("nodes"), pl.when(~known).then("first").alias("first")
    )
    return calls.with_columns(signature.rank("dense").cast(pl.Int64).alias("code"))


def _replayed(ops: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """The work of each graph launch among some operations, in order of start."""
    replayed = ops.filter(pl.col("in_graph") & (pl.col("kind") != HIDDEN)).sort("start_ns", maintain_order=True)
    return replayed.group_by(key, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("nodes"),
        pl.col("name_id").first().alias("first"),
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("busy_ns"),
        (pl.col("kind") == "graph").any().alias("whole"),
        pl.col("end_ns").max().alias("last_ns"),
    )


def _mostly_replays(threads: list[pl.DataFrame], slabs: Iterable[pl.DataFrame]) -> list[bool]:
    """Whether the replays of each thread are most of the GPU work of its process while they run."""
    if not threads:
        return []
    of_process, work = [], [0] * len(threads)
    for calls in threads:
        low, high = calls.get_column("start_ns").min(), calls.get_column("last_ns").max()
        own = pl.all_horizontal(pl.col(name).eq_missing(pl.lit(calls[name][0])) for name in PROCESS)
        meanwhile = (pl.col("kind") != HIDDEN) & (pl.col("start_ns") >= low) & (pl.col("end_ns") <= high)
        of_process.append((pl.col("end_ns") - pl.col("start_ns")).filter(own & meanwhile).sum())
    for ops in slabs:
        sums = ops.select(expression.alias(f"{at}") for at, expression in enumerate(of_process)).row(0)
        work = [so_far + int(more) for so_far, more in zip(work, sums, strict=True)]
    busy = (int(calls.get_column("busy_ns").sum()) for calls in threads)
    return [own >= REPLAY_SHARE * of_all for own, of_all in zip(busy, work, strict=True)]


def find_period(codes: IntArray) -> int | None:
    """Number of replays after which the sequence repeats, or None; the shortest of those that match about equally."""
    longest = min(_MAX_PERIOD, len(codes) // _MIN_ROUNDS)
    if longest < 1:
        return None
    match = np.array([np.mean(codes[p:] == codes[:-p]) for p in range(1, longest + 1)])
    best = float(match.max())
    return int(np.flatnonzero(match >= best - _SAME_MATCH)[0]) + 1 if best >= PERIOD_MATCH else None


def _rounds(codes: IntArray, period: int, start: IntArray, took: IntArray) -> tuple[IntArray, list[str | None]]:
    """First replay of each cycle, and the phase of each place in the cycle (None: not told)."""
    windows = np.lib.stride_tricks.sliding_window_view(codes, period)
    repeats = np.flatnonzero((windows[period:] == windows[:-period]).all(axis=1))
    template = windows[repeats[0] if len(repeats) else 0]
    hits = _apart(np.flatnonzero((windows == template).all(axis=1)), period)
    length = np.median(took[hits[:, None] + np.arange(period)], axis=0)
    names, turn = _name(template, length)
    if turn is None:  # begin where the host paused longest
        inner = hits[(hits > 0)]
        before = start[inner[:, None] + np.arange(period)] - start[inner[:, None] + np.arange(period) - 1]
        turn = int(np.argmax(np.median(before, axis=0))) if len(inner) else 0
    template, names = np.roll(template, -turn), names[turn:] + names[:turn]
    return _apart(np.flatnonzero((windows == template).all(axis=1)), period), names


def _apart(hits: IntArray, period: int) -> IntArray:
    """Hits without those that overlap the one before."""
    return hits[np.concatenate(([True], np.diff(hits) >= period))] if len(hits) else hits


def _name(template: IntArray, length: IntArray) -> tuple[list[str | None], int | None]:
    """Phase of each place, and the place where the cycle begins (None where it cannot be told)."""
    period = len(template)
    none: list[str | None] = [None] * period
    if period == 1:
        return ["forward"], 0
    longest = int(np.argmax(length))
    rest = np.delete(length, longest)
    if period > _MAX_WHOLE_GRAPHS or length[longest] < _VERIFY_LEAD * rest.max():
        return none, None
    names = none.copy()
    names[longest] = "verify"
    after = [(longest + step) % period for step in range(1, period)]
    if period > 2:  # draft or re-extend: with two graphs nobody can tell which
        extends = len({int(template[at]) for at in after}) > 1
        for at in after:
            names[at] = "draft"
        if extends:
            names[after[0]] = "re_extend"
        return names, after[1] if extends else after[0]
    return names, None


def _rows(
    calls: pl.DataFrame, rows: IntArray, firsts: IntArray, names: list[str | None], start: IntArray, end: IntArray
) -> pl.DataFrame:
    """Scopes of one thread: a `cycle` row per round, and a row per replay whose phase is known."""
    period, count = len(names), len(firsts)
    number = np.arange(count)
    who = calls[int(rows[0])].select(THREAD)
    parts = [("cycle", start[rows[firsts]], end[rows[firsts + period - 1]])]
    parts += [(name, start[rows[firsts + at]], end[rows[firsts + at]]) for at, name in enumerate(names) if name]
    frames = [
        pl.DataFrame({"cycle": number, "host_start_ns": s, "host_end_ns": e}).with_columns(pl.lit(phase).alias("phase"))
        for phase, s, e in parts
    ]
    unknown = (pl.lit(None, pl.Int64).alias(name) for name in ("batch", "tokens"))
    made = pl.concat(frames).with_columns(*unknown, pl.lit("derived").alias("provenance"))
    return made.join(who, how="cross")
