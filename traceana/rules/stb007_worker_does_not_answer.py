"""A worker does not answer: the engine stands still, and no error says why.

What it sees:
    vLLM's "No available shared memory broadcast block found in 60 seconds" of one process, for three minutes and more,
    in a server that has served, or in an excerpt that shows nothing else.

Why it matters:
    The engine core has handed a forward to its workers and one does not come back. All requests stand; after
    VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS the engine ends with "RPC call to sample_tokens timed out".

How sure and why:
    That it stands still is certain, why is not in these lines. Medium when it had served before and generated nothing
    afterwards; low for an excerpt, where it may be a compilation at the start, and when it went on.

Rivals:
    A compilation or warm-up of kernels; an idle server (some releases print the line then as well); a KV connector that
    waits for the other server.

Confirm:
    py-spy dump --pid of every worker while it stands: the rank whose stack differs is the one. nvidia-smi: 100 % at low
    power is a spinning kernel, 0 % a wait on the host.

Fix:
    By the stack. With speculation these were found: a draft loop that only some data-parallel ranks run near
    max_model_len, a full CUDA graph around the draft, ranks that disagree on a draft when a batch drains. The same load
    without speculation, then with cudagraph_mode PIECEWISE, tells these apart.

References:
    vllm-project/vllm #40926 #41530 #44063 #44185 #51593 #51921; vllm-ascend #13639
"""

from __future__ import annotations

from traceana.facts.model import Facts, Stall
from traceana.rules._text import hours, picked
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

LONG = Threshold("long", 180, "seconds", "of waiting in a row", "a compilation takes a minute or two", False)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when vLLM waited for a worker for minutes and no error tells more."""
    stall = facts.stall
    if facts.identity.engine.value != "vllm":
        return NotApplicable("vLLM's workers only")
    if stall is None or stall.waited_s < LONG.value:
        return Clear("no worker kept the engine waiting for minutes")
    if any(incident.kind != "health_check" for incident in facts.incidents):
        return Clear("an error tells more of it")
    served = facts.windows.n > 0
    last = facts.windows.sample[-1] if facts.windows.sample else None
    if last is not None and last.running == 0:
        return Clear("no request was running: some releases say so of an idle server")
    if not served and facts.settings.rows and not facts.startup.ready.known:
        return NotApplicable("a start: STB006 asks there")
    return _finding(facts, stall, served)


def _finding(facts: Facts, stall: Stall, served: bool) -> Finding:
    hangs = served and not stall.served_after
    went_on = " It went on afterwards." if stall.served_after else ""
    several = f" ({stall.processes} processes)" if stall.processes > 1 else ""
    drafting = "the same load without speculation: does it stand still there, too?"
    return Finding(
        code=RULE.code,
        title=f"A worker does not answer: the engine stood still for {hours(stall.waited_s)}",
        severity=Severity.WARNING if stall.served_after else Severity.CRITICAL,
        confidence=Confidence.MEDIUM if hangs else Confidence.LOW,
        why=(
            f"The engine core{several} says once a minute that a worker does not take its work.{went_on} "
            "No error is in the log, and these lines do not say which worker it is or what it does."
        ),
        fix=(
            "py-spy dump --pid of every worker while it stands: the stack that differs is the culprit's",
            *((drafting,) if facts.speculation.active.value is not False else ()),
            "cudagraph_mode PIECEWISE, then --enforce-eager, and NCCL_P2P_DISABLE=1: one start each",
        ),
        evidence=picked(stall.evidence),
        confirm="nvidia-smi while it stands: 100 % at low power is a spinning kernel, 0 % a wait on the host",
        rivals=(
            "kernels are compiled or warmed up" + ("" if served else ": usual at a start"),
            *(() if served else ("the server is idle: some releases say so without work",)),
            "a KV connector waits for another server",
            "STB006",
        ),
    )


RULE = Rule(
    "STB007",
    "worker-does-not-answer",
    Severity.CRITICAL,
    check,
    thresholds=(LONG,),
    engines=("vllm",),
    asks="whether a worker keeps the engine waiting",
)
