"""One family of lines to rows of a table: typed columns, where and who, what was missed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from traceana_parsers.logs.grammar import Grammar, KeyValueGrammar, KeyValueReader, PatternGrammar
from traceana_parsers.logs.prefixes import HEAD_COLUMNS, HEADS, parts, typed
from traceana_parsers.logs.settings_text import pairs
from traceana_parsers.logs.values import cast, conform, figures, finite, own, profile_json
from traceana_parsers.schema import polars_schema

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

_ASSIGNMENT = re.compile(r"(?:^|(?<=[\s\"'=(;]))(NCCL_[A-Z0-9_]+)=(\"[^\"]*\"|'[^']*'|[^\s\"';,)\\]*)")
_TEXT = 400  # characters of an event's line that are kept
_MAX_FOLLOW = 16  # records of several lines read per block and family


@dataclass(frozen=True, slots=True)
class Where:
    """File and calendar of the lines being read."""

    file_id: int
    year: int
    month_limit: tuple[int, int]


@dataclass(slots=True)
class Result:
    """Rows read, and masks over the given lines: `known` (read or known to carry nothing), `unread`."""

    frame: pl.DataFrame | None
    known: pl.Series
    unread: pl.Series
    partial: int = 0


class Following(Protocol):
    """Gives the lines after a given one."""

    def __call__(self, index: int, count: int) -> list[str]:
        """`count` lines after line `index`."""


class Family(Protocol):
    """Reads the lines of one grammar."""

    unknown_keys: set[str]

    def read(
        self,
        text: pl.Series,
        number: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        where: Where,
        following: Following,
    ) -> Result:
        """Rows of the grammar's table from these lines."""


def family_for(grammar: Grammar) -> Family:
    """The reader of a grammar."""
    if isinstance(grammar, KeyValueGrammar):
        return KeyValueFamily(grammar)
    return PatternFamily(grammar)


class KeyValueFamily:
    """Lines of `key: value` pairs."""

    def __init__(self, grammar: KeyValueGrammar) -> None:
        self._grammar = grammar
        self._reader = KeyValueReader(grammar)
        self.unknown_keys = self._reader.unknown_keys

    def read(
        self,
        text: pl.Series,
        number: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        where: Where,
        following: Following,
    ) -> Result:
        """Rows of the grammar's table; a row without a required value counts as partial."""
        import polars as pl

        raw, missed = self._reader.read(text)
        unread = pl.Series([False]).new_from_index(0, len(text)).scatter(missed, True) if len(text) else text.is_null()
        if not raw.height:
            return Result(None, ~unread, unread)
        rows = raw["row"]
        kinds = {f.column: f.kind for f in self._grammar.fields if f.column in raw.columns}
        values = pl.DataFrame([rows, *(cast(kind, raw[column]) for column, kind in kinds.items())])
        head = _heads(raw, text, self._grammar.anchor, where)
        index = rows.to_numpy()
        frame = values.hstack(head.drop("level")).with_columns(
            pl.lit(where.file_id, pl.Int32).alias("file_id"),
            pl.Series("line", number[index]),
            pl.Series("byte_offset", offset[index]),
            *(pl.lit(value).alias(name) for name, value in self._grammar.constants),
        )
        if "engine_index" in raw.columns:
            frame = frame.with_columns(
                raw["engine_index"].str.extract(r"Engine ([0-9]+)", 1).cast(pl.Int32).alias("engine_index")
            )
        for column, literal, pattern in self._grammar.extras:
            if text.str.contains(literal, literal=True).any():
                found = text.gather(rows).str.extract(pattern, 1).cast(pl.Int64, strict=False)
                frame = frame.with_columns(found.alias(column))
        made = conform(frame, self._grammar.table)
        partial = int(made.select(pl.any_horizontal(pl.col(self._grammar.required).is_null()).sum()).item())
        return Result(made, ~unread, unread, partial)


