"""Variables with the engine's prefix that this build of the engine does not know.

What it sees:
vLLM's warning "Unknown vLLM environment variable detected: NAME", one per name, printed by the API server.

Why it matters:
The variable does nothing in this build: a typo, a setting of another version, or of a fork whose patch is not in.
Whoever set it believes otherwise.

How sure and why:
High: the engine compares its environment with its own list. What was meant is not guessed: the list is not in the
log.

Rivals:
On a fork or a development build some names are read by added code that vLLM's list does not hold; then the warning is
harmless. The version says whether this is one.

Confirm:
Search the installed package for the name: grep -rn NAME $(python -c "import vllm; print(vllm.__path__[0])").

Fix:
Correct the name, or remove it from the environment. On a fork: see that the patch that reads it is in the image.

References:
vllm-project/vllm vllm/envs.py; local-inference-lab/rtx6kpro, GLM-5.1 logs (11 names on a fork)
"""

from __future__ import annotations

from traceana.facts.model import Facts, Setting
from traceana.facts.versions import is_fork, parse_version
from traceana.rules._text import count, picked
from traceana.rules._wording import clip, names
from traceana.rules.interface import CannotTell, Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity

_NO_START = CannotTell(
    "the start-up of the API server, where vLLM checks its variables, is not among the inputs",
    "keep the log from the first line on",
)


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when the engine named variables it does not know."""
    rows = facts.settings.of_origin("unknown_env")
    if rows:
        return _finding(facts, rows)
    if facts.identity.engine.value != "vllm":
        return NotApplicable("only vLLM checks its variables' names")
    return Clear("vLLM named no unknown variable") if facts.settings.rows else _NO_START


def _finding(facts: Facts, rows: tuple[Setting, ...]) -> Finding:
    unknown = sorted({clip(row.name, 60) for row in rows})
    version = facts.identity.version.value
    fork = is_fork(parse_version(version or ""))
    if fork:
        build = (
            f"The version ({clip(version or '', 40)}) names a fork or a development build: code added there may read "
            "some of them without vLLM's list knowing."
        )
    else:
        build = "A typo, a setting of another version, or of a fork whose patch is not in this image."
    verb, pronoun = ("is", "it") if len(unknown) == 1 else ("are", "them")
    return Finding(
        code=RULE.code,
        title=f"{count(len(unknown), 'engine variable')} {verb} unknown to this build: {names(unknown, 3)}",
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        why=f"vLLM's own list of variables does not hold {pronoun}: upstream code reads no such name. {build}",
        fix=(
            "correct or remove: " + names(unknown, 12),
            "on a fork, see that the patch that reads them is in the image",
        ),
        evidence=picked((row.evidence for row in rows), limit=12),
        confirm='grep -rn NAME $(python -c "import vllm; print(vllm.__path__[0])")',
        rivals=("the fork's added code reads them",) if fork else (),
    )


RULE = Rule(
    "ENV002",
    "unknown-engine-variable",
    Severity.WARNING,
    check,
    engines=("vllm",),
    asks="whether the engine knows all its variables",
)
