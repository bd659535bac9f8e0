"""`traceana explain [CODE]`: the rule catalogue. All text comes from the docstrings and tables of the rules."""

from __future__ import annotations

import json
from difflib import get_close_matches
from enum import Enum
from shutil import get_terminal_size
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from traceana.cli import output
from traceana.errors import TraceanaError

if TYPE_CHECKING:
    from traceana.rules.causes import SettleRow, SymptomRow
    from traceana.rules.interface import Rule, Threshold
    from traceana.rules.known_bugs import KnownBug


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
    known = {rule.code: rule.name for rule in rules()}
    close = get_close_matches(wanted.upper(), known, n=3) or [
        code for name in get_close_matches(wanted.lower(), known.values(), n=2, cutoff=0.5) for code in known
        if known[code] == name
    ]  # fmt: skip
    hint = f"did you mean {_any_of([f'{code} {known[code]}' for code in close])}?" if close else _LISTS
    raise TraceanaError(f"no rule is called {wanted!r}: {hint}")


_LISTS = "`traceana explain` lists all"


def _any_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def as_dict(rule: Rule) -> dict[str, Any]:
    """A rule as plain data: code, name, severity, engines, what it needs, sections by heading, thresholds, releases.

    `symptoms` are those it can cause, `settle` the observations that tell it from its rivals, `releases` the known bugs
    of engine releases that look the same.
    """
    from traceana.rules.inputs import inputs_of
    from traceana.rules.known_bugs import bugs_of
    from traceana.rules.registry import doc

    text = doc(rule)
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "engines": list(rule.engines),
        "asks": rule.asks,
        "needs": [{"input": row.key, "words": row.words, "how": row.how} for row in inputs_of(rule)],
        "summary": text.summary,
        "sections": text.sections,
        "thresholds": [_threshold(threshold) for threshold in rule.thresholds],
        "symptoms": [{"key": row.key, "title": row.title} for row in _symptoms(rule)],
        "settle": [
            {
                "between": list(row.between),
                "look": row.look,
                "how": row.how,
                "outcomes": [list(o) for o in row.outcomes],
            }
            for row in _settles(rule)
        ],
        "releases": [
            {
                "engine": bug.engine,
                "versions": bug.versions,
                "what": bug.what,
                "fixed": bug.fixed or None,
                "upstream": bug.upstream,
                "checked": bug.checked,
                "settings": dict(bug.settings),
            }
            for bug in bugs_of(rule.code)
        ],
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
    parts += [f"## {heading}\n\n" + "\n".join(f"- {item}" for item in items) for heading, items in _tables(rule)]
    return "\n\n".join(parts)


def _tables(rule: Rule) -> list[tuple[str, list[str]]]:
    """What tables say of a rule, by heading: what it needs, symptoms, what tells it from rivals, releases."""
    from traceana.rules.inputs import inputs_of
    from traceana.rules.known_bugs import bugs_of

    settles = [
        f"{' or '.join(row.between)}: {row.look}. {_upper(row.how)}. "
        + " ".join(f"{_upper(seen)}: {means}." for seen, means in row.outcomes)
        for row in _settles(rule)
    ]
    found = [
        ("Needs at the least", [f"{row.words}: {row.how}" for row in inputs_of(rule)]),
        ("Can be the cause of", [row.title for row in _symptoms(rule)]),
        ("Told from its rivals by", settles),
        ("Known bugs that look like it", [release_line(bug) for bug in bugs_of(rule.code)]),
    ]
    return [(heading, items) for heading, items in found if items]


def release_line(bug: KnownBug) -> str:
    """A known bug in one line: releases, what, where it is fixed, how that is known."""
    fixed = f"fixed in {bug.fixed}" if bug.fixed else "not fixed in any release read"
    needs = f", with {bug.needs}" if bug.needs else ""
    versions = bug.versions.replace(",", ", ")
    return f"{bug.engine} {versions}{needs}: {bug.what}; {fixed} ({bug.upstream}). Known from: {bug.checked}."


def _symptoms(rule: Rule) -> list[SymptomRow]:
    from traceana.rules.causes import cause_rows, symptom_rows

    keys = {key for row in cause_rows() if row.code == rule.code for key in row.symptoms}
    return [row for row in symptom_rows() if row.key in keys and rule.code not in row.shown_by]


def _settles(rule: Rule) -> list[SettleRow]:
    from traceana.rules.causes import settle_rows

    return [row for row in settle_rows() if rule.code in row.between]


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


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

    rows = [f"| {r.code} | {r.name} | {r.severity.value} | {needs(r)} | {doc(r).summary} |" for r in chosen]
    return "\n".join(["| code | name | severity at most | needs | summary |", "|---|---|---|---|---|", *rows])


def needs(rule: Rule) -> str:
    """What the rule needs at the least, in short: `log's start, baseline`."""
    from traceana.rules.inputs import inputs_of

    return ", ".join(row.label for row in inputs_of(rule))


def _terminal_list(chosen: tuple[Rule, ...]) -> str:
    """Two lines and more a rule: code, name, severity, needs; below it the summary."""
    from traceana.rules.registry import doc

    width = max((len(rule.name) for rule in chosen), default=0)
    rows = []
    for rule in chosen:
        rows.append(f"{rule.code}  {rule.name:<{width}}  {rule.severity.value:<8}  {needs(rule)}")
        rows.append(_wrapped(doc(rule).summary, " " * 8))
    head = f"{'code':<6}  {'name':<{width}}  {'at most':<8}  needs at the least"
    return "\n".join([head, *rows, "", "traceana explain CODE prints one of them."])


def _terminal_rule(rule: Rule) -> str:
    from traceana.rules.registry import doc

    text = doc(rule)
    lines = [f"{rule.code} {rule.name} ({rule.severity.value} at most; {', '.join(rule.engines)})"]
    lines.append(_wrapped(text.summary))
    for heading, body in text.sections.items():
        lines += ["", heading, *(_wrapped(" ".join(part.split()), "  ") for part in body.split("\n\n"))]
    if rule.thresholds:
        lines += ["", "Thresholds"]
        for t in rule.thresholds:
            calibrated = "calibrated" if t.calibrated else "not calibrated"
            said = f"{t.name} {t.value:g} {t.unit}: {t.meaning} ({t.source}; {calibrated})"
            lines.append(_wrapped(said, "  ", "    "))
    for heading, items in _tables(rule):
        lines += ["", heading, *(_wrapped(f"- {item}", "  ", "    ") for item in items)]
    return "\n".join(lines)


def _wrapped(text: str, indent: str = "", further: str | None = None) -> str:
    """The text at the terminal's width, at most 110 columns; codes and options are never broken."""
    width = max(40, min(110, get_terminal_size().columns))
    return fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if further is None else further,
        break_on_hyphens=False,
        break_long_words=False,
    )