def _heads(raw: pl.DataFrame, text: pl.Series, anchor: str, where: Where) -> pl.DataFrame:
    """Head columns of read rows, typed: from the common heads where they fitted, else by parts."""
    import polars as pl

    raw = raw.with_columns_seq(pl.lit(None, pl.String).alias(name) for name in HEAD_COLUMNS if name not in raw.columns)
    if not raw["headed"].all():
        loose = (~raw["headed"]).arg_true()
        before = text.gather(raw["row"].gather(loose)).str.splitn(anchor, 2).struct[0]
        some = before.str.contains(r"\S").arg_true()
        loose, found = loose.gather(some), parts(before.gather(some))
        raw = raw.with_columns_seq(raw[name].scatter(loose, found[name]) for name in HEAD_COLUMNS if len(loose))
    return typed(raw, where.year, where.month_limit)


def head_of(text: pl.Series, anchor: str, where: Where) -> pl.DataFrame:
    """Typed head columns of lines with an anchor: common heads first, the rest by parts."""
    import polars as pl

    raw = text.str.extract_groups(HEADS[0]).struct.unnest()
    if raw["ts"].null_count():
        other = text.str.extract_groups(HEADS[1]).struct.unnest()
        ts = raw["ts"].zip_with(other["ts"].is_null(), other["ts"])
        raw = pl.DataFrame([ts, raw["tags"], *other.drop("ts").get_columns()])
    row = pl.int_range(pl.len(), dtype=pl.UInt32).alias("row")
    return _heads(raw.with_columns_seq(row, pl.col("ts").is_not_null().alias("headed")), text, anchor, where)


