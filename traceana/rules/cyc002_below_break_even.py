"""Speculation loses: a cycle emits fewer tokens than it takes baseline steps.

What it sees:
    At each load level of both runs: tokens per cycle, cycle / step (the break-even) and the ratio of throughputs. A
    level loses when every throughput with speculation (10th to 90th percentile of the windows) lies below every one
    without, and the medians differ by 5 % or more. Of benchmark results without such windows: loads where the baseline
    wins beyond the noise of repeats, requests or, where each was measured once, an assumed 11 %; and results in which
    it wins at every load and setting, each within the noise.

Why it matters:
    Past a load the verify forward is no longer nearly free: its k + 1 tokens per request cost as much as they earn.
    Speculation then makes the server slower than it would be without.

How sure and why:
    High when the loss exceeds 10 %, about what repeated runs differ by; medium below. One window a level decides
    nothing. The windows of one run do not show what another day or prompt set would change. Medium from benchmark
    results alone, low where all lean one way and none beyond the noise.

Rivals:
    ACC001, ACC002, ACC003 (the drafter earns too little); CYC004, GRF001 and COM findings (the cycle costs too much);
    other prompts or a busy machine in one of the runs.

Confirm:
    Both runs again, same prompts and lengths, on an otherwise idle machine.

Fix:
    Speculate below the crossover only: fewer draft tokens, --speculative-adaptive (SGLang 0.5.11+), or a server without
    speculation for the high loads.

References:
    vllm #42505, #2607, #19254; AngelSlim #163; EAGLE #49; SpecForge #339.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._levels import (
    BASELINE_SPECULATES,
    MIN_STEADY,
    NO_BASELINE,
    Pair,
    gate,
    loads,
    loses,
    loss,
    pairs,
    pays,
    plain,
)
from traceana.rules._results import below_break_even, only_results
from traceana.rules._text import between, length, listing, ms, picked, times
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

LEAST_LOSS = Threshold(
    "least_loss", 0.05, "share of throughput", "smaller losses are even", "windows of one load differ by 1-5 %", False
)
RUN_TO_RUN = Threshold(
    "run_to_run", 0.10, "share of throughput", "a loss beyond this is high confidence", "five repeated runs: 11 %", True
)
STEADY = Threshold(
    "steady", MIN_STEADY, "windows", "steady windows a level needs in both runs", "one is no spread", True
)
DEEP_LOSS = Threshold("deep_loss", 0.5, "speed-up", "below this most of the speed is lost", "meaning of critical", True)
EARNS = 1.5  # tokens per cycle from which drafting earns something


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when speculation is slower than the baseline at a load, beyond what the windows allow."""
    measured = only_results(facts)
    told = below_break_even(RULE.code, measured) if measured is not None else None
    if told is not None:
        return told
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    if baseline is None:
        return NO_BASELINE
    if not plain(baseline):
        return BASELINE_SPECULATES
    levels = pairs(facts, baseline)
    if not levels:
        return _no_levels(facts, baseline)
    return _verdict(facts, baseline, levels)


def _no_levels(facts: Facts, baseline: Facts) -> CannotTell:
    here, there = (
        listing([r.running for r in f.regimes if r.n_steady][:6]) if any(r.n_steady for r in f.regimes) else "none"
        for f in (facts, baseline)
    )
    return CannotTell(
        f"no load has steady windows in both runs (running requests with: {here}; without: {there})",
        "run both at the same concurrency, long enough for several stats lines each",
    )


