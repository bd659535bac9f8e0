"""Reads texts and files as the product does and gives the rows of a table as plain dicts, without the empty columns."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from traceana_parsers.interface import FileReport, MemorySink
from traceana_parsers.read import read_run

Row = dict[str, Any]


class Got:
    """What became of some files: a report each, and the rows of any table."""

    def __init__(self, *paths: Path, columns: Mapping[str, str] | None = None) -> None:
        self._sink = MemorySink()
        self.reports: list[FileReport] = read_run([str(path) for path in paths], self._sink, columns)

    @property
    def report(self) -> FileReport:
        """The report of the only file."""
        (report,) = self.reports
        return report

    def rows(self, table: str = "bench_points") -> list[Row]:
        """All rows of a table."""
        frames = self._sink.tables.get(table)
        if not frames:
            return []
        found = pl.concat(frames).to_dicts()
        return [{name: value for name, value in row.items() if value is not None} for row in found]

    @property
    def point(self) -> Row:
        """The only point."""
        (point,) = self.rows()
        return point


def got(folder: Path, text: str | bytes, columns: Mapping[str, str] | None = None) -> Got:
    """What a file with this text gives. Its name tells nothing."""
    path = folder / "input"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return Got(path, columns=columns)


def attrs(row: Row) -> Row:
    """The values beside the columns."""
    found: Row = json.loads(row.get("attrs", "{}"))
    return found
