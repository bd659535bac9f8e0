"""The scheduler's watchdog stopped the server: a forward did not come back.

What it sees:
"Watchdog timeout (self.watchdog_timeout=300)" of one or more ranks, the py-spy stacks that SGLang prints with it, and
the last thing each rank logged.

Why it matters:
All ranks wait for the slowest. The one that stands elsewhere than the others is the culprit; the others only wait in
a collective.

How sure and why:
Medium with stacks: ranks are grouped by the innermost frame of their main thread, and a small group that differs is
named together with the stage its frames show (draft, verify, re-extend, extend). Low without stacks: that it hung is
certain, where is not.

Rivals:
All ranks in the same frame: a collective that hangs as a whole (P2P, network), not one late rank. A KV pool that is
almost full makes verify hang in some versions (CAP family). A single forward may also be longer than the timeout.

Confirm:
py-spy dump --pid of all ranks while it hangs (install py-spy in the container), and nvidia-smi: 100 % at low power is
a spinning kernel.

Fix:
Depends on the frame: penalties in verify (min_new_tokens): upgrade, or do without them; a sampling kernel: another
sampling backend; cuModuleLoadData: CUDA_MODULE_LOADING=EAGER; a collective: NCCL_P2P_DISABLE=1 for one start.

References:
sgl-project/sglang #3752 #7553 #12076 #26357 #26399 #33642 #35822
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from traceana.facts.model import Facts, Incident
from traceana.rules._collectives import one_gpu
from traceana.rules._text import count, picked
from traceana.rules._wording import clip, names, ranks, words
from traceana.rules.interface import Clear, Confidence, Finding, Outcome, Rule, Severity

_TIMEOUT = re.compile(r"watchdog_timeout=([\d.]+)")
_FRAME = re.compile(r"^\s*(?P<function>\S+) \((?P<file>[^():]+)(?::\d+)?\)")
_STAGES = (
    ("capture", "graph capture"),
    ("draft_extend", "re-extend"),
    ("extend_after_decode", "re-extend"),
    ("verify", "verify"),
    ("draft", "draft"),
    ("target_extend", "extend"),
    ("prefill", "extend"),
)
_WAITING = ("all_reduce", "all_gather", "broadcast", "barrier", "recv", "synchronize", "wait", "nccl")
#: frames seen in public hangs, and what helped
_FRAMES = (
    ("penalt", "a penalty (min_new_tokens and others) is applied inside verify", "upgrade, or send no penalties"),
    ("min_new_tokens", "a penalty is applied inside verify", "upgrade, or send no min_tokens"),
    ("tree_speculative_sampling", "the sampling kernel spins", "use another sampling backend, upgrade"),
    ("cumoduleload", "a kernel module is loaded while others communicate", "set CUDA_MODULE_LOADING=EAGER"),
    ("alloc_token", "memory is allocated for the KV cache", "see CAP002 and CAP003: give the KV pool room"),
)


@dataclass(frozen=True, slots=True)
class _Stack:
    """One rank's main thread: function and file of its innermost frame, and the stage its frames show."""

    rank: int | None
    key: str
    stage: str | None
    waiting: bool
    incident: Incident


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a watchdog fired; names the odd rank out where stacks are in the log."""
    dumped = tuple(i for i in facts.incidents if i.kind in ("watchdog", "stack_dump") and i.frames)
    # SGLang dumps stacks only when its watchdog fires: dumps without the line are a cut log
    fired = tuple(i for i in facts.incidents if i.kind == "watchdog") or dumped
    if not fired:
        return Clear("no watchdog fired")
    stacks = tuple(_stack(incident) for incident in dumped)
    return _finding(facts, fired, stacks)


def _stack(incident: Incident) -> _Stack:
    match = _FRAME.match(incident.frames[0])
    key = f"{match['function']} ({match['file']})" if match else clip(incident.frames[0], 60)
    return _Stack(incident.rank, key, _stage(incident.frames), _holds(_WAITING, key), incident)


def _stage(frames: tuple[str, ...]) -> str | None:
    """The stage of the cycle, from the innermost frame that names one."""
    for frame in frames:
        match = _FRAME.match(frame)
        function = (match["function"] if match else frame).lower()
        for mark, stage in _STAGES:
            if mark in function:
                return stage
    return None


def _holds(marks: tuple[str, ...], text: str) -> bool:
    return any(mark in text.lower() for mark in marks)


def _odd_ones(stacks: tuple[_Stack, ...]) -> tuple[_Stack, ...]:
    """The stacks that differ from most: the smallest group that does not wait, when it is less than half; else ()."""
    groups: dict[str, list[_Stack]] = defaultdict(list)
    for stack in stacks:
        groups[stack.key].append(stack)
    if len(groups) < 2:
        return stacks if len(stacks) == 1 and not stacks[0].waiting else ()
    smallest = min(groups.values(), key=lambda group: (group[0].waiting, len(group)))
    return tuple(smallest) if 2 * len(smallest) <= len(stacks) else ()


def _finding(facts: Facts, fired: tuple[Incident, ...], stacks: tuple[_Stack, ...]) -> Finding:
    odd = _odd_ones(stacks)
    soft = all("self.soft=true" in words(i.text, i.evidence.text) for i in fired)
    last = [activity.evidence for activity in sorted(facts.last_seen, key=lambda a: a.rank)]
    return Finding(
        code=RULE.code,
        title=_title(fired, stacks, odd),
        severity=Severity.WARNING if soft else Severity.CRITICAL,
        confidence=Confidence.MEDIUM if stacks else Confidence.LOW,
        why=" ".join(part for part in (_where(stacks, odd), _hint(odd or stacks)[0], _last(facts)) if part),
        fix=_fixes(facts, odd or stacks),
        evidence=picked((s.incident.evidence for s in odd), (i.evidence for i in fired), last, limit=8),
        confirm="py-spy dump --pid of all ranks while it hangs; 100 % at low power in nvidia-smi is a spinning kernel",
        rivals=_rivals(facts, stacks, odd),
    )


def _title(fired: tuple[Incident, ...], stacks: tuple[_Stack, ...], odd: tuple[_Stack, ...]) -> str:
    match = next((m for i in fired if (m := _TIMEOUT.search(f"{i.text} {i.evidence.text or ''}"))), None)
    after = f" after {float(match[1]):.0f} s without progress" if match else ""
    who = {incident.rank for incident in fired if incident.rank is not None}
    head = f"The watchdog fired{after}{f' (reported by {ranks(who)})' if who else ''}"
    if not odd:
        which = "all stacks in the log stand" if len(stacks) > 1 else "the one stack in the log stands"
        return f"{head}; {which} in {stacks[0].key}" if stacks and _same(stacks) else head
    named = [s.rank for s in odd if s.rank is not None]
    stage = f" in the {odd[0].stage} stage" if odd[0].stage else ""
    return f"{head}; {ranks(named) if named else 'one rank'} stands in {odd[0].key}{stage}"


def _same(stacks: tuple[_Stack, ...]) -> bool:
    return len({stack.key for stack in stacks}) == 1


def _where(stacks: tuple[_Stack, ...], odd: tuple[_Stack, ...]) -> str:
    if not stacks:
        return "No stack is in the log, so where it hung is not known."
    if not odd:
        return "No rank stands out: a collective or a kernel hangs on all, or the culprit's stack is missing."
    others = [s for s in stacks if s not in odd]
    if not others:
        return "Only this rank's stack is in the log; whether the others wait for it is not shown."
    waiting = ", where ranks wait for each other" if any(s.waiting for s in others) else ""
    return f"{count(len(others), 'other stack')} in the log: in {names((s.key for s in others), 2)}{waiting}."


def _hint(stacks: tuple[_Stack, ...]) -> tuple[str, str | None]:
    """What a known frame means and what helped, or empty."""
    for stack in stacks:
        frames = " ".join(stack.incident.frames)
        for mark, meaning, cure in _FRAMES:
            if _holds((mark,), frames):
                return f"The frames show that {meaning}.", cure
    return "", None


def _last(facts: Facts) -> str:
    """When the ranks wrote their last lines; of a group only one rank prints statistics, so silence accuses nobody."""
    by_time: dict[str, list[int]] = defaultdict(list)
    for activity in facts.last_seen:
        if activity.ts is not None:
            by_time[f"{activity.ts:%H:%M:%S}"].append(activity.rank)
    if not by_time or len(by_time) > 4:
        return ""
    told = ", ".join(f"{ranks(found)} at {time}" for time, found in sorted(by_time.items()))
    return f"Last lines: {told} (of a group only one rank prints statistics)."


def _fixes(facts: Facts, stacks: tuple[_Stack, ...]) -> tuple[str, ...]:
    cure = _hint(stacks)[1]
    general = "upgrade the engine: several hangs of this kind are fixed upstream"
    missing = () if stacks else ("install py-spy in the container, so that the next timeout prints all stacks",)
    p2p = () if one_gpu(facts) else ("NCCL_P2P_DISABLE=1 for one start tells whether P2P is the cause",)
    return (*((cure,) if cure else ()), *missing, general, *p2p)


def _rivals(facts: Facts, stacks: tuple[_Stack, ...], odd: tuple[_Stack, ...]) -> tuple[str, ...]:
    full = facts.capacity.windows_full > 0 or (facts.capacity.usage_max.value or 0.0) >= 0.95
    return (
        *(("the KV pool was almost full, which makes verify hang in some versions",) if full else ()),
        *(() if odd else ("a collective that hangs on all ranks (P2P, network)",)),
        "a single forward that is longer than the timeout",
    )


RULE = Rule("STB002", "watchdog-timeout", Severity.CRITICAL, check, asks="whether a watchdog fired")