class PatternFamily:
    """Lines of one wording."""

    def __init__(self, grammar: PatternGrammar) -> None:
        self._grammar = grammar
        self.unknown_keys: set[str] = set()

    def read(
        self,
        text: pl.Series,
        number: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        where: Where,
        following: Following,
    ) -> Result:
        """Rows of the grammar's table."""
        import polars as pl

        grammar = self._grammar
        groups = text.str.extract_groups(grammar.pattern) if "(?P<" in grammar.pattern else None
        fits = text.str.contains(grammar.pattern)
        nothing = pl.Series([False]).new_from_index(0, len(text))
        unread = nothing if grammar.optional else ~fits
        if not grammar.table or not fits.any():
            return Result(None, fits, unread)
        at = fits.arg_true()
        index = at.to_numpy()
        picked = text.gather(at)
        frame = pl.DataFrame(
            {
                "file_id": pl.Series([where.file_id], dtype=pl.Int32).new_from_index(0, len(at)),
                "line": number[index],
                "byte_offset": offset[index],
            }
        ).hstack(head_of(picked, grammar.anchor, where))
        named = groups.gather(at).struct.unnest() if groups is not None else pl.DataFrame()
        if grammar.table == "settings":
            made = self._settings(frame, named)
        elif grammar.table == "events":
            made = self._events(frame, named, picked, at, following)
        else:
            made = self._samples(frame, named, picked)
        conformed = own(conform(made, grammar.table))
        partial = _without_figures(conformed) if grammar.table == "cycles" else 0
        return Result(conformed, fits, unread, partial)

    def _samples(self, frame: pl.DataFrame, named: pl.DataFrame, text: pl.Series) -> pl.DataFrame:
        import polars as pl

        schema = polars_schema(self._grammar.table)
        if "json" in named.columns:
            return frame.with_columns(profile_json(named["json"]))
        extra = [text.str.extract(pattern, 1).alias(column) for column, pattern in self._grammar.columns]
        for series in [*named.get_columns(), *extra]:
            kind = schema[series.name]
            text_of = pl.lit(series)
            if kind == pl.List(pl.Float64()):
                value = figures(text_of)
            elif kind == pl.Float64():
                value = finite(text_of)
            else:
                value = text_of.cast(kind, strict=False)
            frame = frame.with_columns(value.alias(series.name))
        kind_column = "form" if self._grammar.table == "spec_samples" else "source"
        return frame.with_columns(pl.lit(self._grammar.kind).alias(kind_column))

    def _settings(self, frame: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
        import polars as pl

        if "assignments" in named.columns:
            found_lists = [_ASSIGNMENT.findall(text or "") for text in named["assignments"].to_list()]
            texts = [[(name, value.strip("'\"")) for name, value in found] for found in found_lists]
            return self._rows(frame, texts)
        if "subject" not in named.columns:  # a single variable
            value = named["value"] if "value" in named.columns else pl.Series([""]).new_from_index(0, frame.height)
            extra = [named["os_pid"].cast(pl.Int64, strict=False)] if "os_pid" in named.columns else []
            rows = frame.with_columns(named["name"], value.alias("value"), pl.lit(self._grammar.kind).alias("origin"))
            return rows.with_columns(pl.coalesce(*extra, "pid").alias("pid")) if extra else rows
        out = []
        for index, text in enumerate(named["subject"].to_list()):
            found = pairs(text or "")
            if "version" in named.columns:
                found.insert(0, ("version", named["version"][index]))
            out.append(found)
        return self._rows(frame, out)

    def _rows(self, frame: pl.DataFrame, found: list[list[tuple[str, str]]]) -> pl.DataFrame:
        """One settings row per (name, value) of each line."""
        import polars as pl

        lines = [index for index, of_line in enumerate(found) for _ in of_line]
        names = [name for of_line in found for name, _ in of_line]
        values = [value for of_line in found for _, value in of_line]
        return frame[lines].with_columns(
            pl.Series("name", names, dtype=pl.String),
            pl.Series("value", values, dtype=pl.String),
            pl.lit(self._grammar.kind).alias("origin"),
        )

    def _events(
        self, frame: pl.DataFrame, named: pl.DataFrame, text: pl.Series, at: pl.Series, following: Following
    ) -> pl.DataFrame:
        import polars as pl

        grammar = self._grammar
        attrs = (
            named.select(pl.struct(pl.all()).struct.json_encode()).to_series()
            if named.width
            else pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)
        )

        def column(name: str) -> pl.Series:
            if name in named.columns:
                return named[name]
            return pl.Series([None], dtype=pl.String).new_from_index(0, frame.height)

        frame = frame.with_columns(
            pl.lit(grammar.kind).alias("kind"),
            column("subject").alias("subject"),
            finite(pl.lit(column("value"))).alias("value"),
            attrs.alias("attrs"),
            text.str.slice(0, _TEXT).alias("text"),
            text.str.extract(r"\[repeated ([0-9]+)x across cluster\]", 1)
            .cast(pl.Int64, strict=False)
            .fill_null(1)
            .alias("repeats"),
        )
        if "os_pid" in named.columns:
            frame = frame.with_columns(pl.coalesce(column("os_pid").cast(pl.Int64, strict=False), "pid").alias("pid"))
        if grammar.follow:
            followed: list[str | None] = [
                "\n".join(line[:_TEXT] for line in following(i, grammar.follow)) if k < _MAX_FOLLOW else None
                for k, i in enumerate(at.to_list())
            ]
            frame = frame.with_columns(pl.Series("follow", followed, dtype=pl.String))
        if grammar.fold:
            keys = ["kind", "subject", "attrs", "dp", "pp", "tp", "ep", "proc", "pid"]
            rest = [c for c in frame.columns if c not in keys]
            frame = frame.group_by(keys, maintain_order=True).agg(
                *(pl.col(c).sum() if c == "repeats" else pl.col(c).first() for c in rest)
            )
        return frame


def _without_figures(cycles: pl.DataFrame) -> int:
    """Rows of the `cycles` table that hold no time at all: cut off, or no JSON."""
    import polars as pl

    times = ("total_ms", "draft_ms", "verify_ms", "re_extend_ms")
    return int(cycles.select(pl.all_horizontal(pl.col(times).is_null()).sum()).item())
