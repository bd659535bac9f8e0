"""How much of the change that was seen can each difference explain: sized, too small, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceana.facts.compare_found import Raw
from traceana.facts.compare_model import Difference, Sized
from traceana.facts.settings_effects import Effect

#: allreduces of one cycle in the largest models seen: two per layer of 61 to 94 layers, and the drafter's
_MANY_ALLREDUCES = 200
_RANKS_OF_MODEL = 8
_PARTS = ("acceptance", "cycle", "batch")
_ORDER = {"all": 0, "part": 0, "unknown": 0, "little": 1, "none": 2}


@dataclass(frozen=True, slots=True)
class Change:
    """What changed at the load that is explained: which part (see `compare_figures.changed`), and both cycles in ms.

    `ranks` is the tensor-parallel size, None where it is not known or differs.
    """

    part: str
    cycles: tuple[float, float] | None = None
    ranks: int | None = None


def differences(raw: Sequence[Raw], change: Change) -> tuple[Difference, ...]:
    """All differences with what they can explain, most suspicious first."""
    made = [
        Difference(
            what=row.what,
            kind=row.effect.kind,
            before=row.before,
            after=row.after,
            why=row.effect.why,
            unfair=row.effect.unfair,
            rank=row.effect.rank,
            setting=row.setting,
            sized=size(row.effect, change),
            confirm=row.effect.confirm,
        )
        for row in raw
    ]
    return tuple(sorted(made, key=lambda d: (_ORDER[d.sized.fit], d.rank, d.what)))


def size(effect: Effect, change: Change) -> Sized:
    """What one difference can do to the cycle, against the change that was seen."""
    if change.part == "nothing":
        return Sized("none", "nothing changed that it could explain", provenance="derived")
    if change.part in _PARTS and effect.acts_on and change.part not in effect.acts_on:
        acts = " and ".join(effect.acts_on)
        return Sized("none", f"acts on {acts}, and what changed is {_the(change.part)}", provenance="derived")
    if effect.deliberate:
        words = "it is what is compared: drafts lengthen the cycle and earn tokens"
        return Sized("all", words, provenance="derived")
    if effect.us_per_allreduce is not None:
        return _per_allreduce(effect, change)
    if effect.cycle_factor is not None:
        return _factor(effect, effect.cycle_factor, change)
    return Sized("unknown", "cannot say how much", provenance="assumed")


def _the(part: str) -> str:
    return "acceptance" if part == "acceptance" else f"the {part}"


def _per_allreduce(effect: Effect, change: Change) -> Sized:
    us = effect.us_per_allreduce or 0.0
    if us == 0:
        return Sized("none", "does nothing to the small allreduces of a decode forward", 0.0, 0.0, source=effect.source)
    if change.ranks == 1:
        return Sized("none", "one GPU: a forward has no allreduce", 0.0, 0.0, provenance="derived")
    words = f"up to {us:.0f} us per small allreduce, {us / 10:.1f} ms per 100 of them"
    words += "" if change.ranks in (None, _RANKS_OF_MODEL) else f" (that is of 8 ranks, here are {change.ranks})"
    if change.cycles is None:
        return Sized("unknown", words, source=effect.source)
    gap = abs(change.cycles[1] - change.cycles[0])
    needed = 1000.0 * gap / us
    fit = "all" if needed <= _MANY_ALLREDUCES else "part"
    takes = f"the {_ms(gap)} would take {needed:,.0f} allreduces a cycle"
    usual = "2 per layer are usual" if fit == "all" else f"more than the {_MANY_ALLREDUCES} of the largest models"
    return Sized(
        fit, f"{words}; {takes} ({usual})", 0.0, min(gap, us * _MANY_ALLREDUCES / 1000.0), source=effect.source
    )


def _factor(effect: Effect, factor: tuple[float, float], change: Change) -> Sized:
    least, most = factor
    words = f"seen to lengthen a cycle {least:g}x to {most:g}x"
    if change.cycles is None:
        return Sized("unknown", words, source=effect.source)
    fast, slow = sorted(change.cycles)
    low, high = fast * (least - 1.0), fast * (most - 1.0)
    fit = "all" if slow <= fast * most else "part"
    return Sized(fit, f"{words}: {_ms(low)} to {_ms(high)} of the {_ms(slow - fast)}", low, high, source=effect.source)


def _ms(value: float) -> str:
    return f"{value:,.1f} ms"
