"""From a sweep to the page: one table over the load, where the winner changes and why, what to set."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts import sweep_words
from traceana.facts.model import InputFacts
from traceana.facts.sweep_model import SetUp, StepCliff, Sweep, SweepBlock, SweepLevel, SweepScaling
from traceana.report.page import Labelled, Page, Row, Section, Table
from traceana.report.sweep_tables import Detail, draft_table, level_table, plain_table
from traceana.report.text import ENGINES, figure, legend, ms, places, tok_s, two, whole

_MOST_BLOCKS = 24
_MOST_NOTES = 12
_BASES = {
    "runs": "the spread of the repeated runs",
    "parts": "the requests or windows of single runs, and 5 % from run to run, which is assumed: repeats would tell",
    "assumed": "11 % from run to run, which is assumed: each figure was measured once, without requests or windows",
}


def compose(sweep: Sweep) -> Page:
    """The page of a sweep."""
    several = len(sweep.blocks) > 1
    pairs: set[tuple[str | None, str | None]] = set()
    sections = []
    for block in sweep.blocks[:_MOST_BLOCKS]:
        pair = (block.series, block.baseline_series)
        sections += block_sections(block, several=several, brief=pair in pairs)
        pairs.add(pair)
    notes = list(sweep.notes)
    if len(sweep.blocks) > _MOST_BLOCKS:
        notes.append(f"{len(sweep.blocks) - _MOST_BLOCKS} more set-ups or contexts: --format json has all")
    return Page(
        header=_header(sweep),
        below_header=tuple(
            Labelled(name, (_files(who.inputs), *filter(None, (who.left_out,))))
            for name, who in (("with", sweep.spec), ("without", sweep.baseline))
            if who is not None
        ),
        verdict=sweep.verdict,
        tone=_tone([level for block in sweep.blocks for level in block.levels]),
        verdict_figures=(),
        sections=(*sections, *_notes(notes), *_inputs(sweep)),
    )


def _header(sweep: Sweep) -> tuple[str, ...]:
    who: SetUp = sweep.spec or sweep.baseline
    engine = ENGINES.get(who.engine or "", who.engine or "engine unknown")
    pieces = [f"{engine} {who.version}" if who.version else engine, who.model or "", who.method or ""]
    return tuple(piece for piece in (*pieces, "sweep over load") if piece)


def _files(inputs: Sequence[InputFacts]) -> str:
    names = [entry.path for entry in inputs[:3]]
    return ", ".join(names) + (f" and {len(inputs) - 3} more" if len(inputs) > 3 else "")


def _tone(levels: Sequence[SweepLevel]) -> str:
    words = {level.ratio.verdict for level in levels if level.ratio is not None}
    decided = words - {"inconclusive"}
    if not decided:
        return "unknown"
    return decided.pop() if len(decided) == 1 else "mixed"


def block_sections(block: SweepBlock, *, several: bool, brief: bool, detail: Detail = Detail.ALL) -> list[Section]:
    """Sections of one pair of set-ups; `brief`: another context of the pair above, its table and crossover only."""
    of = f": {sweep_words.block(block)}" if several else ""
    if block.plain_levels:
        return [*_plain_levels(block, of), *([] if brief else _plain(block, of))]
    table = level_table(block, Detail.FEW if brief else detail)
    letters = {c for row in table.rows for c in row.letter} if table is not None and not brief else set()
    tables = (_with_remark(table, legend(letters)),) if table is not None else ()
    if brief:
        changes = tuple(Labelled("", (text,)) for text in (block.verdict, *map(sweep_words.crossing, block.crossings)))
        return [Section(f"By load{of}", tables=tables, texts=changes)]
    texts = (Labelled("", (block.verdict,)),) if several else ()
    sections = [Section(f"By load{of}", tables=tables, texts=texts), *_curves(block)]
    drafts = draft_table(block.drafts)
    if drafts is not None:
        sections.append(Section(f"Draft tokens{of}", tables=(drafts,)))
    return [*sections, *_plain(block, of), *_advice(block)]


def _with_remark(table: Table, remark: str) -> Table:
    return Table(table.corner, table.columns, table.rows, (remark, *table.remarks), table.arrows)


def _crossings(block: SweepBlock) -> list[str]:
    return [sweep_words.crossing(found) for found in block.crossings] or [sweep_words.no_crossing(block.levels)]


def _curves(block: SweepBlock) -> list[Section]:
    """Crossings, ceilings, cliffs, queueing and what else stands out."""
    waiting = [
        f"{level.label} {name}: {side.queueing}"
        for level in block.levels
        for name, side in (("with", level.spec), ("without", level.baseline))
        if side.queueing
    ]
    return _brief(
        ("Crossover", _crossings(block)),
        ("Ceiling", _ceilings(block)),
        ("Cliff", [_cliff(found) for found in block.cliffs]),
        ("Queueing", waiting),
        ("Noise", _noise(block.levels)),
        ("Notes", [*_gathered(block.levels), *block.notes]),
    )


def _brief(*rows: tuple[str, Sequence[str]]) -> list[Section]:
    """Sections of a few lines beside their title; those without a line are left out."""
    kept = [(title, tuple(text for text in texts if text)[:_MOST_NOTES]) for title, texts in rows]
    return [Section(title, lead=texts) for title, texts in kept if texts]


def _gathered(levels: Sequence[SweepLevel]) -> list[str]:
    """Notes of levels, the same note once with its loads."""
    by_note: dict[str, list[str]] = {}
    for level in levels:
        for note in level.notes:
            by_note.setdefault(note, []).append(level.label)
    return [note if labels == ["-"] else f"at {', '.join(labels)}: {note}" for note, labels in by_note.items()]


def _ceilings(block: SweepBlock) -> list[str]:
    if block.scaling is None or block.baseline_scaling is None:
        return []
    out = []
    for name, found in (("with", block.scaling), ("without", block.baseline_scaling)):
        if found is not None:
            out.append(f"{name}: {_ceiling(found)}")
    if block.ceiling_ratio is not None:
        out.append(f"the ceilings are {two(block.ceiling_ratio)}x apart")
    return out


def _ceiling(found: SweepScaling) -> str:
    saturates = (
        f"saturates at {whole(found.saturates_at)} users"
        if found.saturates_at is not None
        else "still rises at the highest load"
    )
    top = f"{tok_s(found.ceiling_tps)} at {whole(found.ceiling_at)} users"
    return f"{top}, {two(found.gain)}x the lowest load; {saturates}"


def _cliff(found: StepCliff) -> str:
    side = "with" if found.of == "speculation" else "without"
    ends = (
        f"{ms(cost)} at {whole(tokens)} tokens per forward ({whole(load)} users)"
        for cost, tokens, load in (
            (found.below_ms, found.below_tokens, found.below_load),
            (found.above_ms, found.above_tokens, found.above_load),
        )
    )
    return f"{side}: {', '.join(ends)}: {two(found.above_ms / found.below_ms)}x ({places(found.evidence, 4)})"


def _noise(levels: Sequence[SweepLevel]) -> list[str]:
    """What the ranges rest on; with the loads where that differs between them."""
    by_basis: dict[str, list[str]] = {}
    for level in levels:
        if level.ratio is not None and level.ratio.basis in _BASES:
            by_basis.setdefault(level.ratio.basis, []).append(level.label)
    if len(by_basis) == 1:
        return [f"the ranges come from {_BASES[basis]}" for basis in by_basis]
    return [f"at {', '.join(labels)}: ranges from {_BASES[basis]}" for basis, labels in by_basis.items()]


def _plain_levels(block: SweepBlock, of: str) -> list[Section]:
    """The steps of a sweep without speculation."""
    sides = [level.side for level in block.plain_levels]
    rows = (
        Row("tok/s", tuple(figure(side.gen_tps) for side in sides), "m"),
        Row("step ms", tuple(figure(side.cycle_ms) for side in sides), "d"),
    )
    table = Table("users", tuple(level.label for level in block.plain_levels), rows)
    ceiling = _ceiling(block.baseline_scaling) if block.baseline_scaling is not None else ""
    curves = _brief(("Ceiling", [ceiling]), ("Cliff", [_cliff(found) for found in block.cliffs]))
    return [Section(f"By load{of}", tables=(table,)), *curves]


def _plain(block: SweepBlock, of: str) -> list[Section]:
    table = plain_table(block.plain)
    if table is None:
        return []
    words = (
        "accept length that k draft tokens need at least: step of (k + 1) x users / step of as many users, both "
        "without speculation; the drafter's own time comes on top (M modelled"
        + ("; ~ interpolated between measured loads)" if any(row.between for row in block.plain) else ")")
    )
    return [Section(f"Without a drafter{of}", tables=(_with_remark(table, words),))]


def _advice(block: SweepBlock) -> list[Section]:
    advice = block.advice
    setting = [Section("Setting", lead=(f"{advice.where}:",), code=advice.setting)] if advice.setting else []
    return [
        *_brief(("Use", [advice.words])),
        *setting,
        *_brief(("Beware" if advice.setting else "Setting", advice.caveats), ("Untested", advice.untested)),
    ]


def _notes(notes: Sequence[str]) -> list[Section]:
    return [Section("Notes", texts=tuple(Labelled("", (note,)) for note in notes))] if notes else []


def _inputs(sweep: Sweep) -> list[Section]:
    """Files with something wrong, and how much of each was read."""
    rows = []
    for name, who in (("with", sweep.spec), ("without", sweep.baseline)):
        for entry in who.inputs if who is not None else ():
            if entry.problem or entry.unread or entry.partial:
                said = entry.problem or f"{whole(entry.unread)} lines unread, {whole(entry.partial)} read in part"
                rows.append(Labelled(name, (f"{entry.path}: {said}",)))
    return [Section("Inputs", texts=tuple(rows[:_MOST_NOTES]))] if rows else []
