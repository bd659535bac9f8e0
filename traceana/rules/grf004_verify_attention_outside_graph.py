"""The verify's attention runs outside the CUDA graph.

What it sees:
    vLLM's line "CUDAGraphMode... is not supported with spec-decode for attention backend ...; setting
    cudagraph_mode=PIECEWISE" (or NONE), or that mode in the engine's own configuration, in a run that speculates.

Why it matters:
    A piecewise graph ends before each attention and begins again behind it: one launch per stretch of layers, and the
    attention with its cache update from Python, in every layer of every verify. A step without speculation may still
    replay one full graph, so drafting is compared with a cheaper step than it gets.

How sure and why:
    That the mode is in effect is certain, what it costs is not: one published pair with the mode as the only
    difference ran at the same speed, another gained a factor of four at long context with a backend that has such
    graphs. Medium when this run's cycle grows with the context or speculation loses against the baseline; else low.

Rivals:
    The attention kernel itself: the same backends that have no graph for a verify often run it as a prefill.

Confirm:
    The same load with another attention backend (--attention-backend), or with and without
    --compilation-config '{"cudagraph_mode": "PIECEWISE"}' where the full mode works.

Fix:
    An attention backend whose graphs take several tokens per request (support UNIFORM_BATCH or ALWAYS), for example
    FLASH_ATTN; check first that it supports this KV cache type (fp8 often selects FlashInfer). A newer vLLM (PR #53410
    for MLA). Cudagraph mode FULL_AND_PIECEWISE where PIECEWISE was asked for.

References:
    vllm PR #53410; vllm v1/worker/gpu_model_runner.py and config/compilation.py (0.11 and newer); rtx6kpro Kimi-K2.6
    (25 -> 107 tok/s at 30k context); club-3090 internals; rule catalogue R02.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._levels import NO_WINDOWS, context_moves_cycle, drafting, gate, loss
from traceana.rules._text import ms, picked
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, Outcome, Rule, Severity

_MEANING = {
    "PIECEWISE": "each attention and its cache update is launched on its own, between pieces of graph",
    "NONE": "every kernel of the verify is launched on its own",
}


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when vLLM's graph mode leaves the verify's attention outside and the run speculates."""
    stopped = gate(facts)
    if stopped is not None and stopped is not NO_WINDOWS:
        return stopped
    if not drafting(facts):
        return Clear("no speculation seen")
    mode = facts.graphs.without_attention
    if mode.value is not None:
        return _finding(facts, baseline, mode.value)
    if mode.reason is not None and mode.reason.startswith("cudagraph_mode is"):
        return Clear(mode.reason)
    if facts.startup.ready.known and facts.graphs.captured_max.known:
        return Clear("no line lowers cudagraph_mode between start and ready")
    return CannotTell(
        "the start-up lines that name cudagraph_mode are not in the log", "keep the log from the server's first line on"
    )


def _finding(facts: Facts, baseline: Facts | None, mode: str) -> Finding:
    by_context, lost = context_moves_cycle(facts), loss(facts, baseline)
    why = f"cudagraph_mode={mode}: {_MEANING[mode]}. "
    if by_context is not None:
        why += f"The cycle grows from {ms(by_context[0])} to {ms(by_context[1])} with the context at constant load. "
    why += (
        "Published effects reach from none at short context to a factor of four at 30,000 tokens, so how much it costs "
        "here is not known."
    )
    return Finding(
        code=RULE.code,
        title=f"The verify's attention runs outside the CUDA graph (cudagraph_mode={mode})",
        severity=Severity.WARNING if by_context is not None or lost is not None else Severity.INFO,
        confidence=Confidence.MEDIUM if by_context is not None or lost is not None else Confidence.LOW,
        why=why,
        fix=(
            "an attention backend whose graphs take several tokens per request (support UNIFORM_BATCH or ALWAYS), for "
            "example --attention-backend FLASH_ATTN, if it supports the KV cache type",
            "a newer vLLM: backends gained such graphs release by release (MLA: PR #53410)",
        ),
        evidence=picked(facts.graphs.without_attention.evidence),
        confirm="the same load with another --attention-backend: does the cycle fall at the same accept length?",
        rivals=("the attention kernel itself: without such a graph a backend often runs the verify as a prefill",),
    )


RULE = Rule(
    code="GRF004",
    name="verify-attention-outside-graph",
    severity=Severity.WARNING,
    check=check,
    engines=("vllm",),
    asks="whether the verify's attention is part of the CUDA graph",
)
