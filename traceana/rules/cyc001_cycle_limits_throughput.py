"""The cycle, not acceptance, limits throughput.

What it sees:
    With a baseline: the drafts are accepted well, yet the cycle takes so many baseline steps that little or nothing of
    it remains as speed-up. Without one: at constant load throughput varies, and the variance is the cycle's, not the
    accept length's.

Why it matters:
    Speed-up is tokens per cycle divided by cycle / step. When the cycle is five steps long, an excellent drafter breaks
    even; a better one cannot help. The time is in draft, verify or host, and only a trace says where.

How sure and why:
    High with a baseline and three steady windows on both sides: the split is exact. Medium from one run's own variance,
    which other work on the host may cause. Which part of the cycle is slow is not in a plain log.

Rivals:
    GRF001 (forwards outside the CUDA graph), CYC004 (step cost cliff), communication findings (COM), a drafter without
    CUDA graphs, GPU to CPU synchronisation in each step, other work on the machine.

Confirm:
    A trace of a few cycles, or EAGLE3_PROFILE timers: which of draft, verify and re-extend is long?

Fix:
    Follow the finding that names the cause; without one, fewer draft tokens shorten draft and verify alike.

References:
    vllm #49730; sglang #15307; omlx #2689.
"""

from __future__ import annotations

from traceana.facts.model import Drivers, Facts, Provenance, Regime
from traceana.rules._levels import (
    Pair,
    context_moves_cycle,
    forward_ms,
    gate,
    loads,
    loses,
    pairs,
    plain,
    tokens_per_cycle,
)
from traceana.rules._text import between, count, length, listing, ms, pct, picked, requests, times
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Explains,
    Finding,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

GOOD_TOKENS = Threshold(
    "good_tokens",
    2.0,
    "tokens per cycle",
    "acceptance is no longer the excuse",
    "rtx6kpro GLM-5.1: 2.6; vllm #49730: 5.6",
    False,
)
LONG_CYCLE = Threshold(
    "long_cycle",
    2.5,
    "baseline steps",
    "a cycle this long eats what good drafts earn",
    "rtx6kpro GLM-5.1: 1.6-1.9 pays, 3.2 does not; vllm #49730: 4.9 hardly",
    True,
)
SMALL_GAIN = Threshold(
    "small_gain", 1.3, "speed-up", "gain that falls short of the drafts", "vllm #49730: 1.15-1.22", False
)
CYCLE_SHARE = Threshold("cycle_share", 0.7, "share of variance", "of ln(tok/s) at constant load", "exact split", True)
SPREAD = Threshold(
    "spread", 0.1, "standard deviation of ln(tok/s)", "below this runs are quiet", "five repeated runs: 11 %", False
)
MIN_VARIANCE_WINDOWS = Threshold("min_windows", 10, "windows", "steady windows behind the split", "sampling", False)

_RIVALS = ("GRF001", "CYC004", "COM findings", "GPU to CPU synchronisation in each step", "other work on the machine")
_CONFIRM = "a trace of a few cycles, or EAGLE3_PROFILE timers: which of draft, verify and re-extend is long?"


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the cycle eats what the drafts earn, or when the cycle is what varies at constant load."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    if baseline is not None and plain(baseline):
        judged = [pair for pair in pairs(facts, baseline) if pair.enough and pair.tokens >= GOOD_TOKENS.value]
        found, varies = _against(judged), _by_variance(facts, facts.drivers)
        if found is None and judged and isinstance(varies, CannotTell):
            long = between([pair.ratio for pair in judged])
            return Clear(f"the cycle takes {long} baseline steps and emits more tokens than that")
        return found or varies
    return _by_variance(facts, facts.drivers)


def _against(judged: list[Pair]) -> Outcome | None:
    """What the baseline says; None when no level is long enough in the cycle to speak of."""
    slow = [pair for pair in judged if pair.ratio >= LONG_CYCLE.value and pair.speedup < SMALL_GAIN.value]
    if not slow:
        return None
    open_levels = [pair for pair in slow if not loses(pair)]
    if not open_levels:
        ratios = between([pair.ratio for pair in slow], unit=" steps")
        return Clear(f"the cycle is {ratios} long at {listing(loads(slow))} running; CYC002 reports the loss")
    worst = max(open_levels, key=lambda pair: pair.ratio)
    elsewhere = any(pair.speedup >= SMALL_GAIN.value for pair in judged)
    return _ratio(worst, loads(open_levels), Severity.INFO if elsewhere else Severity.WARNING)


