"""May two runs be compared at all, and what differs between them: a table of differences with where each comes from.

Only what both inputs say can differ; what one of them does not say is listed as unknown, never taken to be the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from traceana.facts.compare_found import Found, Raw, shortened
from traceana.facts.conditions import SAME_TOKENS, Conditions, LoadConditions
from traceana.facts.model import Fact, Facts, Speculation
from traceana.facts.settings_effects import Effect, effect_of

_ENVIRONMENT = ("nccl_env", "unknown_env", "launch_env")


def compare_conditions(
    before: tuple[Facts, Conditions],
    after: tuple[Facts, Conditions],
    alike: Sequence[tuple[LoadConditions, LoadConditions]],
) -> Found:
    """All differences of two runs. `alike` pairs the benchmark points of the loads that both have."""
    found = Found()
    _identity(found, before[0], after[0])
    _speculation(found, before[0], after[0])
    _benchmarks(found, alike)
    _settings(found, before[0], after[0])
    _paths(found, before[0], after[0])
    return found


def _effect(kind: str, rank: int, acts_on: Iterable[str], why: str, unfair: bool = False) -> Effect:
    return Effect(kind=kind, rank=rank, acts_on=tuple(acts_on), why=why, unfair=unfair)


_ALL = ("acceptance", "cycle", "batch")
_MODEL = _effect("model", 1, _ALL, "another model is another amount of work per forward", True)
_QUANTIZATION = _effect("model", 5, ("cycle", "acceptance"), "another precision is another amount of work", True)
_ENGINE = _effect("engine", 4, _ALL, "another engine: its figures may be defined differently")
_VERSION = _effect("engine", 9, _ALL, "between releases acceptance and cycle have both become worse and better")
_NCCL = _effect("communication", 21, ("cycle",), "another NCCL picks other protocols and graphs")
_RANKS = _effect("engine", 8, ("cycle", "batch"), "another split of the work over GPUs", True)
_SPECULATES = replace(_effect("speculation", 6, _ALL, "one side drafts, the other does not"), deliberate=True)
_METHOD = effect_of("speculative_algorithm")
_DRAFT_MODEL = effect_of("draft_model")
_DRAFTS = effect_of("num_speculative_tokens")
_PROMPTS = _effect("prompts", 2, ("acceptance", "cycle"), "other prompts are accepted differently", True)
_ORDER = _effect("prompts", 23, ("acceptance", "cycle"), "prompts of other lengths, or in another order")
_LENGTHS = _effect(
    "lengths", 3, _ALL, "other lengths are other work: prefill, context and acceptance all depend on them", True
)
_SAMPLING = _effect("sampling", 3, ("acceptance",), "drafts are accepted less often at a higher temperature", True)
_RATE = _effect("load", 7, ("batch",), "requests arrive differently, so other numbers of them run together")
_TEXTS = _effect("prompts", 24, ("acceptance",), "the generated texts differ: other prompts, sampling, or numerics")
_FAILED = _effect("load", 7, _ALL, "failed requests leave the others more room")
_GRAPH = replace(effect_of("disable_cuda_graph"), rank=13)
_POOL = _effect("memory", 40, ("batch",), "the size of the KV pool: matters when it fills")
_RETRACTED = _effect("memory", 27, ("batch", "cycle"), "a full KV pool throws requests out, which are computed again")
_STALLED = _effect("kernels", 29, ("cycle",), "kernels were compiled while requests waited")
_STATED = _effect("communication", 19, ("cycle",), "which code runs the allreduces, as the ranks say")


def _identity(found: Found, before: Facts, after: Facts) -> None:
    rows: tuple[tuple[str, Callable[[Facts], object], Effect], ...] = (
        ("engine", lambda f: f.identity.engine.value, _ENGINE),
        ("engine version", lambda f: f.identity.version.value, _VERSION),
        ("model", lambda f: _last(f.identity.model.value), _MODEL),
        ("quantization", lambda f: f.identity.quantization.value, _QUANTIZATION),
        ("NCCL version", lambda f: f.identity.nccl_version.value, _NCCL),
        ("tensor-parallel size", lambda f: f.parallelism.tp.value, _RANKS),
        ("pipeline-parallel size", lambda f: f.parallelism.pp.value, _RANKS),
        ("data-parallel size", lambda f: f.parallelism.dp.value, _RANKS),
    )
    for what, get, effect in rows:
        one, other = get(before), get(after)
        if one is None and other is None and what not in ("model", "engine version"):
            continue
        found.look(what, one, other, effect)


def _last(path: str | None) -> str | None:
    """A model's name without the folder it lies in."""
    return path.rstrip("/").rsplit("/", 1)[-1] if path else None


