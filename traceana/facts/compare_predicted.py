"""Stored what-if predictions beside what the other sides of a comparison measured."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts.compare_levels import Side
from traceana.facts.compare_model import Difference, PairComparison, PredictedSide
from traceana.facts.whatif_model import Base, Prediction
from traceana.facts.whatif_score import YES, measured_tps, scores

#: what a change sets itself: differences of these kinds are the change, not something beside it
_OWN_KINDS = {
    "k": ("speculation",),
    "accept_length": ("speculation",),
    "verify_graph": ("graphs",),
    "nccl_path": ("communication",),
    "allreduce_floor": ("communication",),
    "interconnect": ("machine", "communication"),
}
_MOST_NAMED = 4


def predicted_sides(
    base: Base, predictions: Sequence[Prediction], sides: Sequence[Side], pairs: Sequence[PairComparison]
) -> tuple[PredictedSide, ...]:
    """Every other side against the predictions made from the first one."""
    first = sides[0]
    before = measured_tps(base, [run.facts for run in first.runs])
    return tuple(
        _side(base, predictions, first, before, side, pair) for side, pair in zip(sides[1:], pairs, strict=True)
    )


def _side(
    base: Base,
    predictions: Sequence[Prediction],
    first: Side,
    before: float | None,
    side: Side,
    pair: PairComparison,
) -> PredictedSide:
    runs = [run.facts for run in side.runs]
    found = scores(base, predictions, first.facts, runs)
    notes = []
    if not found:
        notes.append(f"{side.name} has no steady window at {base.running} running requests: nothing is scored")
    if before is None:
        notes.append(
            f"{first.name} has no steady window at {base.running} running: is it the run that was predicted from?"
        )
    elif base.tps is not None and not base.tps.low <= before <= base.tps.high:
        notes.append(
            f"{first.name} has {before:.1f} tok/s at {base.running} running, the predictions start from "
            f"{base.tps.low:.1f}-{base.tps.high:.1f}: they were made from another run"
        )
    if pair.comparable.answer == "no":
        notes.append("the sides do not measure the same thing: a score says nothing of the prediction")
    for score in found:
        beside = [d.what for d in pair.differences if _is_beside(d, score.key)] if score.made == YES else []
        if beside:
            more = f" and {len(beside) - _MOST_NAMED} more" if len(beside) > _MOST_NAMED else ""
            notes.append(f"{score.change}: also differs in {', '.join(beside[:_MOST_NAMED])}{more}")
    return PredictedSide(
        side=side.name,
        running=base.running,
        from_low_tps=None if base.tps is None else base.tps.low,
        from_high_tps=None if base.tps is None else base.tps.high,
        before_tps=before,
        measured_tps=measured_tps(base, runs),
        scores=tuple(found),
        notes=tuple(dict.fromkeys(notes)),
    )


def _is_beside(difference: Difference, key: str) -> bool:
    """A difference that can move the throughput and is not the change itself."""
    if difference.kind in ("other", *_OWN_KINDS.get(key, ())):
        return False
    return difference.setting or difference.unfair or difference.kind in ("engine", "model", "machine")
