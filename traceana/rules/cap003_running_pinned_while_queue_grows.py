"""The number of running requests is pinned while others queue.

What it sees:
    The same running count in window after window while requests wait, with room in the KV pool. Prefill batches of a
    few requests between decode lines (drip-feed) are the same thing seen from the queue.

Why it matters:
    Requests wait at a cap that nobody may have set: SGLang limits a speculating server to 48 running requests (32 in
    0.4.4) unless --max-running-requests is given. Each request that ends lets one prefill in, which interrupts the
    decode of all others.

How sure and why:
    High when the pinned count is the cap that the log prints; medium when the cap is not printed or only one window and
    a drip of prefills show it; low when the KV pool is nearly full and may be the reason.

Rivals:
    CAP001 (the pool is full, not the cap); a benchmark that sends everything at once, where a queue is meant; an
    admission off by one (the count sits at cap - 1).

Confirm:
    The start-up line `max_running_requests=` (SGLang) or the --max-num-seqs setting (vLLM).

Fix:
    Set --max-running-requests (--max-num-seqs) to the load, with KV and CUDA graph sizes to match.

References:
    sglang #4759, #30294, #38118, #34290; vllm #43295.
"""

from __future__ import annotations

from traceana.facts.model import Facts
from traceana.rules._levels import NO_WINDOWS, drafting
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

MIN_WINDOWS = Threshold("min_windows", 3, "windows", "at the same running count with a queue", "vllm #43295", False)
DRIP = Threshold("drip", 3, "prefill batches", "of few requests while many queue", "sglang #4759: seven", False)
NEARLY_FULL = Threshold(
    "nearly_full", 0.9, "share of the KV pool", "the pool may be the reason", "sglang #14972", False
)
FULL = Threshold("full", 0.95, "share of the KV pool", "the pool is the reason: CAP001", "sglang #26248", True)