def _verdict(facts: Facts, baseline: Facts, levels: tuple[Pair, ...]) -> Outcome:
    losing = [pair for pair in levels if loses(pair) and pair.speedup <= 1 - LEAST_LOSS.value]
    if losing:
        return _finding(facts, baseline, levels, losing)
    judged = [pair for pair in levels if pair.enough]
    if not judged:
        return CannotTell(
            f"one steady window per load decides nothing ({listing(loads(levels)[:6])} running)",
            f"hold each load for at least {STEADY.value:.0f} stats lines after the first, in both runs",
        )
    winning = [pair for pair in judged if pays(pair)]
    even = [pair for pair in judged if not pays(pair)]
    parts = [f"pays at {listing(loads(winning))} running" if winning else ""]
    parts.append(f"even within noise at {listing(loads(even))} running" if even else "")
    return Clear("speculation " + ", ".join(part for part in parts if part))


def _finding(facts: Facts, baseline: Facts, levels: tuple[Pair, ...], losing: list[Pair]) -> Finding:
    winning = [pair for pair in levels if pays(pair)]
    below = [pair for pair in winning if pair.running < losing[0].running]
    worst = min(losing, key=lambda pair: pair.speedup)
    clear = any(pair.high < 1 - RUN_TO_RUN.value for pair in losing)
    paying = (
        f"pays up to {max(loads(below))} running ({between([p.speedup for p in below], unit='x')}) and "
        if below
        else ""
    )
    rates = listing([times(pair.speedup) for pair in losing[:4]])
    long, emitted = between([pair.ratio for pair in losing]), between([pair.tokens for pair in losing])
    title = (
        f"Speculation {paying}loses at {listing(loads(losing))} running ({rates}): a cycle takes {long} baseline steps "
        f"and emits {emitted} tokens"
    )
    return Finding(
        code=RULE.code,
        title=title,
        severity=Severity.CRITICAL if worst.speedup < DEEP_LOSS.value else Severity.WARNING,
        confidence=Confidence.HIGH if clear else Confidence.MEDIUM,
        why=_why(worst, winning, losing),
        fix=_fix(facts, below, losing),
        evidence=picked(*(pair.run.evidence for pair in losing), worst.base.evidence),
        confirm="both runs again with the same prompts and lengths on an idle machine",
        rivals=_rivals(worst),
        explains_ms_per_token=loss(facts, baseline),
    )


def _why(worst: Pair, winning: list[Pair], losing: list[Pair]) -> str:
    parts = [
        f"At {worst.running} running: {length(worst.tokens)} tokens per cycle, break-even {length(worst.ratio)} "
        f"(cycle {ms(worst.cycle_ms)}, step {ms(worst.step_ms)}); the windows allow {times(worst.low)} to "
        f"{times(worst.high)}."
    ]
    if worst.tokens < EARNS:
        parts.append("The drafts earn too little to pay for any cycle longer than a step.")
    else:
        parts.append("The drafts are accepted; the cycle costs more than they earn.")
    above = [pair for pair in winning if pair.running > max(loads(losing))]
    if above:
        parts.append(
            f"It pays again at {listing(loads(above))} running, where the step without speculation is itself "
            f"{ms(above[0].step_ms)}."
        )
    return " ".join(parts)


def _fix(facts: Facts, below: list[Pair], losing: list[Pair]) -> tuple[str, ...]:
    if not below:
        return ("switch speculation off for this load", "or fewer draft tokens, measured again against the baseline")
    first = (
        f"speculate up to {max(loads(below))} running; switch it off, or draft fewer tokens, from {losing[0].running}"
    )
    if facts.identity.engine.value == "sglang":
        return (first, "SGLang 0.5.11 and later: --speculative-adaptive chooses the steps by batch size")
    return (first,)


def _rivals(worst: Pair) -> tuple[str, ...]:
    causes = ("ACC001", "ACC002", "ACC003") if worst.tokens < EARNS else ("CYC004", "GRF001", "COM findings")
    return (*causes, "other prompts or a busy machine in one of the runs")


RULE = Rule(
    code="CYC002",
    name="below-break-even",
    severity=Severity.CRITICAL,
    check=check,
    thresholds=(LEAST_LOSS, RUN_TO_RUN, STEADY, DEEP_LOSS),
    asks="whether the run is below break-even",
    needs="any",
)
