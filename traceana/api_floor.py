"""Floors as a function: what the options of `traceana floor` ask for, as a FloorReport."""

from __future__ import annotations

from dataclasses import dataclass

from traceana.errors import TraceanaError
from traceana.report.floor_report import FloorCurve, FloorExtra, FloorPoint, FloorReport, FloorWeights
from traceana.speculation.floors import allreduce, forward, hardware, nccl_model
from traceana.speculation.floors.weights import ModelShape, weights_read
from traceana_parsers.model_config import ModelConfigError, read_model_config


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked: the box, the model's shape (three ways to say it), the forward."""

    gpu: str
    ranks: int
    tokens: tuple[int, ...]
    layers: int | None = None
    hidden: int | None = None
    model: str | None = None
    config: str | None = None
    per_layer: int = 2
    library: str | None = None
    weight_gb: float | None = None
    kernels: int | None = None


def floors(wanted: Wanted) -> FloorReport:
    """The floors. TraceanaError (exit code 2) for a GPU or a shape that is not known, or numbers out of range."""
    gpu = hardware.gpu(wanted.gpu)
    if gpu is None:
        raise TraceanaError(f"--gpu {wanted.gpu!r} is not in the table: {', '.join(hardware.gpu_names())}")
    if not 1 <= wanted.ranks <= 4096 or not 1 <= wanted.per_layer <= 100:
        raise TraceanaError("--tp and --per-layer are whole numbers of 1 or more")
    config = _config(wanted)
    layers, hidden, shape_from = _shape(wanted, config)
    found, notes = _curves(gpu, wanted)
    weights, no_weights = _weights(gpu, wanted, config)
    count = layers * wanted.per_layer
    curves = tuple(
        FloorCurve(
            curve.library,
            curve.version,
            None if curve.mode == "-" else curve.mode,
            curve.label,
            tuple(_point(curve, layers, hidden, tokens, wanted.per_layer) for tokens in wanted.tokens),
        )
        for curve in found
    )
    extras = nccl_model.path_costs(wanted.ranks, gpu.link) if wanted.ranks > 1 else ()
    if wanted.weight_gb is not None and not 0 < wanted.weight_gb < 1e5:
        raise TraceanaError("--weight-gb is a number of GB above 0")
    if wanted.kernels is not None and not 0 < wanted.kernels < 10**7:
        raise TraceanaError("--kernels is a whole number of 1 or more")
    launch = None if wanted.kernels is None else forward.launch_ms(wanted.kernels)
    return FloorReport(
        gpu=gpu.name,
        ranks=wanted.ranks,
        layers=layers,
        hidden=hidden,
        shape_from=shape_from,
        allreduces=count if wanted.ranks > 1 else 0,
        curves=curves,
        extras=tuple(FloorExtra(e.name, e.high_us, e.high_us * count / 1000, e.source) for e in extras),
        weights=weights,
        weight_read_ms=None if wanted.weight_gb is None else forward.weight_read_ms(gpu, wanted.weight_gb * 1e9),
        launch_low_ms=None if launch is None else launch[0],
        launch_high_ms=None if launch is None else launch[1],
        notes=(*notes, *no_weights),
        source=allreduce.SOURCE,
    )


def _config(wanted: Wanted) -> ModelShape | None:
    if wanted.config is None:
        return None
    try:
        return ModelShape(**read_model_config(wanted.config))
    except ModelConfigError as error:
        raise TraceanaError(str(error)) from error


def _weights(
    gpu: hardware.Gpu, wanted: Wanted, config: ModelShape | None
) -> tuple[tuple[FloorWeights, ...], tuple[str, ...]]:
    """The weights read by tokens per forward; where the config does not tell them, the reason."""
    if config is None or wanted.weight_gb is not None:
        return (), ()
    made = []
    for tokens in wanted.tokens:
        read = weights_read(config, tokens, wanted.ranks)
        if isinstance(read, str):
            return (), (read,)
        low, high = (forward.weight_read_ms(gpu, size) for size in (read.bytes.low, read.bytes.high))
        made.append(FloorWeights(tokens, low, high))
    return tuple(made), ()


def _shape(wanted: Wanted, config: ModelShape | None) -> tuple[int, int, str]:
    """Layers, hidden size and where they are from; options win over a config.json, that over the model's name."""
    layers, hidden = wanted.layers, wanted.hidden
    origin = "as given"
    if (layers is None or hidden is None) and config is not None:
        layers, hidden, origin = layers or config.layers, hidden or config.hidden, "from config.json"
    if (layers is None or hidden is None) and wanted.model is not None:
        known = hardware.shape(wanted.model)
        if known is None:
            raise TraceanaError(
                f"--model {wanted.model!r} is not in the table; give --layers and --hidden, or --config"
            )
        layers, hidden, origin = layers or known.layers, hidden or known.hidden, "assumed from the model's name"
    if layers is None or hidden is None:
        raise TraceanaError("the model's shape is missing: give --layers and --hidden, --config FILE, or --model NAME")
    if not 1 <= layers <= 10_000 or not 1 <= hidden <= 1 << 20:
        raise TraceanaError("--layers and --hidden are whole numbers of 1 or more")
    return layers, hidden, origin


def _curves(gpu: hardware.Gpu, wanted: Wanted) -> tuple[tuple[allreduce.Curve, ...], tuple[str, ...]]:
    """The measured curves of the box; where there are none, the reason."""
    if wanted.ranks == 1:
        return (), ("one GPU needs no allreduce",)
    if gpu.system is None:
        return (), (f"nobody measured collectives on {gpu.name}: no allreduce floor",)
    found = allreduce.for_box(gpu.system, wanted.ranks, wanted.library)
    if found:
        extra: tuple[str, ...] = ()
        if any(curve.library != "nccl" for curve in found):
            extra = (
                "an engine's own allreduce may fall back to NCCL where it refuses (more than two GPUs on PCIe) "
                "or for long messages; the table holds what its call took",
            )
        return found, extra
    ranks = sorted({c.ranks for c in allreduce.curves() if c.system == gpu.system})
    libraries = sorted({c.library for c in allreduce.curves() if c.system == gpu.system})
    return (), (
        f"no measurement for {wanted.ranks} GPUs"
        + (f" with {wanted.library}" if wanted.library else "")
        + f" of this kind; measured: {', '.join(map(str, ranks))} GPUs with {', '.join(libraries)}",
    )


def _point(curve: allreduce.Curve, layers: int, hidden: int, tokens: int, per_layer: int) -> FloorPoint:
    found = forward.allreduce_floor(curve, layers=layers, hidden=hidden, tokens=tokens, per_layer=per_layer)
    return FloorPoint(tokens, found.message_bytes, found.each_us, found.forward_ms, found.how)
