"""Host ranges to device work, through the calls made inside them (NVTX -> GPU projection).

The rule is nsys' own: a call belongs to a range of its thread if it starts and ends inside it (ends inclusive); an
operation belongs to the call of its process with its correlation id. A graph replay that was traced as a whole is an
operation too. Results are inclusive (a parent counts what its children launched) and per device: a range that drove two
GPUs has two rows.

In the order of calls, the operations of a range are one contiguous run. Where they also start in that order, everything
follows from prefix sums and one running maximum. The other runs (several streams, nested calls, ids used twice, work
covered by an earlier long operation) are written out and sorted, in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes, rows_by_code
from traceana.attribution.intervals import BoolArray, IntArray, expand, is_new, reach_before, union_by_group
from traceana.attribution.ops import THREAD, link

#: operations written out at a time, for runs that prefix sums cannot answer
_CHUNK = 1 << 16
_FIGURES = ("proj_start_ns", "proj_end_ns", "n_ops", "n_launches", "n_rows", "graph_nodes", "busy_ns", "sum_ns")


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of one thread in order of start."""

    start: IntArray
    end: IntArray
    graph: BoolArray


@dataclass(frozen=True, slots=True)
class _Work:
    """Operations of one device launched by one thread, in order of call, then of start."""

    op: IntArray  # row in the table of operations
    call: IntArray  # place among the thread's calls
    correlation: IntArray
    start: IntArray
    end: IntArray


