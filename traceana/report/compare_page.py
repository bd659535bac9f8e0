"""From a comparison to the page: a post-mortem of two runs that can be pasted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from traceana.facts.compare_model import Figure, LevelComparison, PairComparison, SideInfo
from traceana.report.compare_report import CompareReport
from traceana.report.page import Labelled, Page, Row, Section, Table
from traceana.report.predicted_section import predicted_section
from traceana.report.text import ENGINES, NONE, count, figure, share, two, whole

_TONES = {"faster": "pays", "slower": "loses", "same": "even", "inconclusive": "unknown"}
_COMPARABLE = {"yes": "Comparable", "no": "Not comparable", "doubtful": "Comparable?"}


def compose(report: CompareReport) -> Page:
    """The page of a comparison."""
    first, *others = report.pairs
    several = bool(others)
    return Page(
        header=(f"{count(len(report.sides), 'side')} compared, each against {report.sides[0].name}",),
        below_header=tuple(_side(side) for side in report.sides),
        verdict=first.sentence if not several else " ".join(pair.sentence for pair in report.pairs),
        tone=_tone(first),
        verdict_figures=tuple(text.partition(":")[0] for text in first.explanations[:1]) if not several else (),
        sections=(
            *(section for pair in report.pairs for section in _pair(report, pair, several)),
            *(predicted_section(found, several) for found in report.predicted),
        ),
    )


def _tone(pair: PairComparison) -> str:
    speeds = {level.speed for level in pair.levels}
    return _TONES[speeds.pop()] if len(speeds) == 1 else "mixed"


def _side(side: SideInfo) -> Labelled:
    engine = ENGINES.get(side.engine or "", side.engine or "engine unknown")
    who = [f"{engine} {side.version}" if side.version else engine, side.model or "", side.speculation]
    runs = ", ".join(" + ".join(paths) for paths in side.paths)
    repeats = f"{count(len(side.paths), 'run')}: " if len(side.paths) > 1 else ""
    return Labelled(side.name, (f"{repeats}{runs} ({' · '.join(piece for piece in who if piece)})", *side.notes))


def _pair(report: CompareReport, pair: PairComparison, named: bool) -> list[Section]:
    prefix = f"{pair.after} against {pair.before}: " if named else ""
    sections = [
        _comparable(pair, prefix),
        _loads(pair, prefix),
        *(_waterfall(level, prefix) for level in pair.levels if _is_split(level)),
        _real(pair, prefix),
        _differences(pair, prefix),
        _findings(report, pair, prefix),
        _explanations(pair, prefix),
    ]
    return [section for section in sections if section is not None]


def _comparable(pair: PairComparison, prefix: str) -> Section:
    found = pair.comparable
    lead = [f"{found.answer}: {'; '.join(found.reasons)}" if found.reasons else found.answer]
    if found.same:
        lead.append(f"the same: {', '.join(found.same)}")
    if found.unknown:
        lead.append(f"not known: {'; '.join(found.unknown)}")
    only = [(pair.before, pair.only_before), (pair.after, pair.only_after)]
    lead += [f"only {side} has: {'; '.join(loads)}" for side, loads in only if loads]
    return Section(f"{prefix}{_COMPARABLE[found.answer]}", lead=tuple(lead))


def _loads(pair: PairComparison, prefix: str) -> Section | None:
    """One column per load, one row per figure and side."""
    if not pair.levels:
        return None
    rows: list[Row] = []

    def add(label: str, get: Callable[[LevelComparison], str], letter: str = "") -> None:
        cells = tuple(get(level) for level in pair.levels)
        if any(cell != NONE for cell in cells):
            rows.append(Row(label, cells, letter))

    a, b = pair.before, pair.after
    add(f"tok/s {a}", lambda v: figure(_of(v, "throughput", "before")), "m")
    add(f"tok/s {b}", lambda v: figure(_of(v, "throughput", "after")), "m")
    add(f"{b} / {a}", lambda v: two(_of(v, "throughput", "ratio")), "d")
    add("  95 % from", lambda v: two(_of(v, "throughput", "low")), "d")
    add("  95 % to", lambda v: two(_of(v, "throughput", "high")), "d")
    add(f"{b} is", lambda v: v.speed)
    add("by acceptance", lambda v: two(v.factors.acceptance if v.factors else None), "d")
    add("x the cycle", lambda v: two(v.factors.cycle if v.factors else None), "d")
    add("x the batch", lambda v: two(v.factors.batch if v.factors else None), "d")
    if any(v.factors is not None and two(v.factors.unexplained) != "1.00" for v in pair.levels):
        add("x the rest", lambda v: two(v.factors.unexplained if v.factors else None), "d")
    for name, words, write in (
        ("tokens per cycle", "tokens/cycle", two),
        ("cycle", "cycle ms", figure),
        ("verify", "verify ms", figure),
        ("time to first token", "first token ms", figure),
    ):
        add(f"{words} {a}", lambda v, n=name, w=write: w(_of(v, n, "before")))  # type: ignore[misc]
        add(f"{words} {b}", lambda v, n=name, w=write: w(_of(v, n, "after")))  # type: ignore[misc]
    _token_rows(pair, add)
    columns = tuple(_column(level) for level in pair.levels)
    aside = "m measured · d derived · acceptance x cycle x batch x rest = tok/s ratio"
    return Section(f"{prefix}Loads", tables=(Table("running", columns, tuple(rows), remarks=(aside,)),))


def _token_rows(pair: PairComparison, add: Callable[..., None]) -> None:
    """ms per token of the first side, what each cause adds, and the other side's: they add up as printed."""
    whole_cycles = [level for level in pair.levels if level.waterfall is not None and level.waterfall.per == "token"]
    if not whole_cycles:
        return

    def part(level: LevelComparison, name: str) -> str:
        found = level.waterfall
        if found is None or found.per != "token":
            return NONE
        acceptance = [Decimal(p.printed) for p in found.parts if p.name == "acceptance"]
        rest = [Decimal(p.printed) for p in found.parts if p.name != "acceptance"]
        return _signed(str(sum(acceptance if name == "acceptance" else rest, Decimal("0.00"))))

    def end(level: LevelComparison, place: int) -> str:
        return level.waterfall.printed[place] if level.waterfall and level.waterfall.per == "token" else NONE

    add(f"ms per token {pair.before}", lambda v: end(v, 0), "d")
    add("  by acceptance", lambda v: part(v, "acceptance"), "d")
    add("  by the cycle", lambda v: part(v, "cycle"), "d")
    add(f"ms per token {pair.after}", lambda v: end(v, 1), "d")


