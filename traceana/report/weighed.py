"""The section *Causes weighed*: what fits, what stays open, what is ruled out, and what would settle it."""

from __future__ import annotations

from traceana.report.diagnosis import Diagnosis
from traceana.report.page import Labelled, Row, Section, Table
from traceana.report.text import LETTERS, legend
from traceana.rules.weigh import FITS, OPEN, RULED_OUT, Candidate, Weighed


def weighed(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """One section per symptom whose cause is not plain: several causes fit, or none is sure while others stay open."""
    return tuple(_section(found) for found in diagnosis.weighed if _is_open(found))


def _is_open(found: Weighed) -> bool:
    fitting = [c for c in found.candidates if c.standing == FITS]
    sure = len(fitting) == 1 and fitting[0].confidence == "high"
    return not sure and any(c.standing != RULED_OUT for c in found.candidates)


def _section(found: Weighed) -> Section:
    shown = [c for c in found.candidates if c.standing == FITS or (c.standing == OPEN and c.explains is not None)]
    rows = tuple(Row(f"{c.code} {c.name}", _cells(c), _letter(c)) for c in shown)
    letters = "".join(dict.fromkeys(row.letter for row in rows if row.letter))
    remarks = (legend(letters),) if letters else ()
    table = Table("cause", ("standing", "ms per token", "of missing"), rows, remarks)
    texts = [_outcome(found)] if found.settle is not None else []
    return Section(
        "Causes weighed",
        lead=(_lead(found), *_grouped(found)),
        tables=(table,) if rows else (),
        texts=tuple(texts),
    )


def _lead(found: Weighed) -> str:
    text = found.title
    if found.missing is not None:
        text += f": {found.missing.low_ms:.1f}-{found.missing.high_ms:.1f} ms per token"
    if found.unexplained is not None and found.unexplained[1] > 0:
        text += f", of which {found.unexplained[0]:.1f}-{found.unexplained[1]:.1f} ms are not explained by what fits"
    return text


def _cells(c: Candidate) -> tuple[str, ...]:
    standing = c.standing + (f", {c.confidence}" if c.confidence else "")
    size = "not sized" if c.explains is None else f"{c.explains.low_ms:.1f}-{c.explains.high_ms:.1f}"
    share = "-" if c.share is None else f"{100 * c.share[0]:.0f}-{100 * c.share[1]:.0f} %"
    return standing, size, share


def _letter(c: Candidate) -> str:
    return "" if c.explains is None else LETTERS[c.explains.provenance.value]


def _grouped(found: Weighed) -> tuple[str, ...]:
    """Open causes without a size by what they lack, and those that are ruled out, a line each."""
    lacking: dict[str, list[str]] = {}
    for c in found.candidates:
        if c.standing == OPEN and c.explains is None:
            lacking.setdefault(c.note, []).append(c.code)
    lines = [f"open ({note}): {', '.join(codes)}" for note, codes in lacking.items()]
    out = [c.code for c in found.candidates if c.standing == RULED_OUT]
    return (*lines, *((f"ruled out: {', '.join(out)}",) if out else ()))


def _outcome(found: Weighed) -> Labelled:
    settle = found.settle
    assert settle is not None
    outcomes = tuple(f"{seen}: {meaning}" for seen, meaning in settle.outcomes)
    which = f"{' or '.join(settle.between)}? " if outcomes else f"{', '.join(settle.between)}: "
    return Labelled("settle", (f"{which}{settle.look}: {settle.how}", *outcomes))
