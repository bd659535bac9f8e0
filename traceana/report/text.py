"""How numbers, loads and evidence are written, so that the terminal and Markdown show the same figures.

Nothing here computes: a number is rounded and given its unit, a missing one is `-`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from traceana.facts import text as words
from traceana.facts.model import Evidence
from traceana.report.diagnosis import Diagnosis, Level

NONE = "-"

#: a number with its noun: `1 window`, `1,204 windows`
count = words.count

#: one letter per provenance, as the tables show it; the order of the legend
LETTERS = {"measured": "m", "derived": "d", "modelled": "M", "assumed": "a"}

#: engine names as their projects write them
ENGINES = {"sglang": "SGLang", "vllm": "vLLM", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp"}

#: rule families (first three letters of a code) in words
FAMILIES = {
    "ACC": "acceptance",
    "CYC": "cycle cost",
    "COM": "communication",
    "GRF": "CUDA graphs",
    "CAP": "capacity",
    "CFG": "configuration",
    "ENV": "environment",
    "BEN": "benchmark validity",
    "STB": "stability",
    "INP": "input quality",
}

#: most load levels drawn: two blocks at 80 columns, one at 160
MAX_LEVELS = 12


def _missing(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def figure(value: float | None) -> str:
    """One decimal below 1,000, two below 1, none from 1,000: `0.84`, `61.7`, `405.6`, `1,262`."""
    if value is None or _missing(value):
        return NONE
    size = abs(value)
    if size >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 0.995 or value == 0 else f"{value:.2f}"


def whole(value: float | None) -> str:
    """A count with thousands separated: `1,259`."""
    return NONE if value is None or _missing(value) else f"{value:,.0f}"


def two(value: float | None) -> str:
    """Two decimals: accept lengths, break-even, speed-ups, rates: `2.60`."""
    return NONE if value is None or _missing(value) else f"{value:,.2f}"


def share(value: float | None) -> str:
    """A share of 0 ... 1 in per cent: `90 %`, `5.6 %`."""
    if value is None or _missing(value):
        return NONE
    percent = 100.0 * value
    return f"{percent:.0f} %" if abs(percent) >= 9.95 or percent == 0 else f"{percent:.1f} %"


def tok_s(value: float | None) -> str:
    """Throughput: `61.7 tok/s`."""
    return f"{figure(value)} tok/s"


def ms(value: float | None) -> str:
    """Milliseconds: `10.9 ms`."""
    return f"{figure(value)} ms"


def times(value: float | None) -> str:
    """A ratio: `0.80x`."""
    return f"{two(value)}x"


def span(low: str, high: str) -> str:
    """A range; one number when both ends read the same."""
    return low if low == high else f"{low}-{high}"


def duration(seconds: float | None) -> str:
    """`4.5 s`, `42 s`, `27 min`, `3.2 h`, `4.1 days`."""
    if seconds is None or _missing(seconds):
        return NONE
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 and seconds != int(seconds) else f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86_400:.1f} days"


def letter(provenance: str | None) -> str:
    """The letter of a provenance, or an empty text."""
    return LETTERS.get(provenance or "", "")


def weakest(provenances: Iterable[str]) -> str:
    """The letter of the weakest of some provenances; an empty text for none, or for words that are no provenance."""
    order = list(LETTERS)
    known = [order.index(word) for text in provenances if (word := str.__str__(text)) in LETTERS]  # of an enum, too
    return LETTERS[order[max(known)]] if known else ""


def legend(letters: Iterable[str]) -> str:
    """What the letters used mean: `m measured · d derived`."""
    used = set(letters)
    return " · ".join(f"{short} {word}" for word, short in LETTERS.items() if short in used)


def place(evidence: Evidence) -> str:
    """`path:line`, `path:line-line`, or the path alone."""
    lines = _lines(evidence)
    return f"{evidence.path}:{lines}" if lines else evidence.path


def _lines(evidence: Evidence) -> str:
    if evidence.line is None:
        return ""
    last = evidence.last_line
    return str(evidence.line) if last is None or last == evidence.line else f"{evidence.line}-{last}"


def places(evidence: Sequence[Evidence], limit: int = 8) -> str:
    """All places of a finding, lines of the same file together: `a.log:9-19, 22 · b.log:3`; `limit` spans at most."""
    by_path: dict[str, list[tuple[int, int]]] = {}
    for item in evidence:
        spans = by_path.setdefault(item.path, [])
        if item.line is None:
            continue
        first, last = item.line, item.line if item.last_line is None else item.last_line
        if spans and first == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], last)
        elif (first, last) not in spans:
            spans.append((first, last))
    shown, room = [], limit
    for path, spans in by_path.items():
        if room > 0:
            lines = ", ".join(span(str(first), str(last)) for first, last in spans[:room])
            shown.append(f"{path}:{lines}" if lines else path)
        room -= max(len(spans), 1)
    return " · ".join([*shown, f"{-room} more"] if room < 0 else shown)


def shown_levels(diagnosis: Diagnosis, limit: int = MAX_LEVELS) -> tuple[Level, ...]:
    """The load levels that are drawn, by running requests: all, or the `limit` that tell most.

    In this order of preference: the lowest and the highest load, the loads the verdict and the cycle speak of, loads
    with steady windows and a note, both sides of every change between paying and losing, then those with most windows.
    """
    levels = sorted(diagnosis.levels, key=lambda level: level.running)
    if len(levels) <= limit:
        return tuple(levels)
    wanted = [0, len(levels) - 1]
    spoken_of = {diagnosis.verdict.at_running, diagnosis.cycle.at_running}
    wanted += [i for i, level in enumerate(levels) if level.running in spoken_of]
    wanted += [i for i, level in enumerate(levels) if level.note and level.windows]
    wanted += _turning_points(levels)
    wanted += sorted(range(len(levels)), key=lambda i: -levels[i].windows)
    chosen = list(dict.fromkeys(wanted))[:limit]
    return tuple(levels[i] for i in sorted(chosen))


def _turning_points(levels: Sequence[Level]) -> list[int]:
    known = [(i, level.speedup) for i, level in enumerate(levels) if level.speedup is not None]
    pairs = pairwise(known)
    return [i for (a, before), (b, after) in pairs if (before < 1) != (after < 1) for i in (a, b)]
