"""What a rule is and what it may answer.

A rule is a pure function of the facts of a run (and of its baseline, when given). It answers with a Finding, with Clear
(looked, and the cause is not there) or with CannotTell (the inputs do not show it, and here is how to capture it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from traceana.facts.model import Evidence, Facts, Provenance


class Severity(str, Enum):
    """How much it matters: critical = the run fails or loses most of its speed; warning = act; info = to know."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Confidence(str, Enum):
    """How sure the evidence makes us of the cause, not of the symptom."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class Explains:
    """How much of the time per token, or per cycle, the cause can account for, as a range."""

    low_ms: float
    high_ms: float
    provenance: Provenance
    basis: str  # of which time, at which load, in which window


@dataclass(frozen=True, slots=True)
class Finding:
    """A cause that fits the evidence."""

    code: str
    title: str  # one sentence with the numbers
    severity: Severity
    confidence: Confidence
    why: str
    fix: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    confirm: str | None = None  # one command or one more input that would settle it
    rivals: tuple[str, ...] = ()  # other explanations of the same evidence: rule codes or plain words
    explains_ms_per_token: Explains | None = None
    explains_ms_per_cycle: Explains | None = None  # where the tokens of a cycle are not known, or beside them


@dataclass(frozen=True, slots=True)
class Clear:
    """Looked at, and the cause is not there."""

    note: str


@dataclass(frozen=True, slots=True)
class CannotTell:
    """The inputs do not show it."""

    reason: str
    capture: str  # the command or setting that would show it
    what: str | None = None  # said once for all rules that answer alike, in place of what each of them asks


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The question does not arise in this run (no speculation, one GPU, another engine)."""

    note: str


Outcome = Finding | Clear | CannotTell | NotApplicable


@dataclass(frozen=True, slots=True)
class Threshold:
    """A limit used by a rule. An uncalibrated threshold never yields confidence high by itself."""

    name: str
    value: float
    unit: str
    meaning: str
    source: str
    calibrated: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the catalogue. The text is the docstring of the module that defines it."""

    code: str  # three letters of the family and three digits
    name: str  # kebab-case; names the problem, never the cure
    severity: Severity  # the highest it can reach
    check: Callable[[Facts, Facts | None], Outcome]
    thresholds: tuple[Threshold, ...] = ()
    engines: tuple[str, ...] = ("sglang", "vllm")
    asks: str = ""  # what stays open when it cannot tell, as a reader would put it: "whether NCCL uses P2P"
    needs: str = "log"  # log | trace | any: without it the rule is not asked at all; `any`: it says itself
