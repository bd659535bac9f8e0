"""What-if predictions about allreduces: at their floor on this box, and on another box."""

from __future__ import annotations

from dataclasses import replace

from traceana.facts.model import Facts, Provenance
from traceana.facts.whatif_model import Asked, Base, Input, Prediction
from traceana.facts.whatif_predict import predicted
from traceana.speculation import whatif as arithmetic
from traceana.speculation.floors import allreduce, forward, hardware
from traceana.speculation.floors.forward import AllreduceFloor
from traceana.speculation.floors.hardware import Gpu


def measured_allreduce(facts: Facts, base: Base, asked: Asked) -> Prediction | None:
    """Allreduces of verify at the floor of this box: at most traced transfer minus floor is saved."""
    change = "allreduces of verify at this box's floor"
    box = _box(facts, asked)
    floor = box if isinstance(box, str) else _floor(facts, base, asked, box)
    if isinstance(floor, str):
        return None if not asked.gpu else Prediction("allreduce_floor", change, reason=floor)
    transfer = _transfer_ms(facts)
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
    change = f"allreduces of verify as on {asked.to_gpu}"
    target, here = hardware.gpu(asked.to_gpu), _box(facts, asked)
    if target is None:
        known = ", ".join(hardware.gpu_names())
        return Prediction("interconnect", change, reason=f"{asked.to_gpu} is not in the table: {known}")
    there = _floor(facts, base, asked, target)
    if isinstance(there, str):
        return Prediction("interconnect", change, reason=there)
    now = _transfer_ms(facts)
    current = here if isinstance(here, str) else _floor(facts, base, asked, here)
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
    found = predicted("interconnect", change, base, effect, (_input(there, asked.to_gpu),))
    caveats = ["compute and memory stay those of this box: only the allreduces change"]
    if now is None:
        caveats.append("here they take their floor at least; with waits or a bad path more would be saved")
    return replace(found, caveats=tuple(caveats))


def _input(floor: AllreduceFloor, box: str = "this box") -> Input:
    text = f"{floor.forward_ms:.2f} ms per forward, {floor.count} x {floor.each_us:.1f} us at {floor.tokens} tokens"
    return Input(f"floor of {box}", text, Provenance.MODELLED)


def _box(facts: Facts, asked: Asked) -> Gpu | str:
    names = (asked.gpu,) if asked.gpu else facts.trace.gpus if facts.trace is not None else ()
    for name in names:
        found = hardware.gpu(name)
        if found is not None:
            return found
    return "the GPU is not known: add --gpu NAME" if not names else f"{names[0]} is not in the table of GPUs"


def _floor(facts: Facts, base: Base, asked: Asked, gpu: Gpu) -> AllreduceFloor | str:
    """Floor of verify's allreduces on a box, or what is missing."""
    ranks = facts.parallelism.tp.value or (facts.trace.world_size if facts.trace is not None else None)
    named = hardware.shape(facts.identity.model.value or "")
    layers, hidden = asked.layers or (named and named.layers), asked.hidden or (named and named.hidden)
    if ranks is None or ranks < 2:
        return "it runs on one GPU" if ranks == 1 else "the number of tensor-parallel ranks is not known"
    if not layers or not hidden:
        return "the model's shape is not known: add --layers and --hidden"
    if base.running is None:
        return "the number of running requests is not known"
    curves = [] if gpu.system is None else allreduce.for_box(gpu.system, ranks)
    usable = [c for c in curves if c.mode != "eager"]
    if not usable:
        return f"nobody measured allreduces of {ranks} x {gpu.name}"
    tokens = base.running * ((base.k or 0) + 1)
    found = [forward.allreduce_floor(c, layers=layers, hidden=hidden, tokens=tokens) for c in usable]
    return min(found, key=lambda f: f.forward_ms)


def _transfer_ms(facts: Facts) -> float | None:
    """Traced allreduce transfer in verify, mean over timelines, ms per cycle; None where it was not told from wait."""
    trace = facts.trace
    if trace is None or trace.skew == "inconclusive" or (trace.joined is not None and not trace.joined.split):
        return None
    found = trace.ms_per_cycle(("allreduce_transfer",), ("verify",)).values()
    scale = 1.0 if trace.joined is None else 1 / trace.joined.ratio
    return sum(found) / len(found) * scale if found else None
