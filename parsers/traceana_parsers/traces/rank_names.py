"""Rank from the name of a trace file, where the trace itself does not tell: a table of spellings with examples."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class RankForm:
    """One spelling: groups `rank` and, where the name has it, `world`. `examples`: file name -> (rank, world size)."""

    writer: str
    pattern: str
    examples: dict[str, tuple[int | None, int | None]]


#: the first form that occurs in the name decides
FORMS: tuple[RankForm, ...] = (
    RankForm(
        # ranks of several processes in one file: none of them is the file's
        examples={"merged-1764419696.123456.trace.json.gz": (None, None)},
        writer="SGLang, merge_profiles",
        pattern=r"^merged-",
    ),
    RankForm(
        examples={"allreduce_rank1of2.json.gz": (1, 2), "bench_rank-3_of_8.json": (3, 8)},
        writer="hand-made",
        pattern=r"(?:^|[^a-z])rank[-_]?(?P<rank>\d+)_?of_?(?P<world>\d+)",
    ),
    RankForm(
        examples={
            "rank0.1795957834100750243.pt.trace.json.gz": (0, None),  # vLLM 0.32
            "1795958706618452962-rank-3.1795958751770595338.pt.trace.json.gz": (3, None),  # vLLM 0.11 to 0.28
            "dp0_pp0_tp1_dcp0_ep1_rank1.1795957834100750243.pt.trace.json.gz": (1, None),  # vLLM, several groups
            "graph_capture_rank_5.pt.trace.json.gz": (5, None),
            "trace_8_rank_1.json": (1, None),
            "rank7_trace.json": (7, None),
            "RANK-2.json": (2, None),
        },
        writer="vLLM, HTA, torchtitan and others",
        pattern=r"(?:^|[^a-z])rank[-_]?(?P<rank>\d+)(?![\d])",
    ),
    RankForm(
        # with pipeline stages the TP index alone is no rank
        examples={"1764419696.123456-TP-0-PP-1.trace.json.gz": (None, None)},
        writer="SGLang",
        pattern=r"-TP-\d+(?:-[A-Z]P-\d+)*-PP-[1-9]",
    ),
    RankForm(
        examples={
            "1764419696.123456-TP-3.trace.json.gz": (3, None),
            "1764419696.123456-TP-3-DECODE.trace.json.gz": (3, None),
            "spec-1764419696.123456-TP-1-DP-0-EP-1-EXTEND.trace.json.gz": (1, None),
            "cuda_graph_capture-target-TP-2.json.gz": (2, None),
        },
        writer="SGLang",
        pattern=r"-TP-(?P<rank>\d+)(?![\d])",
    ),
    RankForm(
        examples={
            "worker3_step_12.1694128201557.pt.trace.json.gz": (3, None),
            "worker-0.json": (0, None),
        },
        writer="torch.profiler examples",
        pattern=r"(?:^|[^a-z])worker[-_]?(?P<rank>\d+)(?![\d])",
    ),
    RankForm(
        # host and process id of torch's tensorboard_trace_handler, and vLLM's front end: no rank
        examples={
            "node7_12345.1764419696123456789.pt.trace.json.gz": (None, None),
            "node7_13071.async_llm.1795957832872904932.pt.trace.json.gz": (None, None),
        },
        writer="torch tensorboard_trace_handler, vLLM",
        pattern=r"_\d+\.(?:async_llm\.)?\d{10,}\.pt\.trace\.json",
    ),
)

_COMPILED = tuple(re.compile(form.pattern, re.IGNORECASE) for form in FORMS)


def rank_of(path: str) -> tuple[int | None, int | None]:
    """(rank, world size) that the file name tells; None for what it does not."""
    name = PurePath(path).name
    for pattern in _COMPILED:
        match = pattern.search(name)
        if match:
            groups = match.groupdict()
            rank, world = groups.get("rank"), groups.get("world")
            return (None if rank is None else int(rank)), (None if world is None else int(world))
    return None, None


_LABEL = re.compile(r"^\[(?P<label>[A-Z]P\d+(?:-[A-Z]P\d+)*)\] (?P<pid>-?\d+)$")
_TP = re.compile(r"TP(\d+)")


def labelled_pid(pid: str) -> tuple[str, int | None, int] | None:
    """(label, rank, process id) of a process in a merged SGLang trace, e.g. `[TP03-DP00] 4242`; None for other texts.

    The rank is the TP index; None with pipeline stages beyond the first.
    """
    match = _LABEL.match(pid)
    if not match:
        return None
    label = match["label"]
    tp = _TP.search(label)
    rank = int(tp[1]) if tp and not re.search(r"PP0*[1-9]", label) else None
    return label, rank, int(match["pid"])
