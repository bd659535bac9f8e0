"""What-if predictions about allreduces: at their floor on this box, and on another box."""

from __future__ import annotations

from dataclasses import replace

from traceana.facts.box import box_of
from traceana.facts.floors import allreduces
from traceana.facts.model import Facts, Provenance
from traceana.facts.whatif_model import Asked, Base, Input, Prediction
from traceana.facts.whatif_predict import predicted
from traceana.facts.whatif_trace import transfer_ms
from traceana.speculation import whatif as arithmetic
from traceana.speculation.floors import hardware
from traceana.speculation.floors.forward import AllreduceFloor
from traceana.speculation.floors.hardware import Gpu


def measured_allreduce(facts: Facts, base: Base, asked: Asked) -> Prediction | None:
    """Allreduces of verify at the floor of this box: at most traced transfer minus floor is saved."""
    change = "allreduces at this box's floor"
    floor = _floor(facts, base)
    if isinstance(floor, str):
        return None if not asked.gpu else Prediction("allreduce_floor", change, reason=floor)
    transfer = _transfer_ms(facts, base)
    if transfer is None:
        reason = "how long its allreduces transfer now is not known: traces of all ranks tell transfer from wait"
        return Prediction("allreduce_floor", change, reason=reason)
    model = "at most the transfer above the published floor is saved"
    effect = arithmetic.saved(base.cycle_ms, transfer - floor.forward_ms, model)
    if effect is None:
        return None
    inputs = (Input("transfer in verify", f"{transfer:.2f} ms", Provenance.DERIVED), _input(floor))
    return predicted("allreduce_floor", change, base, effect, inputs)


def interconnect(facts: Facts, base: Base, asked: Asked) -> Prediction | None:
    """Allreduces of verify on another box: what at least is saved is the difference of the two floors."""
    if not asked.to_gpu:
        return None
    change = f"allreduces as on {asked.to_gpu}"
    target = hardware.gpu(asked.to_gpu)
    if target is None:
        known = ", ".join(hardware.gpu_names())
        return Prediction("interconnect", change, reason=f"{asked.to_gpu} is not in the table: {known}")
    there = _floor(facts, base, target)
    if isinstance(there, str):
        return Prediction("interconnect", change, reason=there)
    now = _transfer_ms(facts, base)
    current = _floor(facts, base)
    if now is None and isinstance(current, str):
        return Prediction("interconnect", change, reason=f"what allreduces take here is not known: {current}")
    least = (current.forward_ms if not isinstance(current, str) else 0.0) - there.forward_ms
    most = (now if now is not None else least + there.forward_ms) - there.forward_ms
    effect = arithmetic.saved(
        base.cycle_ms,
        max(most, least),
        "between the difference of the floors and transfer minus floor",
        max(0.0, least),
    )
    if effect is None:
        return Prediction("interconnect", change, reason="its floor is no lower than what allreduces take here")
    found = predicted("interconnect", change, base, effect, (_input(there, asked.to_gpu),), target.name)
    caveats = ["compute and memory stay those of this box: only the allreduces change"]
    if now is None:
        caveats.append("here they take their floor at least; with waits or a bad path more would be saved")
    return replace(found, caveats=tuple(caveats))


def _input(floor: AllreduceFloor, box: str = "this box") -> Input:
    text = f"{floor.forward_ms:.2f} ms per forward, {floor.count} x {floor.each_us:.1f} us at {floor.tokens} tokens"
    return Input(f"floor of {box}", text, Provenance.MODELLED)


def _floor(facts: Facts, base: Base, gpu: Gpu | None = None) -> AllreduceFloor | str:
    """Floor of verify's allreduces on this box or on another one, or what is missing."""
    if base.running is None:
        return "the number of running requests is not known"
    found = allreduces(facts, box_of(facts).target, base.running * ((base.k or 0) + 1), gpu)
    return found if isinstance(found, str) else found.least


def _transfer_ms(facts: Facts, base: Base) -> float | None:
    """Traced allreduce transfer in verify, where the traced cycles are of the predictions' load."""
    joined = None if facts.trace is None else facts.trace.joined
    if joined is not None and base.running is not None and joined.log_running not in (None, base.running):
        return None
    return transfer_ms(facts)
