"""What a GPU kernel does, from its name: the table in kernels.toml, applied to distinct names.

A name never tells NCCL's protocol (every kernel is called `..._LL`); `nccl_shape_hint` reads it off the launch shape,
as a hint.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OTHER = "other"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One row of the table; `family` is compute, communication or copy. `library` and `collective` may be None."""

    category: str
    family: str
    pattern: str
    source: str
    examples: tuple[str, ...]
    library: str | None = None
    collective: str | None = None


@cache
def table() -> tuple[KernelRow, ...]:
    """The rows of kernels.toml, in order."""
    return tuple(
        KernelRow(
            category=row["category"],
            family=row.get("family") or ("communication" if row["category"] == "communication" else "compute"),
            pattern=row["pattern"],
            source=row["source"],
            examples=tuple(row["examples"]),
            library=row.get("library"),
            collective=row.get("collective"),
        )
        for row in _document()["kernel"]
    )


@cache
def categories() -> tuple[str, ...]:
    """All category names, `other` last."""
    return tuple(_document()["categories"])


@cache
def _document() -> dict:  # type: ignore[type-arg]  # plain TOML
    return tomllib.loads(resources.files("traceana_parsers").joinpath("kernels.toml").read_text(encoding="utf-8"))


def classify(names: pl.Series) -> pl.DataFrame:
    """Category, family, library and collective of each name, in the order of `names`.

    Columns: `category` (`other` when no row fits), `family` (compute, communication or copy; `other` counts as
    compute), `library` and `collective` (communication only; `collective` is `unknown` when the name does not tell).
    A null name gives a row of nulls. Work is done once per distinct name.
    """
    import polars as pl

    name = names.cast(pl.String).alias("name")
    distinct = name.drop_nulls().unique()
    decided = _decide(distinct)
    rows = table()
    kinds = pl.DataFrame(
        {
            "row": pl.Series(range(len(rows) + 1), dtype=pl.Int16),
            "category": [r.category for r in rows] + [OTHER],
            "family": [r.family for r in rows] + ["compute"],
            "library": [r.library for r in rows] + [None],
            "collective": [(r.collective or UNKNOWN) if r.family == "communication" else None for r in rows] + [None],
        }
    )
    per_name = pl.DataFrame({"name": distinct, "row": decided}).join(kinds, on="row", how="left")
    return (
        name.to_frame()
        .join(per_name, on="name", how="left", maintain_order="left")
        .select("category", "family", "library", "collective")
    )


def _decide(names: pl.Series) -> pl.Series:
    """Index of the row that decides each name; the number of rows where none does."""
    import polars as pl

    rows = table()
    left = pl.DataFrame({"at": pl.int_range(len(names), dtype=pl.UInt32, eager=True), "name": names})
    found: list[pl.DataFrame] = []
    for index, row in enumerate(rows):
        if not left.height:
            break
        hit = left["name"].str.contains(row.pattern)
        if hit.any():
            found.append(left.filter(hit).select("at", pl.lit(index, pl.Int16).alias("row")))
            left = left.filter(~hit)
    found.append(left.select("at", pl.lit(len(rows), pl.Int16).alias("row")))
    return pl.concat(found).sort("at")["row"]


_RING = re.compile(r"nccl(?:Dev)?Kernel_(?:AllReduce|AllGather|ReduceScatter|Broadcast|Reduce)\w*RING")


def nccl_shape_hint(grid_x: int | None, block_x: int | None, name: str) -> str | None:
    """NCCL protocol that a ring kernel's launch shape suggests: `LL`, `LL128`, `Simple`; None where it does not tell.

    A hint, never a fact: grouped collectives, tuner plugins and NCCL_NTHREADS change shapes. From NCCL's enqueue.cc
    (2.14 and later): LL starts with 512 threads and halves, LL128 has 640, Simple adds one warp for synchronisation
    (32 more than a multiple of 64). `grid_x` is the number of channels; it is not needed for the hint but a launch
    without it is not judged. Tree kernels launch 640 threads under every protocol since 2.22.
    """
    if grid_x is None or block_x is None or not _RING.match(name.removeprefix("void ")):
        return None
    if block_x in (128, 256, 512):
        return "LL"
    if block_x == 640:
        return "LL128"
    return "Simple" if block_x in (160, 288, 544) else None
