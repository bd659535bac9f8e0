"""The page of a check, one line per figure, and JUnit XML for a CI server."""

from __future__ import annotations

from traceana.facts.check_model import CheckLine
from traceana.report.check_report import CheckReport
from traceana.report.page import Labelled, Page, Row, Section, Table
from traceana.report.text import NONE, count, figure, two

_TONES = {"pass": "pays", "first": "pays", "regression": "loses", "inconclusive": "mixed"}


def compose(report: CheckReport) -> Page:
    """The page of a check."""
    runs = count(report.baseline_runs, "run")
    new = ", ".join(" + ".join(paths) for paths in report.paths)
    below = [Labelled("baseline", (f"{report.path} ({runs})",))] if report.baseline_runs else []
    notes = [*report.notes, *(f"differs: {text}" for text in report.unfair)]
    notes += [f"recorded in {report.path} as {', '.join(report.recorded)}"] if report.recorded else []
    section = Section("Figures", tables=(_table(report.lines),)) if report.lines else None
    return Page(
        header=(f"check of {new}",),
        below_header=tuple(below),
        verdict=report.sentence,
        tone=_TONES[report.result],
        verdict_figures=(),
        sections=tuple(s for s in (section, _notes(notes)) if s is not None),
    )


def _notes(notes: list[str]) -> Section | None:
    return Section("Notes", lead=tuple(notes)) if notes else None


def _table(lines: tuple[CheckLine, ...]) -> Table:
    """One line per figure: both values, the change, its interval, the limit, the result."""
    return Table(
        "figure, at",
        ("baseline", "new", "change", "90 % range", "limit", "result"),
        tuple(
            Row(
                f"{line.metric}, {line.load.removesuffix(' running')}",
                (_value(line, line.baseline), _value(line, line.new), *_changes(line), line.result),
            )
            for line in lines
        ),
        remarks=("changes in %; at: requests running. A regression lies beyond its limit with its whole range",),
    )


def _value(line: CheckLine, value: float) -> str:
    return two(value) if line.metric == "accept length" else figure(value)


def _changes(line: CheckLine) -> tuple[str, str, str]:
    known = line.low is not None and line.high is not None
    interval = f"{_percent(line.low)} to {_percent(line.high)}" if known else NONE
    return _percent(line.change), interval, _percent(line.limit)


def _percent(value: float | None) -> str:
    return NONE if value is None else f"{100.0 * value:+.1f}"


def junit(report: CheckReport) -> str:
    """The check as JUnit XML: a regression is a failure, what is inconclusive is skipped; names are made printable."""
    from xml.etree import ElementTree

    from traceana.report.escape import visible

    results = [line.result for line in report.lines]
    suite = ElementTree.Element(
        "testsuite",
        name="traceana check",
        tests=str(len(results)),
        failures=str(results.count("regression")),
        skipped=str(results.count("inconclusive")),
        errors="0",
    )
    for line in report.lines:
        case = ElementTree.SubElement(
            suite, "testcase", classname="traceana.check", name=visible(f"{line.metric} at {line.load}")
        )
        change, interval, limit = _changes(line)
        unit_free = f"{_value(line, line.baseline)} -> {_value(line, line.new)}"
        words = f"{unit_free}: {change} % (90 % range {interval} %, limit {limit} %)"
        if line.result == "regression":
            ElementTree.SubElement(case, "failure", message=words, type="regression")
        elif line.result == "inconclusive":
            ElementTree.SubElement(case, "skipped", message=f"inconclusive: {words}")
        ElementTree.SubElement(case, "system-out").text = words
    ElementTree.SubElement(suite, "system-out").text = visible(
        "\n".join([report.sentence, *report.notes]), keep_newlines=True
    )
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
