"""The drafter's configured context is shorter than the target's, and the engine objects.

What it sees:
"Target model's context_length (262144) is greater than the derived context_length (131072)" while the drafter is
loaded; with "User-specified" in its place the target itself is asked for more than its configuration allows.

Why it matters:
From SGLang 0.5.1 on this is an error and the server does not start (0.4.6 only warned). Editing the drafter's
config.json is not needed: an environment variable allows it.

How sure and why:
High: the engine says it, with both numbers.

Rivals:
None for the message. A context that is too long for the drafter is also a reason for acceptance that falls with
context.

Confirm:
max_position_embeddings in the drafter's config.json against --context-length.

Fix:
SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1, or --context-length within the drafter's range. Caution: past the length
it was trained on a drafter accepts less, and a position table that is too short can end in CUDA errors; watch accept
length by context. The target's output stays right as long as verify runs, except when the target itself is
overstretched.

References:
sgl-project/sglang configs/model_config.py (0.4.6 to 0.5.23)
"""

from __future__ import annotations

import re

from traceana.facts.model import Facts, Incident
from traceana.rules._levels import NO_SPECULATION
from traceana.rules._text import picked
from traceana.rules.interface import Clear, Confidence, Finding, Outcome, Rule, Severity

_LENGTHS = re.compile(r"context_length \((\d+)\) is greater than the derived context_length \((\d+)\)")


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the engine refused, or warned of, a context longer than the drafter's."""
    found = [incident for incident in facts.incidents if incident.kind == "context_length"]
    if not found:
        if facts.speculation.active.value is False:
            return NO_SPECULATION
        return Clear("the engine reports no context length conflict")
    return _finding(facts, found)


def _finding(facts: Facts, found: list[Incident]) -> Finding:
    text = " ".join(part for i in found for part in (i.text, i.evidence.text) if part)
    own = "user-specified" in text.lower() and "target model's" not in text.lower()
    match = _LENGTHS.search(text)
    wanted, has = (f"{int(match[1]):,}", f"{int(match[2]):,}") if match else ("the asked", "a shorter")
    runs = facts.windows.n > 0 or facts.startup.ready.known
    who = "The model" if own else "The drafter"
    title = (
        f"{who} is configured for {has} tokens of context, {wanted} are asked for"
        if match
        else f"{who} is configured for less context than is asked for"
    )
    return Finding(
        code=RULE.code,
        title=f"{title}{'' if runs else ': the server does not start'}",
        severity=Severity.WARNING if runs else Severity.CRITICAL,
        confidence=Confidence.HIGH,
        why=(
            "The server runs all the same. Past its own length the "
            if runs
            else "SGLang 0.5.1 and newer refuse to start then. If overridden, past its own length the "
        )
        + (
            "model's output is not reliable."
            if own
            else "drafter accepts less, and a position table that is too short can end in CUDA errors."
        ),
        fix=(
            *(() if runs else ("set SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 (no need to edit config.json)",)),
            f"{'' if runs else 'or '}--context-length {match[2] if match else 'N'} or less",
            *(() if own else ("watch accept length by context: a drafter falls off past its own length",)),
        ),
        evidence=picked(incident.evidence for incident in found),
        confirm="max_position_embeddings in the config.json of the " + ("model" if own else "drafter"),
    )


RULE = Rule(
    "CFG003",
    "draft-context-shorter-than-target",
    Severity.CRITICAL,
    check,
    engines=("sglang",),
    asks="whether the drafter's context is long enough",
)
