"""SGLang changed the number of draft tokens that was asked for, because topk is 1.

What it sees:
The warning "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1",
or an asked and a resolved number of draft tokens that differ while topk is 1.

Why it matters:
With topk 1 the draft is a chain of num_steps tokens and the verify forward is num_steps + 1 wide, whatever was asked.
`--speculative-num-steps 1 --speculative-num-draft-tokens 3` drafts one token, and its accept length cannot exceed
2.0: a run that seems to accept little may be close to its ceiling.

How sure and why:
High: the engine says so, and every version from 0.4.6 to 0.5.23 does it.

Rivals:
None for the change itself. Whether more steps would pay is another question: see the accept length against the
ceiling.

Confirm:
The resolved numbers are in the server_args= line of the start-up and in /server_info.

Fix:
For a chain of k drafts: --speculative-num-steps k --speculative-eagle-topk 1 --speculative-num-draft-tokens k+1. For
a tree: topk above 1, and only at small batches.

References:
sgl-project/sglang server_args.py (0.4.6 to 0.5.20), arg_groups/speculative_hook.py (0.5.19 and newer)
"""

from __future__ import annotations

from traceana.facts.model import Facts, Setting
from traceana.rules._levels import NO_SPECULATION, SPECULATION_UNKNOWN
from traceana.rules._text import length, picked
from traceana.rules._wording import words
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity

_MESSAGE = "adjusted to speculative_num_steps"
_UNKNOWN = CannotTell(
    "the speculative arguments as asked and as resolved are not in the log",
    "keep the start-up lines up to server_args=",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the engine changed num_draft_tokens on a chain (topk 1)."""
    spec = facts.speculation
    if facts.identity.engine.value not in (None, "sglang"):
        return NotApplicable("SGLang's arguments only")
    if spec.active.value is False:
        return NO_SPECULATION
    if spec.topk.known and spec.topk.value != 1:
        return NotApplicable(f"topk is {spec.topk.value}: the draft is a tree")
    message = _message(facts)
    asked, resolved = spec.num_draft_tokens_asked.value, _resolved(facts)
    changed = asked is not None and resolved is not None and asked != resolved
    if message is not None or changed or "adjusted" in (spec.num_draft_tokens_asked.reason or ""):
        return _finding(facts, message, asked, resolved)
    if resolved is None:
        return SPECULATION_UNKNOWN if spec.active.value is None else _UNKNOWN
    return Clear(f"{resolved} draft tokens are in use, and the engine reports no change")


def _message(facts: Facts) -> Setting | None:
    for row in facts.settings.of_origin("engine_message"):
        if _MESSAGE in words(row.name, row.value, row.evidence.text if row.evidence else None):
            return row
    return None


def _resolved(facts: Facts) -> int | None:
    spec = facts.speculation
    if spec.num_draft_tokens.known:
        return spec.num_draft_tokens.value
    return None if spec.num_steps.value is None else spec.num_steps.value + 1


def _finding(facts: Facts, message: Setting | None, asked: int | None, resolved: int | None) -> Finding:
    spec = facts.speculation
    steps = spec.num_steps.value if spec.num_steps.known else None if resolved is None else resolved - 1
    wanted = f"{asked} draft tokens were" if asked is not None else "Another number of draft tokens was"
    used = f"{resolved} are in use" if resolved is not None else "num_steps + 1 are in use"
    ceiling = "" if steps is None else f"; accept length cannot exceed {steps + 1}"
    now = facts.acceptance.accept_length.value
    reached = f" This run reaches {length(now)}." if now is not None else ""
    return Finding(
        code=RULE.code,
        title=f"{wanted} asked for, {used} (topk 1){ceiling}",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH if message is not None or spec.topk.value == 1 else Confidence.MEDIUM,
        why=(
            f"With topk 1 the draft is a chain of num_steps{'' if steps is None else f' = {steps}'} tokens, and SGLang "
            f"sets num_draft_tokens to num_steps + 1. Judge acceptance against that ceiling.{reached}"
        ),
        fix=(
            _advice(asked, steps),
            "or ask for what is in use, so that notes and comparisons carry the right number",
        ),
        evidence=picked(
            [message.evidence if message else None],
            spec.num_draft_tokens_asked.evidence,
            spec.num_draft_tokens.evidence,
        ),
        confirm="server_args= in the start-up log, or /server_info: speculative_num_draft_tokens",
    )


def _advice(asked: int | None, steps: int | None) -> str:
    k = str(asked - 1) if asked is not None and steps is not None and asked > steps + 1 else "k"
    width = str(int(k) + 1) if k.isdecimal() else "k+1"
    return (
        f"for {k} drafts per cycle: --speculative-num-steps {k} --speculative-eagle-topk 1 "
        f"--speculative-num-draft-tokens {width}"
    )


RULE = Rule(
    "CFG001",
    "draft-tokens-changed-by-topk-1",
    Severity.WARNING,
    check,
    engines=("sglang",),
    asks="whether the number of draft tokens was changed",
)
