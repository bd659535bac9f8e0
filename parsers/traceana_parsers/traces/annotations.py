"""What the names of profiler ranges around an engine's steps say; the forms are in annotation_forms.py.

A verify is a step that computes more generation tokens than it has generation requests. Ranges nest (a `forward` lies
in an `execute_context_...`): who reads roles takes the outermost range of a kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from traceana_parsers.traces.annotation_forms import FORMS, Form

if TYPE_CHECKING:
    import polars as pl

#: cycle: a whole round of the running batch; step: one forward whose kind the name does not tell apart from a decode
ROLES = ("cycle", "step", "draft", "verify", "re_extend", "prefill", "sample", "capture", "other")


@dataclass(frozen=True, slots=True)
class Annotation:
    """What a range name says. Counts are None where the name does not carry them; `batch` counts requests."""

    role: str
    raw: str  # the name as recorded
    label: str  # the name without its numbers, for grouping
    engine: str | None = None  # sglang, vllm, trtllm, traceana, torch or nccl
    context_requests: int | None = None
    context_tokens: int | None = None
    generation_requests: int | None = None
    generation_tokens: int | None = None
    batch: int | None = None


_COUNTERS = re.compile(r",\s+(?:op_id|seq|sizes|input_op_ids)\s*=.*$", re.DOTALL)
_DOMAIN = re.compile(r"^(?:traceana)?:(?!:)")
_COMPILED = tuple((form, re.compile(form.pattern)) for form in FORMS)


def cut(name: str) -> str:
    """The name without the counters that torch appends (`aten::to, op_id = 990347` -> `aten::to`), for grouping."""
    return _COUNTERS.sub("", name)


@lru_cache(maxsize=65536)
def parse(name: str) -> Annotation | None:
    """What the range name says, or None when it is of no known form."""
    bare = _DOMAIN.sub("", name)
    for form, pattern in _COMPILED:
        match = pattern.fullmatch(bare)
        if match:
            return _build(form, match, name)
    return None


def _build(form: Form, match: re.Match[str], name: str) -> Annotation:
    got = {key: int(value) for key, value in match.groupdict().items() if value is not None}
    context, generation = got.get("cr"), got.get("gr")
    if "running" in got:
        batch: int | None = got["cr"] + got["running"]
        role = "other" if batch == 0 else "prefill" if got["running"] == 0 else "step"
    else:
        both = (context or 0) + (generation or 0)
        batch = got.get("b", both if context is not None or generation is not None else None)
        role = form.role or _role(batch, generation, got.get("gt"))
    return Annotation(
        role=role,
        raw=name,
        label=form.label or cut(match[0]),
        engine=form.engine,
        context_requests=context,
        context_tokens=got.get("ct"),
        generation_requests=generation,
        generation_tokens=got.get("gt"),
        batch=batch,
    )


def _role(batch: int | None, generation: int | None, tokens: int | None) -> str:
    if not batch:
        return "other"
    if not generation:
        return "prefill"
    return "verify" if tokens is not None and tokens > generation else "step"


def annotate(names: pl.Series) -> pl.DataFrame:
    """`parse` for a column: `name`, `role`, `label`, `engine` and the counts, one row per name; nulls where unknown."""
    import polars as pl

    fields = ("role", "label", "engine")
    counts = ("context_requests", "context_tokens", "generation_requests", "generation_tokens", "batch")
    found = [None if name is None else parse(name) for name in names.to_list()]
    return pl.DataFrame(
        {"name": names.to_list()}
        | {field: [None if a is None else getattr(a, field) for a in found] for field in (*fields, *counts)},
        schema={"name": pl.String} | dict.fromkeys(fields, pl.String) | dict.fromkeys(counts, pl.Int64),
    )
