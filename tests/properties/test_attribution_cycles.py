"""Windows of phases and cycles of random small traces, found by walking from instant to instant."""

from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attribution.builder import Process, tables
from traceana.attribution.cycles import cycles_of_scopes
from traceana.attribution.scopes import scopes_by_name

#: of a phase: pause before its range on the host, length of the range, operations launched in it
phase = st.tuples(
    st.integers(0, 8),
    st.integers(2, 20),
    st.lists(st.tuples(st.integers(-5, 15), st.integers(0, 12), st.integers(0, 1), st.integers(7, 8)), max_size=3),
)
#: operations that no phase launched: start, length, device
stray = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 10), st.integers(0, 1)), max_size=4)
Ops = list[tuple[int, int]]


@settings(max_examples=150, deadline=None)
@given(st.lists(phase, min_size=1, max_size=5), stray)
def test_a_phase_owns_its_work_and_the_idle_time_around_it_that_its_host_range_covers(phases, strays) -> None:  # type: ignore[no-untyped-def]
    """Two devices, several streams, work before its call, after its range, empty, overlapping and out of order."""
    process = Process()
    now, spans, work = 0, [], {0: [], 1: []}
    everything: dict[int, Ops] = {0: [], 1: []}
    for pause, length, ops in phases:
        begin, end = now + pause, now + pause + length
        process.range("verify", begin, end)
        spans.append((begin, end))
        own: dict[int, Ops] = {0: [], 1: []}
        for lead, took, device, stream in ops:
            start = begin + 1 + lead
            process.kernel("gemm", start, start + took, process.call(begin, begin + 1), device=device, stream=stream)
            own[device].append((start, start + took))
            everything[device].append((start, start + took))
        for device in (0, 1):
            work[device].append(own[device])
        now = end
    for start, took, device in strays:
        process.kernel("gemm", start, start + took, None, device=device, stream=9)
        everything[device].append((start, start + took))
    process.rows["kernels"].reverse()
    trace = tables(process)
    cycles = cycles_of_scopes(scopes_by_name(trace.ranges, trace.names), trace.launches, trace.ops)
    for device in (0, 1):
        rows = cycles.filter((pl.col("device") == device) & (pl.col("phase") == "verify")).sort("host_start_ns")
        if not any(work[device]):
            assert rows.height == 0  # the thread never used this device
            continue
        found = rows.select("window_start_ns", "window_end_ns").rows()
        assert found == [window(span, own, everything[device]) for span, own in zip(spans, work[device], strict=True)]
        whole = cycles.filter((pl.col("device") == device) & (pl.col("phase") == "cycle")).sort("window_start_ns")
        tiled = whole.select("window_start_ns", "window_end_ns").rows()
        assert all(a[0] <= a[1] <= b[0] for a, b in pairwise(tiled)), "cycles overlap"
        assert min(low for low, _ in found) == tiled[0][0]
        assert {low for low, _ in tiled} == {low for low, _ in found}


def window(span: tuple[int, int], own: Ops, ops: Ops) -> tuple[int, int]:
    """From the first to the last instant of its work, and on while the device is idle and the host range lasts."""
    first = min((start for start, _ in own), default=span[0])
    last = max((end for _, end in own), default=span[0])

    def idle(t: int) -> bool:
        return not any(start <= t < end for start, end in ops)

    if own:
        low = first
        while low > span[0] and idle(low - 1) and not any(end == low and start < first for start, end in ops):
            low -= 1
    else:  # from the host's begin, once what began before is over
        low = max([span[0], *(end for start, end in ops if start < span[0])])
    high = last
    if own and any(start < last < end for start, end in ops):
        return low, max(high, low)
    if not own:
        started = [start for start, _ in ops if start >= span[0]]
        return low, max(low, min([span[1], *started]))
    while high < span[1] and idle(high) and not any(start == high for start, _ in ops):
        high += 1
    return low, max(high, low)
