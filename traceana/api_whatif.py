"""What-if predictions as functions: predict from a run, and score stored predictions against a later one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from traceana.api import read_facts
from traceana.errors import TraceanaError
from traceana.facts.whatif import whatif
from traceana.facts.whatif_model import Asked
from traceana.report.whatif_report import SCHEMA, Score, WhatIfReport, whatif_report

_MOST_BYTES = 16 << 20


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
    import msgspec

    try:
        with Path(stored).open("rb") as stream:
            report = msgspec.json.decode(stream.read(_MOST_BYTES), type=WhatIfReport)
    except OSError as error:
        raise TraceanaError(f"{stored}: {error.strerror or error}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TraceanaError(f"{stored}: not written by traceana whatif --format json ({error})") from error
    if report.schema != SCHEMA or report.base is None or report.base.running is None:
        raise TraceanaError(f"{stored}: holds no predictions of tok/s at a load level")
    facts = read_facts(paths)
    regime = facts.regime(report.base.running)
    if regime is None or not regime.n_steady:
        raise TraceanaError(f"the run has no steady window at {report.base.running} running requests")
    measured = regime.gen_tps.median
    return tuple(
        Score(p.change, p.tps.low, p.tps.high, measured, p.tps.low <= measured <= p.tps.high)
        for p in report.predictions
        if p.tps is not None
    )
