"""A schedule of draft tokens by load as the engine's own setting, with what is known to go wrong in that version.

Read in the released sources of both engines (SGLang 0.4.6 to 0.5.23, vLLM 0.6.6 to 0.33.0): a release named here is the
first of those read that behaves so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from traceana.facts.sweep_model import LoadSpan
from traceana.speculation.common import version_order


@dataclass(frozen=True, slots=True)
class Setting:
    """`text` to paste, `where` it goes, `caveats`; without text the caveats say why there is none."""

    text: str | None
    where: str | None
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Caveat:
    """Words that hold from release `since` on and before release `before`; `off`: only where a span has no drafts."""

    words: str
    since: str | None = None
    before: str | None = None
    off: bool = False


_SGLANG = (
    _Caveat("needs SGLang 0.5.14 or later (0.5.13 has no step 0)", since="unknown"),
    _Caveat("a batch counts as the next larger captured CUDA graph size: just below a limit it may fall above it"),
    _Caveat("CUDA graphs are captured once per number of steps: more memory, a longer start"),
    _Caveat("ignored with attention DP, multi-layer EAGLE, two-batch overlap or pdmux"),
    _Caveat(
        "at step 0 the drafter still catches up unless SGLANG_SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND=1: measure it again",
        off=True,
    ),
)
_VLLM = (
    _Caveat("needs vLLM 0.24 or later", since="unknown"),
    _Caveat("the V2 model runner does not read it: set VLLM_USE_V2_MODEL_RUNNER=0", before="0.32"),
    _Caveat("full CUDA graphs become piecewise ones, so that every cycle may cost more", before="0.25"),
    _Caveat("on the V1 model runner full CUDA graphs become piecewise ones, so that every cycle may cost more", "0.25"),
    _Caveat("not with --data-parallel-size above 1: ranks may choose differently and hang", before="0.26"),
    _Caveat("ignored with --data-parallel-size above 1", since="0.26"),
    _Caveat("throughput was seen to collapse where it switches to 0 (vllm #49548): measure that load again", off=True),
    _Caveat("loads above the last entry keep its number; the drafter's memory is not given back where it is off"),
)


def setting(
    engine: str | None, version: str | None, method: str | None, tree: bool, spans: Sequence[LoadSpan]
) -> Setting:
    """The schedule for an engine, or why there is none; `version` None: for releases that have such a setting.

    `tree`: the drafts were a tree (topk above 1), which no schedule of either engine allows.
    """
    if any(span.k is None for span in spans):
        return _none("how many tokens were drafted is not known from these inputs (a server log beside them tells)")
    if engine == "sglang":
        return _sglang(version, method, tree, spans)
    if engine == "vllm":
        return _vllm(version, spans)
    named = "the engine is not known from these inputs (a server log beside them tells)"
    if engine is not None:
        named = f"no schedule by load is known for {engine}"
    return _none(f"{named}: set the number of draft tokens for your usual load, or run one server with and one without")


def _none(why: str) -> Setting:
    return Setting(None, None, (why,))


def _caveats(rows: Sequence[_Caveat], version: str | None, off: bool) -> tuple[str, ...]:
    """The words that hold in a version; without one all of them, with the releases they hold for."""
    out = []
    for row in rows:
        if row.off and not off:
            continue
        if version is None:
            limit = f" (before {row.before})" if row.before else ""
            start = f" (from {row.since})" if row.since and row.since != "unknown" else ""
            out.append(row.words + limit + start)
        elif (
            row.since != "unknown"
            and not _before(version, row.since)
            and (not row.before or _before(version, row.before))
        ):
            out.append(row.words)
    return tuple(out)


def _before(version: str | None, limit: str | None) -> bool:
    order, least = version_order(version), version_order(limit)
    return order is not None and least is not None and order < least


def _sglang(version: str | None, method: str | None, tree: bool, spans: Sequence[LoadSpan]) -> Setting:
    off = any(span.k == 0 for span in spans)
    if tree:
        return _none("SGLang's adaptive drafting needs --speculative-eagle-topk 1: measure a chain first")
    if method is not None and method.upper() not in ("EAGLE", "EAGLE3", "NEXTN"):
        return _none(f"SGLang's adaptive drafting takes EAGLE and EAGLE3 only, not {method}")
    if _before(version, "0.5.11"):
        return _none(f"SGLang {version} has no drafting by batch size (0.5.14 has)")
    if _before(version, "0.5.13"):
        return _none(f"SGLang {version} adapts to acceptance, not to the batch size (0.5.14 does both)")
    if off and _before(version, "0.5.14"):
        return _none(f"SGLang {version} refuses 0 steps: it cannot switch off by load (0.5.14 can)")
    slots = {str(span.first): {"candidate_steps": [span.k]} for span in spans}
    where = "--speculative-adaptive --speculative-adaptive-config FILE, the file holding"
    return Setting(json.dumps(slots), where, _caveats(_SGLANG, version, off))


def _vllm(version: str | None, spans: Sequence[LoadSpan]) -> Setting:
    off = any(span.k == 0 for span in spans)
    where = "in the JSON of --speculative-config"
    if _before(version, "0.10"):
        if len(spans) == 2 and spans[0].k and not spans[1].k:
            text = f'"disable_by_batch_size": {max(spans[1].first, 2)}'
            return Setting(text, where, ("only the V0 engine reads it (VLLM_USE_V1=0)",))
        return _none(f"vLLM {version} can only switch off above one load (V0 engine, disable_by_batch_size)")
    if _before(version, "0.24"):
        return _none(
            f"no engine of vLLM {version} reads a schedule by batch size (0.24 does): set the number of draft tokens "
            "for your usual load, or run one server with and one without"
        )
    table = [[span.first, span.last, span.k] for span in spans]
    most = max(span.k or 0 for span in spans)
    text = f'"num_speculative_tokens": {most}, "num_speculative_tokens_per_batch_size": {json.dumps(table)}'
    return Setting(text, where, _caveats(_VLLM, version, off))
