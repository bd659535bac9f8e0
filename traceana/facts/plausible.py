"""Printed values that cannot be: damaged lines and counters gone wrong. They become null, are counted and named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceana.facts.locate import Locator

if TYPE_CHECKING:
    import polars as pl

_MOST_REQUESTS = 1_000_000
_MOST_TOKENS = 1 << 40
#: a batch that earns less than this emits a token in 17 minutes; what is printed as 0 is idle and stays
_LEAST_TPS, _MOST_TPS = 1e-3, 1e9

#: column -> lowest and highest value that an engine can mean; 0 is allowed beside them where a counter may stand still
_BOUNDS: dict[str, tuple[float, float]] = {
    "running": (0, _MOST_REQUESTS),
    "queued": (0, _MOST_REQUESTS),
    "retracted": (0, _MOST_REQUESTS),
    "new_seqs": (0, _MOST_REQUESTS),
    "tokens": (0, _MOST_TOKENS),
    "new_tokens": (0, _MOST_TOKENS),
    "cached_tokens": (0, _MOST_TOKENS),
    "token_usage": (0, 1.5),
    "gen_tps": (_LEAST_TPS, _MOST_TPS),
    "accept_rate_printed": (0, 1.005),
}
_ZERO_IS_IDLE = ("gen_tps",)
#: SGLang's `accept len` counts the bonus token: below 1 it is none (printed rounded to two places)
_LEAST_LENGTH, _MOST_LENGTH = 0.995, 1000


def checked(rows: pl.DataFrame, where: Locator) -> tuple[pl.DataFrame, str | None]:
    """The rows of a samples table with impossible values as null, and words for what was left out.

    Counters of accepted tokens above those of drafted ones void each other and the rates of their line.
    """
    import polars as pl

    bad: dict[str, pl.Expr] = {}
    for name, (low, high) in _BOUNDS.items():
        if name in rows.columns:
            value = pl.col(name)
            inside = value.is_between(low, high)
            bad[name] = ~(inside | (value == 0) if name in _ZERO_IS_IDLE else inside)
    if "engine" in rows.columns:
        value = pl.col("accept_length_printed")
        bad["accept_length_printed"] = (pl.col("engine") == "sglang") & ~value.is_between(_LEAST_LENGTH, _MOST_LENGTH)
    if "drafted" in rows.columns:
        void = (pl.col("accepted") > pl.col("drafted")).fill_null(False)
        for name in ("accepted", "drafted", "accepted_tps", "drafted_tps", "accept_length_printed"):
            bad[name] = void
        bad["accept_rate_printed"] = bad["accept_rate_printed"] | void
    flags = rows.select(pl.any_horizontal(flag.fill_null(False) for flag in bad.values()).alias("bad"))["bad"]
    if not flags.any():
        return rows, None
    first = rows.filter(flags).row(0, named=True)
    names = rows.filter(flags).select(flag.any().alias(name) for name, flag in bad.items()).row(0, named=True)
    cleaned = rows.with_columns(
        pl.when(flag.fill_null(False)).then(None).otherwise(pl.col(name)).alias(name) for name, flag in bad.items()
    )
    what = ", ".join(name.removesuffix("_printed").replace("_", " ") for name, seen in names.items() if seen)
    n = int(flags.sum())
    lines = "1 line" if n == 1 else f"{n:,} lines"
    place = f"{where.paths[first['file_id']]}:{first['line']}"
    return cleaned, f"values that cannot be, left out on {lines}, first {place}: {what}"
