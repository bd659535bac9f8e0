"""Acceptance is low and the cycle constant: the drafter, not the server, limits throughput.

What it sees:
    At constant load the cycle hardly varies, so throughput follows the accept length one to one
    (gen_tps = accept_length x running / cycle), and the chance that a draft is accepted, solved from accept length and
    the number of drafts, is low.

Why it matters:
    It says where to look: a faster server cannot be had from better drafts, and here better drafts are what is left.
    Speculation multiplies throughput by accept length x step / cycle; with one or two tokens a cycle there is little
    to multiply.

How sure and why:
    High that acceptance is what moves throughput: the split ln(tps) = ln(accept length) - ln(cycle) is exact. Why
    acceptance is low cannot be read from a log. Without a baseline the speed-up is not known.

Rivals:
    Draft head made for another target or fine-tune; prompts without the chat template the head was trained with;
    thinking mode on or off against training; sampling temperature with greedy drafts; long contexts beyond the head's
    training; random or synthetic benchmark prompts.

Confirm:
    The same server with a handful of in-distribution chat prompts, chat template applied, at temperature 0.

Fix:
    Use a draft trained for this target and this kind of prompt; apply the chat template; until then fewer draft tokens.

References:
    sglang #11948; vllm PR #41044; TensorRT-LLM #4802.
"""

from __future__ import annotations

from traceana.facts.model import Facts, Provenance, Regime, Spread
from traceana.rules._drafts import chain_length, chain_rate, eagle3_under_eagle, head_gate
from traceana.rules._levels import forward_ms, pairs, pays, plain
from traceana.rules._text import count, length, ms, pct, picked, requests
from traceana.rules.acc002_dead_draft_head import looks_dead
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
from traceana.speculation.acceptance import expected_accept_length

LOW_RATE = Threshold(
    "low_rate",
    0.56,
    "chance per draft",
    "a draft is accepted less often when those before it were; 0.56 is an accept rate of 0.35 with 3 drafts",
    "0.50 where acceptance was the complaint (sglang #11948), 0.75 in a sound run (rtx6kpro GLM-5.1)",
    False,
)
SOUND_RATE = Threshold(
    "sound_rate",
    0.75,
    "chance per draft",
    "what a fitting draft reaches, for the range explained",
    "rtx6kpro GLM-5.1",
    False,
)
LOW_PRINTED = Threshold(
    "low_accept_rate", 0.35, "share of drafts", "the same limit where k is not known", "accept rate at k = 3", False
)
CONSTANT_CYCLE = Threshold(
    "constant_cycle",
    0.05,
    "standard deviation / mean",
    "a cycle that varies less is constant",
    "0.2 % in sglang #11948, 1-5 % per load in the rtx6kpro GLM-5.1 logs",
    True,
)
ACCEPTANCE_SHARE = Threshold(
    "acceptance_share", 0.7, "share of variance", "part of the throughput's variance", "exact split", True
)
MIN_WINDOWS = Threshold("min_windows", 3, "windows", "steady windows at the level", "sglang #11948 has five", True)

