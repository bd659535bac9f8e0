"""A launch command sets an NCCL variable that no NCCL reads.

What it sees:
NCCL_* names of launch commands among the inputs, compared with a table of all variables that NCCL 2.14 to 2.30 reads:
unknown names (with the nearest real one), names that this release no longer reads, and names that it does not read
yet.

Why it matters:
NCCL passes over unknown names in silence. NCCL_PROTOCOL=LL or NCCL_BUFFER_SIZE=... change nothing, and the run is
compared as if they did.

How sure and why:
High for a name that is one or two edits from a real one or a known misspelling. Medium when nothing resembles it, or
when NCCL is newer than the table.

Rivals:
A network plugin or another library may read the name. NCCL_ASYNC_ERROR_HANDLING and others belong to PyTorch
(ENV004), NCCL_VERSION is a label of container images.

Confirm:
NCCL_DEBUG=INFO for one start: a variable that NCCL reads is echoed as "NAME set by environment to ..."; a misspelt
one never is.

Fix:
Use the name given. PROTO takes LL, LL128, Simple; ALGO takes Tree, Ring, NVLS and others; P2P_LEVEL takes LOC, NVL,
PIX, PXB, PHB, SYS.

References:
NCCL's sources, 2.14.3 to 2.30.7 (table in traceana/facts/nccl_variables.toml); NVIDIA's NCCL user guide, environment
variables
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.facts.model import Facts, Setting
from traceana.facts.nccl_variables import load, status
from traceana.facts.versions import parse_version
from traceana.rules._collectives import one_gpu
from traceana.rules._nccl_env import NO_COMMAND
from traceana.rules._text import count, picked
from traceana.rules._wording import clip, names
from traceana.rules.interface import Clear, Confidence, Finding, NotApplicable, Outcome, Rule, Severity

_WRONG = ("unknown", "removed", "too_new")


@dataclass(frozen=True, slots=True)
class _Wrong:
    """A name that this NCCL does not read, and what to say about it."""

    row: Setting
    state: str
    instead: str | None
    note: str | None

    def __str__(self) -> str:
        name = clip(self.row.name, 60)
        if self.state == "unknown":
            return f"{name} (meant: {self.instead}?)" if self.instead else f"{name} (nothing like it)"
        hint = f", now {self.instead}" if self.instead and self.state == "removed" else ""
        return f"{name} ({self.note or self.state}{hint})"


def check(facts: Facts, baseline: Facts | None) -> Outcome:
    """Finding when a launch command sets a variable that this NCCL does not read."""
    if one_gpu(facts):
        return NotApplicable("one GPU per replica")
    if not facts.nccl.requested:
        return NO_COMMAND
    version = facts.identity.nccl_version.value
    wrong = []
    for row in facts.nccl.requested:
        if not row.name.startswith("NCCL_"):
            continue
        found = status(row.name, version)
        if found.state in _WRONG:
            wrong.append(_Wrong(row, found.state, found.instead, found.note))
    if wrong:
        return _finding(facts, wrong)
    return Clear(f"NCCL reads all {len(facts.nccl.requested)} names of the launch command, or another library does")


def _finding(facts: Facts, wrong: list[_Wrong]) -> Finding:
    version = parse_version(facts.identity.nccl_version.value or "")
    newest = load().newest
    newer = version is not None and version.release[:2] > newest.release[:2]
    sure = any(w.instead is not None or w.state != "unknown" for w in wrong) and not newer
    effect = "they change nothing" if len(wrong) > 1 else "it changes nothing"
    unsure = f" This NCCL ({version}) is newer than the table ({newest})." if newer else ""
    return Finding(
        code=RULE.code,
        title=(
            f"NCCL does not read {count(len(wrong), 'variable')} that the launch command sets: "
            f"{names(map(str, wrong), 3)}"
        ),
        severity=Severity.WARNING if sure else Severity.INFO,
        confidence=Confidence.HIGH if sure else Confidence.MEDIUM,
        why=f"NCCL passes over names it does not know in silence: {effect}.{unsure}",
        fix=tuple(f"{clip(w.row.name, 60)}: {f'use {w.instead}' if w.instead else 'remove it'}" for w in wrong),
        evidence=picked(w.row.evidence for w in wrong),
        confirm="NCCL_DEBUG=INFO for one start: NCCL echoes every variable it reads ('NAME set by environment to')",
        rivals=("a network plugin reads the name",),
    )


RULE = Rule("ENV003", "misspelt-nccl-variable", Severity.WARNING, check, asks="whether an NCCL variable is misspelt")
