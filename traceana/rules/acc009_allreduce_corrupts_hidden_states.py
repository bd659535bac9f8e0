"""Acceptance collapsed at an unchanged cycle when another allreduce was switched on.

What it sees:
    A run and a baseline that both speculate with as many drafts: the run accepts less than a third of the baseline's
    drafts, its cycle is as long, and an allreduce path differs between the two (a custom or fused kernel reported on,
    or an argument or variable of it). Of benchmark results of several set-ups: one accepts less than half of the drafts
    that all others accept at the same load, and its name speaks of an allreduce, a fused kernel or a barrier.

Why it matters:
    A communication kernel that returns before all ranks have written gives wrong hidden states. Nothing crashes: the
    target still answers, worse or with repeated characters, and the drafter no longer predicts it. It is taken for a
    drafter problem, while the answers are wrong as well.

How sure and why:
    Medium: one difference, and the pattern of a wrong sum (acceptance gone, time unchanged) beside it. Other
    differences between the two runs are not excluded. Low from the names in a table of results.

Rivals:
    Another drafter, checkpoint or kind of prompt between the two runs; a quantisation or attention backend changed at
    the same time.

Confirm:
    Read a few answers at temperature 0 with the path on and off (repeated characters, broken words). nccl-tests
    all_reduce_perf -c 1 checks sums for NCCL's own path.

Fix:
    Switch that path off (--disable-custom-all-reduce, or the fused path's own flag) and keep the rest; a newer build of
    it. Do not force custom allreduce over patched P2P.

References:
    rtx6kpro GLM-5.1 communicators (accept rate 0.06 against 0.46, cycle 31 against 27 ms); club-3090 #922; aiter #3514;
    pytorch #129501; rule catalogue R23.
"""

from __future__ import annotations

import re

from traceana.facts.model import Evidence, Facts, Setting
from traceana.facts.results_model import Results
from traceana.rules._collectives import CARRIERS, carrier, one_gpu
from traceana.rules._drafts import chain_length, off_on_purpose, sparse_drafts
from traceana.rules._levels import Pair, drafting, gate, pairs
from traceana.rules._results import only_results
from traceana.rules._text import count, length, ms, picked
from traceana.rules._wording import clip
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