def _ratio(pair: Pair, running: list[int], severity: Severity) -> Finding:
    also = [load for load in running if load != pair.running]
    sure = min(pair.run.n_steady, pair.base.n_steady) > 2
    return Finding(
        code=RULE.code,
        title=f"The cycle, not acceptance, limits throughput: {length(pair.tokens)} tokens per cycle, but a cycle of "
        f"{pair.ratio:.1f} baseline steps at {requests(pair.running)} ({times(pair.speedup)})",
        severity=severity,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        why=f"At {pair.running} running a cycle takes {ms(pair.cycle_ms)}, a step without speculation "
        f"{ms(pair.step_ms)}. It breaks even at {length(pair.ratio)} tokens per cycle."
        + (f" Much the same holds at {listing(also)} running." if also else "")
        + f" Where the {ms(pair.cycle_ms - pair.step_ms)} between them go needs a trace.",
        fix=("follow the finding that names the cause", "fewer draft tokens shorten draft and verify"),
        evidence=picked(pair.run.evidence, pair.base.evidence),
        confirm=_CONFIRM,
        rivals=_RIVALS,
        explains_ms_per_token=Explains(
            (pair.cycle_ms - LONG_CYCLE.value * pair.step_ms) / pair.tokens,
            (pair.cycle_ms - pair.step_ms) / pair.tokens,
            Provenance.DERIVED,
            f"time per token of one request at {pair.running} running: cycle beyond {LONG_CYCLE.value:g} steps, and "
            f"beyond one, over {pair.run.n_steady} and {pair.base.n_steady} steady windows",
        ),
    )


def _by_variance(facts: Facts, drivers: Drivers | None) -> Outcome:
    if drivers is None or drivers.n < MIN_VARIANCE_WINDOWS.value:
        return CannotTell(
            "too few steady windows at constant load to split throughput into acceptance and cycle",
            "hold the load for a few minutes (SGLang: --decode-log-interval 10), or pass a run without speculation as "
            "--baseline",
        )
    split = f"cycle {pct(drivers.cycle_share)}, acceptance {pct(drivers.acceptance_share)} of the variance"
    if drivers.sd_ln_tps <= SPREAD.value or drivers.cycle_share <= CYCLE_SHARE.value:
        return Clear(f"throughput at constant load varies by {pct(drivers.sd_ln_tps)}: {split}")
    reason, level = _known_reason(facts), facts.main_regime
    return Clear(f"{split}; {reason}") if reason is not None or level is None else _variance(drivers, level)


def _known_reason(facts: Facts) -> str | None:
    """What is known to move the cycle: context length, or another rule's finding."""
    context = context_moves_cycle(facts)
    if context is not None:
        return f"the cycle follows context length, {ms(context[0])} to {ms(context[1])}"
    return "requests were retracted: see CAP002" if facts.capacity.retractions else None


def _variance(drivers: Drivers, level: Regime) -> Finding:
    return Finding(
        code=RULE.code,
        title=f"The cycle, not acceptance, moves throughput: {pct(min(1.0, drivers.cycle_share))} of the variance at "
        f"constant load over {count(drivers.n, 'window')}",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        why=f"Throughput varies by {pct(drivers.sd_ln_tps)} at constant load; acceptance explains "
        f"{pct(max(0.0, drivers.acceptance_share))} of it. What stretches the cycle is not in a plain log.",
        fix=("follow the finding that names the cause", "repeat on an otherwise idle machine"),
        evidence=picked(level.evidence),
        confirm=_CONFIRM,
        rivals=(*_RIVALS, "STB004"),
        explains_ms_per_token=_swing(level),
    )


def _swing(level: Regime) -> Explains | None:
    cycle = level.cycle_ms
    if cycle is None or forward_ms(level) is None or cycle.high <= cycle.low:
        return None
    emitted = tokens_per_cycle(level)
    return Explains(
        max(0.0, cycle.median - cycle.low) / emitted,
        (cycle.high - cycle.low) / emitted,
        Provenance.DERIVED,
        f"time per token at {level.running} running: median and long cycles (90th percentile) against short ones "
        f"(10th), {level.n_steady} steady windows",
    )


RULE = Rule(
    code="CYC001",
    name="cycle-limits-throughput",
    severity=Severity.WARNING,
    check=check,
    thresholds=(GOOD_TOKENS, LONG_CYCLE, SMALL_GAIN, CYCLE_SHARE, SPREAD, MIN_VARIANCE_WINDOWS),
    asks="whether the cycle limits throughput",
)
