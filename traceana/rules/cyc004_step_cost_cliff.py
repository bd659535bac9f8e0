"""A forward of slightly more tokens costs much more: a cliff in step cost.

What it sees:
    Load levels sorted by tokens per forward (running x (k + 1), or running without speculation). Between two adjacent
    sizes at most 2.5x apart the cycle grows by more than 1.8x, while the doublings below it cost much less; a jump of
    1.4x is named with less confidence where the windows of the two sizes do not overlap. With a baseline the same jump
    is looked for at the same number of tokens. Of a load whose windows all hold prefills the cycle is an upper bound,
    which will do below a jump.

Why it matters:
    Speculation multiplies the tokens per forward by k + 1, so it meets the cliff at a quarter of the load (k = 3). It
    then loses there, however good the drafter, and seems to pay again once the baseline has fallen off the same cliff.

How sure and why:
    High that there is a cliff when both runs show it at the same token count, medium from one run; a jump below 1.8x is
    medium and low. Low, and a warning at most, when the cycle grew by no more than the tokens did and no larger size
    shows an end of it: a forward that turns compute bound does the same, and from there on costs as much for each
    further token. A cost that flattens again after the jump is no such knee; one that goes on growing as steeply is
    one, and no finding; one that grew in the doubling before as well cannot be told from one. Which kernel or
    communication path switches is not in a log.

Rivals:
    MoE kernel tile or path switch by token count; attention kernel switch; allreduce path switch by message size; CUDA
    graph padding or eager forwards above a captured size; the knee from memory bound to compute bound (at the largest
    size seen).

Confirm:
    One profiled step just below and just above the cliff; compare kernel names and times.

Fix:
    Keep running x (k + 1) below the cliff: fewer draft tokens from the load where it is met, none above it; then
    another MoE, attention or allreduce backend.

References:
    vllm-ascend #14440, #16638; 1Cat #490; rtx6kpro GLM-5.1 benchmarks (45 -> 101 ms between 16 and 32 tokens).
"""

from __future__ import annotations

from traceana.facts.model import Facts, Provenance
from traceana.rules._levels import MIN_STEADY, NO_WINDOWS, drafting, pairs, plain, tokens_per_cycle
from traceana.rules._step_cost import (
    BENDS,
    CONTRAST,
    JUMP,
    MAX_TOKENS,
    ONE_WINDOW,
    SAME_CONTEXT,
    SMALL_JUMP,
    Cliff,
    find_cliffs,
    sizes,
    unseen,
)
from traceana.rules._text import count, length, ms, picked, requests, span, times
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Explains,
    Finding,
    Outcome,
    Rule,
    Severity,
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the cycle jumps between two adjacent forward sizes."""
    if facts.windows.n == 0:
        return NO_WINDOWS
    found = sizes(facts)
    if not found and any(regime.n_steady for regime in facts.regimes):
        return CannotTell(
            "the number of draft tokens is not in the log, and with it how many tokens a forward has",
            "keep the start-up line with the speculative arguments in the log",
        )
    known = [size.tokens for size in found if not size.at_most]
    if len(known) < 3:
        return CannotTell(
            f"{count(len(known), 'forward size')} with steady windows: a cliff needs three or more",
            "one run over several concurrencies, e.g. 1, 2, 4, 8, 16, 32, each held for a minute",
        )
    jumps = find_cliffs(found)
    seen = [cliff for cliff in jumps if cliff.above.regime.n_steady >= MIN_STEADY]
    sure = [cliff for cliff in seen if not cliff.is_open and (cliff.apart or not cliff.small)]
    if not sure:
        return unseen(found, jumps) or Clear(f"no jump from {known[0]} to {known[-1]} tokens per forward")
    cliff = max(sure, key=lambda c: c.jump / c.usual)
    if cliff.left_graphs:
        return Clear(f"the jump at {cliff.above.tokens} tokens is where forwards leave the CUDA graph: see GRF001")
    return _finding(facts, baseline, cliff)


def _same_place(cliff: Cliff, baseline: Facts | None) -> Cliff | bool | None:
    """The baseline's cliff at the same tokens; False when it covers both sizes without one; None when it cannot say."""
    if baseline is None:
        return None
    found = sizes(baseline)
    for other in find_cliffs(found):
        if max(cliff.below.tokens, other.below.tokens) < min(cliff.above.tokens, other.above.tokens):
            return other
    if found and found[0].tokens <= cliff.below.tokens and found[-1].tokens >= cliff.above.tokens:
        return False
    return None