_RIVALS = (
    "a draft made for another target or fine-tune",
    "prompts without the chat template",
    "thinking mode other than in the draft's training",
    "sampling temperature with greedy drafts",
    "contexts longer than the draft was trained on",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when acceptance is low while the cycle is constant at the most common load."""
    stopped = _elsewhere(facts)
    if stopped is not None:
        return stopped
    accept_length = facts.acceptance.accept_length.value
    rate, low = _low(facts)
    if accept_length is None or low is None:
        return CannotTell(
            "the share of accepted drafts is not known: accept length or the number of draft tokens is missing",
            "keep the start-up lines with the speculative settings and the stats lines in the log",
        )
    shown = pct(rate) if rate is not None else "unknown"
    if not low:
        return Clear(f"accept length {length(accept_length)}, {shown} per draft: acceptance is not low")
    level = facts.main_regime
    if level is None or level.n_steady < MIN_WINDOWS.value or level.cycle_ms is None:
        return CannotTell(
            "acceptance is low, but too few steady windows show whether the cycle is constant",
            "hold the load constant for a few minutes (SGLang: --decode-log-interval 10 gives more windows)",
        )
    if not _constant(level.cycle_ms) or not _follows(facts):
        return Clear(f"accept length {length(accept_length)} is low, but the cycle varies as well: see CYC001")
    return _finding(facts, baseline, level, level.cycle_ms)


def _elsewhere(facts: Facts) -> Outcome | None:
    stopped = head_gate(facts, "n-gram and suffix drafting are judged by coverage: see ACC005")
    if stopped is not None:
        return stopped
    if looks_dead(facts):
        return Clear("nothing is accepted at all: see " + ("ACC001" if eagle3_under_eagle(facts) else "ACC002"))
    return None


def _low(facts: Facts) -> tuple[float | None, bool | None]:
    """The rate judged and whether it is low; (None, None) when neither k nor the accept rate is known."""
    rate = chain_rate(facts)
    if rate is not None:
        return rate, rate < LOW_RATE.value
    printed = facts.acceptance.accept_rate.value
    return printed, None if printed is None else printed < LOW_PRINTED.value


def _constant(cycle: Spread) -> bool:
    return cycle.mean > 0 and cycle.stdev is not None and cycle.stdev / cycle.mean <= CONSTANT_CYCLE.value


def _follows(facts: Facts) -> bool:
    """True unless the throughput's variance at constant load is known to come from something else."""
    drivers = facts.drivers
    if drivers is None or drivers.sd_ln_tps < CONSTANT_CYCLE.value:
        return True  # hardly any variance to attribute: the constant cycle stands alone
    return drivers.acceptance_share >= ACCEPTANCE_SHARE.value


def _finding(facts: Facts, baseline: Facts | None, level: Regime, cycle: Spread) -> Finding:
    acceptance = facts.acceptance
    accept_length = level.accept_length or level.tokens_per_cycle
    emitted = accept_length.mean if accept_length is not None else acceptance.accept_length.value or 1.0
    k, rate = chain_length(facts), chain_rate(facts)
    drivers = facts.drivers
    shares = drivers is not None and drivers.n >= MIN_WINDOWS.value and drivers.sd_ln_tps >= CONSTANT_CYCLE.value
    paying = baseline is not None and plain(baseline) and any(pays(pair) for pair in pairs(facts, baseline))
    at_most = f" of at most {k + 1}" if k else ""
    why = [
        f"Over {count(level.n_steady, 'steady window')} the cycle varies by {pct((cycle.stdev or 0.0) / cycle.mean)}.",
        f"A draft is accepted {pct(rate)} of the time when those before it were." if rate is not None else "",
    ]
    if shares and drivers is not None:
        why.append(f"{pct(drivers.acceptance_share)} of the variance of throughput at constant load is acceptance.")
    why.append("Why acceptance is low cannot be read from a log.")
    return Finding(
        code=RULE.code,
        title=f"Acceptance limits throughput: accept length {length(emitted)}{at_most} at a constant "
        f"{ms(cycle.median)} cycle, {requests(level.running)}",
        severity=Severity.INFO if paying else Severity.WARNING,
        confidence=Confidence.HIGH if shares else Confidence.MEDIUM,
        why=" ".join(part for part in why if part),
        fix=(
            "use a draft trained for this target and this kind of prompt, with its chat template",
            "until then fewer draft tokens",
        ),
        evidence=picked(level.evidence, acceptance.evidence, acceptance.accept_length.evidence),
        confirm="a few chat prompts at temperature 0 with the chat template applied: does the accept length rise?",
        rivals=_RIVALS,
        explains_ms_per_token=_explains(level, emitted, k),
    )


def _explains(level: Regime, emitted: float, k: int | None) -> Explains | None:
    """What a sound acceptance would save per token with the cycle as it is."""
    cycle = forward_ms(level)
    if not k or cycle is None:
        return None
    now = cycle / emitted
    least = now - cycle / expected_accept_length(LOW_RATE.value, k)
    most = now - cycle / expected_accept_length(SOUND_RATE.value, k)
    if most <= 0:
        return None
    return Explains(
        max(0.0, least),
        most,
        Provenance.MODELLED,
        f"time per token at {level.running} running if {pct(LOW_RATE.value)} to {pct(SOUND_RATE.value)} of the drafts "
        "were accepted, cycle unchanged",
    )


RULE = Rule(
    code="ACC003",
    name="acceptance-limits-throughput",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LOW_RATE, SOUND_RATE, LOW_PRINTED, CONSTANT_CYCLE, ACCEPTANCE_SHARE, MIN_WINDOWS),
    asks="whether acceptance limits throughput",
)
