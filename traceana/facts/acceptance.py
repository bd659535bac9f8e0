"""What drafting earns in SGLang's lines, normalised by version; and what both engines' readers share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traceana.facts.locate import Locator
from traceana.facts.model import Acceptance, Evidence, Fact, Provenance, Speculation
from traceana.speculation.sglang_rates import infer_sglang_rate, sglang_accepted_share

if TYPE_CHECKING:
    import polars as pl

_PAIRS = 400
_ROUNDING = 0.01  # lengths are printed with two places


def printed_pairs(decode: pl.DataFrame) -> list[tuple[float, float]]:
    """(accept length, accept rate) as SGLang printed them, distinct, at most 400; lengths of 1.00 tell nothing."""
    import polars as pl

    both = (
        decode.select(pl.col("accept_length_printed", "accept_rate_printed")).drop_nulls().unique(maintain_order=True)
    )
    return [(a, b) for a, b in both.filter(pl.col("accept_length_printed") > 1.0).head(_PAIRS).iter_rows()]


def inferred_width(decode: pl.DataFrame) -> int | None:
    """num_draft_tokens implied by printed pairs, when exactly one fits them all; None with fewer than two pairs."""
    pairs = printed_pairs(decode)
    found = infer_sglang_rate(pairs) if len(pairs) >= 2 else None
    return found[1] if found else None


def drafting_lines(decode: pl.DataFrame, spec: pl.DataFrame) -> bool:
    """Whether stats lines show drafting; a SpecDecoding line with nothing drafted does not (vLLM may print it)."""
    import polars as pl

    drafted = spec.filter(
        (pl.col("drafted") > 0) | (pl.col("drafted").is_null() & pl.col("accept_length_printed").is_not_null())
    )
    return drafted.height > 0 or bool(decode["accept_length_printed"].is_not_null().any())


def sglang(windows: pl.DataFrame, spec: Speculation, version: str | None, where: Locator) -> Acceptance:
    """Acceptance of SGLang windows: the mean over windows that count drafts alone, weighted by running requests."""
    import polars as pl

    drafting = windows.filter(pl.col("printed_length").is_not_null())
    if not drafting.height:
        return Acceptance(
            accept_length=Fact(
                reason="no Decode batch line prints `accept len`: the run does not speculate, or too short"
            )
        )
    used = drafting.filter("drafts_only") if drafting["drafts_only"].any() else drafting
    length = _weighted(used, "printed_length")
    rate = _weighted(used, "printed_rate")
    width = spec.num_draft_tokens.value
    tree = (spec.topk.value or 1) > 1
    evidence = where.spans(used)
    accept_rate: Fact[float]
    if tree:
        words = "topk > 1: drafted tokens form a tree, the share accepted says little; use the accept length"
        accept_rate = Fact(reason=words)
    else:
        value, words = _rate(used, width, spec.num_steps.value, version)
        accept_rate = Fact(value, Provenance.DERIVED, evidence, words if value is None else None)
    top = None if tree or width is None else width
    return Acceptance(
        accept_length=Fact(length, Provenance.MEASURED, evidence),
        accept_rate=accept_rate,
        per_position=Fact(reason="SGLang's log prints no acceptance per position"),
        coverage=Fact(1.0, Provenance.ASSUMED) if spec.drafts_every_step else Fact(reason="not printed by SGLang"),
        tokens_per_cycle=Fact(length, Provenance.MEASURED, evidence),
        printed_accept_length=length,
        printed_accept_rate=rate,
        definition=words,
        ceiling=top,
        n_samples=used.height,
        **_exact(used, top),
        evidence=evidence,
    )


def _rate(used: pl.DataFrame, width: int | None, steps: int | None, version: str | None) -> tuple[float | None, str]:
    words = "no accept len"
    total, weight = 0.0, 0
    for row in used.tail(_PAIRS).select("printed_length", "printed_rate", "running").iter_rows(named=True):
        value, words = sglang_accepted_share(row["printed_rate"], row["printed_length"], steps, width, version)
        if value is None:
            return None, words
        total += value * (row["running"] or 1)
        weight += row["running"] or 1
    return (total / weight if weight else None), words


def _exact(drafting: pl.DataFrame, top: int | None) -> dict[str, Any]:
    """How many lines stand exactly at 1.00 or at the ceiling, and at which loads."""
    import polars as pl

    one = drafting.filter(pl.col("printed_length") == 1.0)
    other = drafting.filter(pl.col("printed_length") != 1.0)
    return {
        "exactly_one": one.height,
        "exactly_ceiling": drafting.filter(pl.col("printed_length") == float(top)).height if top else 0,
        "exactly_one_running": loads(one),
        "other_running": loads(other),
    }


def loads(rows: pl.DataFrame) -> tuple[int, int] | None:
    """Lowest and highest running count of the rows; None without any."""
    low, high = rows["running"].min(), rows["running"].max()
    return (low, high) if isinstance(low, int) and isinstance(high, int) else None


def _weighted(rows: pl.DataFrame, column: str) -> float | None:
    import polars as pl

    weight = pl.col("running").fill_null(1).clip(lower_bound=1)
    value = rows.filter(pl.col(column).is_not_null()).select((pl.col(column) * weight).sum() / weight.sum()).item()
    return float(value) if value is not None else None


def mean_of(rows: pl.DataFrame, column: str) -> float | None:
    """Mean of a column; None without values."""
    value = rows[column].drop_nulls().mean()
    return float(value) if isinstance(value, (int, float)) else None


def _timer_rate(length: Fact[float], k: int | None, evidence: tuple[Evidence, ...]) -> Fact[float]:
    if length.value is None or not k:
        return Fact(reason="the number of draft tokens is not known" if length.known else length.reason)
    return Fact((length.value - 1.0) / k, Provenance.DERIVED, evidence)


def from_timers(cycles: pl.DataFrame, spec: Speculation, where: Locator) -> Acceptance | None:
    """Acceptance as EAGLE3_PROFILE prints give it, for logs whose engine prints none; None without such lines.

    A home-made counter may leave the bonus token out: a value below 1 proves it, since every cycle emits at least one
    token. Values that never fall below 1 could be either and give no accept length.
    """
    import polars as pl

    rows = cycles.filter((pl.col("source") == "eagle3_profile") & pl.col("accept_length_printed").is_not_null())
    if not rows.height:
        return None
    evidence = where.spans(rows)
    weight = pl.col("cycles").fill_null(1)
    mean = float(rows.select((pl.col("accept_length_printed") * weight).sum() / weight.sum()).item())
    without = bool((rows["accept_length_printed"] < 1.0).any())
    with_bonus = bool(rows["accept_has_bonus"].fill_null(False).all())
    length: Fact[float]
    if with_bonus and not without:
        length, words = Fact(mean, Provenance.MEASURED, evidence), "the timers' own line counts the bonus token"
    elif without:
        words = "a value below 1 shows that the print leaves the bonus token out; 1 was added"
        length = Fact(mean + 1.0, Provenance.DERIVED, evidence, words)
    else:
        words = "a home-made print that never falls below 1: whether it counts the bonus token cannot be told"
        length = Fact(reason=words)
    covered = rows.filter(pl.col("coverage").is_not_null())
    coverage: Fact[float] = Fact(reason="not printed by the timers")
    earned = length
    if covered.height == rows.height:
        share = float(rows.select((pl.col("coverage") * weight).sum() / weight.sum()).item())
        coverage = Fact(share, Provenance.MEASURED, evidence)
        if length.value is not None and share < 1.0:
            # a request without a draft to verify emits one token
            earned = Fact(1.0 + share * (length.value - 1.0), Provenance.DERIVED, evidence)
    return Acceptance(
        accept_length=length,
        accept_rate=_timer_rate(length, spec.k.value, evidence),
        ceiling=spec.k.value + 1 if spec.k.value is not None else None,
        tokens_per_cycle=earned,
        coverage=coverage,
        printed_accept_length=mean,
        definition=words,
        n_samples=rows.height,
        evidence=evidence,
    )


def within_ceiling(found: Acceptance) -> tuple[Acceptance, str | None]:
    """Acceptance without its ceiling, and words for the contradiction, where the length is above k + 1."""
    length, top = found.accept_length.value, found.ceiling
    if length is None or top is None or length <= top + _ROUNDING:
        return found, None
    words = f"accept length {length:.2f} is above k + 1 = {top}: settings and stats lines are of different runs"
    return replace(found, ceiling=None), words
