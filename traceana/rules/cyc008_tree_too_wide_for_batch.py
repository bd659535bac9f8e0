"""The draft tree is too wide for the batch: a verify of so many tokens is no longer free.

What it sees:
    topk above 1, more than 128 tokens in a verify (running requests x num_draft_tokens), and a cycle that is longer
    there than at a small load by more than a third.

Why it matters:
    A tree earns a few tenths of a token over a chain, at any load. Its price is the width of the verify: at one request
    32 tokens fit beside the weights that a step reads anyway, at 16 requests they are 512 tokens of compute.

How sure and why:
    Medium: topk, width and cycle are read from the log, but other things grow with the load as well, and where a wide
    verify begins to cost depends on the model and the GPU. Low at a single load, where no smaller one shows what the
    cycle was.

Rivals:
    CYC004 (a cliff at a certain size), GRF001 (the batch left the captured sizes), attention over more KV cache, which
    grows for a chain just the same.

Confirm:
    The same loads with --speculative-eagle-topk 1 --speculative-num-steps 3 --speculative-num-draft-tokens 4: compare
    tok/s per load.

Fix:
    topk 1, 3 steps, 4 draft tokens from a few running requests on; a tree is for one or two. SGLang's adaptive
    speculation where the load varies.

References:
    EAGLE #298, #269 (the author: no tree for a batch above 1); sglang #5274; SpecForge #164, #339; AngelSlim #163; rule
    catalogue R03.
"""

from __future__ import annotations

from traceana.facts.model import Facts, Provenance, Regime
from traceana.rules._levels import MIN_STEADY, forward_ms, gate, plain, tokens_per_cycle
from traceana.rules._text import length, ms, picked, requests, times
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

WIDE = Threshold(
    "wide",
    128,
    "tokens per verify",
    "above this a verify may be compute bound",
    "EAGLE #298, #269, AngelSlim #163: trees lose from about 128 to 256 tokens on",
    False,
)
GROWTH = Threshold(
    "growth", 1.33, "cycle / cycle at a small load", "growth that a chain seldom shows", "EAGLE #298", False
)
AS_BASELINE = Threshold(
    "as_baseline", 1.15, "growth / growth of the step", "below this the step grows alike", "a choice", False
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a tree makes the verify wide and the cycle has grown with it."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    topk, width = facts.speculation.topk.value, facts.speculation.num_draft_tokens.value
    if topk == 1:
        return NotApplicable("drafts are a chain, not a tree (topk 1)")
    if topk is None or width is None:
        return CannotTell("topk and num_draft_tokens are not in the log", "keep the `server_args=` line in the log")
    levels = [r for r in facts.regimes if r.n_steady >= MIN_STEADY and forward_ms(r) is not None]
    wide = [r for r in levels if r.running > 1 and r.running * width > WIDE.value]
    if not wide:
        busiest = max((r.running for r in facts.regimes), default=0)
        return Clear(f"at most {busiest * width} tokens in a verify (topk {topk})")
    small = [r for r in levels if r.running * width <= WIDE.value]
    if not small:
        return _finding(facts, wide[-1], None, topk, width)
    return _compared(facts, baseline, small[0], wide[-1])


def _compared(facts: Facts, baseline: Facts | None, small: Regime, wide: Regime) -> Outcome:
    growth = _growth(facts, small.running, wide.running)
    plainly = _growth(baseline, small.running, wide.running) if baseline is not None and plain(baseline) else None
    if growth is None or growth <= GROWTH.value:
        return Clear(f"the cycle at {requests(wide.running)} is {times(growth or 1.0)} the one at {small.running}")
    if plainly is not None and growth / plainly < AS_BASELINE.value:
        return Clear(f"the step without speculation grows as much ({times(plainly)} against {times(growth)})")
    topk, width = facts.speculation.topk.value or 0, facts.speculation.num_draft_tokens.value or 0
    return _finding(facts, wide, small, topk, width)


def _growth(facts: Facts, small: int, wide: int) -> float | None:
    """Cycle (or step) at the larger load / at the smaller one; None where either is not known."""
    levels = [facts.regime(running) for running in (small, wide)]
    costs = [forward_ms(level) if level is not None and level.n_steady else None for level in levels]
    return costs[1] / costs[0] if costs[0] and costs[1] else None


def _finding(facts: Facts, wide: Regime, small: Regime | None, topk: int, width: int) -> Finding:
    cycle, tokens = forward_ms(wide) or 0.0, tokens_per_cycle(wide)
    low = forward_ms(small) if small is not None else None
    grown = f": the cycle is {ms(cycle)}, against {ms(low)} at {small.running}" if small is not None and low else ""
    steps = facts.speculation.num_steps.value
    narrow = f"would be {(steps + 1) * wide.running} tokens" if steps else "is narrower"
    explains = None
    if low:
        explains = Explains(
            0.0,
            (cycle - low) / tokens,
            Provenance.DERIVED,
            f"time per token of one request at {wide.running} running: all that the cycle grew by, of which attention "
            "and other work that grows with the load is a part",
        )
    return Finding(
        code=RULE.code,
        title=f"A verify has {wide.running * width} tokens at {requests(wide.running)} (topk {topk}, {width} draft "
        f"tokens){grown}",
        severity=Severity.WARNING if small is not None else Severity.INFO,
        confidence=Confidence.MEDIUM if small is not None else Confidence.LOW,
        why=f"The tree earns {length(tokens)} tokens per cycle of {width} that the target computes per request; "
        f"a chain of as many steps {narrow}. "
        + ("" if small is not None else "No smaller load is in the log, so what the width costs is not known."),
        fix=(
            "--speculative-eagle-topk 1 --speculative-num-steps 3 --speculative-num-draft-tokens 4 at this load",
            "keep the tree only where one or two requests run at once",
        ),
        evidence=picked(wide.evidence, small.evidence if small is not None else (), facts.speculation.topk.evidence),
        confirm="the same load with topk 1, 3 steps, 4 draft tokens: more tok/s at a lower accept length settles it",
        rivals=("CYC004", "GRF001", "attention over more KV cache, which grows for a chain as well"),
        explains_ms_per_token=explains,
    )


RULE = Rule(
    code="CYC008",
    name="tree-too-wide-for-batch",
    severity=Severity.WARNING,
    check=check,
    thresholds=(WIDE, GROWTH, AS_BASELINE),
    engines=("sglang",),
    asks="whether the draft tree is too wide for the batch",
)