def _is_split(level: LevelComparison) -> bool:
    return level.waterfall is not None and level.waterfall.why_not_split is None


def _column(level: LevelComparison) -> str:
    load = "?" if level.concurrency is None else whole(level.concurrency)
    return load if level.context_tokens is None else f"{load} @{whole(level.context_tokens)}"


def _of(level: LevelComparison, name: str, what: str) -> float | None:
    found: Figure | None = next((f for f in level.figures if f.name == name), None)
    value: float | None = None if found is None else getattr(found, what)
    return value


def _waterfall(level: LevelComparison, prefix: str) -> Section:
    """Rows that add up from the first side's time to the other one's, to the last digit."""
    found = level.waterfall
    assert found is not None
    at = "" if level.concurrency is None else f" at {whole(level.concurrency)} running"
    rows = [Row("before", ("", "", found.printed[0]))]
    rows += [
        Row(f"  {part.name}", (_ms(part.before_ms), _ms(part.after_ms), _signed(part.printed))) for part in found.parts
    ]
    rows.append(Row("after", ("", "", found.printed[1])))
    table = Table(
        "",
        ("cycle before", "cycle after", f"ms per {found.per}"),
        tuple(rows),
        remarks=(f"difference {_signed(found.printed[2])} ms; phases from {found.source}",),
    )
    return Section(f"{prefix}Time per {found.per}{at}", tables=(table,))


def _ms(value: float | None) -> str:
    return "" if value is None else two(value)


def _signed(text: str) -> str:
    return text if text.startswith("-") or not text.strip("0.") else f"+{text}"


