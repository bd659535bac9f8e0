"""What a run ran on and what it ran: the GPU, and the shapes of the target and of the drafter.

From options, the config.json files among the inputs, the traces, and the model's name, the surest first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from traceana.facts.model import Evidence, Fact, Facts, Identity, Provenance, Speculation
from traceana.speculation.floors import hardware
from traceana.speculation.floors.weights import ModelShape, next_token_layer

if TYPE_CHECKING:
    import polars as pl

    from traceana.facts.locate import Locator

#: methods whose drafter is a layer that the target brings itself
_OWN_LAYER = ("mtp", "nextn")
#: paths that take small allreduces away from NCCL when a rank reports them as on
_OWN_PATHS = ("flashinfer_fusion", "custom_allreduce", "pcie_ipc")
_NO_GPU = "GPU not known (--gpu, or a trace that names it)"
_NO_SHAPE = "model's shape not known (its config.json, or --layers and --hidden)"
_NO_DRAFT = "the drafter's forwards (its config.json tells them)"
_NO_OWN_LAYER = "the drafter's forwards (the model's config.json tells them)"


@dataclass(frozen=True, slots=True)
class Box:
    """GPU by name, and shapes. `reason` says where a known fact is from, or what is missing."""

    gpu: Fact[str] = field(default_factory=lambda: Fact(reason=_NO_GPU))
    target: Fact[ModelShape] = field(default_factory=lambda: Fact(reason=_NO_SHAPE))
    draft: Fact[ModelShape] = field(default_factory=lambda: Fact(reason=_NO_DRAFT))


def box_of(facts: Facts) -> Box:
    """The run's box; an empty one where nothing is known."""
    return facts.box or Box()


def box(configs: pl.DataFrame, who: Identity, spec: Speculation, gpus: tuple[str, ...], where: Locator) -> Box:
    """What the inputs say: `configs` is the table `model_configs`, `gpus` the names that the traces hold."""
    known = next((name for name in gpus if hardware.gpu(name) is not None), next(iter(gpus), None))
    found = Box() if known is None else Box(gpu=Fact(known, Provenance.MEASURED))
    named = hardware.shape(who.model.value or "")
    if named is not None:
        target = Fact(ModelShape(named.layers, named.hidden), Provenance.ASSUMED, (), "by the model's name")
        found = replace(found, target=target)
    rows = [(_shape(row), where.at(row, None)) for row in configs.iter_rows(named=True)]
    targets = [row for row in rows if not row[0].drafter]
    drafts = [row for row in rows if row[0].drafter]
    if len(targets) == 2 and not drafts:  # a small model of its own that drafts for a large one
        targets.sort(key=lambda row: row[0].layers * row[0].hidden ** 2, reverse=True)
        targets, drafts = targets[:1], targets[1:]
    distinct = {row[0] for row in targets}
    if len(distinct) == 1:
        found = replace(found, target=_said(*targets[0]))
    elif distinct:
        found = replace(found, target=Fact(reason=f"{len(distinct)} config.json files are of different models"))
    if len({row[0] for row in drafts}) == 1:
        found = replace(found, draft=_said(*drafts[0]))
    elif not drafts and _drafts_itself(who, spec):
        found = replace(found, draft=_own_layer(found.target))
    return found


def with_said(facts: Facts, gpu: str | None, layers: int | None, hidden: int | None) -> Facts:
    """The facts with what the user says of the box, which wins over what the inputs say."""
    found = box_of(facts)
    if gpu is not None:
        found = replace(found, gpu=Fact(gpu, Provenance.ASSUMED, (), "as given"))
    if layers is not None or hidden is not None:
        known = found.target.value
        sizes = layers or (known and known.layers), hidden or (known and known.hidden)
        if sizes[0] and sizes[1]:
            same = known is not None and sizes == (known.layers, known.hidden)
            shape = known if same and known is not None else ModelShape(sizes[0], sizes[1])
            found = replace(found, target=Fact(shape, Provenance.ASSUMED, (), "as given"))
        else:
            half = "--hidden" if layers else "--layers"
            found = replace(found, target=Fact(reason=f"the model's shape is known in part: add {half}"))
    return replace(facts, box=found)


def gpu_of(facts: Facts) -> hardware.Gpu | str:
    """The GPU in the table of GPUs, or why there is none."""
    named = box_of(facts).gpu
    if named.value is None:
        return named.reason or _NO_GPU
    return hardware.gpu(named.value) or f"{named.value} is not in the table of GPUs"


def own_path_on(facts: Facts) -> bool:
    """Whether a rank reports an allreduce besides NCCL's as on: it takes the small ones."""
    return any(facts.statements(kind, "on") for kind in _OWN_PATHS)


def link_of(facts: Facts) -> str | None:
    """How the GPUs are joined, nvlink or pcie: as the engine's refusal or the GPU's name tells; None where neither."""
    if any("pcie" in s.reason.lower() for s in facts.statements("custom_allreduce")):
        return "pcie"
    gpu = gpu_of(facts)
    return None if isinstance(gpu, str) else gpu.link


def ranks_of(facts: Facts) -> int | str:
    """GPUs that share each layer, or why their number is not known."""
    ranks = facts.parallelism.tp.value or (facts.trace.world_size if facts.trace is not None else None)
    return ranks if ranks is not None else "the number of tensor-parallel ranks is not known"


def reduces_per_layer(facts: Facts) -> str | None:
    """Why a layer's allreduces are not two over all ranks; None where nothing says so."""
    for name in ("enable_dp_attention", "enable_dp_lm_head"):
        if facts.settings.value(name) is True:
            return f"{name}: attention is data-parallel, and a layer does not reduce twice over all ranks"
    backend = facts.settings.value("moe_a2a_backend")
    if isinstance(backend, str) and backend.lower() not in ("none", "null"):
        return f"moe_a2a_backend={backend}: experts exchange tokens all to all instead of reducing"
    if facts.settings.value("enable_expert_parallel") is True and (facts.parallelism.dp.value or 1) > 1:
        return "experts are spread over data-parallel ranks: they exchange tokens instead of reducing"
    return None


def on_cpu(facts: Facts) -> bool:
    """True when the log says that the engine computes on the CPU: no floor of a GPU applies."""
    if facts.trace is not None and facts.trace.on_cpu:
        return True
    device = facts.settings.get("device_config") or facts.settings.get("device")
    return device is not None and device.value.strip("'\"").lower() == "cpu"


def _shape(row: dict[str, object]) -> ModelShape:
    names = {f.name for f in fields(ModelShape)}
    return ModelShape(**{name: value for name, value in row.items() if name in names})  # type: ignore[arg-type]


def _said(shape: ModelShape, evidence: Evidence) -> Fact[ModelShape]:
    return Fact(shape, Provenance.MEASURED, (evidence,), "from config.json")


def _drafts_itself(who: Identity, spec: Speculation) -> bool:
    """Whether a layer that the target brings itself drafts (SGLang calls NEXTN EAGLE, too)."""
    method = (spec.method.value or "").lower()
    itself = method == "eagle" and spec.draft_model.value in (None, who.model.value)
    return itself or any(name in method for name in _OWN_LAYER)


def _own_layer(target: Fact[ModelShape]) -> Fact[ModelShape]:
    layer = None if target.value is None else next_token_layer(target.value)
    if layer is None:
        return Fact(reason=_NO_OWN_LAYER)
    return Fact(layer, target.provenance, target.evidence, "the target's own layer")
