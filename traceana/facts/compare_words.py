"""The sentences of a comparison: which side is faster, what changed, how sure that is."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts.compare_figures import STILL, moved
from traceana.facts.compare_model import Factors, Figure, LevelComparison
from traceana.speculation.noise import Basis, RatioInterval

_SOURCES = {"requests": "requests", "windows": "windows", "points": "figures", "mixed": "figures", "timers": "lines"}


def number(value: float) -> str:
    """A figure of a sentence: `61.7`, `405`, `0.84`."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def times(ratio: float) -> str:
    """A ratio above 1: `1.47x`."""
    return f"{max(ratio, 1.0 / ratio):.2f}x"


def level_sentence(
    names: tuple[str, str], at: str, speed: str, figures: Sequence[Figure], found: Factors | None, part: str
) -> str:
    """What happened at one load, and which part of it changed."""
    return f"{_speed(names, at, speed, figures)} {reason(figures, found, part)}".strip()


def _speed(names: tuple[str, str], at: str, speed: str, figures: Sequence[Figure]) -> str:
    before, after = names
    figure = next((f for f in figures if f.name in ("throughput", "cycle") and f.ratio is not None), None)
    if figure is None or figure.ratio is None or figure.before is None or figure.after is None:
        return f"No throughput or cycle that both sides have {at}."
    shown = f"{number(figure.before)} -> {number(figure.after)} {figure.unit} {interval_words(figure)}"
    if figure.name == "cycle":
        return f"{_cycle(names, speed, figure)} {at}: {shown}."
    if speed in ("faster", "slower"):
        return f"{after} is {times(figure.ratio)} {speed} than {before} {at}: {shown}."
    if speed == "same":
        return f"{after} is as fast as {before} {at}: {shown}."
    return f"Inconclusive {at}: {shown}."


def _cycle(names: tuple[str, str], speed: str, figure: Figure) -> str:
    """The headline where only cycles are known; a longer one is slower only if acceptance did not make up for it."""
    before, after = names
    if speed in ("faster", "slower") and figure.ratio is not None:
        longer = "longer" if speed == "slower" else "shorter"
        return f"{after}'s cycle is {times(figure.ratio)} {longer} than {before}'s"
    return f"{after}'s cycle is as long as {before}'s" if speed == "same" else "Inconclusive"


def interval_words(figure: Figure) -> str:
    """`(0.66x, 0.55-0.78)`; without an interval the ratio and that no spread is known."""
    if figure.ratio is None:
        return ""
    if figure.low is None or figure.high is None:
        return f"({figure.ratio:.2f}x, no spread known)"
    return f"({figure.ratio:.2f}x, {figure.low:.2f}-{figure.high:.2f})"


def reason(figures: Sequence[Figure], found: Factors | None, part: str) -> str:
    """Which part changed, with its figures."""
    by_name = {figure.name: figure for figure in figures}
    if found is None:
        return "What changed, acceptance or the cycle, is not known: a side lacks tokens per cycle or the cycle."
    acceptance = _part(by_name.get("tokens per cycle"), "tokens per cycle")
    cycle = _part(by_name.get("cycle"), "the cycle", " ms")
    batch = _part(by_name.get("decoding at once"), "requests decoding at once")
    if part == "nothing":
        return f"Neither acceptance nor the cycle changed: {acceptance}; {cycle}."
    if part == "acceptance":
        return f"Acceptance, not the cycle: {acceptance}; {cycle}."
    if part == "cycle":
        return f"The cycle, not acceptance: {cycle}; {acceptance}."
    if part == "batch":
        return f"The batch, neither acceptance nor the cycle: {batch}."
    if part == "outside":
        return "Neither acceptance nor the cycle: the rest is prefill, waiting and idle time."
    return f"{_several(found)}: {acceptance}; {cycle}."


_PARTS = {
    "acceptance": "acceptance",
    "cycle": "the cycle",
    "batch": "the batch",
    "outside": "prefill, waiting and idle time",
}


def _several(found: Factors) -> str:
    """`By parts: the cycle 1.92x slower, acceptance 1.12x slower, together 2.11x slower`, the largest first."""
    words = [f"{_PARTS[name]} {_faster(factor)}" for name, factor in moved(found)]
    return f"By parts: {', '.join(words)}, together {_faster(found.throughput)}"


def _faster(factor: float) -> str:
    if f"{factor:.2f}" == "1.00":
        return "as fast"
    return f"{times(factor)} {'faster' if factor > 1 else 'slower'}"


