"""The engine or one of its workers ended with an error.

What it sees:
Exceptions, dead workers, "EngineDeadError", SIGQUIT, kills and out-of-memory lines. The root is the earliest one that
is not itself a consequence: the last lines of such a log only say that some other process died.

Why it matters:
The message at the end ("see root cause above", "it usually means the child failed") names nothing. The first
exception does, often on another rank and hundreds of lines earlier.

How sure and why:
By the text, or by where the traceback stood: a full /dev/shm, an out-of-memory error or a vocabulary map that does
not fit are certain; a shape mismatch in a drafter is probable; an illegal memory access says little about its cause.
Unknown texts are quoted, not explained.

Rivals:
The first exception in the log need not be the first that happened: ranks write at their own time, and a log may start
late.

Confirm:
Start again with the same arguments and the smallest load that fails; then without speculation.

Fix:
By the text, see the finding. In general: the root line and the arguments are what a bug report needs.

References:
vllm-project/vllm #1710 #34948 #40756; sgl-project/sglang #19897; flashinfer-ai/flashinfer #2708; vLLM 0.32 runs made
to fail (shape mismatch of an EAGLE-3 drafter, d2t, SIGILL)
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum

from traceana.facts.model import Facts, Incident
from traceana.rules._known_text import KnownText
from traceana.rules._known_texts import known_text
from traceana.rules._text import count, picked
from traceana.rules._wording import clip, names, ranks, words
from traceana.rules.cfg002_incomplete_speculative_arguments import incomplete
from traceana.rules.interface import Clear, Confidence, Finding, Outcome, Rule, Severity

_CONSEQUENCES = ("engine_dead", "sigquit")
#: other rules tell of these; what follows them is their consequence
_COVERED = ("watchdog", "context_length", "collective_timeout")
_NO_DEATH = ("health_check", "stack_dump")
#: these say that a process is gone, seldom why: an exception comes first
_LAST = ("worker_died", "killed")
#: exceptions that only pass on another process's failure
_ECHOES = (
    "enginedeaderror",
    "engine core initialization failed",
    "workerproc initialization failed",
    "worker failed with error",
    "runtimeerror: cancelled",
    "see stack trace",
    "see root cause above",
    "enginecore encountered",
    "enginecore failed to start",
    "it usually means",
)
_FATAL = (
    *(
        "scheduler hit an exception",
        "enginecore",
        "workerproc",
        "failed core proc",
        "rpc call to",
        "memory leak detected",
    ),
    *("cuda error", "hip error"),  # a context that failed stays failed
)
#: the line before a traceback, in place of its message: the log was cut, or lines are left out
_CUT = re.compile(r"Traceback \(most recent call last\):\s*$|encountered a fatal error\.?\s*$|failed to start\.?\s*$")
_EXCEPTION = re.compile(r"\b([A-Z][A-Za-z]*(?:Error|Exception))\b")


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the engine, a worker or the start ended with an error that no other rule of this kind explains."""
    explained = [i for i in facts.incidents if _covered(i, facts)]
    incidents = [i for i in facts.incidents if i not in explained and i.kind not in _NO_DEATH]
    roots = [i for i in incidents if i.kind not in _CONSEQUENCES]
    ends = [i for i in incidents if i.kind in _CONSEQUENCES]
    if not roots and not ends:
        if any(i.kind == "health_check" for i in facts.incidents):
            return Clear("health checks failed, but nothing died in this log")
        return Clear("no exception, dead worker or kill in the log")
    if explained and all(i.kind == "killed" or _echo(i) or _timed_out(i, explained) for i in roots):
        return Clear("the processes ended after an incident that another finding covers")
    return _finding(facts, roots, ends)


def _covered(incident: Incident, facts: Facts) -> bool:
    """Whether another rule tells of this incident (STB002, STB005, CFG002, CFG003)."""
    said = "greater than the derived context_length" in words(incident.text, incident.evidence.text)
    return incident.kind in _COVERED or said or incomplete(incident, facts) is not None


def _timed_out(incident: Incident, explained: list[Incident]) -> bool:
    """Whether a process died behind a collective timeout: PyTorch ends it then. One that died earlier is the cause."""
    if incident.kind != "worker_died":
        return "collective operation timeout" in words(incident.text, incident.evidence.text)
    first = next((i for i in explained if i.kind == "collective_timeout"), None)
    return first is not None and (first.evidence.line or 0) < (incident.evidence.line or 0)


def _echo(incident: Incident) -> bool:
    return any(echo in words(incident.text) for echo in _ECHOES)


