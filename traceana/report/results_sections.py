"""The sections of benchmark results in a diagnosis: the sweep in short, or the set-ups beside each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from traceana.facts.results_model import ResultRow, Results, SetUpContrast
from traceana.facts.sweep_model import SweepBlock
from traceana.report.page import Labelled, Row, Section, Table
from traceana.report.sweep_page import block_sections
from traceana.report.sweep_tables import Detail
from traceana.report.text import NONE, figure, legend, letter, two, whole

_MOST_ROWS = 24
_NAME = 40  # characters of a set-up's name
#: pairs of set-ups that are drawn; `traceana sweep` draws all
_MOST_BLOCKS = 3
#: sections of a sweep that a diagnosis shows; the others are for planning
_SHOWN = ("By load", "Crossover", "Cliff", "Queueing", "Noise", "Notes", "Draft tokens", "Use", "Untested")


def results_sections(results: Results | None) -> tuple[Section, ...]:
    """Nothing without results."""
    if results is None:
        return ()
    if results.sweep is not None and not results.rows:
        return _sweep(results.sweep.blocks)
    return _rows(results)


def _sweep(blocks: tuple[SweepBlock, ...]) -> tuple[Section, ...]:
    """The first blocks, other contexts of a pair by their table alone; what is left out is said."""
    made: list[Section] = []
    seen: set[tuple[str | None, str | None]] = set()
    for block in blocks[:_MOST_BLOCKS]:
        pair = (block.series, block.baseline_series)
        found = block_sections(block, several=len(blocks) > 1, brief=pair in seen, detail=Detail.MAIN)
        seen.add(pair)
        made += [_titled(section) for section in found if section.title.startswith(_SHOWN)]
    hidden = len(blocks) - _MOST_BLOCKS
    more = f"{hidden} more set-ups or contexts, " if hidden > 0 else ""
    made.append(Section("More", lead=(f"{more}all figures and what to set by load: traceana sweep with these inputs",)))
    return tuple(made)


def _titled(section: Section) -> Section:
    """The section under a name that tells it from the log's load levels."""
    return replace(section, title=section.title.replace("By load", "Benchmark", 1))


_LINES: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("tok/s", "gen_tps", figure),
    ("TPOT ms", "tpot_ms", figure),
    ("ITL ms", "itl_ms", figure),
    ("TTFT ms", "ttft_ms", figure),
    ("decoding at once", "decoding", figure),
    ("accept length", "accept_length", two),
    ("accept rate", "accept_rate", two),
    ("tokens/cycle", "tokens_per_cycle", two),
    ("cycle ms", "cycle_ms", figure),
)


def _rows(results: Results) -> tuple[Section, ...]:
    """Set-ups as rows where they have names, else loads as columns."""
    shown = results.rows[:_MOST_ROWS]
    hidden = len(results.rows) - len(shown)
    used = [line for line in _LINES if any(getattr(row.side, line[1]) is not None for row in shown)]
    if not used:
        return ()
    letters = {letter(row.side.provenance.get(name)) for _, name, _ in used for row in shown} - {""}
    remarks = (f"{hidden} more: --format json has up to 200" if hidden else "", legend(letters))
    if any(row.series for row in shown) or len({row.load for row in shown}) < len(shown):
        names = _names(shown)
        rows = tuple(
            Row(name, tuple(write(getattr(row.side, field)) for _, field, write in used))
            for name, row in zip(names, shown, strict=True)
        )
        table = Table("set-up", tuple(label for label, _, _ in used), rows, remarks)
    else:
        rows = tuple(
            Row(label, tuple(write(getattr(row.side, name)) for row in shown), _letters(shown, name))
            for label, name, write in used
        )
        table = Table("load", tuple(row.load for row in shown), rows, remarks)
    texts = [Labelled("", (text,)) for text in _contrast(results.contrast)]
    return (Section("Benchmark results", tables=(table,), texts=tuple(texts)),)


def _name(row: ResultRow) -> str:
    words = not row.series and row.load != NONE and not row.load[0].isdigit()  # the row's own
    said = words or row.load == NONE or (not row.load[0].isdigit() and row.load in (row.series or ""))
    at = "" if said else f" at {row.load}"
    context = f", context {whole(row.context_tokens)}" if row.context_tokens is not None else ""
    files = [place.path.rsplit("/", 1)[-1] for place in row.side.evidence[:1]]
    name = row.series or (row.load if words else "") or (files[0] if files else "without a name")
    return f"{name if len(name) <= _NAME else name[: _NAME - 1] + '…'}{at}{context}"


def _names(rows: Sequence[ResultRow]) -> list[str]:
    """Names that tell the rows apart: with the draft where that differs, else with the line."""
    names = [_name(row) for row in rows]
    twice = {name for name in names if names.count(name) > 1}
    drafts = {name: {row.side.draft for row, n in zip(rows, names, strict=True) if n == name} for name in twice}
    made = []
    for name, row in zip(names, rows, strict=True):
        if name in twice and len(drafts[name]) > 1:
            made.append(f"{name}, {row.side.draft or 'no draft'}")
        elif name in twice and row.side.evidence:
            made.append(f"{name}, line {row.side.evidence[0].line}")
        else:
            made.append(name)
    return made


def _letters(rows: tuple[ResultRow, ...], name: str) -> str:
    return "".join(sorted({letter(row.side.provenance.get(name)) for row in rows}))


def _contrast(found: SetUpContrast | None) -> tuple[str, ...]:
    if found is None:
        return ()
    return (
        f"{_name(found.slow)} against {_name(found.fast)}: {two(found.tps_ratio)}x slower = acceptance "
        f"{two(found.acceptance_ratio)}x · cycle {two(found.cycle_ratio)}x · rest {two(found.rest_ratio)}x (d)",
    )


def results_only_header(results: Results | None, collectives: bool) -> tuple[str, ...]:
    """What the first line says where results are all there is; `collectives`: times of collectives are among them."""
    if results is None:
        return ("collective times" if collectives else "benchmark results, none complete",)
    if results.sweep is not None and results.sweep.spec is not None:
        return ("benchmark results with and without speculation",)
    return ("benchmark results",)
