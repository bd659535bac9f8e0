"""The load levels of a server log as load points: steady windows only, with the windows' spread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traceana.facts.bench_model import LoadPoint, PointSource, Samples
from traceana.facts.model import Acceptance, Fact, Provenance, Regime, Speculation

if TYPE_CHECKING:
    import polars as pl

_SAMPLES = 400
_CONTEXTS = 4.0  # contexts that differ by more are said


def points(
    view: pl.DataFrame, levels: tuple[Regime, ...], engine: str, spec: Speculation, earned: Acceptance
) -> tuple[LoadPoint, ...]:
    """One point per load level that has steady windows; `view` is the frame of windows with their `level`."""
    import polars as pl

    held = [regime for regime in levels if regime.n_steady]
    if not held:
        return ()
    columns = ("level", "running", "gen_tps", "tokens_per_cycle", "cycle_ms")
    steady = view.filter(pl.col("steady") & (pl.col("gen_tps") > 0)).sort("seq").select(columns)
    by_level = steady.partition_by("level", as_dict=True)
    return tuple(_point(by_level[(regime.running,)], regime, engine, spec, earned) for regime in held)


def _point(steady: pl.DataFrame, regime: Regime, engine: str, spec: Speculation, earned: Acceptance) -> LoadPoint:
    speculative = spec.active.value
    running = float(regime.running)
    seen = regime.evidence
    tokens = regime.tokens_per_cycle
    length = regime.accept_length
    per_token = 1000.0 * running / regime.gen_tps.median
    return LoadPoint(
        source=PointSource.LOG,
        tool=engine,
        series=None,
        speculative=speculative,
        concurrency=running,
        decoding=Fact(running, Provenance.MEASURED, seen),
        gen_tps=Fact(regime.gen_tps.median, Provenance.MEASURED, seen),
        user_tps=Fact(1000.0 / per_token, Provenance.DERIVED, seen),
        tpot_ms=Fact(per_token, Provenance.DERIVED, seen, "1000 x running / throughput"),
        ttft_ms=Fact(reason="a server log has no time to the first token"),
        itl_ms=Fact(reason="a server log has no times of chunks"),
        tokens_per_chunk=Fact(reason="a server log has no chunks"),
        accept_length=Fact(reason="this run does not speculate")
        if length is None
        else Fact(length.mean, Provenance.MEASURED, seen, earned.definition),
        accept_rate=Fact(reason="per load level only the accept length is kept"),
        per_position=earned.per_position,
        tokens_per_cycle=Fact(reason="no acceptance is printed")
        if tokens is None
        else Fact(tokens.mean, Provenance.DERIVED, seen),
        cycle_ms=Fact(reason="no steady window")
        if regime.cycle_ms is None
        else Fact(regime.cycle_ms.median, Provenance.DERIVED, seen),
        k=spec.k.value if speculative else None,
        num_steps=spec.num_steps.value if speculative else None,
        topk=spec.topk.value if speculative else None,
        num_draft_tokens=spec.num_draft_tokens.value if speculative else None,
        runs=(regime.gen_tps.median,),
        samples=_samples(steady),
        queued_max=regime.queued_max,
        notes=_notes(regime),
        evidence=seen,
    )


def _samples(steady: pl.DataFrame) -> Samples:
    """The steady windows of one level, in time order."""
    import polars as pl

    kept = steady.gather_every(max(1, math.ceil(steady.height / _SAMPLES)))
    per_token = kept.select((1000.0 * pl.col("running") / pl.col("gen_tps")).alias("ms"))["ms"]
    token, earned, cycle = (
        () if column.null_count() else tuple(float(v) for v in column)
        for column in (per_token, kept["tokens_per_cycle"], kept["cycle_ms"])
    )
    return Samples("window", steady.height, ms_per_token=token, tokens_per_cycle=earned, cycle_ms=cycle)


def _notes(regime: Regime) -> tuple[str, ...]:
    context = regime.context_tokens
    if context is None or context.high <= _CONTEXTS * max(context.low, 1.0):
        return ()
    return (f"contexts of {context.low:,.0f} to {context.high:,.0f} tokens are mixed",)
