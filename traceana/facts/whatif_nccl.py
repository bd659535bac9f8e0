"""What-if predictions from NCCL's own lines: small allreduces on the path or protocol that the box could have."""

from __future__ import annotations

from traceana.facts.box import box_of, link_of, own_path_on, ranks_of
from traceana.facts.model import Facts, Provenance
from traceana.facts.whatif_model import Base, Input, Prediction
from traceana.facts.whatif_predict import predicted
from traceana.speculation import whatif as arithmetic
from traceana.speculation.floors import nccl_model
from traceana.speculation.floors.forward import ALLREDUCES_PER_LAYER

#: kind of nccl_model.PathCost -> what would be changed, and what a run with the change shows
_CHANGES = {
    "shared_memory": ("NCCL over P2P, not shared memory", "P2P"),
    "topology": ("NCCL with the right topology", "topology"),
    "simple_protocol": ("NCCL with LL for small messages", "LL"),
}
#: messages up to here are small: LL is what NCCL's model prefers for them, bytes
_SMALL = 64 << 10


def nccl_path(facts: Facts, base: Base) -> Prediction | None:
    """The costliest thing that NCCL's lines show: at most its modelled time is saved in each allreduce of verify."""
    seen = set(_seen(facts))
    ranks, link = ranks_of(facts), link_of(facts)
    if not seen or isinstance(ranks, str) or ranks < 2 or link is None:
        return None
    costs = [cost for cost in nccl_model.path_costs(ranks, link) if cost.kind in seen]
    if not costs:
        return None
    worst = max(costs, key=lambda cost: cost.high_us)
    (change, to), shape = _CHANGES[worst.kind], box_of(facts).target
    if shape.value is None:
        return Prediction("nccl_path", change, reason=shape.reason)
    count = shape.value.layers * ALLREDUCES_PER_LAYER
    model = "at most the modelled difference is saved in each allreduce of verify"
    effect = arithmetic.saved(base.cycle_ms, count * worst.high_us / 1000, model)
    if effect is None:
        return None
    text = f"at most {worst.high_us:.0f} us of each ({worst.source})"
    known = Input("allreduces of verify", f"{count} ({shape.reason})", shape.provenance)
    return predicted("nccl_path", change, base, effect, (known, Input(worst.name, text, Provenance.MODELLED)), to)


def is_on_p2p(facts: Facts) -> bool | None:
    """Whether NCCL's connections inside the node go directly from GPU to GPU; None where no line tells."""
    kinds = {kind.upper() for p in facts.nccl.processes for kind, n in p.transports if n}
    if facts.nccl.p2p_disabled or kinds == {"SHM"}:
        return False
    return True if "P2P" in kinds else None


def small_protocols(facts: Facts) -> frozenset[str]:
    """Protocols that TUNING lines name for small allreduces, in capitals."""
    return frozenset(
        protocol.upper()
        for collective, size, _, protocol in facts.nccl.protocols
        if collective.lower() == "allreduce" and size <= _SMALL
    )


def _seen(facts: Facts) -> list[str]:
    if own_path_on(facts):
        return []  # small allreduces go another way
    seen = []
    if is_on_p2p(facts) is False:
        seen.append("shared_memory")
    if facts.nccl.slow_graph:
        seen.append("topology")
    if small_protocols(facts) == {"SIMPLE"}:
        seen.append("simple_protocol")
    return seen