def project(ranges: pl.DataFrame, launches: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Device work of each host range.

    Args:
        ranges: file_id, pid, tid, start_ns, end_ns (one thread each; gpu_annotation rows do not belong here).
        launches: the `launches` table. ops: file_id, pid, device, start_ns, end_ns, correlation (see ops.device_ops).

    Returns:
        One row per range and device with work, in order: `range` (row of `ranges`), device, proj_start_ns, proj_end_ns
        (first start, last end), n_ops (distinct correlation ids), n_launches (calls inside the range), n_rows
        (operations), graph_nodes (of these, replayed by graph launches), busy_ns (union), sum_ns (sum of durations).
    """
    (range_lane, call_lane), lanes = dense_codes([ranges, launches], THREAD)
    op, call = link(ops, launches)
    r_start, r_end, devices = column(ranges, "start_ns"), column(ranges, "end_ns"), ops.get_column("device").to_numpy()
    found: list[pl.DataFrame] = []
    place = np.zeros(launches.height, np.int64)
    split = (rows_by_code(codes, lanes) for codes in (range_lane, call_lane, call_lane[call]))
    for rows, own, pairs in zip(*split, strict=True):
        if not len(pairs) or not len(rows):
            continue
        calls = _calls(own, launches, place)
        mine = op[pairs], place[call[pairs]]
        for device in np.unique(devices[mine[0]]):
            work = _work(*mine, device, ops)
            figures = _inside(r_start[rows], r_end[rows], calls, work)
            kept = figures["n_rows"] > 0
            found.append(
                pl.DataFrame({"range": rows[kept], "device": np.full(int(kept.sum()), device)})
                .with_columns(pl.Series(name, figures[name][kept]) for name in _FIGURES)
                .with_columns(pl.col("device").cast(pl.Int32))
            )
    if not found:
        return pl.DataFrame(schema={"range": pl.Int64, "device": pl.Int32, **dict.fromkeys(_FIGURES, pl.Int64)})
    return pl.concat(found).sort("range", "device")


def _calls(rows: IntArray, launches: pl.DataFrame, place: IntArray) -> _Calls:
    """Some launches in order of start; `place` is told the place of each."""
    start, end = column(launches, "start_ns"), column(launches, "end_ns")
    rows = rows[np.argsort(start[rows], kind="stable")]
    place[rows] = np.arange(len(rows))
    graph = launches.get_column("is_graph").fill_null(False).to_numpy()
    return _Calls(start[rows], end[rows], graph[rows])


def _work(op: IntArray, call: IntArray, device: int, ops: pl.DataFrame) -> _Work:
    """The operations of one device, given as rows of `ops` with their calls."""
    here = np.flatnonzero(column(ops, "device")[op] == device)
    start = column(ops, "start_ns")
    here = here[np.lexsort((start[op[here]], call[here]))]
    rows = op[here]
    return _Work(rows, call[here], column(ops, "correlation")[rows], start[rows], column(ops, "end_ns")[rows])


def _inside(start: IntArray, end: IntArray, calls: _Calls, work: _Work) -> dict[str, IntArray]:
    """Figures of each range of a thread over the work of one device; n_rows is 0 where there is none."""
    first = np.searchsorted(calls.start, start, side="left")
    stop = np.maximum(np.searchsorted(calls.start, end, side="right"), first)
    low, high = np.searchsorted(work.call, first), np.searchsorted(work.call, stop)
    some = np.flatnonzero(high > low)
    figures = {name: np.zeros(len(start), np.int64) for name in _FIGURES}
    if not len(some):
        return figures
    reach = np.maximum.accumulate(calls.end)
    straddles = reach[stop[some] - 1] > end[some]
    simple = _simple(low[some], high[some], work) & ~straddles
    easy, hard = some[simple], some[~simple]
    _fill_simple(figures, easy, low[easy], high[easy], stop[easy] - first[easy], calls, work)
    size = np.cumsum(high[hard] - low[hard])
    for part in np.split(hard, np.searchsorted(size, np.arange(_CHUNK, int(size[-1]) if len(size) else 0, _CHUNK))):
        if len(part):
            _fill_written_out(figures, part, (first[part], stop[part]), (low[part], high[part]), end[part], calls, work)
    return figures


def _simple(low: IntArray, high: IntArray, work: _Work) -> BoolArray:
    """Runs that start in order, hold no id twice, and whose first operation outlasts all before it."""
    later = work.start[1:] < work.start[:-1]
    again = _id_seen_before(work)
    inversions = np.concatenate(([0, 0], np.cumsum(later)))
    repeats = np.concatenate(([0], np.cumsum(again)))
    tidy = (inversions[high] == inversions[low + 1]) & (repeats[high] == repeats[low])
    simple: BoolArray = tidy & (work.end[low] >= reach_before(work.end)[low])
    return simple


def _id_seen_before(work: _Work) -> BoolArray:
    """Operations whose correlation id an earlier call of the thread has, too."""
    new_call = is_new(work.call)
    ids = work.correlation[new_call]
    found = np.zeros(len(work.call), np.bool_)
    if bool((ids[1:] > ids[:-1]).all()):  # ids are handed out in order: nothing to look for
        return found
    order = np.argsort(ids, kind="stable")
    again = np.zeros(len(ids), np.bool_)
    again[order[1:]] = ids[order[1:]] == ids[order[:-1]]
    repeated: BoolArray = again[np.cumsum(new_call) - 1]
    return repeated


def _fill_simple(
    figures: dict[str, IntArray], rows: IntArray, low: IntArray, high: IntArray, n: IntArray, calls: _Calls, work: _Work
) -> None:
    """Prefix sums. After its first operation a simple run has the same running maximum as the whole list."""

    def run(values: IntArray | BoolArray) -> IntArray:
        total = np.zeros(len(values) + 1, np.int64)
        np.cumsum(values, out=total[1:])
        return total[high] - total[low]

    first_length = work.end[low] - work.start[low]
    fresh = work.end - np.maximum(work.start, np.minimum(reach_before(work.end), work.end))
    np.maximum(fresh, 0, out=fresh)

    figures["proj_start_ns"][rows] = work.start[low]
    figures["proj_end_ns"][rows] = np.maximum.accumulate(work.end)[high - 1]
    figures["n_ops"][rows] = run(is_new(work.call))
    figures["n_launches"][rows] = n
    figures["n_rows"][rows] = high - low
    figures["graph_nodes"][rows] = run(calls.graph[work.call])
    figures["busy_ns"][rows] = run(fresh) - fresh[low] + first_length
    figures["sum_ns"][rows] = run(work.end - work.start)


def _fill_written_out(
    figures: dict[str, IntArray],
    rows: IntArray,
    call_run: tuple[IntArray, IntArray],
    op_run: tuple[IntArray, IntArray],
    end: IntArray,
    calls: _Calls,
    work: _Work,
) -> None:
    """Every pair of range and operation written out: exact whatever the order."""
    count = len(rows)
    owner, call = expand(call_run[0], call_run[1] - call_run[0])
    figures["n_launches"][rows] = np.bincount(owner[calls.end[call] <= end[owner]], minlength=count)
    owner, at = expand(op_run[0], op_run[1] - op_run[0])
    inside = calls.end[work.call[at]] <= end[owner]
    owner, at = owner[inside], at[inside]
    order = np.lexsort((work.op[at], owner))
    owner, at = owner[order], at[order]
    once = is_new(owner, work.op[at])
    owner, at = owner[once], at[once]
    if not len(owner):
        return
    first = np.flatnonzero(is_new(owner))
    target = rows[owner[first]]
    start, stop = work.start[at], work.end[at]
    ids = np.lexsort((work.correlation[at], owner))
    distinct = is_new(owner[ids], work.correlation[at][ids]).astype(np.int64)
    figures["proj_start_ns"][target] = np.minimum.reduceat(start, first)
    figures["proj_end_ns"][target] = np.maximum.reduceat(stop, first)
    figures["n_ops"][target] = np.add.reduceat(distinct, first)
    figures["n_rows"][target] = np.add.reduceat(np.ones(len(owner), np.int64), first)
    figures["graph_nodes"][target] = np.add.reduceat(calls.graph[work.call[at]].astype(np.int64), first)
    figures["busy_ns"][rows] = union_by_group(owner, start, stop, count)
    figures["sum_ns"][target] = np.add.reduceat(stop - start, first)
