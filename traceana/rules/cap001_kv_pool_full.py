"""The KV pool is full: requests wait, or are thrown out and computed again.

What it sees:
    Token usage of 0.95 or more in several windows while requests queue, or together with retractions (SGLang) or
    preemptions (vLLM). With a baseline without speculation also how much larger its pool was.

Why it matters:
    A full pool caps the batch below what the server could run. A retracted request loses its KV and is prefilled again.
    Speculation needs KV of its own: the draft's pool, and k + 1 slots per request in each verify.

How sure and why:
    High: the engine prints the usage. Whether the pool is small or the load large is a judgement.

Rivals:
    CAP003 when requests queue although the pool has room; --max-total-tokens set by hand; few requests with very long
    contexts.

Confirm:
    The start-up line with the pool's size (`max_total_num_tokens`, `GPU KV cache size`) against context x requests.

Fix:
    Fewer running requests or shorter contexts; more memory for KV (--mem-fraction-static, --gpu-memory-utilization);
    KV cache in fp8; a smaller CUDA graph ladder.

References:
    sglang #26248, #14972, #19881, #14948, #6731, #26399; vllm #43295.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._levels import NO_WINDOWS, drafting, plain
from traceana.rules._text import count, pct, picked
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

FULL = Threshold("full", 0.95, "share of the KV pool", "a window counts as full (facts)", "sglang #26248", True)
MIN_WINDOWS = Threshold("min_windows", 3, "windows", "full windows needed without a retraction", "sglang #26248", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the KV pool is full while requests queue, or when it threw requests out."""
    capacity = facts.capacity
    evicted = bool(capacity.retractions) or bool(capacity.preemptions)
    if capacity.windows_full == 0:
        return _not_full(facts, evicted)
    if not evicted and (capacity.windows_full < MIN_WINDOWS.value or capacity.windows_queued == 0):
        return Clear(f"KV pool full in {count(capacity.windows_full, 'window')}, and nothing waited for it")
    return _finding(facts, baseline)


def _not_full(facts: Facts, evicted: bool) -> Outcome:
    if evicted:
        return Clear("requests were thrown out, but no window shows a full pool: see CAP002")
    if facts.windows.n == 0:
        return NO_WINDOWS
    usage = facts.capacity.usage_max.value
    if usage is None:
        return CannotTell(
            "the stats lines do not show the KV pool's usage",
            "keep them whole in the log (SGLang `token usage`, vLLM `KV cache usage`)",
        )
    return Clear(f"KV pool at most {pct(usage)} full")


def _share(facts: Facts, baseline: Facts | None) -> str:
    """What speculation takes of the pool: measured against a baseline without it, else in words."""
    if not drafting(facts):
        return ""
    mine = facts.capacity.kv_tokens.value
    other = baseline.capacity.kv_tokens.value if baseline is not None and plain(baseline) else None
    if mine is None or other is None or other <= mine:
        return " Speculation takes a share of the pool: the draft's KV and k + 1 slots per request."
    return (
        f" Without speculation the pool had {other:,} tokens (baseline), {pct(1 - mine / other)} of which the draft's "
        "weights, KV and graphs take, if both runs were given the same memory."
    )


def _finding(facts: Facts, baseline: Facts | None) -> Finding:
    capacity = facts.capacity
    windows = f"{capacity.windows_full} of {count(capacity.windows, 'window')}"
    effects = [
        f"requests queued in {count(capacity.windows_queued, 'window')}" if capacity.windows_queued else "",
        count(len(capacity.retractions), "retraction") if capacity.retractions else "",
        count(capacity.preemptions, "preemption") if capacity.preemptions else "",
    ]
    usage = capacity.usage_max.value
    pool = f" of {capacity.kv_tokens.value:,} tokens" if capacity.kv_tokens.value is not None else ""
    top = f" (up to {pct(usage)})" if usage is not None else ""
    return Finding(
        code=RULE.code,
        title=f"The KV pool{pool} is {pct(FULL.value)} full or more in {windows}{top}: "
        + ", ".join(effect for effect in effects if effect),
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        why="New requests wait until running ones end"
        + (", and retracted ones are prefilled again." if capacity.retractions or capacity.preemptions else ".")
        + _share(facts, baseline),
        fix=_fix(facts),
        evidence=picked(
            capacity.full_evidence, (r.evidence for r in capacity.retractions), capacity.usage_max.evidence
        ),
        confirm="the pool's size at start-up against context length x running requests",
        rivals=("CAP003", "a pool limited by hand (--max-total-tokens)", "few requests with very long contexts"),
    )


def _fix(facts: Facts) -> tuple[str, ...]:
    if facts.identity.engine.value == "vllm":
        return ("lower --max-num-seqs or --max-model-len", "raise --gpu-memory-utilization", "--kv-cache-dtype fp8")
    return (
        "lower --max-running-requests or --context-length",
        "raise --mem-fraction-static",
        "--kv-cache-dtype fp8_e4m3",
    )


RULE = Rule(
    code="CAP001",
    name="kv-pool-full",
    severity=Severity.WARNING,
    check=check,
    thresholds=(FULL, MIN_WINDOWS),
    asks="whether the KV pool is full",
)
