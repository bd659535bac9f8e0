"""Acceptance falls as the context grows.

What it sees:
    At one load, the accept length of windows with long contexts (KV tokens per running request, in powers of two) lies
    clearly below that of windows with short ones: a fifth of the accepted drafts or more is lost, and nine tenths of
    the windows on either side do not overlap. Windows in which prompts were prefilled count as well, except with SGLang
    to 0.5.3, whose accept length counts prefills.

Why it matters:
    Many draft heads were trained on 2,048 to 4,096 tokens, or have a window of that length. Past it they guess, while
    draft and verify cost what they cost, and more: attention grows. Speculation that pays on a short benchmark then
    loses in long conversations.

How sure and why:
    Medium at best: the fall is read from the log, but context is not the only thing that differs between the two.
    Low with two lengths only, or few windows. Whether speculation still pays there needs a baseline at that length.

Rivals:
    Other text: long prompts are often code or documents, and late in an answer the text differs from its beginning.
    Draft state lost with cached prefixes, which are long ones.

Confirm:
    The same questions behind a short and behind a long prefix, at the same load.

Fix:
    A drafter trained on long contexts, or with the target's rope scaling (YaRN) in its config.json; fewer drafts, or
    none, for long requests.

References:
    vllm #47602, #48894, #23072, #21986, #37435; sglang #30763, #6783, #3574; EAGLE #311; GLM-EXL3 #73; rule catalogue
    R10.
"""

from __future__ import annotations

from itertools import pairwise

from traceana.facts.model import Facts, Provenance, Regime, Spread
from traceana.rules._drafts import off_on_purpose
from traceana.rules._levels import forward_ms, gate, plain, tokens_per_cycle
from traceana.rules._text import count, length, num, pct, picked, requests
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Explains,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

LOST = Threshold("lost", 0.20, "share of accepted drafts", "lost from short to long context", "vllm #47602", False)
APART = Threshold("apart", 2, "context / context", "the two lengths differ at least so much", "bins of twos", False)
WINDOWS = Threshold("windows", 3, "windows", "windows at each length", "fewer show no spread", False)
MANY = Threshold("many", 5, "windows", "windows at each length for confidence medium", "a choice", False)
SAME_LENGTH = Threshold(
    "same_length", 1.5, "context / context", "a baseline's step is taken up to this far", "a choice", False
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when windows of long context accept clearly less than windows of short context at the same load."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    meant = off_on_purpose(facts)
    if meant is not None:
        return Clear(meant)
    seen = [r for r in facts.context_regimes if r.accept_length is not None and r.accept_length.n >= WINDOWS.value]
    if not any(r.context_tokens is not None for r in facts.regimes):
        return CannotTell(
            "the stats lines do not say how long the contexts are",
            "hold one load with short prompts, then with long ones, one log each",
        )
    if len(seen) < 2 or _context(seen[-1]) < APART.value * _context(seen[0]):
        return NotApplicable("one load at clearly different context lengths is not in the log")
    short, long = seen[0], seen[-1]
    before, after = short.accept_length, long.accept_length
    if before is None or after is None:
        return Clear("no accept length")
    lost = 1 - (after.mean - 1) / (before.mean - 1) if before.mean > 1 else 0.0
    if lost < LOST.value or after.high >= before.low:
        lengths = f"{length(before.mean)} at {_tokens(short)} tokens and {length(after.mean)} at {_tokens(long)}"
        return Clear(f"accept length {lengths}")
    return _finding(facts, baseline, seen, lost)


def _context(regime: Regime) -> float:
    return regime.context_tokens.median if regime.context_tokens is not None else 0.0


def _tokens(regime: Regime) -> str:
    """Context in tokens, to two digits: it is a median over windows."""
    value = _context(regime)
    return f"{round(value, 2 - len(str(int(value)))):,.0f}"


def _finding(facts: Facts, baseline: Facts | None, seen: list[Regime], lost: float) -> Finding:
    short, long = seen[0], seen[-1]
    steps = [tokens_per_cycle(r) for r in seen]
    lengths = [r.accept_length for r in seen if r.accept_length is not None]
    falling = len(lengths) > 2 and all(b.mean < a.high for a, b in pairwise(lengths))
    many = min(a.n for a in lengths) >= MANY.value
    even = _break_even(baseline, long)
    pays = even is not None and even < steps[-1]
    row = ", ".join(f"{length(tokens)} at {_tokens(r)}" for tokens, r in zip(steps, seen, strict=True))
    return Finding(
        code=RULE.code,
        title=f"Accept length falls with the context, from {length(steps[0])} at {_tokens(short)} tokens to "
        f"{length(steps[-1])} at {_tokens(long)}, {requests(long.running)}",
        severity=Severity.INFO if pays else Severity.WARNING,
        confidence=Confidence.MEDIUM if falling and many else Confidence.LOW,
        why=f"{pct(lost)} of the accepted drafts are lost ({row}; {count(sum(a.n for a in lengths), 'window')}). "
        + _verdict(even, steps[-1]),
        fix=(
            "a drafter trained on long contexts, or the target's rope scaling (YaRN) in the drafter's config.json",
            "fewer draft tokens, or none, for requests of this length",
        ),
        evidence=picked(long.evidence, short.evidence, facts.acceptance.evidence),
        confirm="the same questions behind a short and a long prefix at the same load: does the length alone lower it?",
        rivals=(
            "other text: long prompts and late parts of answers are different text",
            "draft state lost with cached prefixes",
        ),
        explains_ms_per_token=_explains(short, long),
    )


def _verdict(even: float | None, tokens: float) -> str:
    if even is None:
        return "Whether speculation still pays at that length needs a run without it there (--baseline)."
    word = "still pays" if even < tokens else "loses"
    return f"The cycle takes {num(even)} baseline steps there, so speculation {word} at that length."


def _break_even(baseline: Facts | None, long: Regime) -> float | None:
    """Cycle / step of the baseline at the same load and about the same context; None where it has none."""
    cycle = forward_ms(long) if long.n_steady else None
    if baseline is None or not plain(baseline) or cycle is None:
        return None
    near = [
        step
        for r in baseline.context_regimes
        if r.running == long.running
        and r.context_tokens is not None
        and max(_context(r), _context(long)) <= SAME_LENGTH.value * min(_context(r), _context(long))
        if (step := forward_ms(r)) is not None
    ]
    return cycle / near[-1] if near else None


def _explains(short: Regime, long: Regime) -> Explains | None:
    """What the short context's acceptance would save per token at the long context's cycle."""
    cycle = forward_ms(long) if long.n_steady else None
    before, after = _earned(short), _earned(long)
    if cycle is None or before is None or after is None or min(after.low, before.low) <= 0:
        return None
    return Explains(
        max(0.0, cycle / after.high - cycle / before.low),
        cycle / after.low - cycle / before.high,
        Provenance.DERIVED,
        f"time per token of one request at about {_tokens(long)} tokens of context, with the accept length of "
        f"{_tokens(short)} instead",
    )


def _earned(regime: Regime) -> Spread | None:
    return regime.tokens_per_cycle or regime.accept_length


RULE = Rule(
    code="ACC008",
    name="acceptance-falls-with-context",
    severity=Severity.WARNING,
    check=check,
    thresholds=(LOST, APART, WINDOWS, MANY, SAME_LENGTH),
    asks="whether acceptance falls with the context",
)
