"""What-if predictions as functions: predict from a run, and score stored predictions against a later one."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.api import read_facts
from traceana.errors import TraceanaError
from traceana.facts.whatif import whatif
from traceana.facts.whatif_model import Asked, Score
from traceana.facts.whatif_score import scores
from traceana.report.whatif_report import WhatIfReport, predictions, whatif_report


def predict(paths: Sequence[str], baseline: Sequence[str], asked: Asked) -> WhatIfReport:
    """Predictions for a run. Raises TraceanaError (exit code 2) when an input cannot be used."""
    facts = read_facts(paths)
    base = read_facts(baseline) if baseline else None
    if base is not None and base.speculation.active.value:
        raise TraceanaError("the run given as --baseline speculates itself: it gives no step time")
    return whatif_report(whatif(facts, base, asked))


def score(stored: str, paths: Sequence[str]) -> tuple[Score, ...]:
    """Stored predictions of tok/s beside what a later run measured at the same number of running requests.

    Raises TraceanaError when the file holds no predictions, or the run has no steady window at that load.
    """
    base, found = predictions(stored)
    made = scores(base, found, None, [read_facts(paths)])
    if not made:
        raise TraceanaError(f"the run has no steady window at {base.running} running requests")
    return tuple(made)
