"""What-if predictions that only a trace carries: verify in a CUDA graph, no waiting rank, no waiting host."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

from traceana.facts.model import Facts, Provenance
from traceana.facts.trace_model import TraceFacts
from traceana.facts.whatif_model import Base, Input, Prediction
from traceana.facts.whatif_predict import predicted
from traceana.speculation import whatif as arithmetic

_NEEDS_TRACE = (
    "a log does not say how long the GPU waits for launches: capture a trace of a few hundred cycles (PyTorch profiler "
    "or nsys)"
)
#: graph launches per verify from which it counts as running in a graph
_IN_GRAPH = 0.5


def verify_graph(facts: Facts, base: Base) -> Prediction | None:
    """Verify replayed as a CUDA graph: at most the time in which the GPU waited for launches of verify is saved."""
    change = "verify in a CUDA graph"
    trace = facts.trace
    phases = () if trace is None else tuple(p for p in trace.on_gpu if p.phase == "verify")
    if not phases or trace is None:
        if facts.graphs.windows_graph and not facts.graphs.windows_eager:
            return None  # the windows say that it does
        return Prediction("verify_graph", change, reason=_NEEDS_TRACE)
    if in_graph(trace):
        return None
    gaps = trace.ms_per_cycle(("launch_gap",), ("verify",))
    return _prediction("verify_graph", change, facts, base, mean(gaps.values()), "launch gap of verify per cycle")


def no_wait(facts: Facts, base: Base) -> Prediction | None:
    """All ranks arriving together: at most what the most patient rank waits is saved."""
    waits = rank_wait_ms(facts)
    if not waits:
        return None
    return _prediction("no_wait", "no rank late", facts, base, max(waits), "wait in allreduces per cycle")


def no_host_wait(facts: Facts, base: Base) -> Prediction | None:
    """The host no longer waiting for the GPU in every cycle: at most the idle time behind those calls is saved."""
    idle = host_wait_ms(facts)
    if not idle:
        return None
    return _prediction("no_host_wait", "no host wait in the cycle", facts, base, mean(idle), "GPU idle behind it")


def in_graph(trace: TraceFacts) -> bool | None:
    """Whether verify replays a CUDA graph; None where the trace shows no verify on a GPU."""
    phases = [p for p in trace.on_gpu if p.phase == "verify"]
    return mean(p.graph_launches or 0.0 for p in phases) >= _IN_GRAPH if phases else None


def rank_wait_ms(facts: Facts) -> list[float]:
    """What each traced timeline waits in allreduces, ms per cycle; empty unless several ranks were traced."""
    trace = facts.trace
    if trace is None or len(trace.traced_ranks) < 2:
        return []
    return list(trace.ms_per_cycle(("allreduce_wait",)).values())


def host_wait_ms(facts: Facts) -> list[float]:
    """Idle time of each timeline's GPU behind a waiting host, ms per cycle; empty where no call waits."""
    trace = facts.trace
    idle: dict[object, float] = {}
    for wait in () if trace is None else trace.waits:
        assert trace is not None
        idle[wait.timeline] = idle.get(wait.timeline, 0.0) + wait.idle_ms / max(1, trace.cycles_of(wait.timeline))
    return list(idle.values())


def transfer_ms(facts: Facts) -> float | None:
    """Traced allreduce transfer in verify, mean over timelines, ms per cycle; None where it was not told from wait."""
    trace = facts.trace
    if trace is None or trace.skew == "inconclusive" or (trace.joined is not None and not trace.joined.split):
        return None
    found = trace.ms_per_cycle(("allreduce_transfer",), ("verify",)).values()
    scale = 1.0 if trace.joined is None else 1 / trace.joined.ratio
    return sum(found) / len(found) * scale if found else None


def _prediction(key: str, change: str, facts: Facts, base: Base, traced_ms: float, words: str) -> Prediction | None:
    """A saving seen in the trace, scaled to the log's cycle where both are known."""
    trace = facts.trace
    assert trace is not None
    scale = 1.0
    caveat: tuple[str, ...] = ()
    if base.running is not None:
        if trace.joined is None or (trace.match is not None and trace.match.verdict == "different"):
            return Prediction(key, change, reason="the traces are not of the log's run: their times do not carry over")
        if trace.joined.log_running not in (None, base.running):
            return Prediction(key, change, reason=f"the traced cycles are of {trace.joined.log_running} running")
        if not trace.joined.split:
            return Prediction(key, change, reason="traced and logged cycles differ too much: " + _doubts(trace))
        scale = 1 / trace.joined.ratio
        if abs(scale - 1) > 0.02:
            caveat = (
                f"the profiler stretched cycles {trace.joined.ratio:.2f}x; its times are scaled to the log's cycle",
            )
    effect = arithmetic.saved(
        base.cycle_ms, traced_ms * scale, "at most this time is saved; how much of it, a run tells"
    )
    if effect is None:
        return None
    found = predicted(key, change, base, effect, (Input(words, f"{traced_ms * scale:.2f} ms", Provenance.DERIVED),))
    return replace(found, caveats=caveat)


def _doubts(trace: TraceFacts) -> str:
    assert trace.joined is not None
    return "; ".join(trace.joined.doubts) or f"{trace.joined.trace_ms:.1f} and {trace.joined.log_ms:.1f} ms"
