"""The section of captures that hold sums and no events: time by category, and how even the collectives are."""

from __future__ import annotations

from traceana.facts.trace_model import CollectiveSum, TraceSums
from traceana.report.names import short_names
from traceana.report.page import Labelled, Row, Section, Table
from traceana.report.text import NONE, count, figure, share, whole
from traceana.report.trace_report import TraceReport

_MOST_CAPTURES = 8
_MOST_CATEGORIES = 12
_LEAST_SHARE = 0.005
_SAYS = {
    "wait-inclusive": "very uneven: waiting for late ranks, or messages of different sizes",
    "even": "even: which does not rule out the same wait every time",
    "inconclusive": "too few to judge",
}
_LIBRARIES = {"nccl": "NCCL", "sglang_custom": "SGLang's own kernel", "vllm_custom": "vLLM's own kernel"}
_NO_MEDIAN = "a mean alone does not tell transfer from waiting"


def sums_section(trace: TraceReport) -> Section | None:
    """None without such captures."""
    if not trace.sums:
        return None
    shown = trace.sums[:_MOST_CAPTURES]
    names = short_names(row.path for row in shown)
    columns = tuple(_tail(names[row.path]) for row in shown)
    categories = list(dict.fromkeys(name for row in shown for name in row.categories))
    worth = [name for name in categories if max(row.categories.get(name, 0.0) for row in shown) >= _LEAST_SHARE]
    rows = [
        Row("kernels", tuple(whole(row.kernels) for row in shown), "m"),
        Row("kernel sum ms", tuple(figure(row.total_ms) for row in shown), "m"),
        *_whole(shown),
        *(Row(name, tuple(_share(row, name) for row in shown), "d") for name in worth[:_MOST_CATEGORIES]),
    ]
    hidden = len(trace.sums) - len(shown)
    remark = f"{len(shown)} of {len(trace.sums)} captures shown" if hidden else ""
    lead = (
        "summed over all GPUs of a capture, overlap counted twice; captures are never added up: one may be a part of "
        "another"
    )
    texts = [text for row, name in zip(shown, columns, strict=True) for text in _collectives(row, name)]
    return Section(
        "Kernel sums",
        lead=(lead,),
        tables=(Table("share of kernel time", columns, tuple(rows), remarks=(remark,)),),
        texts=tuple(Labelled("", (text,)) for text in texts),
    )


def _whole(shown: tuple[TraceSums, ...]) -> list[Row]:
    """The time of the whole capture, where a table lists only a part of it and prints shares of the whole."""
    if all(row.whole_ms <= row.total_ms for row in shown):
        return []
    return [Row("of all kernels ms", tuple(figure(row.whole_ms) for row in shown), "d")]


def _tail(name: str) -> str:
    """The part of a file's name that tells captures apart."""
    last = name.rsplit("/", 1)[-1]
    for word in ("__nsys__summary_cuda_gpu_kern_sum", "_cuda_gpu_kern_sum", "_gpukernsum", ".csv"):
        last = last.replace(word, "")
    return last or name


def _share(row: TraceSums, name: str) -> str:
    return share(row.categories[name]) if name in row.categories else NONE


def _collectives(row: TraceSums, name: str) -> list[str]:
    return [f"{name}: {_collective(c)}" for c in row.collectives if c.instances]


def _collective(c: CollectiveSum) -> str:
    spread = "" if c.shortest_ms is None or c.longest_ms is None else f", {_us(c.shortest_ms)} to {_us(c.longest_ms)}"
    middle = "" if c.median_ms is None else f", median {_us(c.median_ms)}"
    kind = "communication" if c.collective == "unknown" else c.collective.replace("_", "-")
    says = _NO_MEDIAN if c.median_ms is None else _SAYS.get(c.verdict, c.verdict)
    by = f" by {_LIBRARIES.get(c.library, c.library)}" if c.library else ""
    return f"{count(c.instances, kind)}{by} of mean {_us(c.mean_ms)}{middle}{spread}: {says}"


def _us(milliseconds: float) -> str:
    return f"{figure(1000 * milliseconds)} us"
