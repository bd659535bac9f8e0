"""`traceana floor`: how fast a forward could be on a box, from published measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from traceana.cli import output
from traceana.cli.options import FormatOption, HiddenOption, LayersOption, OutputOption, ReportFormat
from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from traceana.report.floor_report import FloorReport


def floor(
    *,
    gpu: Annotated[str, typer.Option(help='GPU as its name is written, e.g. "RTX PRO 6000", H200.')],
    tp: Annotated[int, typer.Option(help="GPUs that share each layer (tensor parallel).")],
    tokens: Annotated[str, typer.Option(help="Tokens per forward, with commas: requests x (k + 1).")] = "1,4,16",
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    model: Annotated[str | None, typer.Option(help="Model name, where its shape is in our table (assumed).")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="The model's config.json.")] = None,
    per_layer: Annotated[int, typer.Option(help="Allreduces per layer.")] = 2,
    library: Annotated[str | None, typer.Option(help="Only nccl, vllm, sglang or trtllm.")] = None,
    weight_gb: Annotated[
        float | None, typer.Option(help="Weights that one GPU reads per forward, GB; with experts, those it touches.")
    ] = None,
    kernels: Annotated[int | None, typer.Option(help="Kernels per forward, e.g. from `traceana ledger`.")] = None,
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
) -> None:
    """Print how fast a forward could be on a box: allreduces, weight reads and launches at their floor.

    The allreduce times are published measurements, back to back; a server adds skew, launch gaps and compute.

    Example: traceana floor --gpu "RTX PRO 6000" --tp 8 --layers 61 --hidden 7168 --tokens 1,4,16
    """
    from traceana.api_floor import Wanted, floors
    from traceana.report.floor_page import compose

    report: FloorReport = floors(
        Wanted(gpu, tp, _tokens(tokens), layers, hidden, model, config, per_layer, library, weight_gb, kernels)
    )
    output.document(report, compose, output_format.value, out)


def _tokens(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if not found or min(found) < 1 or max(found) > 1 << 20:
        raise TraceanaError(f"--tokens is {text!r}: give whole numbers from 1 to 1048576 with commas, e.g. 1,4,16")
    return found
