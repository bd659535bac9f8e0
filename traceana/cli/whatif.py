"""`traceana whatif`: what a change would do to a run's throughput, as ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from traceana.cli import output
from traceana.cli.options import FormatOption, GpuOption, HiddenOption, LayersOption, OutputOption, ReportFormat
from traceana.errors import TraceanaError

if TYPE_CHECKING:
    pass


def whatif(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Logs and traces of one run, or a store.")],
    *,
    baseline: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="A log of the same load without speculation.")
    ] = None,
    running: Annotated[int | None, typer.Option(help="Load level; the most common one unless given.")] = None,
    k: Annotated[
        list[int] | None, typer.Option(help="Draft tokens per cycle; every smaller number unless given.")
    ] = None,
    accept_length: Annotated[
        list[float] | None, typer.Option(help="Accept length of another drafter, bonus token included.")
    ] = None,
    gpu: GpuOption = None,
    to_gpu: Annotated[str | None, typer.Option(help="Another box, for its allreduces only.")] = None,
    layers: LayersOption = None,
    hidden: HiddenOption = None,
    score: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Predictions stored as JSON: compare them with this run instead."),
    ] = None,
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
) -> None:
    """Say what a change would do to a run: fewer drafts, another drafter, graphs, waits, another interconnect.

    Each answer is a range with the numbers behind it, or the reason why there is none. Store it with --format json -o
    and give it to --score with a later run.

    Example: traceana whatif server.log --baseline plain.log --accept-length 3.1
    """
    from traceana import api_whatif
    from traceana.facts.whatif_model import Asked, Scored
    from traceana.report.whatif_page import compose, compose_scores

    for path in (*paths, *(baseline or ())):
        output.keep(path, out)
    if score is not None:
        output.document(Scored(api_whatif.score(score, paths)), compose_scores, output_format.value, out)
        return
    for name, values in (("--k", k or ()), ("--accept-length", accept_length or ())):
        if any(not 0 < value < 1e6 for value in values):
            raise TraceanaError(f"{name} is a number above zero")
    asked = Asked(running, tuple(k or ()), tuple(accept_length or ()), gpu, to_gpu, layers, hidden)
    report = api_whatif.predict(paths, baseline or (), asked)
    output.document(report, compose, output_format.value, out)
