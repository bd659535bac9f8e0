"""A CUDA graph capture began and its end is not in the log.

What it sees:
"Capture ... begin" (or a "Capturing batches" progress bar) of a rank without the line that ends it, how far the bar
got, how long the log goes on after it, what other captures took, and whether kernels were being compiled at the time.

Why it matters:
The server looks alive: memory is allocated and the GPUs are busy, but it never answers. Such servers were found after
hours.

How sure and why:
Medium. A log that ends here may simply have been cut, or the capture still runs; both are said. A silence of more
than ten times the longest finished capture speaks for a hang (a rule of thumb, not calibrated).

Rivals:
The log was cut. A JIT compilation is under way (FlashInfer, Triton: minutes the first time), or waits for a lock that
a killed process left behind. The first collective inside the capture hangs (P2P).

Confirm:
py-spy dump --pid of two ranks, twice, a minute apart. ps for nvcc, ninja, cicc: a compiler at work is not a hang.

Fix:
Compiling: wait, or install prebuilt kernels (flashinfer-cubin, flashinfer-jit-cache); delete stale locks below
~/.cache/flashinfer. Hanging: start once with --disable-cuda-graph to confirm, then another graph backend or a lower
--cuda-graph-max-bs; with several GPUs NCCL_P2P_DISABLE=1 for one start tells whether P2P is the cause.

References:
sgl-project/sglang #7324 #10088 #29580 #33642; lightseekorg/tokenspeed #1314
"""

from __future__ import annotations

from traceana.facts.model import Capture, Evidence, Facts
from traceana.rules._collectives import NO_STARTUP, one_gpu
from traceana.rules._text import count, hours, num, picked
from traceana.rules._wording import clip, ranks, upper_first, words
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity, Threshold

LONG_SILENCE = Threshold(
    "long_silence",
    10,
    "x",
    "silence after the begin line, in lengths of the longest finished capture, that speaks for a hang",
    "sglang PR 29580: 36 min against 75 s; sglang 10088: a draft capture of 5x the target's is normal",
    False,
)
_JIT = ("flashinfer.jit", "loading jit ops", "using jit backend", "jit compilation", "ninja", "nvcc")


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a capture has no end line and nothing shows that the server went on."""
    captures = facts.graphs.captures
    if facts.graphs.switched_off.known:
        return NotApplicable("CUDA graphs are switched off")
    if not captures and facts.windows.n > 0:
        return Clear("the server serves")
    if not captures:
        seen = facts.startup.stages or facts.startup.ready.known
        return NotApplicable("no graph capture in this start-up") if seen else NO_STARTUP
    pending = tuple(capture for capture in captures if not capture.ended and not _bar_full(capture))
    if not pending:
        return Clear(f"all {count(len(captures), 'graph capture')} ended, or their progress bar is full")
    if facts.startup.ready.known or facts.windows.n > 0:
        return Clear("an end line is missing, but the server went on to serve")
    return _finding(facts, pending)


def _bar_full(capture: Capture) -> bool:
    """A bar that reached its end was captured to the last size; only the end line is missing."""
    done, _, total = (capture.progress or "").partition("/")
    return bool(total) and done.strip() == total.strip()


def _finding(facts: Facts, pending: tuple[Capture, ...]) -> Finding:
    jit = _compiling(facts, pending)
    finished = [c.elapsed_s for c in facts.graphs.captures if c.ended and c.elapsed_s]
    silent = max((c.silent_s for c in pending if c.silent_s is not None), default=None)
    return Finding(
        code=RULE.code,
        title=_title(facts, pending, silent),
        severity=Severity.CRITICAL,
        confidence=Confidence.MEDIUM,
        why=" ".join(
            part
            for part in (
                _length(silent, finished),
                "FlashInfer or another JIT was loading kernels at that moment: a compilation, or a wait for its lock."
                if jit is not None
                else "",
                _ranks_that_ended(facts, pending),
                "The log may also have been cut here, or the capture may still be running.",
            )
            if part
        ),
        fix=_fixes(facts, jit is not None),
        evidence=picked((c.begin for c in pending), [jit]),
        confirm="py-spy dump --pid on two ranks, twice, a minute apart; ps for nvcc, ninja and cicc",
        rivals=("the log was cut", "a JIT compilation is under way", "a collective inside the capture hangs (P2P)"),
    )


def _title(facts: Facts, pending: tuple[Capture, ...], silent: float | None) -> str:
    first = max(pending, key=lambda capture: capture.silent_s or 0.0)
    on = [capture.rank for capture in pending if capture.rank is not None]
    who = f" on {ranks(on)}" if on else ""
    at = f" at {clip(first.progress, 20)}" if first.progress else ""
    gap = f"; no end of it in the {hours(silent)} of log that follow" if silent else "; the log shows no end of it"
    return f"Capture of the {clip(first.name, 40)} graph{who} began and did not end{at}{gap}"


def _length(silent: float | None, finished: list[float]) -> str:
    if not finished:
        return ""
    longest = max(finished)
    if silent is None:
        return f"The captures that ended took up to {hours(longest)}."
    ratio = silent / longest
    verdict = "which speaks for a hang" if ratio >= LONG_SILENCE.value else "too little to call it a hang"
    took = f"The captures that ended took up to {hours(longest)}"
    return f"{took}; this one is silent for {num(ratio)} times that, {verdict}."


def _ranks_that_ended(facts: Facts, pending: tuple[Capture, ...]) -> str:
    stuck = {(c.name, c.rank) for c in pending}
    name = pending[0].name
    done = [c.rank for c in facts.graphs.captures if c.ended and c.name == name and c.rank is not None]
    waiting = [rank for n, rank in stuck if n == name and rank is not None]
    if not done or not waiting:
        return ""
    return f"{upper_first(ranks(done))} ended the same capture: {ranks(waiting)} is the odd one out."


def _compiling(facts: Facts, pending: tuple[Capture, ...]) -> Evidence | None:
    """The line that shows a JIT compilation in flight, or None."""
    places = [activity.evidence for activity in facts.last_seen if _about_jit(activity.text)]
    places += [c.begin for c in pending if c.begin is not None and _about_jit(c.progress, c.begin.text)]
    places += [s.evidence for s in facts.collectives if "jit" in s.kind.lower()]
    places += [e for e in facts.stability.jit_evidence if _about_jit(e.text)]
    places += [i.evidence for i in facts.incidents if _about_jit(i.text)]
    if facts.startup.longest_gap is not None and _about_jit(facts.startup.longest_gap[1].text):
        places.append(facts.startup.longest_gap[1])
    return next(iter(places), None)


def _about_jit(*texts: str | None) -> bool:
    return any(mark in words(*texts) for mark in _JIT)


def _fixes(facts: Facts, jit: bool) -> tuple[str, ...]:
    compiling = (
        "give the compilation minutes; install prebuilt kernels (flashinfer-cubin, flashinfer-jit-cache)",
        "delete stale locks below ~/.cache/flashinfer left by a killed process",
    )
    hanging = (
        "start once with --disable-cuda-graph (vLLM: --enforce-eager) to confirm",
        "then another graph backend, or a lower --cuda-graph-max-bs (not below the running cap)",
    )
    p2p = () if one_gpu(facts) else ("NCCL_P2P_DISABLE=1 for one start tells whether P2P is the cause",)
    return (*compiling, *hanging, *p2p) if jit else (*hanging, *compiling, *p2p)


RULE = Rule(
    "STB001",
    "graph-capture-never-ended",
    Severity.CRITICAL,
    check,
    thresholds=(LONG_SILENCE,),
    asks="whether graph captures ended",
)
