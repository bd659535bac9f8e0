"""The section of measured collective times: by message size, or of one collective by rank."""

from __future__ import annotations

from traceana.facts.collective_times import CollectiveTimes, RankTimes, size
from traceana.report.page import Labelled, Row, Section, Table
from traceana.report.text import NONE, figure, legend, places

_MOST_SIZES = 8
_MOST_RANKS = 32
_NAME = 24


def collective_section(found: CollectiveTimes | None, verdict: str) -> Section | None:
    """None without such times. `verdict`: the sentence of the page, which is not said twice."""
    if found is None:
        return None
    tables = [*_curves(found), *map(_ranks, found.by_rank)]
    said = found.verdict in verdict or len(found.curves) + len(found.by_rank) == 1
    texts = () if said else (Labelled("", (found.verdict,)),)
    return Section("Collectives measured", tables=tuple(tables), texts=texts)


def _curves(found: CollectiveTimes) -> list[Table]:
    """Set-ups as rows, sizes as columns; those that share no size stand apart."""
    tables: list[Table] = []
    left = list(found.curves)
    while left:
        first = left[0]
        alike = [c for c in left if c is first or set(c.sizes_bytes) & set(first.sizes_bytes)]
        left = [c for c in left if c not in alike]
        sizes = _thinned(sorted({n for c in alike for n in c.sizes_bytes}))
        rows = []
        for curve in alike:
            at = dict(zip(curve.sizes_bytes, curve.times_us, strict=True))
            name = (curve.name or curve.library or curve.collective or "us")[:_NAME]
            rows.append(Row(name, tuple(figure(at.get(n)) for n in sizes), "m"))
        tables.append(Table("us per call", tuple(map(size, sizes)), tuple(rows), remarks=(legend("m"),)))
    return tables


def _thinned(sizes: list[int]) -> list[int]:
    if len(sizes) <= _MOST_SIZES:
        return sizes
    step = (len(sizes) - 1) / (_MOST_SIZES - 1)
    return [sizes[round(i * step)] for i in range(_MOST_SIZES)]


def _ranks(one: RankTimes) -> Table:
    ranks = list(one.times_us)[:_MOST_RANKS]
    rows = (
        Row("us in it", tuple(figure(one.times_us[rank]) for rank in ranks), "m"),
        Row("waiting", tuple(figure(one.times_us[rank] - one.shortest_us) or NONE for rank in ranks), "d"),
    )
    return Table("rank", tuple(map(str, ranks)), rows, remarks=(legend("md"), places(one.evidence)))