def _speculation(found: Found, before: Facts, after: Facts) -> None:
    one, other = before.speculation, after.speculation
    if one.active.value != other.active.value and None not in (one.active.value, other.active.value):
        found.raw.append(Raw("speculation", spec_words(before), spec_words(after), _SPECULATES))
        return
    if not one.active.value and not other.active.value:
        return
    found.look("speculative method", one.method.value, other.method.value, _METHOD)
    found.look("draft model", _last(one.draft_model.value), _last(other.draft_model.value), _DRAFT_MODEL)
    rows: tuple[tuple[str, Callable[[Speculation], Fact[int]]], ...] = (
        ("drafts per cycle", lambda f: f.k),
        ("draft steps", lambda f: f.num_steps),
        ("topk", lambda f: f.topk),
        ("draft tokens per verify", lambda f: f.num_draft_tokens),
    )
    for what, get in rows:
        if get(one).known or get(other).known:
            found.look(what, get(one).value, get(other).value, _DRAFTS)


def spec_words(facts: Facts) -> str:
    """How a run speculates, in a few words."""
    spec = facts.speculation
    if spec.active.value is None:
        return "not known"
    if not spec.active.value:
        return "no speculation"
    k = "" if spec.k.value is None else f" k={spec.k.value}"
    width = "" if k or spec.num_draft_tokens.value is None else f" {spec.num_draft_tokens.value} draft tokens"
    return f"{spec.method.value or 'speculation'}{k}{width}"


def _benchmarks(found: Found, alike: Sequence[tuple[LoadConditions, LoadConditions]]) -> None:
    """Conditions of the benchmark points both sides have; the worst of all loads counts."""
    if not alike:
        found.unknown.append("prompts, output lengths and temperature (no benchmark result of both sides says them)")
        return
    rows: tuple[tuple[str, Callable[[LoadConditions], object], Effect], ...] = (
        ("dataset", lambda c: c.dataset, _PROMPTS),
        ("prompt lengths", lambda c: c.prompt_lengths, _ORDER),
        ("prompt tokens", lambda c: _per_request(c.input_tokens, c.requests), _PROMPTS),
        ("output tokens per request", lambda c: _per_request(c.output_tokens, c.requests), _LENGTHS),
        ("output length asked for", lambda c: c.output_length, _LENGTHS),
        ("context length", lambda c: c.context_tokens, _LENGTHS),
        ("temperature", lambda c: c.temperature, _SAMPLING),
        ("arrival rate", lambda c: c.request_rate, _RATE),
        ("failed requests", lambda c: c.failed, _FAILED),
        ("generated texts", lambda c: c.texts, _TEXTS),
        ("label", lambda c: c.label, _PROMPTS),
    )
    same_number = [(a, b) for a, b in alike if a.requests == b.requests]  # others cannot have the same prompts
    for what, get, effect in rows:
        looked_at = same_number if effect in (_ORDER, _TEXTS) else alike
        _worst(found, what, [(get(a), get(b)) for a, b in looked_at], effect)
    names = sorted({name for pair in alike for c in pair for name, _ in c.arguments})
    for name in names:
        pairs = [(dict(a.arguments).get(name), dict(b.arguments).get(name)) for a, b in alike]
        _worst(found, f"client's {name}", pairs, effect_of(name) if name == "seed" else _LENGTHS)


def _worst(found: Found, what: str, pairs: Sequence[tuple[object, object]], effect: Effect) -> None:
    """The first pair that differs stands for all; one that is known and the same makes the same."""
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    different = [(a, b) for a, b in known if not _alike(a, b)]
    if different:
        one, other = different[0]
        if what in ("prompt lengths", "generated texts"):
            one, other = "as in this run", "others"
        found.look(what, one, other, effect)
    elif known:
        found.same.append(what)
    elif pairs and what in ("dataset", "temperature", "output tokens per request", "prompt tokens"):
        found.look(what, *pairs[0], effect)


