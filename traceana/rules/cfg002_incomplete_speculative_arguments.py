"""The server does not start because only some of the speculative arguments were given.

What it sees:
A bare AssertionError whose last source line is "and self.speculative_num_draft_tokens is None", or "TypeError: '>'
not supported between instances of 'NoneType' and 'int'" (or of '*' on the same types) from the checks of the
arguments.

Why it matters:
SGLang fills in num_steps, topk and num_draft_tokens only when num_steps is missing, and then expects the other two to
be missing as well. Half a set ends in an error that names none of them.

How sure and why:
High when the error stands in server_args.py or names a speculative argument. Medium for the bare TypeError line: the
same words come from any comparison with a missing value.

Rivals:
Another argument that is None, or a wrapper that passes empty values on.

Confirm:
Start with all three arguments, or with none.

Fix:
All three or none of --speculative-num-steps, --speculative-eagle-topk and --speculative-num-draft-tokens; with topk 1
the last is num_steps + 1.

References:
sgl-project/sglang #5673 #22895 #34361 (0.5.9 to 0.5.23); gpustack/gpustack #3392
"""

from __future__ import annotations

from traceana.facts.model import Facts, Incident
from traceana.rules._text import picked
from traceana.rules._wording import names, words
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity

_CONTEXT = ("server_args", "speculative_hook", "speculative_num", "speculative_eagle", "__post_init__")
_NONE_ERRORS = (
    "'>' not supported between instances of 'nonetype' and 'int'",
    "unsupported operand type(s) for *: 'nonetype' and 'int'",
)
_ARGUMENTS = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


def incomplete(incident: Incident, facts: Facts) -> Confidence | None:
    """How surely an incident is this error: high with the arguments' code in sight, medium for a bare line, or None."""
    if incident.kind not in ("argument_error", "exception") or facts.identity.engine.value == "vllm":
        return None
    text = words(incident.text, incident.evidence.text, *incident.frames)
    raised = "assertionerror" in text or incident.kind == "argument_error"
    if raised and "speculative_num_draft_tokens is none" in text:
        return Confidence.HIGH
    bare = incident.kind == "argument_error" and incident.text.strip().rstrip(":") == "AssertionError"
    if not bare and not any(error in text for error in _NONE_ERRORS):
        return None
    if any(word in text for word in _CONTEXT):
        return Confidence.HIGH
    served = facts.windows.n > 0 or facts.startup.ready.known
    return None if served else Confidence.MEDIUM


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the start ended in one of the errors that incomplete speculative arguments give."""
    if facts.identity.engine.value not in (None, "sglang"):
        return NotApplicable("SGLang's arguments only")
    found = [(confidence, i) for i in facts.incidents if (confidence := incomplete(i, facts)) is not None]
    if not found:
        return Clear("no error from the checks of the arguments")
    confidence, incident = min(found, key=lambda pair: pair[0] is not Confidence.HIGH)
    return _finding(facts, incident, confidence)


def _finding(facts: Facts, incident: Incident, confidence: Confidence) -> Finding:
    rows = [(name, facts.settings.get(name)) for name in _ARGUMENTS]
    given = [name for name, row in rows if row is not None and row.parsed is not None]
    missing = [name for name, row in rows if row is not None and row.parsed is None]
    seen = f" Given: {names(given)}; missing: {names(missing)}." if given and missing else ""
    unsure = " The bare line does not say where it was raised: another argument may be None."
    doubt = "" if confidence is Confidence.HIGH else unsure
    return Finding(
        code=RULE.code,
        title=(
            "The server did not start: speculative arguments are incomplete"
            if confidence is Confidence.HIGH
            else "The server did not start, probably because speculative arguments are incomplete"
        ),
        severity=Severity.CRITICAL,
        confidence=confidence,
        why=(
            "SGLang chooses num_steps, topk and num_draft_tokens together or not at all; with some of them given its "
            f"checks compare a missing value and end in an error that names none of them.{seen}{doubt}"
        ),
        fix=(
            "give all or none of --speculative-num-steps, --speculative-eagle-topk, --speculative-num-draft-tokens",
            "with topk 1, num_draft_tokens = num_steps + 1, for example 3, 1 and 4",
        ),
        evidence=picked([incident.evidence], (row.evidence for _, row in rows if row is not None)),
        confirm="start once with all three arguments",
        rivals=() if confidence is Confidence.HIGH else ("another argument without a value",),
    )


RULE = Rule(
    "CFG002",
    "incomplete-speculative-arguments",
    Severity.CRITICAL,
    check,
    engines=("sglang",),
    asks="whether the speculative arguments are complete",
)