COLLAPSE = Threshold(
    "collapse", 0.33, "accepted drafts / those of the baseline", "left at most", "rtx6kpro: 0.06 / 0.46", False
)
SAME_CYCLE = Threshold("same_cycle", 0.2, "relative change", "the cycle changed by less", "rtx6kpro: 31 / 27 ms", False)
LOW = Threshold("low", 1.3, "tokens", "accept length that raises the question at all", "rtx6kpro: 1.18", False)
_SPEAKS = re.compile(
    r"all[-_ ]?reduce|barrier|one-?shot|fus(?:ed|ion)|symm|pcie|\bipc\b|p2p|communicator", re.IGNORECASE
)
_NAMES = ("all_reduce", "allreduce", "symm_mem", "pcie_ipc")
_FIX = (
    "switch that path off (--disable-custom-all-reduce, or the fused path's own flag) and keep the rest",
    "a newer build of it; no custom allreduce over patched P2P",
)
_CONFIRM = "a few answers at temperature 0 with the path on and off: repeated characters, broken words?"


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when acceptance collapsed against a speculating baseline and the allreduce path is what differs."""
    measured = only_results(facts)
    if measured is not None:
        return _of_results(measured)
    stopped = gate(facts)
    if stopped is not None:
        return stopped
    if one_gpu(facts) or sparse_drafts(facts):
        return NotApplicable("one GPU per replica" if one_gpu(facts) else "n-gram drafts need no hidden states")
    accept_length = facts.acceptance.accept_length.value
    if accept_length is None or accept_length > LOW.value or off_on_purpose(facts) is not None:
        return Clear("acceptance has not collapsed")
    before = baseline.acceptance.accept_length.value if baseline is not None and drafting(baseline) else None
    if baseline is None or before is None:
        return _alone(facts)
    if chain_length(facts) != chain_length(baseline):
        return NotApplicable("the baseline drafts another number of tokens")
    if accept_length - 1 > COLLAPSE.value * (before - 1):
        return Clear(f"accept length {length(accept_length)}, {length(before)} in the baseline")
    changed, seen = _changed(facts, baseline)
    if not changed:
        return Clear("both runs name the same allreduce paths")
    same = [p for p in pairs(facts, baseline) if abs(p.ratio - 1) < SAME_CYCLE.value]
    if not same:
        return Clear("no load has the same cycle in both runs: more than the sums changed")
    return _finding(accept_length, before, changed, seen, same[0])


def _of_results(found: Results) -> Outcome:
    odd = found.odd
    if odd is None or odd.row.series is None or not _SPEAKS.search(odd.row.series):
        return NotApplicable("no set-up stands out that is named after an allreduce")
    named = clip(odd.row.series, 60)
    return Finding(
        code=RULE.code,
        title=f"Acceptance collapses in one of {odd.set_ups} set-ups, named after the allreduce path: {named}",
        severity=Severity.CRITICAL,
        confidence=Confidence.LOW,
        why=f"Its {odd.what} is {length(odd.value)}, that of the others {length(odd.others[0])} to "
        f"{length(odd.others[1])}. An allreduce or a fused kernel that returns before all ranks have written looks "
        "like this, and then the answers are wrong too. The table does not say what else differs.",
        fix=_FIX,
        evidence=picked(odd.evidence),
        confirm=_CONFIRM,
        rivals=("what else that set-up changes", "measured without drafts", "ACC007 (logits that are no numbers)"),
    )


def _alone(facts: Facts) -> Outcome:
    path = carrier(facts)
    if path is None:
        return NotApplicable("no allreduce path besides NCCL is reported")
    return CannotTell(
        f"acceptance is close to nothing and {path.name} is on: nothing shows what acceptance is without it",
        "run the same prompts with that path off and pass the log as --baseline",
    )


def _changed(facts: Facts, baseline: Facts) -> tuple[list[str], list[Evidence | None]]:
    """What differs in the allreduce paths, in words, and where the run says so."""
    words: list[str] = []
    seen: list[Evidence | None] = []
    for kind, name in CARRIERS:
        on = facts.statements(kind, "on")
        if on and not baseline.statements(kind, "on"):
            words.append(f"{name} is on")
            seen.append(on[0].evidence)
    ours, theirs = _arguments(facts), _arguments(baseline)
    for name in sorted(ours.keys() & theirs.keys()):
        if ours[name].value != theirs[name].value:
            words.append(f"{clip(name, 60)} is {clip(ours[name].value, 20)}, was {clip(theirs[name].value, 20)}")
            seen.append(ours[name].evidence)
    return words, seen


def _arguments(facts: Facts) -> dict[str, Setting]:
    """Settings of an allreduce path; the resolved one counts where several origins name it."""
    return {row.name: row for row in facts.settings.rows if any(word in row.name.lower() for word in _NAMES)}


def _finding(now: float, before: float, changed: list[str], seen: list[Evidence | None], pair: Pair) -> Finding:
    return Finding(
        code=RULE.code,
        title=f"Accept length fell from {length(before)} to {length(now)} at an unchanged cycle, and the allreduce "
        f"path differs: {'; '.join(changed[:2])}",
        severity=Severity.CRITICAL,
        confidence=Confidence.MEDIUM,
        why=f"At {count(pair.running, 'running request')} the cycle is {ms(pair.cycle_ms)}, {ms(pair.step_ms)} in the "
        "baseline: the work is the same, its result is not. An allreduce that returns wrong sums looks like this, and "
        "then the answers are wrong too.",
        fix=_FIX,
        evidence=picked(seen, pair.run.evidence, pair.base.evidence),
        confirm=_CONFIRM,
        rivals=("another drafter, checkpoint or kind of prompt between the two runs", "ACC002"),
    )


RULE = Rule(
    code="ACC009",
    name="allreduce-corrupts-hidden-states",
    severity=Severity.CRITICAL,
    check=check,
    thresholds=(COLLAPSE, SAME_CYCLE, LOW),
    asks="whether an allreduce path returns wrong sums",
    needs="any",
)
