"""Each further draft token lengthens the cycle by more than it earns, on a model with few active experts.

What it sees:
    A run and a baseline that both speculate, with different numbers of draft tokens, on a mixture of experts that
    activates a small share of its weights per token. At the same load the cycle (the verify itself, where timers print
    it) is longer by 10 % and more for each further draft token, and throughput is no higher.

Why it matters:
    A dense model reads all its weights for one token already, so a verify of four costs little more. A mixture of
    experts reads the experts of each token: four tokens can read four times the experts, and the verify is no longer
    free. Drafts must then earn more than such a model's own drafter usually does.

How sure and why:
    Medium where timers show that the verify itself grew. Low where only the cycle did: the draft passes are in it, and
    they alone took 10 to 17 % of a step per draft on a dense 8B model (vllm #20780). That fewer drafts do as well at
    this load is measured either way.

Rivals:
    The draft passes themselves; a cost cliff at that number of tokens (CYC004); a verify outside the CUDA graph at the
    larger width (GRF001); other requests in the two runs.

Confirm:
    Time verify and draft apart at both widths (`traceana run`): the part that grows is the cause.

Fix:
    1 or 2 draft tokens, or no speculation above a small load; large batches read all experts anyway, so measure there
    too (`traceana sweep`).

References:
    SpecForge #339 (Qwen3-30B-A3B: 222 tok/s without, 160 to 208 with EAGLE-3); AngelSlim #163; strix #53; spark #231;
    joshua8's measurements; rule catalogue R05.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts, Provenance, Regime
from traceana.rules._levels import MIN_STEADY, drafting, forward_ms, gate, tokens_per_cycle
from traceana.rules._text import count, length, ms, num, pct, picked, requests, tok
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
from traceana.speculation.floors.hardware import active_share

FEW_ACTIVE = Threshold(
    "few_active", 0.25, "active / all weights", "at most, for few active experts", "SpecForge #339: 3 of 30 B", False
)
GROWTH = Threshold(
    "growth",
    0.1,
    "share of the shorter cycle",
    "each further draft token adds at least so much",
    "SpecForge #339",
    False,
)
NO_FASTER = Threshold(
    "no_faster", 1.02, "tok/s / tok/s with fewer drafts", "at most, for a loss or a draw", "a choice", False
)


@dataclass(frozen=True, slots=True)
class _Widths:
    """One load with fewer and with more draft tokens; `parts` are the verify times where timers print both."""

    fewer: Regime
    more: Regime
    tokens: int  # further draft tokens
    cycles: tuple[float, float]
    parts: tuple[float, float] | None

    @property
    def growth(self) -> float:
        """Growth per further draft token, as a share of the shorter of the two."""
        small, large = self.parts or self.cycles
        return (large - small) / self.tokens / small


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when more draft tokens lengthen the cycle of a sparse model and bring nothing."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    model = facts.identity.model.value
    share = active_share(model) if model is not None else None
    if model is None:
        return NotApplicable("the log does not name the model")
    if share is None or share > FEW_ACTIVE.value:
        return NotApplicable("the model is not known to be a mixture with few active experts")
    if (facts.speculation.topk.value or 1) > 1:
        return NotApplicable("drafts are a tree (CYC008)")
    if baseline is None or not drafting(baseline) or _drafts(facts) in (None, _drafts(baseline)):
        return CannotTell(
            "only one number of draft tokens is among the inputs, so what one more costs on this mixture is not known",
            "run the same load with 1 draft token and pass its log as --baseline",
        )
    return _compared(facts, baseline, share)


def _drafts(facts: Facts) -> int | None:
    return facts.speculation.k.value


def _compared(facts: Facts, baseline: Facts, share: float) -> Outcome:
    mine, other = _drafts(facts) or 0, _drafts(baseline) or 0
    if mine < other:
        return NotApplicable(f"this run drafts {mine} tokens, fewer than the baseline's {other}")
    found = [w for r in facts.regimes if (w := _widths(facts, r, baseline, mine - other)) is not None]
    if not found:
        return CannotTell(
            "no load is in both runs, so their cycles cannot be compared",
            "send the same load to both numbers of draft tokens",
        )
    worst = max(found, key=lambda w: (w.more.n_steady, w.growth))
    faster = worst.more.gen_tps.median / worst.fewer.gen_tps.median
    if worst.growth < GROWTH.value or faster > NO_FASTER.value:
        return Clear(
            f"{count(worst.tokens, 'further draft token')} lengthen{'s' if worst.tokens == 1 else ''} the cycle by "
            f"{pct(worst.growth)} each, throughput {num(faster)} times"
        )
    return _finding(facts, worst, mine, other, share)


def _widths(facts: Facts, more: Regime, baseline: Facts, tokens: int) -> _Widths | None:
    fewer = baseline.regime(more.running)
    if fewer is None or min(more.n_steady, fewer.n_steady) < MIN_STEADY:
        return None
    small, large = forward_ms(fewer), forward_ms(more)
    if not small or not large:
        return None
    return _Widths(fewer, more, tokens, (small, large), _verify(facts, baseline, more.running))


def _verify(facts: Facts, baseline: Facts, running: int) -> tuple[float, float] | None:
    """Verify times of baseline and run, where both print them at this load."""
    times = [
        next((part.ms for part in side.cycle.parts if part.name == "verify"), None)
        for side in (baseline, facts)
        if side.cycle.batch in (None, running)
    ]
    small, large = times if len(times) == 2 else (None, None)
    return (small, large) if small and large else None


def _finding(facts: Facts, found: _Widths, mine: int, other: int, share: float) -> Finding:
    small, large = found.parts or found.cycles
    what = "verify" if found.parts else "cycle"
    more, fewer = found.more, found.fewer
    earned = f"{length(tokens_per_cycle(more))} tokens per cycle against {length(tokens_per_cycle(fewer))}"
    return Finding(
        code=RULE.code,
        title=f"With {mine} draft tokens the {what} takes {ms(large)}, {ms(small)} with {other}, at "
        f"{requests(more.running)}: {pct(found.growth)} per draft token",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM if found.parts else Confidence.LOW,
        why=f"The model activates about {pct(share)} of its weights per token, so each token of a verify can read "
        f"other experts. The drafts earn {earned}, and throughput is {tok(more.gen_tps.median)} against "
        f"{tok(fewer.gen_tps.median)}: the further drafts cost what they bring, or more."
        + ("" if found.parts else " The draft passes are in the cycle too, and may be what grew."),
        fix=(
            f"{count(other, 'draft token')} at this load, or none: compare with a run without speculation (--baseline)",
            "traceana sweep over several numbers of draft tokens and loads",
        ),
        evidence=picked(more.evidence, fewer.evidence, facts.speculation.k.evidence),
        confirm="draft and verify timed apart at both numbers of draft tokens: which of them grew?",
        rivals=("the draft passes themselves", "CYC004", "GRF001"),
        explains_ms_per_token=_explains(found),
    )


def _explains(found: _Widths) -> Explains:
    """From nothing (the draft passes grew) to all that the cycle grew by, over the tokens of a cycle."""
    tokens = tokens_per_cycle(found.more)
    grown = max(0.0, found.cycles[1] - found.cycles[0]) / tokens
    least = max(0.0, found.parts[1] - found.parts[0]) / tokens if found.parts else 0.0
    return Explains(
        min(least, grown),
        grown,
        Provenance.DERIVED,
        f"time per token of one request at {found.more.running} running: what the cycle grew by with "
        f"{count(found.tokens, 'further draft token')}, of which the draft passes are a part",
    )


RULE = Rule(
    code="CYC009",
    name="cycle-grows-with-each-draft-token",
    severity=Severity.WARNING,
    check=check,
    thresholds=(FEW_ACTIVE, GROWTH, NO_FASTER),
    asks="whether each draft token costs a sparse model more than it earns",
)
