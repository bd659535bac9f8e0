"""Rules on benchmark results: what a sweep of the inputs says, where no log shows windows of its own."""

from __future__ import annotations

import statistics

from traceana.facts.model import Facts, Provenance
from traceana.facts.results_model import Results
from traceana.facts.sweep_model import SweepLevel
from traceana.rules._text import between, length, listing, ms, picked
from traceana.rules.interface import Clear, Confidence, Explains, Finding, Outcome, Severity

#: measured loads and draft settings that all lean the same way before figures within the noise are told, and how far
#: below the baseline half of them are (they share its one figure, so that they are no independent evidence)
_LEANING = 3
_MARGIN = 0.95
_NOISE = "other prompts, or the machine's noise: each figure was measured once"


def only_results(facts: Facts) -> Results | None:
    """The results, where the log has no steady window that says more."""
    return facts.results if facts.main_regime is None else None


def levels(found: Results) -> tuple[SweepLevel, ...]:
    """Loads measured with and without speculation at which requests decode rather than wait."""
    blocks = found.sweep.blocks if found.sweep is not None else ()
    return tuple(level for b in blocks for level in b.levels if level.ratio is not None and not level.queues)


def below_break_even(code: str, found: Results) -> Outcome | None:
    """A finding where the baseline wins: beyond the noise at a load, or at every load and setting within it.

    None where the results hold no comparison. The figures of a table without repeats carry an assumed noise.
    """
    judged = levels(found)
    if not judged:
        return None
    losing = [level for level in judged if level.ratio is not None and level.ratio.verdict == "loses"]
    sure = bool(losing)
    if not losing:
        every = _ratios(found, judged)
        if len(every) < _LEANING or max(every) >= 1.0 or statistics.median(every) > _MARGIN:
            return Clear(found.verdict)
        losing = list(judged)
    return _finding(code, judged, losing, sure)


def _ratios(found: Results, judged: tuple[SweepLevel, ...]) -> list[float]:
    """Ratios of the loads and draft settings measured, each once."""
    loads = {level.load for level in judged}
    every = {(level.load, level.spec.draft): level.ratio.value for level in judged if level.ratio is not None}
    for block in found.sweep.blocks if found.sweep is not None else ():
        for row in block.drafts:
            if row.ratio is not None and not row.modelled and row.load in loads:
                every.setdefault((row.load, row.draft), row.ratio)
    return list(every.values())


def _finding(code: str, judged: tuple[SweepLevel, ...], losing: list[SweepLevel], sure: bool) -> Finding:
    worst = min(losing, key=_ratio)
    labels = list(dict.fromkeys(level.label for level in losing))
    at = (
        f"{listing(labels[:6])} user{'' if labels == ['1'] else 's'}" if worst.load is not None else "the load measured"
    )
    rates = between([_ratio(level) for level in losing], unit="x")
    known = [v for v in losing if v.break_even and v.spec.tokens_per_cycle]
    told = ""
    if known:
        even, earned = [v.break_even or 0 for v in known], [v.spec.tokens_per_cycle or 0 for v in known]
        told = f": a cycle takes {between(even)} baseline steps and emits {between(earned)} tokens"
    within = "" if sure else ", at every load and setting measured, each within the noise"
    paying = [v for v in judged if v.ratio is not None and v.ratio.verdict == "pays"]
    why = []
    if worst.break_even and worst.spec.tokens_per_cycle and worst.spec.cycle_ms and worst.baseline.cycle_ms:
        why.append(
            f"At {worst.label}: {length(worst.spec.tokens_per_cycle)} tokens per cycle, break-even "
            f"{length(worst.break_even)} (cycle {ms(worst.spec.cycle_ms)}, step {ms(worst.baseline.cycle_ms)})."
        )
    if paying:
        where = list(dict.fromkeys(v.label for v in paying))
        users = "" if any(v.load is None for v in paying) else " user" if where == ["1"] else " users"
        why.append(f"It pays at {listing(where[:6])}{users}.")
    why.append("Which part of the cycle costs so much, a benchmark cannot tell: a log with timers or a trace can.")
    return Finding(
        code=code,
        title=f"Speculation {'loses' if sure else 'gains nothing'} at {at} ({rates}){within}{told}",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if sure else Confidence.LOW,
        why=" ".join(why),
        fix=("switch speculation off for these loads", "or fewer draft tokens, measured again against the baseline"),
        evidence=picked(*(level.spec.evidence for level in losing), worst.baseline.evidence),
        confirm="each setting and the baseline five times, same prompts and lengths",
        rivals=("a mixture of experts that loads more experts for every token verified", "CYC004", "GRF001", _NOISE),
        explains_ms_per_token=_cost(worst) if sure else None,
    )


def _ratio(level: SweepLevel) -> float:
    return level.ratio.value if level.ratio is not None else 1.0


def _cost(level: SweepLevel) -> Explains | None:
    """Time per token of one request, with speculation minus without, over the range of the ratio."""
    ratio, users, base = level.ratio, level.load, level.baseline.gen_tps
    if ratio is None or ratio.low is None or ratio.high is None or not users or not base:
        return None
    step = 1000.0 * users / base
    low, high = step * (1 / ratio.high - 1), step * (1 / ratio.low - 1)
    return Explains(
        max(0.0, low), high, Provenance.DERIVED, f"time per token at {level.label} users, with minus without"
    )