def _finding(facts: Facts, baseline: Facts | None, cliff: Cliff) -> Finding:
    other = _same_place(cliff, baseline)
    both = isinstance(other, Cliff)
    seen_in = ", with and without speculation" if both else ""
    below, above = cliff.below, cliff.above
    knee = ("the knee from memory bound to compute bound",)
    likely = cliff.seen.may_be_knee
    return Finding(
        code=RULE.code,
        title=f"A forward of {above.tokens} tokens costs {times(cliff.jump)} one of {below.tokens}{seen_in}: "
        f"{ms(below.ms)} -> {ms(above.ms)} from {below.regime.running} to {requests(above.regime.running)}",
        severity=Severity.CRITICAL
        if not likely and not cliff.small and (both or cliff.jump >= 2)
        else Severity.WARNING,
        confidence=_confidence(cliff, both),
        why=_why(facts, cliff, other),
        fix=_fix(facts, baseline, cliff),
        evidence=picked(
            above.regime.evidence,
            below.regime.evidence,
            other.above.regime.evidence if isinstance(other, Cliff) else (),
        ),
        confirm=f"one profiled step at {below.tokens} and at {above.tokens} tokens (SGLang: /start_profile; vLLM: "
        "--profiler-config), both passed to traceana",
        rivals=(
            *(knee if likely else ()),
            "MoE kernel tile or path switch by token count",
            "attention kernel switch",
            "allreduce path switch by message size",
            "CUDA graph padding",
        ),
        explains_ms_per_token=_explains(cliff),
    )


def _confidence(cliff: Cliff, both: bool) -> Confidence:
    if cliff.seen.may_be_knee or (cliff.small and not both):
        return Confidence.LOW
    return Confidence.HIGH if both and not cliff.small else Confidence.MEDIUM


def _why(facts: Facts, cliff: Cliff, other: Cliff | bool | None) -> str:
    below, above = cliff.below, cliff.above
    word = "cycle" if drafting(facts) else "step"
    parts = [
        f"The {word} grows by {ms(above.ms - below.ms)} at {above.regime.running} running; growth like that of the "
        f"smaller sizes would be {ms(below.ms * cliff.usual - below.ms)}."
    ]
    if isinstance(other, Cliff):
        parts.append(
            f"The baseline jumps between {other.below.tokens} and {other.above.tokens} tokens too "
            f"({ms(other.below.ms)} -> {ms(other.above.ms)}), so the cause is the forward's size and not speculation."
        )
    elif other is False:
        parts.append("The baseline passes the same sizes without a jump, so it belongs to the speculative path.")
    if cliff.seen.may_be_knee:
        parts.append("It is the largest size seen, so it may also be where forwards turn bound by compute.")
    elif cliff.seen.flattens and cliff.jump <= above.tokens / below.tokens:
        parts.append(
            "Beyond it a further token costs less than half of what those of the jump cost: a step, not the knee to "
            "being bound by compute."
        )
    tokens = (tokens_per_cycle(below.regime), tokens_per_cycle(above.regime))
    if drafting(facts):
        parts.append(f"Tokens per cycle are {length(tokens[0])} and {length(tokens[1])}: acceptance has no part in it.")
    return " ".join(parts)


def _fix(facts: Facts, baseline: Facts | None, cliff: Cliff) -> tuple[str, ...]:
    limit = cliff.below.tokens
    backend = "then try another MoE, attention or allreduce backend at the size above the cliff"
    if not drafting(facts):
        return (f"keep the batch at {limit} tokens per forward until the switch is found", backend)
    if cliff.small:  # good acceptance can earn more than such a jump costs
        return (
            f"compare fewer draft tokens, such that running x (k + 1) stays at {limit} or less, and speculation off at "
            f"{requests(cliff.above.regime.running)}: keep what is faster",
            backend,
        )
    k = limit // cliff.below.regime.running - 1
    advice = [f"k = {k} up to {cliff.below.regime.running} running"]
    for fewer in range(k - 1, 0, -1):
        if limit // (fewer + 1) > limit // (fewer + 2):
            advice.append(f"k = {fewer} up to {limit // (fewer + 1)}")
    advice.append(f"off above {limit // 2}")
    keep = f"keep running x (k + 1) at {limit} tokens or less: {', '.join(advice)}"
    again = _pays_beyond(facts, baseline, cliff)
    return (keep + again, backend)


def _pays_beyond(facts: Facts, baseline: Facts | None, cliff: Cliff) -> str:
    """A clause naming the loads past the cliff where speculation still pays, because the baseline fell off as well."""
    if baseline is None or not plain(baseline):
        return ""
    beyond = [p.running for p in pairs(facts, baseline) if p.running >= cliff.above.regime.running and p.low > 1.0]
    return f" (it pays again at {span(min(beyond), max(beyond))}, past the cliff in both runs)" if beyond else ""


def _explains(cliff: Cliff) -> Explains:
    above, below = cliff.above, cliff.below
    emitted = tokens_per_cycle(above.regime)
    return Explains(
        max(0.0, above.ms - below.ms * cliff.usual) / emitted,
        (above.ms - below.ms) / emitted,
        Provenance.DERIVED,
        f"time per token of one request at {above.regime.running} running: {ms(below.ms)} -> {ms(above.ms)} per "
        f"forward, {length(emitted)} tokens each, over {above.regime.n_steady} steady windows",
    )


RULE = Rule(
    code="CYC004",
    name="step-cost-cliff",
    severity=Severity.CRITICAL,
    check=check,
    thresholds=(JUMP, SMALL_JUMP, BENDS, SAME_CONTEXT, ONE_WINDOW, MAX_TOKENS, CONTRAST),
    asks="whether a step's cost jumps at some batch size",
)
