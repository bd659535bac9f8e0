"""`traceana check`: is a new run slower than its baseline; a gate for CI."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from traceana.cli import output
from traceana.cli.options import ColumnsOption, FormatOption, OutputOption, RedactOption, ReportFormat, columns_of
from traceana.cli.sides import runs_of, with_words
from traceana.errors import TraceanaError

_DROPS = ("tps", "accept")  # get worse by a drop, the others by a rise
_TOLERANCE = re.compile(r"([+-]?)(\d+(?:\.\d+)?) ?%?")
_SHARE = re.compile(r"(\d+(?:\.\d+)?) ?%")


def check(
    new: Annotated[
        str,
        typer.Argument(metavar="NEW", help="The run to check: a file or folder; A+B is one run, A,B repeats of it."),
    ],
    against: Annotated[
        str, typer.Option(metavar="STORE_OR_FILE", help="The baseline: a store (all of its runs), or as NEW.")
    ],
    *,
    tps: Annotated[
        str | None, typer.Option(metavar="CHANGE", help="Allowed change of tok/s (-5% when not given), or off.")
    ] = None,
    tpot: Annotated[
        str | None, typer.Option(metavar="CHANGE", help="Of the time per output token (+5%), or off.")
    ] = None,
    cycle: Annotated[str | None, typer.Option(metavar="CHANGE", help="Of the cycle's length (+5%), or off.")] = None,
    verify: Annotated[
        str | None, typer.Option(metavar="CHANGE", help="Of verify, where timer lines print it (+5%), or off.")
    ] = None,
    accept: Annotated[str | None, typer.Option(metavar="CHANGE", help="Of the accept length (-3%), or off.")] = None,
    run_noise: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Spread of identical runs, e.g. 2%; measured once 3 runs are recorded."),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Add the run to the store unless it is a regression.")
    ] = False,
    allow_differences: Annotated[
        bool, typer.Option("--allow-differences", help="Check it although model, prompts or lengths differ.")
    ] = False,
    columns: ColumnsOption = None,
    output_format: FormatOption = ReportFormat.TERMINAL,
    out: OutputOption = None,
    junit: Annotated[str | None, typer.Option(metavar="FILE", help="Write JUnit XML as well.")] = None,
    redact: RedactOption = None,
) -> None:
    """Fail when a run is slower than its baseline by more than the noise and the limits allow.

    Exit code 0: pass. 1: regression. 3: the noise is too large to tell. 2: unusable, or not the same measurement.

    Example: traceana check new.json --against baseline-store --record --junit check.xml
    """
    from traceana import api_compare
    from traceana.report.check import compose
    from traceana.report.check import junit as as_junit

    options = {"tps": tps, "tpot": tpot, "cycle": cycle, "verify": verify, "accept": accept}
    tolerances = {name: _tolerance(name, text) for name, text in options.items() if text is not None}
    report, reports = api_compare.check(
        [[with_words(path) for path in run] for run in runs_of(new)],
        against,
        [[with_words(path) for path in run] for run in runs_of(against)],
        tolerances,
        run_noise=_noise(run_noise),
        record=record,
        allow_differences=allow_differences,
        columns=columns_of(columns),
    )
    output.inputs(reports, out, junit)
    if junit is not None:
        output.write(as_junit(report), junit)
    output.document(report, compose, output_format.value, out, redact=redact)
    raise typer.Exit(report.exit_code)


def _tolerance(option: str, text: str) -> float | None:
    """`-5%`, `5 %` or `5` as 0.05; None for `off`. TraceanaError for anything else and for the wrong sign."""
    worse = "-" if option in _DROPS else "+"
    if text.strip().lower() == "off":
        return None
    match = _TOLERANCE.fullmatch(text.strip())
    if match is None:
        raise TraceanaError(f"--{option} is {text!r}: give the allowed change in per cent, e.g. {worse}5%, or off")
    sign, figure = match[1], float(match[2]) / 100.0
    if sign not in ("", worse):
        way = "a drop" if worse == "-" else "a rise"
        raise TraceanaError(f"--{option} is {text!r}: for the worse is {way} of it; write {worse}{match[2]}%")
    if figure >= 1.0:
        raise TraceanaError(f"--{option} is {text!r}: give less than 100 %, or off")
    return figure


def _noise(text: str | None) -> float | None:
    if text is None:
        return None
    match = _SHARE.fullmatch(text.strip())
    if match is None or not 0 < float(match[1]) < 100:
        raise TraceanaError(f"--run-noise is {text!r}: give the spread of identical runs in per cent, e.g. 2%")
    return float(match[1]) / 100.0
