"""How much a cause could cost by the published models, before there is evidence for it."""

from __future__ import annotations

from traceana.facts.box import link_of
from traceana.facts.model import Facts, Provenance
from traceana.rules.interface import Explains
from traceana.speculation.floors import hardware, nccl_model
from traceana.speculation.floors.forward import ALLREDUCES_PER_LAYER


def sized(kind: str | None, facts: Facts) -> Explains | None:
    """What a cause of this kind could add per token, from nothing to its model's most; None where no model carries.

    Kinds are those of `nccl_model.PathCost`.

    Model: allreduces of one verify forward x the most that each can take longer on this kind of box (NCCL's latency
    model and the measurements named in speculation/floors/nccl_model.py), over the tokens of a cycle.
    """
    ranks = facts.parallelism.tp.value
    shape = hardware.shape(facts.identity.model.value or "")
    tokens = facts.acceptance.tokens_per_cycle.value or facts.acceptance.accept_length.value
    if kind is None or ranks is None or ranks < 2 or shape is None or not tokens:
        return None
    link = link_of(facts)
    if link is None:
        return None
    cost = next((c for c in nccl_model.path_costs(ranks, link) if c.kind == kind), None)
    if cost is None:
        return None
    count = shape.layers * ALLREDUCES_PER_LAYER
    most = cost.high_us * count / 1000 / tokens
    basis = f"{count} allreduces of one verify forward x at most {cost.high_us:.0f} us ({cost.source})"
    return Explains(0.0, most, Provenance.MODELLED, basis)
