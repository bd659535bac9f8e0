"""Sweeps over load as a function: a run with speculation against one without, or a plain run alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from traceana.api import read_facts

if TYPE_CHECKING:
    from traceana.facts.sweep_model import Sweep


def sweep(
    spec: Sequence[str],
    baseline: Sequence[str] = (),
    *,
    series: str | None = None,
    baseline_series: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Sweep:
    """The sweep of benchmark results and logs over load.

    Args:
        spec: inputs measured with speculation; or with and without in one file, or without alone (no `baseline` then).
        baseline: inputs measured without speculation.
        series: name, or part of it, of the series with speculation where a file holds several.
        baseline_series: the same for the series without.
        columns: as in `api.load`.

    Raises TraceanaError (exit code 2) when an input cannot be used, or which series is which is not clear.
    """
    from traceana.facts.sweep import sweep as sweep_facts

    base = read_facts(baseline, columns) if baseline else None
    return sweep_facts(read_facts(spec, columns), base, series, baseline_series)
