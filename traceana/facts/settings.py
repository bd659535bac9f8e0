"""Engine arguments, identity, ranks and speculative settings as resolved, from the `settings` and `events` tables."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from traceana.facts.locate import Locator
from traceana.facts.model import (
    Evidence,
    Fact,
    Identity,
    Parallelism,
    Provenance,
    Setting,
    Settings,
    Speculation,
)

if TYPE_CHECKING:
    import polars as pl

_MAX_ROWS = 20_000
_MAX_LITERAL = 4000
_MAX_COUNT = 100_000  # ranks, steps, draft tokens
_MAX_INT = (1 << 63) - 1  # no setting is larger, and no table holds more

#: one name per fact, whatever an engine calls it; the first that is set wins
_NAMES = {
    "model": ("model_path", "model", "model_tag"),
    "quantization": ("quantization",),
    "tp": ("tp_size", "tensor_parallel_size"),
    "pp": ("pp_size", "pipeline_parallel_size"),
    "dp": ("dp_size", "data_parallel_size"),
    "ep": ("ep_size",),
    "method": ("speculative_algorithm", "speculative_config.method"),
    "draft_model": ("speculative_draft_model_path", "speculative_config.model"),
    "num_steps": ("speculative_num_steps",),
    "topk": ("speculative_eagle_topk",),
    "num_draft_tokens": ("speculative_num_draft_tokens",),
    "k": ("speculative_config.num_spec_tokens", "speculative_config.num_speculative_tokens", "num_speculative_tokens"),
    "adaptive": ("speculative_adaptive",),
}
#: drafters that propose only where their look-up finds something
_LOOKUP_METHODS = ("ngram", "suffix", "prompt_lookup")


def parse_value(text: str) -> object:
    """The Python value of a printed literal; None when it is none (an object's repr, cut off, too long)."""
    if len(text) > _MAX_LITERAL:
        return None
    try:
        value = ast.literal_eval(text)
        return None if isinstance(value, int) and abs(value) > _MAX_INT else value
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        # plain words are printed without quotes in some configs: dtype=torch.bfloat16, tokenizer_mode=auto
        return text if text and all(c.isalnum() or c in "._-/" for c in text) else None


def settings(table: pl.DataFrame, where: Locator) -> Settings:
    """All rows of the `settings` table, each once per process and value."""
    kept = table.unique(["name", "value", "origin", "pid", "tp"], keep="first", maintain_order=True).head(_MAX_ROWS)
    return Settings(
        tuple(
            Setting(
                name=row["name"],
                value=row["value"],
                origin=row["origin"],
                parsed=parse_value(row["value"]),
                rank=row["tp"],
                pid=row["pid"],
                evidence=where.at(row, _shown(row["name"], row["value"])),
            )
            for row in kept.iter_rows(named=True)
        )
    )


def _shown(name: str, value: str) -> str:
    """`name=value` as a reader writes it: a text that was printed as a Python literal without its quotes."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return f"{name}={value[:200]}" if value else name


def _fact(found: Settings, key: str, kind: type) -> Fact[Any]:
    """The first setting known under one of the names of `key`, when its value is of `kind`."""
    for name in _NAMES[key]:
        row = found.get(name)
        if row is not None and isinstance(row.parsed, kind) and (kind is not int or _is_count(row.parsed)):
            return Fact(row.parsed, Provenance.MEASURED, _evidence(row))
    return Fact(reason=f"no line of the log says {_NAMES[key][0]}")


def _is_count(value: object) -> bool:
    """Whether a value can be a number of ranks, steps or draft tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MAX_COUNT


def _evidence(row: Setting) -> tuple[Evidence, ...]:
    return (row.evidence,) if row.evidence else ()


def _event(events: pl.DataFrame, kind: str, where: Locator) -> tuple[dict[str, Any], Evidence] | None:
    rows = events.filter(events["kind"] == kind).head(1)
    if not rows.height:
        return None
    row = rows.row(0, named=True)
    return row, where.at(row)


def identity(found: Settings, events: pl.DataFrame, formats: list[str], where: Locator) -> Identity:
    """Engine, version, model. The engine is what most lines of the log are written by."""
    servers = [f for f in formats if f in ("sglang", "vllm", "trtllm", "llamacpp")]
    engine: Fact[str] = (
        Fact(max(set(servers), key=servers.count), Provenance.DERIVED)
        if servers
        else Fact(reason="no line of a known engine was recognised")
    )
    version: Fact[str] = Fact(reason="the log names no engine version")
    named = found.get("version")
    if named is not None:
        version = Fact(named.value.strip("'\""), Provenance.MEASURED, _evidence(named))
    elif (banner := _event(events, "version", where)) is not None:
        version = Fact(banner[0]["subject"], Provenance.MEASURED, (banner[1],))
    nccl: Fact[str] = Fact(reason="no line names the NCCL version")
    if (line := _event(events, "nccl_version", where)) is not None:
        nccl = Fact(line[0]["subject"], Provenance.MEASURED, (line[1],))
    return Identity(
        engine=engine,
        version=version,
        model=_fact(found, "model", str),
        quantization=_fact(found, "quantization", str),
        nccl_version=nccl,
    )


def parallelism(found: Settings, events: pl.DataFrame, decode: pl.DataFrame, where: Locator) -> Parallelism:
    """Ranks by kind, from the arguments; the tensor-parallel size else from the ranks that print (derived)."""
    tp = _fact(found, "tp", int)
    if not tp.known and (world := _event(events, "world", where)) is not None:
        tp = Fact(int(world[0]["value"]), Provenance.DERIVED, (world[1],), "world size of the process group")
    if not tp.known:
        ranks = [s["tp"].max() for s in (events, decode) if s.height and s["tp"].max() is not None]
        highest = max((r for r in ranks if isinstance(r, int)), default=0)
        if highest > 0:
            tp = Fact(highest + 1, Provenance.DERIVED, (), "highest tensor-parallel rank that prints, plus one")
    return Parallelism(tp, _fact(found, "pp", int), _fact(found, "dp", int), _fact(found, "ep", int))


def speculation(
    found: Settings,
    events: pl.DataFrame,
    drafting_lines: bool,
    plain_lines: bool,
    inferred_width: int | None,
    where: Locator,
) -> Speculation:
    """Speculative settings as the engine resolved them.

    Args:
        found: the run's settings.
        events: the `events` table.
        drafting_lines: stats lines with acceptance were seen.
        plain_lines: stats lines without acceptance were seen.
        inferred_width: num_draft_tokens that the printed rates imply, where no line says it.
        where: names files.
    """
    method = _fact(found, "method", str)
    steps, topk, width, k = (_fact(found, key, int) for key in ("num_steps", "topk", "num_draft_tokens", "k"))
    asked: Fact[int] = Fact(reason="the engine did not change it")
    adjusted = _event(events, "draft_tokens_adjusted", where)
    if steps.known and (topk.value == 1 or adjusted) and steps.value is not None:
        forced = steps.value + 1
        if width.known and width.value != forced:
            asked = Fact(width.value, Provenance.MEASURED, width.evidence)
            evidence = (adjusted[1],) if adjusted else width.evidence
            width = Fact(
                forced, Provenance.DERIVED, evidence, "SGLang forces num_draft_tokens = num_steps + 1 at topk 1"
            )
        elif adjusted:
            asked = Fact(None, reason="the log shows the adjusted value only")
    if not width.known and inferred_width is not None:
        width = Fact(inferred_width, Provenance.DERIVED, (), "the only width that fits accept len and accept rate")
    if not k.known and width.known and width.value is not None and topk.value in (None, 1):
        k = Fact(width.value - 1, Provenance.DERIVED, width.evidence, "num_draft_tokens - 1 on a chain")
    active: Fact[bool] = Fact(reason="the log shows neither speculative settings nor acceptance")
    none_set = found.get("speculative_config")
    if drafting_lines:
        active = Fact(True, Provenance.MEASURED)
    elif method.known or k.known:
        active = Fact(True, Provenance.DERIVED, method.evidence or k.evidence)
    elif plain_lines or (none_set is not None and none_set.value == "None"):
        active = Fact(False, Provenance.DERIVED)
    lookup = method.value is not None and method.value.lower() in _LOOKUP_METHODS
    return Speculation(
        active=active,
        method=method,
        draft_model=_fact(found, "draft_model", str),
        num_steps=steps,
        topk=topk,
        num_draft_tokens=width,
        num_draft_tokens_asked=asked,
        k=k,
        adaptive=_adaptive(found, events, where),
        drafts_every_step=not lookup if method.known else None,
    )


def _adaptive(found: Settings, events: pl.DataFrame, where: Locator) -> Fact[bool]:
    line = _event(events, "adaptive_init", where) or _event(events, "adaptive_switch", where)
    if line is not None:
        return Fact(True, Provenance.MEASURED, (line[1],))
    return _fact(found, "adaptive", bool)
