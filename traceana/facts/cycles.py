"""The cycle: from timers where a line prints them, from the stats windows otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceana.facts.locate import Locator
from traceana.facts.model import CycleFacts, CyclePart, Fact, Provenance, Regime

if TYPE_CHECKING:
    import polars as pl

#: label of a hand-made `X: 29.97 ms/cycle` block (lower case, found anywhere in the label) -> phase
_LABELS = (
    ("verify", "verify"),
    ("re-extend", "re-extend"),
    ("re_extend", "re-extend"),
    ("extend", "re-extend"),
    ("draft", "draft"),
)
_TOTAL_LABELS = ("total", "cycle", "step")


def cycle_facts(
    cycles: pl.DataFrame, events: pl.DataFrame, main: Regime | None, levels: Sequence[Regime], where: Locator
) -> CycleFacts:
    """The cycle's length and parts: from EAGLE3_PROFILE lines, else iteration lines, else the main regime's windows."""
    for reader in (_profile, _phase_block, _iterations):
        found = reader(cycles if reader is not _phase_block else events, where)
        if found is not None:
            return found
    if main is not None and main.cycle_ms is not None:
        return CycleFacts(
            total_ms=Fact(main.cycle_ms.median, Provenance.DERIVED, main.evidence),
            parts=(CyclePart("unknown", main.cycle_ms.median, Provenance.DERIVED),),
            source=f"the median of steady windows (n={main.n_steady}) at {main.running} running",
            batch=main.running,
        )
    bounded = max((r for r in levels if r.cycle_bound_ms), key=lambda r: r.n_windows, default=None)
    if bounded is not None:
        return CycleFacts(
            total_ms=Fact(
                reason=f"no window is steady; at most {bounded.cycle_bound_ms:.1f} ms at {bounded.running} running "
                f"(fastest tenth of {bounded.n_windows} windows, prefill and load changes included)"
            )
        )
    return CycleFacts(total_ms=Fact(reason="no steady window, no timer line and no iteration line in the log"))


@dataclass(frozen=True, slots=True)
class TimerLines:
    """What timer lines tell of speculation: that there is drafting, and num_draft_tokens (k + 1) where they name k."""

    drafting: bool
    width: int | None


def timer_lines(cycles: pl.DataFrame, events: pl.DataFrame) -> TimerLines:
    """What EAGLE3_PROFILE lines and ms/cycle blocks tell of speculation."""
    import polars as pl

    rows = cycles.filter(pl.col("source") == "eagle3_profile")
    blocks = events.filter((pl.col("kind") == "phase_ms") & pl.col("subject").str.to_lowercase().str.contains("verify"))
    k = rows["k"].drop_nulls().unique()
    return TimerLines(rows.height > 0 or blocks.height > 0, int(k[0]) + 1 if len(k) == 1 else None)


def _profile(cycles: pl.DataFrame, where: Locator) -> CycleFacts | None:
    """Means of EAGLE3_PROFILE rows at the most common batch, weighted by cycles; ranks averaged."""
    import polars as pl

    rows = cycles.filter((pl.col("source") == "eagle3_profile") & pl.col("verify_ms").is_not_null())
    if not rows.height:
        return None
    batch = rows["batch"].drop_nulls().mode()
    at = rows.filter(pl.col("batch") == batch[0]) if len(batch) else rows
    weight = pl.col("cycles").fill_null(1)
    names = ("draft_ms", "verify_ms", "re_extend_ms", "other_ms", "total_ms", "between_ms", "host_cycle_ms")
    mean = at.select(
        (
            (pl.col(n) * weight).filter(pl.col(n).is_not_null()).sum() / weight.filter(pl.col(n).is_not_null()).sum()
        ).alias(n)
        for n in names
    ).row(0, named=True)
    known = {
        "draft": mean["draft_ms"],
        "verify": mean["verify_ms"],
        "re-extend": mean["re_extend_ms"],
        "other": mean["other_ms"],
    }
    found = _with_parts(
        {name: float(ms) for name, ms in known.items() if ms is not None and not math.isnan(ms)},
        None if mean["total_ms"] is None or math.isnan(mean["total_ms"]) else float(mean["total_ms"]),
        where.spans(at),
        f"mean of EAGLE3_PROFILE lines (n={at.height})",
        int(batch[0]) if len(batch) else None,
    )
    between, host = (
        None if ms is None or math.isnan(ms) else float(ms) for ms in (mean["between_ms"], mean["host_cycle_ms"])
    )
    return replace(found, between_ms=between, host_ms=host)


def _phase_block(events: pl.DataFrame, where: Locator) -> CycleFacts | None:
    """Hand-made blocks of `Target verify: 29.97 ms/cycle` lines: the mean of each label."""
    import polars as pl

    rows = events.filter((pl.col("kind") == "phase_ms") & pl.col("value").is_not_null())
    if not rows.height:
        return None
    parts: dict[str, list[float]] = {}
    totals: list[float] = []
    for label, value in rows.select(pl.col("subject").str.to_lowercase(), "value").iter_rows():
        phase = next((name for word, name in _LABELS if word in label), None)
        if phase is not None:
            parts.setdefault(phase, []).append(value)
        elif any(word in label for word in _TOTAL_LABELS):
            totals.append(value)
        else:
            parts.setdefault("other", []).append(value)
    means = {name: sum(values) / len(values) for name, values in parts.items()}
    if "verify" not in means:
        return None
    return _with_parts(
        means,
        sum(totals) / len(totals) if totals else None,
        where.spans(rows),
        f"ms/cycle lines (n={rows.height})",
        None,
    )


def _with_parts(
    parts: dict[str, float], total: float | None, evidence: tuple[object, ...], source: str, batch: int | None
) -> CycleFacts:
    """Parts of a cycle with what is left over as `unknown`; the total is their sum where none is printed."""
    printed = total is not None
    whole = total if total is not None else sum(parts.values())
    rest = whole - sum(parts.values())
    made = [CyclePart(name, ms, Provenance.MEASURED) for name, ms in parts.items()]
    if printed and rest > 0.005 * whole:
        made.append(CyclePart("unknown", rest, Provenance.DERIVED))
    return CycleFacts(
        total_ms=Fact(whole, Provenance.MEASURED if printed else Provenance.DERIVED, evidence),  # type: ignore[arg-type]
        parts=tuple(made),
        source=source,
        batch=batch,
    )


def _iterations(cycles: pl.DataFrame, where: Locator) -> CycleFacts | None:
    """Per-step lines without prefill at the most common batch: the median."""
    import polars as pl

    rows = cycles.filter(
        pl.col("source").is_in(["vllm_iteration", "trtllm_iteration"])
        & (pl.col("batch") > 0)
        & (pl.col("context_requests").fill_null(0) == 0)
        & (pl.col("total_ms") > 0)
    )
    if rows.height < 3:
        return None
    batch = int(rows["batch"].mode().max())  # type: ignore[arg-type]
    at = rows.filter(pl.col("batch") == batch)
    median = float(at["total_ms"].median())  # type: ignore[arg-type]
    return CycleFacts(
        total_ms=Fact(median, Provenance.MEASURED, where.spans(at)),
        parts=(CyclePart("unknown", median, Provenance.MEASURED),),
        source=f"the median of per-step lines without prefill (n={at.height})",
        batch=batch,
    )
