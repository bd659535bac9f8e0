"""NCCL variables that do nothing in this set-up, so that nobody tunes them.

What it sees:
The workers' ENV rows and the launch command: buffer sizes and thread counts beside NCCL_PROTO=LL, channel counts, any
NCCL tuning while another path carries the decode allreduces, names that PyTorch reads, a debug setting that hides the
ENV lines, and NCCL_PROTO=LL alone at a load where it costs throughput. Also NCCL_P2P_LEVEL beside
NCCL_P2P_DISABLE=1, and NCCL_NVLS_ENABLE=1 beside an NCCL_ALGO without NVLS.

Why it matters:
Time is lost on knobs that cannot move a decode step. NCCL_BUFFSIZE is the Simple protocol's buffer; LL has its own.
Small allreduces use one to three channels whatever the limit is, and fewer threads than the limit allows.

How sure and why:
High for what NCCL's source decides. The note on LL at high load rests on one set of measurements (998 against 1132
tok/s at 32 users) and a load limit that is not calibrated, so it alone never makes this more than medium.

Rivals:
The same variables do matter to prefill, whose allreduces are megabytes long.

Confirm:
Leave the variable out for one run at the same load: the cycle must not change by more than the windows' spread.

Fix:
Remove what does nothing. For mixed loads NCCL_PROTO=LL,LL128,Simple where LL was forced.
NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING in place of TUNING alone.

References:
NCCL enqueue.cc, tuning.cc, init.cc (2.14 to 2.30); local-inference-lab/rtx6kpro communicators page (LL against LL128
and Simple at 32 users); PyTorch ProcessGroupNCCL
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts
from traceana.facts.nccl_variables import status
from traceana.rules._collectives import carrier, one_gpu
from traceana.rules._nccl_env import NO_ENV_LINES, NO_NCCL_LINES, asked_value, env_rows, seen_value
from traceana.rules._text import count, picked
from traceana.rules._wording import names
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

HIGH_LOAD = Threshold(
    "high_load",
    16,
    "running requests",
    "from here on LL alone may cost throughput; it wins at 1",
    "rtx6kpro: 998 tok/s with LL, 1128 with LL,LL128,Simple at 32 users; nothing measured between 1 and 32",
    False,
)
_CHANNELS = ("NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_CTAS", "NCCL_MIN_CTAS")
_TUNING = (
    *_CHANNELS,
    "NCCL_PROTO",
    "NCCL_ALGO",
    "NCCL_BUFFSIZE",
    "NCCL_LL_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_GRAPH_FILE",
)


@dataclass(frozen=True, slots=True)
class _Idle:
    """What does nothing (`subject`, a predicate in `why`), the variables behind it, and what to do."""

    subject: str
    why: str
    fix: str
    variables: tuple[str, ...]


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding that lists the variables without effect; CannotTell when no NCCL variable is visible."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    rows = (*env_rows(facts), *facts.nccl.requested)
    if not rows:
        return NO_ENV_LINES if facts.nccl.processes else NO_NCCL_LINES
    present = {row.name for row in rows}
    idle = [*_without_effect(facts, present), *_foreign(facts), *_hidden(facts)]
    costly = _costly_ll(facts)
    if not idle and costly is None:
        return Clear(f"{count(len(present), 'NCCL variable')}, none of them known to be idle")
    return _finding(facts, idle, costly)


def without_effect(facts: Facts) -> dict[str, str]:
    """Variable that NCCL reads and that changes nothing for decode here -> why, as a predicate ("does nothing ...")."""
    present = {row.name for row in (*env_rows(facts), *facts.nccl.requested)}
    return {name: item.why for item in _without_effect(facts, present) for name in item.variables}


def _without_effect(facts: Facts, present: set[str]) -> list[_Idle]:
    return [
        *_under_ll(facts, present),
        *_channels(present),
        *_shadowed(facts, present),
        *_bypassed(facts, present),
    ]


def _leave_out(name: str, why: str) -> _Idle:
    return _Idle(name, why, f"leave out {name}", (name,))


def _ll_only(facts: Facts) -> bool:
    return (seen_value(facts, "NCCL_PROTO") or "").upper() == "LL"


def _under_ll(facts: Facts, present: set[str]) -> list[_Idle]:
    if not _ll_only(facts):
        return []
    default = seen_value(facts, "NCCL_NTHREADS") == "512"
    threads = "is 512, which is the default of LL" if default else "is a limit that small allreduces do not reach"
    reasons = {
        "NCCL_BUFFSIZE": "is the Simple protocol's buffer and does nothing with NCCL_PROTO=LL",
        "NCCL_NTHREADS": threads,
    }
    return [_leave_out(name, why) for name, why in reasons.items() if name in present]


def _channels(present: set[str]) -> list[_Idle]:
    why = "does nothing below about 0.5 MB: small allreduces use one to three channels"
    return [_leave_out(name, why) for name in _CHANNELS if name in present]


def _shadowed(facts: Facts, present: set[str]) -> list[_Idle]:
    """Variables that another one switches off."""
    algorithms = (seen_value(facts, "NCCL_ALGO") or "").upper()
    out = []
    if "NCCL_P2P_LEVEL" in present and seen_value(facts, "NCCL_P2P_DISABLE") == "1":
        out.append(_leave_out("NCCL_P2P_LEVEL", "is not looked at while NCCL_P2P_DISABLE=1"))
    if seen_value(facts, "NCCL_NVLS_ENABLE") == "1" and algorithms in ("RING", "TREE", "RING,TREE", "TREE,RING"):
        out.append(_leave_out("NCCL_NVLS_ENABLE", f"enables what NCCL_ALGO={algorithms.title()} leaves out"))
    return out


def _bypassed(facts: Facts, present: set[str]) -> list[_Idle]:
    path = carrier(facts)
    tuned = tuple(name for name in _TUNING if name in present)
    if path is None or not tuned:
        return []
    why = f"{'is' if len(tuned) == 1 else 'are'} of use to prefill only: {path.name} carries small allreduces"
    return [_Idle(names(tuned), why, f"expect nothing of {names(tuned)} for decode", tuned)]


def _foreign(facts: Facts) -> list[_Idle]:
    out = []
    for row in facts.nccl.requested:
        found = status(row.name, None)
        if found.state == "foreign" and found.owner == "PyTorch":
            now = f", as {found.instead} in newer releases" if found.instead else ""
            fix = f"use {found.instead}" if found.instead else f"leave out {row.name}"
            out.append(_Idle(row.name, f"is read by PyTorch, not by NCCL{now}", fix, (row.name,)))
    return out


def _hidden(facts: Facts) -> list[_Idle]:
    subsystems = asked_value(facts, "NCCL_DEBUG_SUBSYS")
    if subsystems is None or subsystems.startswith("^"):
        return []
    if {name.strip().upper() for name in subsystems.split(",")} & {"ENV", "ALL"}:
        return []
    why = "hides the ENV lines that show which variables arrived"
    setting = f"NCCL_DEBUG_SUBSYS={subsystems}"
    return [_Idle(setting, why, f"NCCL_DEBUG_SUBSYS=INIT,ENV,{subsystems}", ("NCCL_DEBUG_SUBSYS",))]


def _costly_ll(facts: Facts) -> str | None:
    highest = max((regime.running for regime in facts.regimes), default=0)
    if not _ll_only(facts) or highest < HIGH_LOAD.value or carrier(facts) is not None:
        return None
    ran = {protocol.upper() for *_, protocol in facts.nccl.protocols}
    if ran and not ran & {"LL", "0"}:  # TUNING lines: LL is asked for and not in use (COM005)
        return None
    return (
        f"NCCL_PROTO=LL alone wins at one user and cost 12 % of throughput at 32 in one published comparison; "
        f"this run reaches {highest} running requests."
    )


def _finding(facts: Facts, idle: list[_Idle], costly: str | None) -> Finding:
    involved = {name for item in idle for name in item.variables} | ({"NCCL_PROTO"} if costly else set())
    mixed = ("for mixed loads use NCCL_PROTO=LL,LL128,Simple; measure at your own load",) if costly else ()
    rows = (*env_rows(facts), *facts.nccl.requested)
    return Finding(
        code=RULE.code,
        title=(
            f"Without effect on decode here: {names((item.subject for item in idle), 4)}"
            if idle
            else "NCCL_PROTO=LL alone may cost throughput at this load"
        ),
        severity=Severity.INFO,
        confidence=Confidence.HIGH if idle else Confidence.LOW,
        why=" ".join([*(f"{item.subject} {item.why}." for item in idle), *([costly] if costly else [])]),
        fix=(*dict.fromkeys(item.fix for item in idle), *mixed),
        evidence=picked(row.evidence for row in rows if row.name in involved),
        confirm="leave it out for one run at the same load and compare the cycle",
        rivals=("it matters to prefill, whose allreduces are megabytes long",),
    )


RULE = Rule(
    "ENV004",
    "nccl-variable-without-effect",
    Severity.INFO,
    check,
    thresholds=(HIGH_LOAD,),
    asks="whether the NCCL variables have an effect",
)
