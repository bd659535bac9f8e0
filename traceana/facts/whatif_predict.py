"""An effect on a run as a prediction of its throughput."""

from __future__ import annotations

from traceana.facts.model import Provenance
from traceana.facts.whatif_model import Base, Input, Prediction
from traceana.speculation import whatif as arithmetic
from traceana.speculation.whatif import Effect, Span


def predicted(
    key: str, change: str, base: Base, effect: Effect, inputs: tuple[Input, ...], to: str | None = None
) -> Prediction:
    """A prediction from an effect: the speed-up, and tok/s over the range that the run itself had."""
    gain = arithmetic.speedup(effect, base.cycle_ms)
    return Prediction(
        key,
        change,
        to,
        speedup=gain,
        tps=None if base.tps is None else Span(base.tps.low * gain.low, base.tps.high * gain.high),
        accept_length=Span(
            base.tokens_per_cycle * effect.accept_ratio.low, base.tokens_per_cycle * effect.accept_ratio.high
        ),
        cycle_ms=effect.cycle_ms,
        model=effect.model,
        inputs=(
            Input("cycle", f"{base.cycle_ms:.2f} ms", Provenance.DERIVED),
            Input("tokens per cycle", f"{base.tokens_per_cycle:.2f}", Provenance.MEASURED),
            *inputs,
        ),
    )
