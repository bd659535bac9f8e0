"""What-if predictions for a run: which change, from which inputs. The arithmetic is in speculation/whatif.py."""

from __future__ import annotations

from collections.abc import Callable

from traceana.facts.box import with_said
from traceana.facts.model import Facts, Provenance, Regime
from traceana.facts.text import count
from traceana.facts.whatif_allreduce import interconnect, measured_allreduce
from traceana.facts.whatif_model import Asked, Base, Input, Prediction, WhatIf
from traceana.facts.whatif_nccl import nccl_path
from traceana.facts.whatif_predict import predicted
from traceana.facts.whatif_trace import no_host_wait, no_wait, verify_graph
from traceana.speculation import whatif as arithmetic
from traceana.speculation.whatif import Span

_MOST_KS = 16


def whatif(facts: Facts, baseline: Facts | None, asked: Asked) -> WhatIf:
    """Predictions of the usual changes and of those asked for, at one load level of the run."""
    facts = with_said(facts, asked.gpu, asked.layers, asked.hidden)
    base = _base(facts, asked.running)
    if base is None:
        at = "" if asked.running is None else f" at {asked.running} running requests"
        return WhatIf(None, reason=f"no steady window{at} and no traced cycle: there is no cycle to start from")
    step = _step_ms(baseline, base.running)
    found = [_accept_length(facts, base, length) for length in asked.accept_lengths]
    found += _drafts(facts, base, step, asked.ks)
    looks: tuple[Callable[[Facts, Base], Prediction | None], ...] = (verify_graph, no_wait, no_host_wait)
    found += [p for look in looks if (p := look(facts, base)) is not None]
    at_floor = measured_allreduce(facts, base, asked)
    path = None if at_floor is not None and at_floor.speedup is not None else nccl_path(facts, base)
    found += [p for p in (at_floor, path, interconnect(facts, base, asked)) if p is not None]
    return WhatIf(base, tuple(found))


def _base(facts: Facts, running: int | None) -> Base | None:
    regime = facts.main_regime if running is None else facts.regime(running)
    k = facts.speculation.k.value if facts.speculation.active.value is not False else 0
    if regime is not None and regime.cycle_ms is not None and regime.n_steady > 0:
        tokens = regime.tokens_per_cycle or regime.accept_length
        return Base(
            running=regime.running,
            tps=Span(regime.gen_tps.low, regime.gen_tps.high),
            tokens_per_cycle=tokens.median if tokens is not None else 1.0,
            cycle_ms=regime.cycle_ms.median,
            k=k,
            source=f"median of {regime.n_steady} steady windows at {regime.running} running",
            evidence=regime.evidence,
        )
    trace = facts.trace
    if running is None and trace is not None and trace.cycle is not None:
        earned = facts.acceptance.tokens_per_cycle.value or facts.acceptance.accept_length.value
        return Base(None, None, earned or 1.0, trace.cycle.median, k, f"median of {trace.cycles} traced cycles")
    return None


def _step_ms(baseline: Facts | None, running: int | None) -> float | None:
    regime: Regime | None = None if baseline is None or running is None else baseline.regime(running)
    return None if regime is None or regime.cycle_ms is None else regime.cycle_ms.median


def _accept_length(facts: Facts, base: Base, length: float) -> Prediction:
    change = f"accept length {length:g}"
    if not base.k:
        return Prediction("accept_length", change, reason="the run does not speculate, or its k is not known")
    if length > base.k + 1:
        return Prediction("accept_length", change, reason=f"{base.k} drafts emit at most {base.k + 1} tokens per cycle")
    if facts.speculation.drafts_every_step is False:
        reason = "not every step has a draft: tokens per cycle follow from coverage, which a better drafter may change"
        return Prediction("accept_length", change, reason=reason)
    effect = arithmetic.other_accept_length(base.tokens_per_cycle, length, base.cycle_ms)
    return predicted("accept_length", change, base, effect, (), f"{length:g}")


def _drafts(facts: Facts, base: Base, step: float | None, ks: tuple[int, ...]) -> list[Prediction]:
    k = base.k
    if not k:
        return [
            Prediction("k", f"{n} draft tokens", reason="the run does not speculate, or its k is unknown") for n in ks
        ]
    wanted = sorted(set(ks)) or list(range(1, min(k, _MOST_KS)))
    return [_fewer(facts, base, step, k, n) for n in wanted]


def _fewer(facts: Facts, base: Base, step: float | None, k: int, fewer: int) -> Prediction:
    change = f"{count(fewer, 'draft token')} instead of {k}"
    if fewer == k:
        return Prediction("k", change, reason="that is what ran")
    if fewer > k or fewer < 1:
        reason = f"acceptance beyond position {k} was never measured" if fewer > k else "give 1 or more"
        return Prediction("k", change, reason=f"{reason}; run it with {fewer} drafts for a few minutes")
    if (facts.speculation.topk.value or 1) > 1:
        reason = "the drafts form a tree: what fewer of them would accept does not follow from its numbers"
        return Prediction("k", change, reason=reason)
    parts = {part.name: part for part in facts.cycle.parts}
    draft, verify = parts.get("draft"), parts.get("verify")
    rates = facts.acceptance.per_position
    effect = arithmetic.fewer_drafts(
        k=k,
        fewer=fewer,
        tokens_per_cycle=base.tokens_per_cycle,
        cycle_ms=base.cycle_ms,
        per_position=rates.value,
        coverage=facts.acceptance.coverage.value or 1.0,
        draft_ms=None if draft is None else draft.ms,
        verify_ms=None if verify is None else verify.ms,
        step_ms=step,
    )
    if effect is None:
        reason = "neither the draft's time nor a baseline step is known"
        return Prediction("k", change, reason=f"{reason}: add --baseline, or phase times (a trace, EAGLE3_PROFILE)")
    inputs = [Input(p.name, f"{p.ms:.2f} ms", p.provenance) for p in (draft, verify) if p is not None]
    if rates.value is not None:
        inputs.append(Input("rates by position", ", ".join(f"{r:.3f}" for r in rates.value), rates.provenance))
    if step is not None:
        inputs.append(Input("baseline step", f"{step:.2f} ms", Provenance.DERIVED))
    return predicted("k", change, base, effect, tuple(inputs), str(fewer))
