"""The answer in one line where traces are all there is: how long a cycle is and what most of it goes to."""

from __future__ import annotations

from traceana.facts.text import count
from traceana.facts.trace_model import TraceFacts, TracePhase, unit

_WORDS = {
    "compute": "compute",
    "allreduce_transfer": "allreduce transfer",
    "allreduce_unsplit": "allreduce (transfer or waiting)",
    "allreduce_wait": "waiting for late ranks",
    "other_comm_exposed": "other communication",
    "copies": "copies",
    "unknown": "graph replays traced without their kernels",
    "launch_gap": "launch gaps",
    "other_idle": "other idle time",
}
_MOST = 4
_LEAST_SHARE = 0.03


def trace_sentence(trace: TraceFacts) -> str:
    """What the traces alone can say, with the window it is of."""
    if trace.apart is not None:
        return f"These traces are not of one capture: {trace.apart}. Each GPU is shown for itself."
    if trace.on_gpu and trace.cycle is not None:
        on = count(len(trace.timelines), "GPU")
        name = unit(trace.phases, trace.provenance.value)
        cycles = f"1 {name}" if trace.cycles == 1 else f"median of {trace.cycles:,} {name}s"
        return f"A {name} takes {trace.cycle.median:.1f} ms on the GPU ({cycles} on {on}): {_shares(trace.on_gpu)}."
    if trace.whole:
        return _of_the_capture(trace)
    if trace.sums:
        return _of_sums(trace)
    if trace.phases:
        spans = ", ".join(f"{phase} {ms:.1f} ms" for phase, ms in _host(trace.phases).items())
        why = "The engine computes on the CPU" if trace.on_cpu else "The traces hold no GPU event"
        name = unit(trace.phases, trace.provenance.value)
        return f"{why}. On the host a {name} has: {spans} (medians of {trace.cycles:,} {name}s)."
    return "The traces hold neither a cycle nor GPU work with times: nothing can be said about speed."


def _of_the_capture(trace: TraceFacts) -> str:
    longest = max((p.window_ms or 0.0) for p in trace.whole)
    on = f"{longest:,.1f} ms on {count(len(trace.whole), 'GPU')}"
    slowed = any(code == "profiler-overhead" for _, code, *_ in trace.notes)
    more = " The profiler recorded stacks or memory, which stretches launch gaps." if slowed else ""
    return f"No cycle in these traces. Of the whole capture (up to {on}): {_shares(trace.whole)}.{more}"


def _of_sums(trace: TraceFacts) -> str:
    first = max(trace.sums, key=lambda row: row.total_ms)
    named = ", ".join(f"{100 * share:.0f} % {name}" for name, share in list(first.categories.items())[:_MOST])
    which = "" if len(trace.sums) == 1 else " in the largest"
    part = f" of {first.whole_ms:,.0f}" if first.whole_ms > first.total_ms else ""
    waits = [c for c in first.collectives if c.verdict == "wait-inclusive" and c.median_ms]
    uneven = (
        f" Its longest {waits[0].collective.replace('_', '-')} takes {(waits[0].longest_ms or 0) * 1000:,.0f} us, the "
        f"median one {(waits[0].median_ms or 0) * 1000:,.0f} us: most of that time is waiting or larger messages."
        if waits
        else ""
    )
    return (
        f"Sums only, no event with its time: {count(first.kernels, 'kernel')} took {first.total_ms:,.0f} ms together"
        f"{part}{which}: {named}.{uneven} Nothing is known of cycles, idle time or ranks."
    )


def _shares(phases: tuple[TracePhase, ...]) -> str:
    """The largest buckets as shares of all windows together."""
    total = sum(p.window_ns or 0 for p in phases)
    sums = {name: sum(p.bucket_ns.get(name, 0) for p in phases) for name in _WORDS}
    ordered = sorted(sums.items(), key=lambda item: -item[1])[:_MOST]
    named = [f"{100 * ns / total:.0f} % {_WORDS[name]}" for name, ns in ordered if total and ns >= _LEAST_SHARE * total]
    return ", ".join(named) or "nothing"


def _host(phases: tuple[TracePhase, ...]) -> dict[str, float]:
    """Median host span of each phase, mean over the ranks."""
    spans: dict[str, list[float]] = {}
    for p in phases:
        if p.host_span_ms is not None:
            spans.setdefault(p.phase, []).append(p.host_span_ms)
    return {phase: sum(values) / len(values) for phase, values in spans.items()}