def _part(figure: Figure | None, name: str, unit: str = "") -> str:
    if figure is None or figure.before is None or figure.after is None or figure.ratio is None:
        return f"{name} not known"
    if max(figure.ratio, 1 / figure.ratio) <= 1 + STILL:
        verb = "is" if name == "the cycle" else "are"
        return f"{name} {verb} the same ({number(figure.after)}{unit})"
    return f"{name} {number(figure.before)} -> {number(figure.after)}{unit} ({times(figure.ratio)})"


def basis_words(found: RatioInterval | None, source: str, paired: bool = False) -> str:
    """What an interval rests on, and what is not in it."""
    parts = _SOURCES[source]
    if found is None or found.basis is Basis.NONE:
        return "one figure per side, without repeats, requests or windows: its noise is not known"
    if found.basis is Basis.ASSUMED:
        return (
            "one figure per side, without repeats, requests or windows: the interval assumes that runs vary by "
            f"{100.0 * (found.sd_runs or 0.0):.0f} %"
        )
    if found.basis is Basis.RUNS:
        spread = f"{100.0 * (found.sd_runs or 0.0):.1f} % from run to run"
        if found.unrepeated:
            side = "first" if found.runs[0] == 1 else "second"
            return f"the {side} side was measured once and is taken to vary like the repeats of the other ({spread})"
        return f"the interval rests on {found.runs[0]} and {found.runs[1]} runs ({spread})"
    pairs = ", each against its twin on the other side (the same prompts)" if paired else ""
    return f"the interval rests on the {parts} of one run per side{pairs}: what differs from run to run is not in it"


def headline(names: tuple[str, str], levels: Sequence[LevelComparison], empty: Sequence[str] = ()) -> str:
    """One sentence over all loads: which side is faster where, and what changed. `empty`: sides without any figure."""
    if empty:
        verb = "hold" if len(empty) > 1 else "holds"
        return f"{' and '.join(empty)} {verb} no throughput, cycle or timer line: nothing to compare."
    if not levels:
        return f"{names[0]} and {names[1]} have no load in common: nothing to compare."
    if len(levels) == 1:
        return levels[0].sentence
    contexts = list(dict.fromkeys(level.context_tokens for level in levels))
    pieces = []
    for context in contexts:
        there = [level for level in levels if level.context_tokens == context]
        length = "" if len(contexts) == 1 or context is None else f"with {context:,.0f} context tokens "
        pieces.append(f"{length}{_speeds(there)}")
    said = f"{names[1]} against {names[0]}: {'; '.join(pieces)}."
    return f"{said} {_overall(levels)}".strip()


def _speeds(levels: Sequence[LevelComparison]) -> str:
    """`slower at 8 (0.80x), 16 (0.73x); faster at 1 (1.62x)`."""
    groups = ((speed, [v for v in levels if v.speed == speed]) for speed in _SPEEDS)
    return "; ".join(f"{_SPEEDS[speed]} at {', '.join(map(_at, group))}" for speed, group in groups if group)


def _overall(levels: Sequence[LevelComparison]) -> str:
    """What changed over all loads, by those where the speed surely did, else by all."""
    known = [level for level in levels if level.changed not in ("nothing", "unknown")]
    told = [level for level in known if level.speed in ("slower", "faster")] or known
    parts = {level.changed for level in told}
    if len(parts) == 1 and "several" not in parts:
        return _OVERALL[parts.pop()]
    largest = {moved(level.factors)[0][0] for level in told if level.factors is not None}
    if len(largest) == 1:
        return f"Mostly {_PARTS[largest.pop()]}."
    return "More than one part changed: see each load." if told else ""


_SPEEDS = {"slower": "slower", "faster": "faster", "same": "as fast", "inconclusive": "inconclusive"}
_OVERALL = {
    "cycle": "The cycle, not acceptance.",
    "acceptance": "Acceptance, not the cycle.",
    "batch": "The batch, neither acceptance nor the cycle.",
    "outside": "Neither acceptance nor the cycle, but prefill, waiting and idle time.",
    "nothing": "Neither acceptance nor the cycle changed.",
}


def _at(level: LevelComparison) -> str:
    ratio = next((f.ratio for f in level.figures if f.name in ("throughput", "cycle") and f.ratio is not None), None)
    load = "an unstated load" if level.concurrency is None else f"{level.concurrency:,.0f}"
    return load if ratio is None else f"{load} ({ratio:.2f}x)"