def _real(pair: PairComparison, prefix: str) -> Section | None:
    """What the intervals rest on, the spread of repeats, and how many runs would settle what is open."""
    texts: dict[str, list[str]] = {}
    for level in pair.levels:
        for note in (*level.notes, *_repeats(level)):
            texts.setdefault(note, []).append(_column(level))
    everywhere = len(pair.levels)
    lead = [note if len(at) == everywhere else f"at {', '.join(at)}: {note}" for note, at in texts.items()]
    lead += _settle(pair.levels)
    return Section(f"{prefix}Is it real", lead=tuple(lead)) if lead else None


def _settle(levels: Sequence[LevelComparison]) -> list[str]:
    """How many runs would settle it, loads that need as many together."""
    texts: dict[str, dict[str, list[str]]] = {}
    for level in levels:
        if level.runs_needed_from is not None:
            number = "more than 1,000" if level.runs_needed is None else whole(level.runs_needed)
            texts.setdefault(level.runs_needed_from, {}).setdefault(number, []).append(_column(level))
    made = []
    for reckoned, by_number in texts.items():
        alone = len(levels) == 1
        numbers = [n if alone else f"{n} at {', '.join(at)}" for n, at in by_number.items()]
        made.append(f"runs of each side that would make it sure: {'; '.join(numbers)} ({reckoned})")
    return made


def _repeats(level: LevelComparison) -> list[str]:
    made = []
    for found in level.repeats:
        if found.cv is None:
            continue
        shows = "" if found.shows is None else f"; so many of each show a difference of {share(found.shows)} or more"
        runs = ", ".join(figure(run) for run in found.runs[:8])
        spread = f"mean {figure(found.mean)}, spread {share(found.cv)}{shows}"
        made.append(f"{found.side} ran {len(found.runs)} times: {runs} tok/s, {spread}")
    return made


def _differences(pair: PairComparison, prefix: str) -> Section:
    more = f"{count(pair.harmless, 'difference')} of ports, names and folders left out" if pair.harmless else ""
    if not pair.differences:
        return Section(f"{prefix}Differences", lead=("none in what both sides state" + (f"; {more}" if more else ""),))
    texts = []
    said: str | None = None
    for row in pair.differences:
        source = f" (source: {row.sized.source})" if row.sized.source else ""
        explains = f"explains: {row.sized.words}{source}"
        confirm = row.confirm if row.sized.fit in ("all", "part") else None
        details = (explains, f"why: {row.why}", f"settle: {confirm}" if confirm else "")
        shown = ("explains: as above",) if source and explains == said else tuple(text for text in details if text)
        texts.append(Labelled("", (f"{row.what}: {row.before} -> {row.after} ({row.kind})", *shown)))
        said = explains
    lead = (more,) if more else ()
    at = f"at {whole(pair.explained_at)} running" if pair.explained_at is not None and len(pair.levels) > 1 else ""
    aside = ", ".join(text for text in ("most suspicious first", f"sized {at}" if at else "") if text)
    return Section(f"{prefix}Differences", aside=aside, lead=lead, texts=tuple(texts))


def _findings(report: CompareReport, pair: PairComparison, prefix: str) -> Section | None:
    """What the diagnosis of one side found and that of the other did not."""
    sides = {side.name: side.findings for side in report.sides}
    texts = []
    for one, other in ((pair.after, pair.before), (pair.before, pair.after)):
        known = {found.code for found in sides[other]}
        texts += [f"only {one}: {f.code} {f.title} ({f.severity})" for f in sides[one] if f.code not in known]
        both = [f for f in sides[one] if f.code in known and f.severity == "critical"] if one == pair.after else []
        texts += [f"both: {f.code} {f.title} ({f.severity})" for f in both]
    return Section(f"{prefix}Findings", lead=tuple(texts)) if texts else None


def _explanations(pair: PairComparison, prefix: str) -> Section | None:
    lead: Sequence[str] = (*pair.explanations, *([f"settle: {pair.next_step}"] if pair.next_step else []))
    at = f" at {whole(pair.explained_at)}" if pair.explained_at is not None and len(pair.levels) > 1 else ""
    return Section(f"{prefix}What fits{at}", lead=tuple(lead)) if lead else None
