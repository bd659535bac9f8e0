"""The start stopped where the GPUs exchange data for the first time.

What it sees:
    Several GPUs, no ready line, no error, and two minutes and more without progress behind NCCL's first lines, or
    behind the sizing of the KV cache, where the first whole forward runs: nothing but other processes' lines, or vLLM's
    "No available shared memory broadcast block found in 60 seconds".

Why it matters:
    A peer-to-peer copy that the platform promises and does not deliver never ends: GPUs stand at 100 % with little
    power, and no process reports an error until a timeout of ten minutes or more.

How sure and why:
    Low: a hang and a long compilation look alike in a log. Medium at NCCL's first lines with three minutes of waiting,
    where nothing is compiled yet.

Rivals:
    A compilation or kernel warm-up (behind the KV cache: the usual reason); weights on slow storage; another node that
    has not joined; a log that was cut and glued to a later one.

Confirm:
    nvidia-smi while it stands: 100 % at low power is a spinning NCCL kernel, 0 % is a wait for something else. One
    start with NCCL_P2P_DISABLE=1, and one with --disable-custom-all-reduce.

Fix:
    ACS and IOMMU off (or passthrough) for P2P between GPUs; a lower NCCL_P2P_LEVEL; without it NCCL_P2P_DISABLE=1 and
    --disable-custom-all-reduce, at the price of slower collectives (COM003).

References:
    rtx6kpro #15; NVIDIA/nccl #1999, #2079, #257; nccl-tests #117; tinygrad #45; club-3090 #873; rule catalogue R21.
"""

from __future__ import annotations

from traceana.facts.model import Facts, Stopped
from traceana.rules._collectives import one_gpu
from traceana.rules._text import count, hours, picked
from traceana.rules.interface import (
    CannotTell,
    Clear,
    Confidence,
    Finding,
    NotApplicable,
    Outcome,
    Rule,
    Severity,
    Threshold,
)

SILENT = Threshold("silent", 120, "seconds", "without progress", "rtx6kpro #15: nothing after two minutes", False)
LONG = Threshold("long", 180, "seconds", "without progress, for confidence medium at NCCL's start", "a choice", False)
_WAIT_S = 60.0  # vLLM complains once a minute

#: event kinds in front of the first exchange between GPUs, and of the first whole forward
_EXCHANGE = ("nccl_version", "nccl_init_start", "nccl_init_complete", "nccl_layout", "nccl_link", "nccl_ring", "world")
_FORWARD = ("kv_cache", "max_concurrency", "kv_cache_post", "memory_pool_end")


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a start with several GPUs makes no progress at NCCL's first exchange or the first forward."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    stopped = facts.startup.stopped
    if facts.windows.n > 0 or facts.startup.ready.known or facts.startup.starts or stopped is None:
        return Clear("the server serves") if facts.windows.n or facts.startup.starts else NotApplicable("no start-up")
    if any(incident.kind != "health_check" for incident in facts.incidents):
        return Clear("an error ended the start")
    if stopped.at not in _EXCHANGE + _FORWARD:
        return Clear("the log does not end at the first exchange between the GPUs")
    if not facts.settings.rows:
        return NotApplicable("no engine's start-up lines")
    waited = max(stopped.silent_s or 0.0, stopped.waits * _WAIT_S)
    if waited < SILENT.value:
        return CannotTell(
            "the log ends where the GPUs exchange data for the first time",
            "two minutes more of the log, and nvidia-smi if it stands still: 100 % at low power is a hang",
        )
    return _finding(stopped, waited)


def _finding(stopped: Stopped, waited: float) -> Finding:
    early = stopped.at in _EXCHANGE
    place = "at NCCL's first exchange between the GPUs" if early else "in the first forward over all GPUs"
    waits = f" The engine says {count(stopped.waits, 'time')} that it waits for a worker." if stopped.waits else ""
    compiling = () if early else ("a compilation or kernel warm-up is under way: the usual reason at this place",)
    return Finding(
        code=RULE.code,
        title=f"The start stands still {place}: {hours(waited)} without progress",
        severity=Severity.CRITICAL if early else Severity.WARNING,
        confidence=Confidence.MEDIUM if early and waited >= LONG.value else Confidence.LOW,
        why=f"No error and no ready line follow.{waits} Peer-to-peer copies that the platform does not deliver (ACS, "
        "IOMMU, NCCL_P2P_LEVEL too high) stop here.",
        fix=(
            "switch ACS and IOMMU off (or IOMMU to passthrough), or lower NCCL_P2P_LEVEL",
            "until then NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce: slower collectives, but it runs",
        ),
        evidence=picked(stopped.evidence),
        confirm="one start with NCCL_P2P_DISABLE=1 (and --disable-custom-all-reduce): if it becomes ready, P2P hangs",
        rivals=(*compiling, "another node has not joined", "the log was cut here"),
    )


RULE = Rule(
    "STB006",
    "start-stopped-at-first-exchange",
    Severity.CRITICAL,
    check,
    thresholds=(SILENT, LONG),
    asks="whether the start hangs at the first exchange between the GPUs",
)
