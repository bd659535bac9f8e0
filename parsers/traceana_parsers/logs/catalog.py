"""All line grammars, by anchor. To add an engine: a module with `GRAMMARS` and a name in `_MODULES`."""

from __future__ import annotations

from functools import cache

from traceana_parsers.logs import common, nccl, profile, sglang, vllm
from traceana_parsers.logs.grammar import Grammar

_MODULES = (sglang, vllm, common, nccl, profile)


@cache
def grammars() -> dict[str, Grammar]:
    """Anchor -> grammar. Raises ValueError when two grammars share an anchor, which would hide one of them."""
    found: dict[str, Grammar] = {}
    for module in _MODULES:
        for grammar in module.GRAMMARS:
            if grammar.anchor in found:
                raise ValueError(f"{grammar.name} and {found[grammar.anchor].name} share the anchor {grammar.anchor!r}")
            found[grammar.anchor] = grammar
    return found
