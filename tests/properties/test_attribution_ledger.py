"""The ledger of random small traces against sets of integer instants: every instant asked what it was."""

from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attribution.builder import Process, tables
from traceana.attribution.cycles import CYCLES
from traceana.attribution.ledger import build_ledger
from traceana.attribution.model import BESIDE, BUCKETS

NAMES = ("gemm", "allreduce split", "allreduce whole", "allgather", "copykernel", "copy", "graph")
CLAIMS = ("compute", "graph", "transfer", "unsplit", "comm", "wait", "copies")
BUCKET = {
    "compute": "compute", "graph": "unknown", "transfer": "allreduce_transfer", "unsplit": "allreduce_unsplit",
    "comm": "other_comm_exposed", "wait": "allreduce_wait", "copies": "copies",
}  # fmt: skip
op = st.tuples(
    st.sampled_from(NAMES), st.integers(0, 40), st.integers(0, 12), st.integers(0, 1), st.integers(7, 9),
    st.one_of(st.none(), st.integers(-6, 6)), st.integers(0, 10),
)  # fmt: skip
borders = st.lists(st.integers(0, 60), min_size=2, max_size=5, unique=True).map(sorted)
phases = st.lists(st.tuples(st.sampled_from(["draft", "verify"]), st.integers(0, 55), st.integers(0, 20)), max_size=4)


@settings(max_examples=200, deadline=None)
@given(st.lists(op, max_size=10), borders, phases)
def test_every_instant_is_in_the_bucket_that_its_definition_says(ops, edges, spans) -> None:  # type: ignore[no-untyped-def]
    """Nested, overlapping, empty and unordered operations on two devices and several streams."""
    process = Process()
    splits, truth = [], []
    seen = set()
    for name, start, length, device, stream, lead, transfer in ops:
        end = start + length
        if (device, stream, start) in seen:  # one stream does not start two kernels at once
            continue
        seen.add((device, stream, start))
        call = None if lead is None else process.call(start - 20, start + lead, graph=name == "graph")
        launched = None if lead is None else start + lead
        parts = [(CLAIMS[NAMES.index(name)] if name != "copy" else "copies", start, end)]
        if name == "graph":
            if length and call is not None:
                process.graph(start, end, call, device=device)
            elif call is not None:
                process.rows["launches"].pop()  # an untimed replay is another test's
                continue
            else:
                continue
            parts = [("graph", start, end)]
        elif name == "copy":
            process.copy(start, end, call, device=device, stream=stream)
        else:
            process.kernel(name, start, end, call, device=device, stream=stream)
            parts = [
                ({"gemm": "compute", "allgather": "comm", "copykernel": "copies"}.get(name, "unsplit"), start, end)
            ]
            if name == "allreduce split":
                splits.append((0, 0, process.pid, device, stream, start, transfer))
                turn = max(start, end - transfer)
                parts = [("wait", start, turn), ("transfer", turn, end)]
        truth += [(device, *part, launched) for part in parts]
    trace = tables(process)
    cycles = cycle_rows(process, edges, spans)
    split_rows = pl.DataFrame(
        splits,
        schema=dict.fromkeys(("file_id", "rank", "pid", "device", "stream", "start_ns", "transfer_ns"), pl.Int64),
        orient="row",
    )
    ledger = build_ledger(cycles, trace.ops, split_rows)
    wanted: dict[tuple[int, int, str], dict[str, int]] = {}
    for device in (0, 1):
        own = [part for part in truth if part[0] == device]
        for cycle, (low, high) in enumerate(pairwise(edges)):
            for t in range(low, high):
                row = wanted.setdefault(
                    (device, cycle, phase_at(spans, t)), dict.fromkeys((*BUCKETS, *BESIDE, "window_ns"), 0)
                )
                row["window_ns"] += 1
                for bucket in buckets_at(own, t):
                    row[bucket] += 1
    found = {
        (row["device"], row["cycle"], row["phase"]): {name: row[name] for name in (*BUCKETS, *BESIDE, "window_ns")}
        for row in ledger.rows.iter_rows(named=True)
    }
    assert found == wanted


def cycle_rows(process: Process, edges: list[int], spans: list[tuple[str, int, int]]) -> pl.DataFrame:
    whole = [("cycle", c, s, e) for c, (s, e) in enumerate(pairwise(edges))]
    whole += [(name, 0, start, start + length) for name, start, length in spans]
    rows = [
        {
            "file_id": 0,
            "rank": 0,
            "pid": process.pid,
            "device": d,
            "phase": p,
            "cycle": c,
            "window_start_ns": s,
            "window_end_ns": e,
        }
        for p, c, s, e in whole
        for d in (0, 1)
    ]
    return pl.DataFrame(rows, schema=CYCLES)


def phase_at(spans: list[tuple[str, int, int]], t: int) -> str:
    """The phase that began last among those around, of these the shortest."""
    around = [(start, -length, at) for at, (_, start, length) in enumerate(spans) if start <= t < start + length]
    return spans[max(around)[2]][0] if around else "other"


def buckets_at(parts: list[tuple[int, str, int, int, int | None]], t: int) -> list[str]:
    here = {kind for _, kind, start, end, _ in parts if start <= t < end}
    first = min((CLAIMS.index(kind) for kind in here), default=None)
    found = []
    if here & {"transfer", "unsplit", "wait"} and CLAIMS[first] not in ("transfer", "unsplit", "wait"):
        found.append("allreduce_overlapped")
    if "comm" in here and CLAIMS[first] != "comm":
        found.append("other_comm_overlapped")
    if first is not None:
        return [*found, BUCKET[CLAIMS[first]]]
    following = min((start for _, _, start, end, _ in parts if start > t and end > start), default=None)
    calls = [call for _, _, start, _, call in parts if start == following and call is not None]
    if following is None or not calls:
        return ["other_idle", "idle_without_launch"]
    return ["launch_gap"] if t < min(calls) else ["other_idle"]
