"""What a check finds: plain data, and at once what the JSON document (schema traceana/check/1) holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """One checked figure. `figure` is its name in a comparison, `tolerance` the allowed change for the worse."""

    name: str
    option: str
    figure: str
    higher_is_better: bool
    tolerance: float
    run_noise: float


@dataclass(frozen=True, slots=True)
class CheckLine:
    """One figure at one load. `change` and its interval are new / baseline - 1; `limit` is the change that fails.

    `basis` says what the interval rests on: runs (the history's spread), assumed (a spread that was given or assumed,
    with the parts of the runs) or none.
    """

    metric: str
    load: str
    baseline: float
    new: float
    change: float
    low: float | None
    high: float | None
    limit: float
    result: str
    basis: str
    baseline_runs: int
    new_runs: int
    sd_runs: float | None


@dataclass(frozen=True, slots=True)
class Check:
    """The whole check. `result`: pass, regression, inconclusive, or first where there was no baseline yet."""

    result: str
    sentence: str
    lines: tuple[CheckLine, ...]
    baseline: str
    baseline_runs: int
    new: tuple[tuple[str, ...], ...]
    unfair: tuple[str, ...] = ()  # differences with which the runs do not measure the same thing
    notes: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()  # runs added to the store
