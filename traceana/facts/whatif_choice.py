"""The predictions that a report shows: changes of the run itself that may well gain, few of them, best first."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from traceana.facts.model import Facts
from traceana.facts.settings_effects import assumed_run_noise
from traceana.facts.whatif import whatif
from traceana.facts.whatif_model import Asked, Prediction, WhatIf

#: changes that can be made to the run itself; another drafter and another box are questions, not advice
ADVICE = ("k", "verify_graph", "no_wait", "no_host_wait", "allreduce_floor", "nccl_path")
_MOST = 5
_MOST_KS = 2


def worthwhile(facts: Facts, baseline: Facts | None, running: int | None) -> WhatIf | None:
    """What to show of a speculating run at the load the verdict speaks of, or that of its traces; None for nothing."""
    if facts.speculation.active.value is not True:
        return None
    joined = None if facts.trace is None else facts.trace.joined
    if joined is not None and joined.split and joined.log_running is not None:
        running = joined.log_running
    found = whatif(facts, baseline, Asked(running))
    chosen = _chosen(found.predictions)
    missed = [p for p in found.predictions if p.key == "verify_graph" and p.speedup is None]
    if facts.graphs.windows_eager and missed:
        chosen = [*chosen[: _MOST - 1], *missed[:1]]
    return WhatIf(found.base, tuple(chosen)) if chosen else None


def _chosen(predictions: Sequence[Prediction]) -> list[Prediction]:
    """Those whose range has its middle (geometric) at a gain by which runs do not differ by themselves."""
    least = 1.0 + assumed_run_noise()
    useful = [p for p in predictions if p.key in ADVICE and _middle(p) >= least]
    ordered = sorted(useful, key=lambda p: (-_middle(p), p.change))
    fewer = [p for p in ordered if p.key == "k"][_MOST_KS:]
    return [p for p in ordered if p not in fewer][:_MOST]


def _middle(p: Prediction) -> float:
    return 0.0 if p.speedup is None else sqrt(max(p.speedup.low, 0.0) * p.speedup.high)
