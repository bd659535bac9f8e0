"""With speculation far fewer requests decode at once, while each of them decodes faster.

What it sees:
    Benchmark results with and without speculation at the same load, in both of which requests wait for their first
    token rather than decode. By Little's law throughput x time per token is the number that decodes: with speculation
    less than 0.75 of the number without, at a shorter time per token.

Why it matters:
    The total throughput falls and speculation is blamed, although every request decodes faster. What is short is room:
    the draft model's weights, its KV cache and the slots for drafted tokens leave a smaller KV pool, and some engines
    lower the number of running requests when they speculate.

How sure and why:
    Medium: that fewer decode follows from the benchmark's own figures; why, a benchmark does not say.

Rivals:
    A lower --max-running-requests or --max-num-seqs in the run with speculation (SGLang sets 48 itself); another
    memory fraction; prefill that takes longer (CAP003, CAP001).

Confirm:
    The start-up lines of both servers: the KV cache size in tokens and the limit of running requests, side by side.

Fix:
    More room (a smaller draft model, a larger memory fraction, fewer draft tokens), the limit of running requests set
    by hand, or speculation for latency only.

References:
    vllm #43295 (18 against 8 requests decoding, 17.4 against 9.4 ms per token); sglang #4759; Kimi-K2.6 on 8 GPUs: KV
    pool 13 % smaller with MTP; rule catalogue R25.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.facts.sweep_model import SweepLevel
from traceana.rules._text import ms, num, picked, times
from traceana.rules.interface import (
    Clear,
    Confidence,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

FEWER = Threshold("fewer", 0.75, "requests decoding, with / without", "left at most", "vllm #43295: 8.3 / 18.1", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when requests queue in both runs and fewer decode, each faster, with speculation."""
    found = facts.results
    levels = [level for b in (found.sweep.blocks if found is not None and found.sweep else ()) for level in b.levels]
    if not levels:
        return NotApplicable("no benchmark results with and without speculation are among the inputs")
    fewer = [level for level in levels if level.spec.queueing and level.baseline.queueing and _fewer(level)]
    if not fewer:
        return Clear("as many requests decode with speculation as without, or none wait")
    return _finding(min(fewer, key=_share))


def _share(level: SweepLevel) -> float:
    return (level.spec.decoding or 0.0) / (level.baseline.decoding or 1.0)


def _fewer(level: SweepLevel) -> bool:
    user = level.user_ratio.value if level.user_ratio is not None else None
    known = level.spec.decoding and level.baseline.decoding
    return bool(known and user is not None and user > 1.0 and _share(level) < FEWER.value)


def _finding(level: SweepLevel) -> Finding:
    one, other = level.spec, level.baseline
    user, ratio = level.user_ratio, level.ratio
    faster = times(user.value) if user is not None else "faster"
    total = f", all together {times(ratio.value)}" if ratio is not None else ""
    return Finding(
        code=RULE.code,
        title=f"{num(one.decoding or 0)} requests decode at once with speculation, {num(other.decoding or 0)} without: "
        f"each decodes {faster} as fast{total}",
        severity=Severity.WARNING,
        confidence=Confidence.MEDIUM,
        why=f"Time per token {ms(one.tpot_ms or 0)} with, {ms(other.tpot_ms or 0)} without; the others wait for their "
        f"first token ({_wait(one.ttft_ms)} with, {_wait(other.ttft_ms)} without). Drafting is not what slows the "
        "server: there is room for fewer requests, or a lower limit of running ones.",
        fix=(
            "compare the KV cache size and the limit of running requests in the start-up lines of both",
            "raise --max-running-requests (SGLang) or --max-num-seqs (vLLM); give the KV pool more memory",
        ),
        evidence=picked(one.evidence, other.evidence),
        confirm="the server logs of both runs: KV cache tokens, running and waiting requests",
        rivals=("CAP001 (the pool is full)", "CAP003 (a limit of running requests)", "longer prefill"),
    )


def _wait(value: float | None) -> str:
    return "not known" if value is None else f"{value / 1000:.3g} s"


RULE = Rule(
    code="CAP004",
    name="fewer-requests-decode-with-speculation",
    severity=Severity.WARNING,
    check=check,
    thresholds=(FEWER,),
    asks="whether fewer requests decode at once with speculation",
    needs="any",
)
