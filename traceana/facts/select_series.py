"""One of several set-ups in one benchmark file, chosen by words of its series or label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.errors import TraceanaError
from traceana.store.dataset import Tables

if TYPE_CHECKING:
    import polars as pl

_SHOWN = 8


def select_series(tables: Tables, words: str, path: str) -> Tables:
    """The tables with those benchmark points of `path` whose series or label contains `words`, whatever the case.

    Points of other inputs stay. TraceanaError when none does; it names those there are.
    """
    import polars as pl

    inputs = tables.frame("inputs", ["file_id", "path"])
    own = inputs.filter((pl.col("path") == path) | pl.col("path").str.starts_with(path.rstrip("/") + "/"))["file_id"]
    points = tables.frame("bench_points")
    text = pl.concat_str("series", "label", separator=" ", ignore_nulls=True).str.to_lowercase()
    foreign = ~pl.col("file_id").is_in(own.implode()) if len(own) else pl.lit(False)
    chosen = points.filter(foreign | text.str.contains(words.lower(), literal=True))
    if not chosen.filter(~foreign).height:
        raise TraceanaError(f"{path}: no series or label contains {words!r}; there are: {_names(points)}")
    requests = tables.frame("bench_requests")
    kept = requests.join(chosen.select("file_id", "point"), on=["file_id", "point"], how="semi")
    return tables.replaced({"bench_points": chosen, "bench_requests": kept})


def _names(points: pl.DataFrame) -> str:
    found = [
        " ".join(part for part in row if part)
        for row in points.select("series", "label").unique(maintain_order=True).iter_rows()
    ]
    named = [name for name in found if name]
    more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return ", ".join(named[:_SHOWN]) + more if named else "none with a name"
