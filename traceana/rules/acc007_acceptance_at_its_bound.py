"""Every draft is accepted, to the last token: too good to be true.

What it sees:
    The accept length equals k + 1, or accepted equals drafted, in at least three stats lines that stand for more than
    100 drafted tokens, and in a tenth of all lines or more.

Why it matters:
    Real text never agrees with a drafter to the last token for long. Such lines come from a verify that compares
    garbage with garbage: NaN logits, draft ids of -1, or an output that repeats one token. The output may be wrong and
    the throughput figure is not one.

How sure and why:
    Medium: repetitive output at temperature 0 can reach the bound too. A draft of one token is judged only over 1,000
    drafted tokens, because good ones do reach 100 % for a while. High where SGLang itself reports NaN in the logits
    (--enable-nan-detection).

Rivals:
    Output that repeats itself (greedy loops, ignore-eos benchmarks, copied text); a forced acceptance
    (SGLANG_SIMULATE_ACC_LEN); target and draft are the same model.

Confirm:
    Read one reply: repeated tokens or "!!!!" mean broken logits. VLLM_COMPUTE_NANS_IN_LOGITS=1 counts NaN in vLLM,
    --enable-nan-detection reports it in SGLang.

Fix:
    If the output is broken: another attention or GEMM backend, a newer engine; if it repeats: other prompts.

References:
    TensorRT-LLM #5146; flashinfer #2708; sglang #19897; vllm #42603.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._drafts import stats_lines
from traceana.rules._levels import gate
from traceana.rules._text import count, picked
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

MIN_LINES = Threshold("min_lines", 3, "lines", "stats lines at the bound", "TensorRT-LLM #5146", False)
MIN_SHARE = Threshold("min_share", 0.1, "share of lines", "at the bound", "short repetitive replies occur", False)
DRAFTED = Threshold("drafted", 100, "draft tokens", "in the lines at the bound", "TensorRT-LLM #5146", False)
DRAFTED_SINGLE = Threshold("drafted_k1", 1000, "draft tokens", "the same with one draft token", "MTP k = 1", False)

_LOG_INTERVAL = 40  # SGLang's default --decode-log-interval: cycles behind one stats line


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when accept length sits exactly at k + 1 in several lines."""
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    acceptance = facts.acceptance
    if acceptance.n_samples == 0:
        return CannotTell(
            "no accept length is in the log",
            "SGLang: --decode-log-interval 10; vLLM: keep the `SpecDecoding metrics` lines (stats logging on)",
        )
    lines, n = acceptance.exactly_ceiling, stats_lines(facts)
    if lines < MIN_LINES.value or lines / n < MIN_SHARE.value:
        return Clear(f"{lines} of {count(n, 'line')} at the bound")
    k = acceptance.ceiling - 1 if acceptance.ceiling else facts.speculation.k.value
    drafted = _drafted(facts, k)
    if drafted <= (DRAFTED_SINGLE.value if k == 1 else DRAFTED.value):
        return Clear(f"{lines} of {count(n, 'line')} at the bound, with about {drafted:.0f} drafted tokens: too few")
    return _finding(facts, k, drafted)


def _drafted(facts: Facts, k: int | None) -> float:
    """Drafted tokens behind the lines at the bound, estimated from the counters or from the log interval."""
    acceptance = facts.acceptance
    if acceptance.drafted is not None:
        return acceptance.drafted * acceptance.exactly_ceiling / stats_lines(facts)
    interval = facts.settings.value("decode_log_interval")
    return acceptance.exactly_ceiling * (interval if isinstance(interval, int) else _LOG_INTERVAL) * (k or 1)


def _finding(facts: Facts, k: int | None, drafted: float) -> Finding:
    acceptance = facts.acceptance
    bound = f"exactly {k + 1}.00" if k else "at its bound"
    broken = [i.evidence for i in facts.incidents if i.kind == "nan_logits"]
    return Finding(
        code=RULE.code,
        title=f"Accept length is {bound} in {acceptance.exactly_ceiling} of "
        f"{count(stats_lines(facts), 'stats line')}: every draft accepted",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if broken else Confidence.MEDIUM,
        why=f"About {drafted:,.0f} drafted tokens without one rejection. NaN logits or draft ids of -1 look like this; "
        "a drafter does not." + (" The engine reports NaN in the logits." if broken else ""),
        fix=("read a reply; if it is broken, try another attention or GEMM backend or a newer engine",),
        evidence=picked(broken, acceptance.evidence, acceptance.accept_length.evidence),
        confirm="one reply of this server: does it repeat one token? vLLM: VLLM_COMPUTE_NANS_IN_LOGITS=1, SGLang: "
        "--enable-nan-detection",
        rivals=(
            "output that repeats itself (greedy loops, ignore-eos benchmarks, copied text)",
            "a forced acceptance (SGLANG_SIMULATE_ACC_LEN)",
            "draft and target are the same model",
        ),
    )


RULE = Rule(
    code="ACC007",
    name="acceptance-at-its-bound",
    severity=Severity.WARNING,
    check=check,
    thresholds=(MIN_LINES, MIN_SHARE, DRAFTED, DRAFTED_SINGLE),
    asks="whether acceptance sits at its bound",
)