def _root(roots: list[Incident], ends: list[Incident]) -> Incident:
    """The earliest incident that is not an echo of another."""
    own = [i for i in roots if not _echo(i)]
    pool = [i for i in own if i.kind not in _LAST] or own or roots or ends
    times = [i.ts for i in pool if i.ts is not None]
    return pool[times.index(min(times))] if len(times) == len(pool) else pool[0]


def _finding(facts: Facts, roots: list[Incident], ends: list[Incident]) -> Finding:
    root = _root(roots, ends)
    incidents = roots + ends
    own = words(root.text, root.evidence.text, *root.frames)
    known = known_text((own,), (root.kind,))
    if known is None or known.vague:
        others = (words(i.text, *i.frames) for i in roots if i.kind not in _LAST and i is not root)
        known = known_text(tuple(others), ()) or known
    end = _end(facts, incidents)
    also = f", {_also(incidents, root)}" if len(incidents) > 1 else ""
    return Finding(
        code=RULE.code,
        title=_title(root, known, end),
        severity=Severity.WARNING if end is _End.WENT_ON or (end is _End.OPEN and known is None) else Severity.CRITICAL,
        confidence=known.confidence if known else Confidence.LOW,
        why=(
            f"The earliest error in the log{_on(root)}: {_told(root)}{also}. "
            + (known.meaning if known else _unknown(root))
            + _draft_tokens(facts, known)
        ),
        fix=known.fix if known else ("read the traceback from the first exception on, not from the last",),
        evidence=picked([root.evidence], (i.evidence for i in roots), (i.evidence for i in ends)),
        confirm="start again with the smallest load that fails, then once without speculation",
        rivals=(*(known.rivals if known else ()), "an earlier error that this log does not hold"),
    )


def _told(root: Incident) -> str:
    """The error's own words; of a traceback that was cut before them, where it stood."""
    said = clip(root.text, 160).rstrip(".") or root.kind
    if not root.frames or root.kind in _COVERED:
        return said
    place = clip(root.frames[0], 100)
    if _CUT.search(root.text):
        return f"an exception whose last line, the message, is not in the log; it stood in {place}"
    return f"{said} (in {place})"


def _unknown(root: Incident) -> str:
    if root.frames and _CUT.search(root.text):
        return "Without the message the cause is not known: it stands at the end of the traceback, in the whole log."
    return "The text is not one that this rule knows: read the lines around it."


class _End(Enum):
    """How the log ends, in the words of the title."""

    DIED = "The engine died"
    OPEN = "The log ends with an error"  # a request's error looks the same
    WENT_ON = "An error was logged and the server went on"
    NCCL = "NCCL failed"


def _end(facts: Facts, incidents: list[Incident]) -> _End:
    """Whether something ended: a kind that says so, a fatal wording, a start without windows."""
    if all(i.kind == "nccl_error" for i in incidents):
        return _End.NCCL
    if any(i.kind not in ("exception", "argument_error", "nan_logits", "nccl_error") for i in incidents):
        return _End.DIED
    if any(mark in words(i.text, i.evidence.text) for i in incidents for mark in _FATAL):
        return _End.DIED
    if _served_after(facts, max((i.ts for i in incidents if i.ts is not None), default=None)):
        return _End.WENT_ON
    return _End.OPEN if facts.windows.n else _End.DIED


def _served_after(facts: Facts, moment: datetime | None) -> bool:
    times = [w.ts for w in facts.windows.sample if w.ts is not None]
    return moment is not None and bool(times) and max(times) > moment


def _title(root: Incident, known: KnownText | None, end: _End) -> str:
    subject = end.value
    if known is not None:
        return f"{subject}: {known.title}"
    if root.frames and _CUT.search(root.text):
        return f"{subject} in {clip(root.frames[0], 80)}{_on(root)}; the message is not in this log"
    if root.kind in _CONSEQUENCES:
        return f"{subject}; its first error is not in this log"
    match = _EXCEPTION.search(root.text)
    what = f"{match[1]}{_on(root)}" if match else f"{root.kind.replace('_', ' ')}{_on(root)}"
    return f"{subject}: {what}"


def _on(root: Incident) -> str:
    return f" on {ranks([root.rank])}" if root.rank is not None else ""


def _also(incidents: list[Incident], root: Incident) -> str:
    rest = [i for i in incidents if i is not root]
    kinds = names((i.kind.replace("_", " ") for i in rest), 3)
    return f"followed by {count(len(rest), 'more line')} of its kind or its consequence ({kinds})"


def _draft_tokens(facts: Facts, known: KnownText | None) -> str:
    k = facts.speculation.k.value
    if known is None or k is None or "illegal memory access" not in known.texts:
        return ""
    return f" This run drafts {count(k, 'token')} per cycle."


RULE = Rule("STB003", "engine-died", Severity.CRITICAL, check, asks="whether an engine process died")
