"""What could explain the change that was seen, whether the runs may be compared, and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from traceana.facts.compare_figures import moved
from traceana.facts.compare_found import Found
from traceana.facts.compare_levels import Side
from traceana.facts.compare_model import Comparable, Difference, LevelComparison
from traceana.facts.compare_size import Change
from traceana.facts.settings_effects import machine_noise
from traceana.facts.timer_series import TimerSeries

_SURE = ("faster", "slower")
_MOST = 4
#: what must be known of a benchmark before its figures can be called comparable
_NEEDED = ("dataset", "prompts", "prompt tokens", "output tokens per request", "output lengths", "temperature")


def main_level(levels: Sequence[LevelComparison]) -> LevelComparison | None:
    """The load that explanations speak of: the largest sure loss, else the largest sure change, else the largest."""

    def key(level: LevelComparison) -> tuple[bool, bool, float]:
        ratio = next((f.ratio for f in level.figures if f.name in ("throughput", "cycle") and f.ratio), 1.0)
        return level.speed == "slower", level.speed in _SURE, max(ratio, 1.0 / ratio)

    return max(levels, key=key, default=None)


def change_of(main: LevelComparison | None, sides: tuple[Side, Side]) -> Change:
    """Which part changed at that load, both cycles, and over how many ranks."""
    if main is None:
        return Change("unknown")
    cycle = next((f for f in main.figures if f.name == "cycle"), None)
    cycles = None
    if cycle is not None and cycle.before is not None and cycle.after is not None:
        cycles = (cycle.before, cycle.after)
    ranks = {side.facts.parallelism.tp.value for side in sides}
    return Change(main.changed, cycles, ranks.pop() if len(ranks) == 1 else None)


def comparable(found: Found, rows: Sequence[Difference], sides: tuple[Side, Side]) -> Comparable:
    """Whether the runs measure the same thing: no with an unfair difference, doubtful where something is not known."""
    unfair = [f"{row.what}: {row.before} / {row.after} ({row.why})" for row in rows if row.unfair]
    doubts = [
        f"{side.name}: {conditions.doubt}" for side in sides for run in side.runs for conditions in run.conditions.loads
        if conditions.doubt
    ]  # fmt: skip
    doubts += [
        f"other clients used the server of {side.name}"
        for side in sides
        if any(run.conditions.counters.foreign for run in side.runs)
    ]
    missing = [text for text in found.unknown if text.startswith(_NEEDED)]
    answer = "no" if unfair else "doubtful" if doubts or missing else "yes"
    reasons = unfair or [*doubts, *missing]
    unknown = [text for text in found.unknown if text not in reasons]
    return Comparable(answer, tuple(dict.fromkeys(reasons)), tuple(found.same), tuple(unknown))


def explanations(rows: Sequence[Difference], main: LevelComparison | None, unknown: Sequence[str]) -> tuple[str, ...]:
    """What fits the change, best first: differences by what they can do, then the machine itself."""
    if main is None or main.speed == "same":
        return ()
    fitting = [row for row in rows if row.sized.fit in ("all", "part")]
    made = [f"{row.what} ({row.before} -> {row.after}): {row.sized.words}" for row in fitting[:_MOST]]
    unsized = [row.what for row in rows if row.sized.fit == "unknown"]
    if unsized:
        more = f" and {len(unsized) - _MOST} more" if len(unsized) > _MOST else ""
        made.append(f"{', '.join(unsized[:_MOST])}{more}: may explain it, cannot say how much")
    if not fitting and _mostly_cycle(main):
        made.append(_machine(main, bool(unsized), unknown))
    return tuple(made)


def _mostly_cycle(main: LevelComparison) -> bool:
    """Whether the cycle, or what nothing else explains, moved most: a busy machine does that."""
    if main.factors is None:
        return main.changed == "unknown"
    parts = moved(main.factors)
    return bool(parts) and parts[0][0] in ("cycle", "outside")


def _machine(main: LevelComparison, others: bool, unknown: Sequence[str]) -> str:
    """The machine's own noise: always possible for a cycle that was measured once."""
    (low, high), source = machine_noise()
    no_setting = "" if others else "no setting differs" if not _settings_unknown(unknown) else "no difference is known"
    by_name = {f.name: f.ratio for f in main.figures if f.ratio is not None}
    cycle = by_name.get("cycle") or 1.0 / by_name.get("throughput", math.inf)
    if not low <= cycle <= high:
        return f"{no_setting or 'beside that'}; machine noise of this size has not been seen ({low:g}x to {high:g}x)"
    return (
        f"{no_setting or 'beside that'}; machine noise fits: identical runs on an idle and a busy machine differed "
        f"{low:g}x to {high:g}x in the cycle ({source})"
    )


def _settings_unknown(unknown: Sequence[str]) -> bool:
    return any(text.startswith("engine arguments") for text in unknown)


def next_step(
    main: LevelComparison | None, found: Comparable, rows: Sequence[Difference], timers: Sequence[TimerSeries | None]
) -> str | None:
    """The one thing that would settle it; None where nothing is open."""
    if main is None:
        return "measure both at the same concurrency"
    if found.answer == "no":
        return "measure both again with the same model, prompts, lengths and temperature"
    if main.speed == "same":
        return None
    fitting = [row for row in rows if row.sized.fit in ("all", "part") and row.setting]
    if fitting and main.speed in _SURE:
        runs = f", {main.runs_needed} times each" if main.runs_needed is not None else ""
        return f"set {fitting[0].what} alone back to {fitting[0].before} and run both again{runs}"
    if main.runs_needed is not None:
        runs = f"run each set-up {main.runs_needed} times in turn on an otherwise idle machine"
        return f"{runs} ({main.runs_needed_from})"
    if main.runs_needed_from is not None:
        return f"nothing affordable: more than a thousand runs ({main.runs_needed_from})"
    if main.changed == "cycle" and None in timers:
        return "time the phases of both (traceana run, or a profile of each): it tells which part of the cycle grew"
    return None
