"""What a capture of `nsys stats` cannot tell, one text each, with the command that would show it."""

from __future__ import annotations

from collections.abc import Sequence

from traceana_parsers.traces.nsight_counts import Counts
from traceana_parsers.traces.stats_summaries import Summaries

EXPORT = "nsys export --type sqlite --include-blobs=true rep.nsys-rep"


def notes_of(seen: Sequence[str], counts: Counts, summaries: Summaries) -> list[str]:
    """The notes on one capture; `seen`: its reports, in words."""
    reports = ", ".join(seen)
    kernels = counts.total("kernels")
    if not kernels + counts.total("memops"):
        spans = ", ranges apart" if counts.total("ranges") else ""
        return [
            f"from nsys stats ({reports}): sums over all GPUs and processes, no event with its time{spans}: nothing of "
            "cycles, launch gaps, overlap or ranks, and graph replays traced as a whole are in no sum; give the "
            f"export: {EXPORT}"
        ]
    missing = [
        what
        for what, table in (("calls (cuda_api_trace)", "launches"), ("ranges (nvtx_pushpop_trace)", "ranges"))
        if not counts.total(table)
    ]
    lacking = f"no {' and no '.join(missing)}; " if missing else ""
    notes = [f"from nsys stats ({reports}): {lacking}no ranks and no wall clock; give the export: {EXPORT}"]
    summed = summaries.count("kernel")
    if summed > kernels:
        notes.append(f"the GPU trace is incomplete: it holds {kernels:,} of the {summed:,} kernels in the summary")
    return notes