#: what SGLang sets when speculation is on and --max-running-requests is not given
OWN_CAPS = (48, 32)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when running stays at one count while requests queue and the KV pool has room."""
    capacity = facts.capacity
    pinned = capacity.pinned_running
    if facts.windows.n == 0 and pinned is None:
        return NO_WINDOWS
    if pinned is None or capacity.pinned_windows == 0:
        return Clear(f"requests queued in {count(capacity.windows_queued, 'window')}, running not pinned")
    if capacity.pinned_windows < MIN_WINDOWS.value and capacity.drip_prefills < DRIP.value:
        return Clear(f"{pinned} running with a queue in {count(capacity.pinned_windows, 'window')} only")
    cap = _cap(facts)
    return _elsewhere(facts, pinned, cap) or _finding(facts, pinned, cap)


def _elsewhere(facts: Facts, pinned: int, cap: int | None) -> Clear | CannotTell | None:
    """What else holds the count, or None when a cap is left as the cause."""
    usage = facts.capacity.usage_max.value
    if usage is not None and usage >= FULL.value and not _at(pinned, cap):
        return Clear(f"{pinned} running with a queue, because the KV pool is full: see CAP001")
    if _meant(facts, cap):
        return Clear(f"{pinned} running is the cap that was set, and the queue does not grow")
    if cap is not None and not _at(pinned, cap) and usage is None:
        return CannotTell(
            f"{pinned} running with a queue is below the cap of {cap}, and the KV pool's usage is not known",
            "keep the stats lines with the token usage in the log",
        )
    return None


def _cap(facts: Facts) -> int | None:
    """The running cap of one stream: what the log prints, divided by the data-parallel ranks where that fits better."""
    cap, dp = facts.capacity.max_running.value, facts.parallelism.dp.value or 1
    pinned = facts.capacity.pinned_running
    if cap is not None and dp > 1 and pinned is not None and _at(pinned, cap // dp):
        return cap // dp
    return cap


def _at(pinned: int, cap: int | None) -> bool:
    return cap is not None and pinned in (cap, cap - 1)


def _set_by_user(facts: Facts) -> bool:
    """True when an argument names the cap. SGLang prints its own cap there too, so 48 and 32 do not count."""
    names = ("max_running_requests", "max_num_seqs")
    rows = [row for row in (facts.settings.get(name) for name in names) if row is not None]
    given = [row.parsed for row in rows if row.origin in ("server_args", "non_default_args")]
    own = OWN_CAPS if drafting(facts) and facts.identity.engine.value in (None, "sglang") else ()
    return any(isinstance(value, int) and value not in own for value in given)


def _own_cap(facts: Facts, pinned: int) -> bool:
    if facts.identity.engine.value not in (None, "sglang") or not drafting(facts) or _set_by_user(facts):
        return False
    return any(_at(pinned, cap) for cap in OWN_CAPS)


def _meant(facts: Facts, cap: int | None) -> bool:
    pinned, growth = facts.capacity.pinned_running, facts.capacity.queue_growth
    return _set_by_user(facts) and pinned == cap and (growth is None or growth <= 0)


def _confidence(facts: Facts, pinned: int, cap: int | None) -> Confidence:
    capacity = facts.capacity
    usage = capacity.usage_max.value
    if _at(pinned, cap) and capacity.pinned_windows >= MIN_WINDOWS.value:
        return Confidence.HIGH
    if usage is not None and usage >= NEARLY_FULL.value and not _at(pinned, cap):
        return Confidence.LOW
    return Confidence.MEDIUM


def _finding(facts: Facts, pinned: int, cap: int | None) -> Finding:
    capacity = facts.capacity
    queued = max((r.queued_max for r in facts.regimes if r.running == pinned and r.queued_max), default=None)
    waiting = f"while up to {queued} queue" if queued else "while requests queue"
    if cap is None:
        named = "the cap is not in the log"
    elif pinned == cap:
        named = f"the cap is {cap}"
    else:
        named = f"one below the cap of {cap}" if pinned == cap - 1 else f"the cap is {cap}"
    return Finding(
        code=RULE.code,
        title=f"{pinned} requests run {waiting} in {count(capacity.pinned_windows, 'window')}: {named}",
        severity=Severity.WARNING,
        confidence=_confidence(facts, pinned, cap),
        why=_why(facts, pinned),
        fix=_fix(facts),
        evidence=picked(capacity.pinned_evidence, capacity.max_running.evidence),
        confirm="the start-up line with max_running_requests= (SGLang) or the --max-num-seqs setting (vLLM)",
        rivals=_rivals(facts, pinned, cap),
    )


def _why(facts: Facts, pinned: int) -> str:
    capacity = facts.capacity
    parts: list[str] = []
    if _own_cap(facts, pinned):
        parts.append(
            "SGLang itself caps a speculating server at 48 running requests (32 in 0.4.4) when --max-running-requests "
            "is not given."
        )
    if capacity.queue_growth is not None and capacity.queue_growth > 0:
        parts.append(f"The queue grew by {capacity.queue_growth:.0f} requests over these windows.")
    if capacity.drip_prefills >= DRIP.value:
        parts.append(
            f"{capacity.drip_prefills} prefill batches of a few requests each came between decode lines: every one of "
            "them stops the decode of all others."
        )
    if capacity.usage_max.value is not None:
        parts.append(f"The KV pool is at most {pct(capacity.usage_max.value)} full.")
    return " ".join(parts) or "Requests wait although the KV pool has room."


def _fix(facts: Facts) -> tuple[str, ...]:
    flag = "--max-num-seqs" if facts.identity.engine.value == "vllm" else "--max-running-requests"
    return (
        f"set {flag} to the load",
        "and keep KV memory and the CUDA graph ladder (GRF001) above it",
    )


def _rivals(facts: Facts, pinned: int, cap: int | None) -> tuple[str, ...]:
    found = ["a benchmark that sends everything at once, where a queue is meant"]
    if not _at(pinned, cap):
        found.insert(0, "CAP001")
    elif pinned != cap:
        found.insert(0, "admission off by one: a slot kept free for chunked prefill")
    return tuple(found)


RULE = Rule(
    code="CAP003",
    name="running-pinned-while-queue-grows",
    severity=Severity.WARNING,
    check=check,
    thresholds=(MIN_WINDOWS, DRIP, NEARLY_FULL, FULL),
    asks="whether requests queue at a running cap",
)
