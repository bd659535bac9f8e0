"""Runs held against each other as functions: compare two and more, check a new one against a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from traceana.api import file_hash, ingest, load
from traceana.errors import TraceanaError
from traceana_parsers.sources import expand

if TYPE_CHECKING:
    from traceana.facts.compare_levels import Run, Side
    from traceana.facts.compare_model import Comparison
    from traceana.report.check_report import CheckReport
    from traceana.report.compare_report import CompareReport
    from traceana_parsers.interface import FileReport

#: a path and the words that choose one series of it (None: all)
Chosen = tuple[str, str | None]


def compare(
    sides: Sequence[Sequence[Sequence[Chosen]]],
    columns: Mapping[str, str] | None = None,
    predicted: str | None = None,
) -> tuple[CompareReport, tuple[FileReport, ...]]:
    """The comparison of every side with the first one, and what became of all files.

    Args:
        sides: per side its repeated runs, per run its inputs.
        columns: as in `api.load`.
        predicted: a file of predictions that `traceana whatif` made from the first side.

    Raises TraceanaError (exit code 2) when an input cannot be used, or a side holds several set-ups at one load.
    """
    from traceana.facts.compare import compare as compare_facts
    from traceana.facts.compare_levels import Side
    from traceana.facts.compare_predicted import predicted_sides
    from traceana.facts.results import with_results
    from traceana.report.compare_report import compare_report
    from traceana.report.whatif_report import predictions
    from traceana.rules.interface import Finding
    from traceana.rules.registry import run_all

    stored = None if predicted is None else predictions(predicted)
    reports: list[FileReport] = []
    made = [
        Side(
            chr(ord("A") + number) if number < 26 else f"side {number + 1}",
            tuple(run(r, reports, columns) for r in runs),
        )
        for number, runs in enumerate(sides)
    ]
    plain = next((side.facts for side in made if side.facts.speculation.active.value is False), None)
    bases = [None if side.facts is plain else plain for side in made]
    outcomes = [run_all(with_results(side.facts, base), base) for side, base in zip(made, bases, strict=True)]
    findings = [[outcome for _, outcome in of if isinstance(outcome, Finding)] for of in outcomes]
    found = _with_known_bugs(compare_facts(made), made)
    known = () if stored is None else predicted_sides(*stored, made, found.pairs)
    return compare_report(found, findings, known), tuple(reports)


def _with_known_bugs(found: Comparison, sides: Sequence[Side]) -> Comparison:
    """The comparison with what is known to have changed between the engine releases of each pair."""
    from traceana.rules.known_bugs import between_releases

    pairs = []
    for pair, side in zip(found.pairs, sides[1:], strict=True):
        told = between_releases(sides[0].facts, side.facts)
        rows = tuple(
            replace(row, why="; ".join((row.why, *told))) if row.what == "engine version" else row
            for row in pair.differences
        )
        pairs.append(replace(pair, differences=rows))
    return replace(found, pairs=tuple(pairs))


def run(chosen: Sequence[Chosen], reports: list[FileReport], columns: Mapping[str, str] | None = None) -> Run:
    """One run for a comparison: facts, conditions and timers; what became of its files is added to `reports`."""
    from traceana.facts.build import build
    from traceana.facts.compare_levels import Run
    from traceana.facts.conditions import conditions
    from traceana.facts.select_series import select_series
    from traceana.facts.timer_series import timer_series

    paths = [path for path, _ in chosen]
    with load(paths, columns) as loaded:
        tables = loaded.tables
        reports.extend(loaded.reports)
        for path, words in chosen:
            if words is not None:
                tables = select_series(tables, words, path)
        return Run(tuple(paths), build(tables), conditions(tables), timer_series(tables))


def check(
    new: Sequence[Sequence[Chosen]],
    against: str,
    baseline: Sequence[Sequence[Chosen]],
    tolerances: Mapping[str, float | None],
    *,
    run_noise: float | None = None,
    record: bool = False,
    allow_differences: bool = False,
    columns: Mapping[str, str] | None = None,
) -> tuple[CheckReport, tuple[FileReport, ...]]:
    """The check of a new run against a baseline, and what became of all files.

    Args:
        new: the repeats of the new run, per repeat its inputs.
        against: the baseline as the user named it; a store stands for all of its runs.
        baseline: the runs of the baseline where `against` is no store.
        tolerances: see `facts.check.check`.
        run_noise: see there.
        record: add the new runs to the store `against` unless the check finds a regression; it is made when missing.
        allow_differences: check runs of other prompts, lengths or models all the same.
        columns: as in `api.load`.

    Raises TraceanaError (exit code 2) when an input cannot be used, or the runs do not measure the same thing.
    """
    from traceana.facts.check import check as check_facts
    from traceana.facts.check import first
    from traceana.facts.compare_levels import Side
    from traceana.report.check_report import check_report
    from traceana.store.dataset import is_store

    reports: list[FileReport] = []
    store, missing = is_store(against), not any(Path(path).exists() for r in baseline for path, _ in r)
    if record and not (store or missing):
        raise TraceanaError(f"{against}: is no store; --record needs the folder of one, new or made by traceana")
    if missing and not record:
        raise TraceanaError(f"{against}: no such store or file; --record makes a baseline of the new run")
    made = Side("new", tuple(run(r, reports, columns) for r in new))
    known = [run(r, reports, columns) for r in (_history(against, new) if store else [] if missing else baseline)]
    if known:
        found = check_facts(Side("baseline", tuple(known)), made, tolerances, run_noise, against)
    elif record:
        found = first(made, against)
    else:
        raise TraceanaError(f"{against}: holds no run but the one to check")
    if not found.lines and found.result != "first":
        raise TraceanaError(" ".join((found.sentence, *found.notes)))
    if found.unfair and not allow_differences:
        raise TraceanaError(
            f"the new run and the baseline do not measure the same thing: {'; '.join(found.unfair)}. Repeat it as the "
            "baseline was run, or add --allow-differences"
        )
    if record and found.result != "regression":
        ids = [ingest([path for path, _ in r], against, columns=columns).run_id for r in new]
        found = replace(found, recorded=tuple(ids))
    return check_report(found), tuple(reports)


def _history(store: str, new: Sequence[Sequence[Chosen]]) -> list[list[Chosen]]:
    """The latest runs of a store without those of the very inputs that are checked."""
    from traceana.facts.check import most_history
    from traceana.store.dataset import open_run, run_folders

    hashes = {frozenset(file_hash(source.path) for source in expand([path for path, _ in r])) for r in new}
    kept: list[list[Chosen]] = []
    for folder in run_folders(store):
        inputs = open_run(str(folder))[1].get("inputs")
        known = frozenset(i.get("sha256") for i in inputs) if isinstance(inputs, list) else frozenset()
        if known not in hashes:
            kept.append([(str(folder), None)])
        if len(kept) == most_history():
            break
    return kept
