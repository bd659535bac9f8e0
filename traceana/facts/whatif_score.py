"""Stored predictions against a later run: was the change made, and did the range hold what was measured?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median

from traceana.facts.box import gpu_of
from traceana.facts.model import Facts
from traceana.facts.whatif_model import Base, Prediction, Score
from traceana.facts.whatif_nccl import is_on_p2p, small_protocols
from traceana.facts.whatif_trace import host_wait_ms, in_graph, rank_wait_ms, transfer_ms

YES, NO, UNKNOWN = "yes", "no", "unknown"
#: accept lengths this close are the one that was asked for (a choice)
_SAME_LENGTH = 0.03
#: what is left of a wait that was taken away, at most, as a share of what was predicted to go (a choice)
_LEFT = 0.2
_NO_TRACE = "only a trace of the later run tells"

#: (yes, no or unknown; why, in words)
Made = tuple[str, str]


def scores(base: Base, predictions: Sequence[Prediction], before: Facts | None, after: Sequence[Facts]) -> list[Score]:
    """Every prediction of tok/s with what the later run (its repeats) measured at the same load.

    A prediction is scored (`inside` is not None) only when its change was made, as far as the inputs tell. `before` is
    the run that was predicted from, where it is at hand. Empty where the later run has no steady window at the load.
    """
    measured = measured_tps(base, after)
    if measured is None:
        return []
    found = []
    for p in predictions:
        if p.tps is None:
            continue
        made, why = _made(p, base, before, after[0])
        inside = p.tps.low <= measured <= p.tps.high if made == YES else None
        found.append(Score(p.key, p.change, p.tps.low, p.tps.high, measured, made, why, inside))
    return found


def measured_tps(base: Base, runs: Sequence[Facts]) -> float | None:
    """Median throughput of the runs at the load of the predictions; None without a steady window there."""
    if base.running is None:
        return None
    regimes = [facts.regime(base.running) for facts in runs]
    known = [r.gen_tps.median for r in regimes if r is not None and r.n_steady]
    return median(known) if known else None


def _made(p: Prediction, base: Base, before: Facts | None, after: Facts) -> Made:
    look = _LOOKS.get(p.key)
    return (UNKNOWN, "nothing tells whether it was made") if look is None else look(p, base, before, after)


def _k(p: Prediction, _base: Base, _before: Facts | None, after: Facts) -> Made:
    k = 0 if after.speculation.active.value is False else after.speculation.k.value
    if k is None or p.to is None:
        return UNKNOWN, "how many tokens it drafts is not known"
    return (YES if str(k) == p.to else NO), f"it drafts {k} tokens" if k else "it does not speculate"


def _accept_length(p: Prediction, base: Base, _before: Facts | None, after: Facts) -> Made:
    regime = None if base.running is None else after.regime(base.running)
    if regime is None or regime.accept_length is None or p.accept_length is None or p.accept_length.high <= 0:
        return UNKNOWN, "its accept length at this load is not known"
    length = regime.accept_length.mean
    same = abs(length / p.accept_length.high - 1) <= _SAME_LENGTH
    return (YES if same else NO), f"its accept length is {length:.2f}"


def _verify_graph(_p: Prediction, _base: Base, before: Facts | None, after: Facts) -> Made:
    if after.trace is not None and (seen := in_graph(after.trace)) is not None:
        return (YES, "the trace shows graph launches") if seen else (NO, "the trace shows kernels launched one by one")
    if after.graphs.windows_eager:
        return NO, f"{after.graphs.windows_eager} windows ran without a graph"
    was_eager = before is not None and before.graphs.windows_eager > 0
    if was_eager and after.graphs.windows_graph:
        return YES, "its windows ran in a graph"
    return UNKNOWN, _NO_TRACE


def _wait(read: Callable[[Facts], float | None]) -> Callable[[Prediction, Base, Facts | None, Facts], Made]:
    def look(p: Prediction, base: Base, _before: Facts | None, after: Facts) -> Made:
        left = read(after)
        if left is None or p.cycle_ms is None:
            return UNKNOWN, _NO_TRACE
        most = base.cycle_ms - p.cycle_ms.low
        return (YES if left <= _LEFT * most else NO), f"{left:.1f} of {most:.1f} ms are left"

    return look


def _allreduce_floor(p: Prediction, base: Base, before: Facts | None, after: Facts) -> Made:
    one, other = (None if f is None else transfer_ms(f) for f in (before, after))
    if one is not None and other is not None and p.cycle_ms is not None:
        most = base.cycle_ms - p.cycle_ms.low
        return (YES if other <= one - most / 2 else NO), f"allreduces transfer for {other:.1f} ms instead of {one:.1f}"
    if before is None or not (before.nccl.processes and after.nccl.processes):
        return UNKNOWN, f"{_NO_TRACE}, or NCCL's lines of both runs"
    changed = [name for name, was, now in _nccl_settings(before, after) if was != now]
    return (YES, f"NCCL differs in {', '.join(changed)}") if changed else (NO, "NCCL's lines are the same")


def _nccl_settings(before: Facts, after: Facts) -> list[tuple[str, object, object]]:
    def env(facts: Facts) -> Mapping[str, str]:
        return {e.name: e.value for p in facts.nccl.processes for e in p.env}

    one, other = env(before), env(after)
    rows: list[tuple[str, object, object]] = [(n, one.get(n), other.get(n)) for n in sorted({*one, *other})]
    rows.append(("its connections", is_on_p2p(before), is_on_p2p(after)))
    return [*rows, ("the protocol of small messages", small_protocols(before), small_protocols(after))]


def _nccl_path(p: Prediction, _base: Base, _before: Facts | None, after: Facts) -> Made:
    if p.to == "P2P":
        on = is_on_p2p(after)
        words = {True: "NCCL connects via P2P", False: "NCCL still connects via shared memory"}
        return (UNKNOWN, "no line of NCCL tells its connections") if on is None else (YES if on else NO, words[on])
    if p.to == "LL":
        found = small_protocols(after)
        if not found:
            return UNKNOWN, "no line of NCCL tells its protocol"
        return (NO if "SIMPLE" in found else YES), f"small allreduces run by {', '.join(sorted(found))}"
    if not after.nccl.graph_lines:
        return UNKNOWN, "no line of NCCL tells its graph"
    return (NO, "NCCL's graph is still slow") if after.nccl.slow_graph else (YES, "NCCL's graph is no longer slow")


def _interconnect(p: Prediction, _base: Base, _before: Facts | None, after: Facts) -> Made:
    gpu = gpu_of(after)
    if isinstance(gpu, str):
        return UNKNOWN, gpu
    return (YES if gpu.name == p.to else NO), f"it ran on {gpu.name}"


def _idle(facts: Facts) -> float | None:
    idle = host_wait_ms(facts)
    return mean(idle) if idle else None if facts.trace is None or not facts.trace.on_gpu else 0.0


def _rank_wait(facts: Facts) -> float | None:
    waits = rank_wait_ms(facts)
    return max(waits) if waits else None


_LOOKS: dict[str, Callable[[Prediction, Base, Facts | None, Facts], Made]] = {
    "k": _k,
    "accept_length": _accept_length,
    "verify_graph": _verify_graph,
    "no_wait": _wait(_rank_wait),
    "no_host_wait": _wait(_idle),
    "allreduce_floor": _allreduce_floor,
    "nccl_path": _nccl_path,
    "interconnect": _interconnect,
}
