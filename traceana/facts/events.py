"""Small helpers over the `events` table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

MOST = 5000  # events of one kind that facts look at


def of_kind(events: pl.DataFrame, *kinds: str) -> pl.DataFrame:
    """Events of these kinds, in reading order, at most `MOST`."""
    import polars as pl

    return events.filter(pl.col("kind").is_in(kinds)).head(MOST)


def rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as dicts, with `attrs` decoded."""
    for row in frame.iter_rows(named=True):
        row["attrs"] = json.loads(row["attrs"]) if row["attrs"] else {}
        yield row


def rank_of(row: dict[str, Any], pid_ranks: dict[int, int]) -> int | None:
    """The rank behind a row: its TP rank, else the rank its process reported earlier, else its DP rank."""
    if row["tp"] is not None:
        return int(row["tp"])
    if row["pid"] in pid_ranks:
        return pid_ranks[row["pid"]]
    return None if row["dp"] is None else int(row["dp"])


def pid_ranks(events: pl.DataFrame) -> dict[int, int]:
    """Process id -> rank, from `world_size=.. rank=..` lines and NCCL's init lines."""
    found: dict[int, int] = {}
    for row in rows(of_kind(events, "world")):
        if row["pid"] is not None and row["attrs"].get("rank"):
            found[row["pid"]] = int(row["attrs"]["rank"])
    for row in rows(of_kind(events, "nccl_init_start", "nccl_init_complete")):
        if row["pid"] is not None and row["value"] is not None:
            found.setdefault(row["pid"], int(row["value"]))
    return found


def number(text: object) -> int | None:
    """A whole number from text such as `319,232`; None when it is none."""
    try:
        return int(str(text).replace(",", ""))
    except ValueError:
        return None
