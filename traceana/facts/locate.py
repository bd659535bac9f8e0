"""From rows to evidence: file names, line spans."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from traceana.facts.model import Evidence, InputFacts, Spread

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Locator:
    """Knows the input files by id."""

    paths: tuple[str, ...]

    def at(self, row: dict[str, Any], text: str | None = None) -> Evidence:
        """Evidence of one row (a dict with file_id, line, byte_offset)."""
        return Evidence(
            path=self.paths[row["file_id"]],
            line=row["line"],
            byte_offset=row["byte_offset"],
            text=text if text is not None else row.get("text"),
        )

    def spans(self, frame: pl.DataFrame, most: int = 4) -> tuple[Evidence, ...]:
        """Evidence of many rows: from the first to the last line, file by file; at most `most` files."""
        import polars as pl

        if not frame.height:
            return ()
        grouped = (
            frame.group_by("file_id", maintain_order=True)
            .agg(pl.col("line").min().alias("first"), pl.col("line").max().alias("last"), pl.col("byte_offset").min())
            .head(most)
        )
        return tuple(
            Evidence(self.paths[file_id], first, last if last != first else None, offset)
            for file_id, first, last, offset in grouped.iter_rows()
        )


def locator(inputs: pl.DataFrame) -> Locator:
    """The locator of a run's `inputs` table."""
    return Locator(tuple(inputs.sort("file_id")["path"].to_list()))


def input_facts(inputs: pl.DataFrame) -> tuple[InputFacts, ...]:
    """One InputFacts per file, in reading order."""
    return tuple(
        InputFacts(
            path=row["path"],
            format=row["format"],
            lines=row["lines"],
            recognised=row["recognised"],
            unread=row["unread"],
            partial=row["partial"],
            unread_example=None
            if row["unread_line"] is None
            else Evidence(row["path"], row["unread_line"], text=row["unread_text"]),
            problem=row["problem"],
        )
        for row in inputs.sort("file_id").iter_rows(named=True)
    )


def spread(values: pl.Series) -> Spread | None:
    """Median, mean, 10th and 90th percentile and standard deviation of the values that are there; None when none is."""
    kept = values.drop_nulls().drop_nans()
    if not len(kept):
        return None
    numbers = kept.cast(float)
    deviation = numbers.std() if len(numbers) > 1 else None
    return Spread(
        n=len(numbers),
        median=_number(numbers.median()),
        mean=_number(numbers.mean()),
        low=_number(numbers.quantile(0.1, "linear")),
        high=_number(numbers.quantile(0.9, "linear")),
        stdev=None if deviation is None else _number(deviation),
    )


def _number(value: object) -> float:
    assert isinstance(value, (int, float))
    return float(value)


def seconds_between(first: object, last: object) -> float | None:
    """Seconds from one time to another; None when either is unknown."""
    if isinstance(first, datetime) and isinstance(last, datetime):
        return (last - first).total_seconds()
    return None
