"""Finds every rule: each module of this package named `<family><number>_<name>.py` holds one `RULE`."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import dataclass
from functools import cache

from traceana import rules as _package
from traceana.facts.model import Facts
from traceana.rules.interface import CannotTell, Finding, NotApplicable, Outcome, Rule
from traceana.rules.known_bugs import with_known_bugs

#: what rules about a log answer when traces are all there is, and the other way round
NO_LOG = CannotTell(
    "no log is among the inputs",
    "give the server's own log, from its first line on, beside these inputs",
    "load levels, acceptance, settings, NCCL's own words, incidents",
)
NO_TRACE = CannotTell(
    "no trace is among the inputs",
    "profile 100 cycles on every rank and give the traces beside the log",
    "compute, allreduce transfer and waiting, launch gaps, host waits and copies inside the cycle",
)
NOTHING_TO_TRACE = NotApplicable("no trace is among the inputs, and the log shows no cycle to look into")

_MODULE = re.compile(r"[a-z]{3}\d{3}_[a-z0-9_]+")

#: headings every rule's docstring has, in this order
HEADINGS = (
    "What it sees",
    "Why it matters",
    "How sure and why",
    "Rivals",
    "Confirm",
    "Fix",
    "References",
)


@dataclass(frozen=True, slots=True)
class RuleDoc:
    """A rule's text: `summary` (first line of the docstring) and its sections by heading."""

    summary: str
    sections: dict[str, str]


@cache
def rules() -> tuple[Rule, ...]:
    """All rules, by code. Raises ValueError when two share a code or a module's name does not match its code."""
    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(_package.__path__):
        if not _MODULE.fullmatch(info.name):
            continue
        rule: Rule = importlib.import_module(f"{_package.__name__}.{info.name}").RULE
        if rule.code.lower() != info.name[:6]:
            raise ValueError(f"{info.name}.py holds rule {rule.code}")
        if rule.code in found:
            raise ValueError(f"two rules are called {rule.code}")
        found[rule.code] = rule
    return tuple(found[code] for code in sorted(found))


def doc(rule: Rule) -> RuleDoc:
    """The rule's text, from the docstring of its module. Raises ValueError when a heading is missing."""
    module = importlib.import_module(rule.check.__module__)
    text = (module.__doc__ or "").strip()
    summary, _, rest = text.partition("\n")
    sections: dict[str, str] = {}
    current: str | None = None
    for line in rest.splitlines():
        if line.strip().rstrip(":") in HEADINGS and line.strip().endswith(":"):
            current = line.strip().rstrip(":")
            sections[current] = ""
        elif current is not None:
            sections[current] += line.strip() + "\n"
    missing = [heading for heading in HEADINGS if not sections.get(heading, "").strip()]
    if missing:
        raise ValueError(f"{rule.code}: docstring lacks {', '.join(missing)}")
    return RuleDoc(summary.strip(), {heading: sections[heading].strip() for heading in HEADINGS})


def run_all(facts: Facts, baseline: Facts | None = None) -> tuple[tuple[Rule, Outcome], ...]:
    """Every rule's outcome for a run, by code.

    A rule of other engines than the run's does not apply; one whose kind of input is missing cannot tell. Findings
    say which known bugs of the running release fit.
    """
    engine = facts.identity.engine.value

    def outcome(rule: Rule) -> Outcome:
        if engine is not None and engine not in rule.engines:
            return NotApplicable(f"a rule for {' and '.join(rule.engines)}")
        if rule.needs == "trace" and facts.trace is None:
            return NO_TRACE if facts.cycle.total_ms.known else NOTHING_TO_TRACE
        if rule.needs == "log" and (facts.trace_only or facts.results_only):
            return NO_LOG
        found = rule.check(facts, baseline)
        return with_known_bugs(found, facts) if isinstance(found, Finding) else found

    return tuple((rule, outcome(rule)) for rule in rules())