def _alike(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= SAME_TOKENS * max(abs(one), abs(other))
    return one == other


def _per_request(tokens: int | None, requests: int | None) -> float | None:
    """Tokens per request; totals of runs with other numbers of requests are comparable so."""
    return None if tokens is None or not requests else round(tokens / requests, 1)


def _settings(found: Found, before: Facts, after: Facts) -> None:
    """Engine arguments and environment variables, each name once; parents of settings that are listed are left out."""
    one, other = _by_name(before), _by_name(after)
    _say_missing(found, before, after)
    known = found.raw and any(raw.effect is _SPECULATES for raw in found.raw)
    versions = {before.identity.version.value, after.identity.version.value}
    releases = len(versions) == 2 and None not in versions
    untold: list[str] = []
    for name in sorted(set(one) | set(other)):
        if one.get(name) == other.get(name) or (known and name.startswith("speculative")):
            continue
        if not _both_tell(name, before, after):
            continue
        effect = effect_of(name)
        if effect.harmless or _same_file(one.get(name), other.get(name)):
            found.harmless += 1
            continue
        if name in _FACTS:
            continue
        if releases and not _is_told(name, before, after, one.get(name), other.get(name)):
            untold.append(name)
            continue
        values = [shortened(side.get(name, "not set")) for side in (one, other)]
        found.raw.append(Raw(name, values[0], values[1], effect, setting=True))
    if untold:
        more = f" and {len(untold) - 1:,} more" if len(untold) > 1 else ""
        found.unknown.append(f"what only one of the two releases prints ({untold[0]}{more})")
    if one and other:
        found.same.append(f"{sum(1 for name in one if one[name] == other.get(name)):,} settings")


#: arguments that `_identity` and `_speculation` compare as facts
_AS_FACTS = (
    "model model_path model_tag quantization tp_size tensor_parallel_size pp_size pipeline_parallel_size dp_size "
    "data_parallel_size speculative_algorithm speculative_draft_model_path speculative_num_steps "
    "speculative_eagle_topk speculative_num_draft_tokens speculative_config.method speculative_config.model "
    "speculative_config.num_spec_tokens speculative_config.num_speculative_tokens"
)
_FACTS = frozenset(_AS_FACTS.split())


def _by_name(facts: Facts) -> dict[str, str]:
    """Name -> printed values of all ranks, joined; settings whose parts are listed themselves are left out."""
    values: dict[str, dict[str, None]] = {}
    for row in facts.settings.rows:
        if row.origin == "engine_message":
            continue
        name = row.name if row.origin in _ENVIRONMENT else row.name.replace("-", "_")
        values.setdefault(name, {})[row.value.strip("'\"")] = None
    parents = {name.rpartition(".")[0] for name in values if "." in name}
    return {name: " | ".join(found) for name, found in values.items() if name not in parents}


def _both_tell(name: str, before: Facts, after: Facts) -> bool:
    """Whether a name that one side lacks was not set there, and not merely not printed."""
    if name.startswith("NCCL_"):
        return bool(before.nccl.processes) == bool(after.nccl.processes)
    return bool(before.settings.rows) and bool(after.settings.rows)


def _is_told(name: str, before: Facts, after: Facts, one: str | None, other: str | None) -> bool:
    """Whether two releases differ in a setting, and not merely in what their dumps of all settings print."""
    if one is not None and other is not None:
        here, there = _literal(one), _literal(other)
        if not (isinstance(here, dict) and isinstance(there, dict)):
            return True
        return any(here[key] != there[key] for key in here.keys() & there.keys())
    has = before if one is not None else after
    return not any(row.name.replace("-", "_") == name and row.origin in _DUMPS for row in has.settings.rows)


#: origins that list every setting of a release, defaults among them
_DUMPS = ("server_args", "engine_config")


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _say_missing(found: Found, before: Facts, after: Facts) -> None:
    if not before.settings.rows or not after.settings.rows:
        found.unknown.append("engine arguments (no server log with them is among the inputs of both sides)")
    if not before.nccl.processes or not after.nccl.processes:
        found.unknown.append("NCCL's variables (they are seen in NCCL's own lines only: NCCL_DEBUG=INFO)")


def _same_file(one: str | None, other: str | None) -> bool:
    """Whether two paths end in the same name: moved, not changed."""
    return bool(one and other and "/" in one and "/" in other and _last(one) == _last(other))


def _paths(found: Found, before: Facts, after: Facts) -> None:
    """What ranks say about their collectives, and how many forwards replayed a CUDA graph."""
    kinds = {s.kind for f in (before, after) for s in f.collectives}
    for kind in sorted(kinds):
        states = [sorted({s.state for s in f.statements(kind) if s.state != "info"}) for f in (before, after)]
        if states[0] and states[1]:
            found.look(kind.replace("_", " "), ", ".join(states[0]), ", ".join(states[1]), _STATED)
    for what, get, effect in _COUNTED:
        one, other = get(before), get(after)
        if one != other and None not in (one, other):
            found.raw.append(Raw(what, f"{one:,}", f"{other:,}", effect))
    shares = [_graph_share(f) for f in (before, after)]
    if None not in shares and abs((shares[0] or 0.0) - (shares[1] or 0.0)) > SAME_TOKENS:
        words = [f"{100.0 * share:.0f} % of windows" for share in shares if share is not None]
        found.raw.append(Raw("forwards in a CUDA graph", words[0], words[1], _GRAPH))


#: what the facts count: told where both sides have it and it differs
_COUNTED: tuple[tuple[str, Callable[[Facts], int | None], Effect], ...] = (
    ("KV pool tokens", lambda f: f.capacity.kv_tokens.value, _POOL),
    ("retractions", lambda f: len(f.capacity.retractions), _RETRACTED),
    ("compilation stalls", lambda f: f.stability.jit_stalls, _STALLED),
)


def _graph_share(facts: Facts) -> float | None:
    total = facts.graphs.windows_graph + facts.graphs.windows_eager
    return facts.graphs.windows_graph / total if total else None
