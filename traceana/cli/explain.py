"""`traceana explain [CODE]`: the rule catalogue. All text comes from the docstrings of the rules."""

from __future__ import annotations

import json
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli import output
from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from traceana.rules.interface import Rule, Threshold


class ExplainFormat(str, Enum):
    """How `explain` prints."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    JSON = "json"


def explain(
    code: Annotated[str | None, typer.Argument(help="A rule's code (COM001) or name; left out: all rules.")] = None,
    format: Annotated[ExplainFormat, typer.Option("--format", help="How to print.")] = ExplainFormat.TERMINAL,
) -> None:
    """Explain a finding: what it sees, why it matters, how sure it is, what else fits, and what to do.

    Example: traceana explain COM001
    """
    from traceana.rules.registry import rules

    chosen = rules() if code is None else (find_rule(code),)
    if format is ExplainFormat.JSON:
        output.write(json.dumps([as_dict(rule) for rule in chosen], indent=2), None)
    elif format is ExplainFormat.MARKDOWN:
        output.write(_markdown_list(chosen) if code is None else as_markdown(chosen[0]), None)
    else:
        output.write(_terminal_list(chosen) if code is None else _terminal_rule(chosen[0]), None)


def find_rule(code: str) -> Rule:
    """The rule with this code or name, in any case. Raises TraceanaError that suggests the nearest."""
    from traceana.rules.registry import rules

    wanted = code.strip()
    for rule in rules():
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule
    known = [rule.code for rule in rules()] + [rule.name for rule in rules()]
    close = get_close_matches(wanted.upper(), known, n=1) or get_close_matches(wanted.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "`traceana explain` lists all"
    raise TraceanaError(f"no rule is called {wanted!r}: {hint}")


def as_dict(rule: Rule) -> dict[str, Any]:
    """A rule as plain data: code, name, severity, engines, summary, sections by heading, thresholds."""
    from traceana.rules.registry import doc

    text = doc(rule)
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "engines": list(rule.engines),
        "summary": text.summary,
        "sections": text.sections,
        "thresholds": [_threshold(threshold) for threshold in rule.thresholds],
    }


def as_markdown(rule: Rule) -> str:
    """A rule as a Markdown page: its sections as second-level headings, its thresholds as a table."""
    from traceana.rules.registry import doc

    text = doc(rule)
    parts = [f"# {rule.code} {rule.name}", f"**{rule.severity.value}** · {', '.join(rule.engines)}", text.summary]
    parts += [f"## {heading}\n\n{' '.join(body.split())}" for heading, body in text.sections.items()]
    if rule.thresholds:
        rows = [
            f"| {t.name} | {t.value:g} {t.unit} | {t.meaning} | {t.source} | {'yes' if t.calibrated else 'no'} |"
            for t in rule.thresholds
        ]
        head = "| limit | value | meaning | source | calibrated |\n|---|---|---|---|---|"
        parts.append("## Thresholds\n\n" + "\n".join([head, *rows]))
    return "\n\n".join(parts)


def _threshold(threshold: Threshold) -> dict[str, Any]:
    return {
        "name": threshold.name,
        "value": threshold.value,
        "unit": threshold.unit,
        "meaning": threshold.meaning,
        "source": threshold.source,
        "calibrated": threshold.calibrated,
    }


def _markdown_list(chosen: tuple[Rule, ...]) -> str:
    from traceana.rules.registry import doc

    rows = [f"| {r.code} | {r.name} | {r.severity.value} | {doc(r).summary} |" for r in chosen]
    return "\n".join(["| code | name | severity at most | summary |", "|---|---|---|---|", *rows])


def _terminal_list(chosen: tuple[Rule, ...]) -> str:
    from traceana.rules.registry import doc

    width = max((len(rule.name) for rule in chosen), default=0)
    rows = [f"{r.code}  {r.name:<{width}}  {r.severity.value:<8}  {doc(r).summary}" for r in chosen]
    return "\n".join([*rows, "", "traceana explain CODE prints one of them."])


def _terminal_rule(rule: Rule) -> str:
    from traceana.rules.registry import doc

    text = doc(rule)
    lines = [f"{rule.code} {rule.name} ({rule.severity.value} at most; {', '.join(rule.engines)})", text.summary]
    for heading, body in text.sections.items():
        lines += ["", heading, *(f"  {line}" if line else "" for line in body.splitlines())]
    if rule.thresholds:
        lines += ["", "Thresholds"]
        for t in rule.thresholds:
            calibrated = "calibrated" if t.calibrated else "not calibrated"
            lines.append(f"  {t.name} {t.value:g} {t.unit}: {t.meaning} ({t.source}; {calibrated})")
    return "\n".join(lines)
