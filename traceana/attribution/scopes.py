"""Host ranges that mean something, numbered by cycle: from `cycle` ranges where there are some, else from the verifies.

A range inside another phase (a draft model's forward inside `draft_extend`) says nothing new: the outermost counts. Of
nested `cycle` ranges the innermost counts (a scheduler's round around the worker's). Rounds that hold a prefill are no
cycles.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from traceana.attribution.codes import column, dense_codes
from traceana.attribution.model import PROCESS
from traceana.attribution.nesting import Nesting, innermost, nest
from traceana.attribution.ops import THREAD

#: roles of ranges that take part; the annotation grammar has more
ROLES = ("cycle", "draft", "verify", "re_extend", "step", "prefill", "capture")
#: names of our own ranges
OWN = ("cycle", "draft", "verify", "re_extend")
#: phase that a row without a cycle stands for: prefills end the cycle before them
PREFILL = "prefill"

SCOPES: dict[str, pl.DataType] = {
    "file_id": pl.Int32(),
    "rank": pl.Int32(),
    "pid": pl.Int64(),
    "tid": pl.Int64(),
    "cycle": pl.Int64(),
    "phase": pl.String(),
    "host_start_ns": pl.Int64(),
    "host_end_ns": pl.Int64(),
    "batch": pl.Int64(),
    "tokens": pl.Int64(),
    "provenance": pl.String(),
}


def scopes_of_ranges(ranges: pl.DataFrame, roles: pl.DataFrame) -> pl.DataFrame:
    """Host ranges with a role: the `ranges` table joined to `roles` (file_id, name_id, role, batch, tokens per name).

    Returns file_id, rank, pid, tid, start_ns, end_ns, role, batch, tokens. Projections onto streams are left out.
    """
    key = ["file_id", "name_id"]
    known = roles.filter(pl.col("role").is_in(ROLES)).select(
        pl.col("file_id").cast(pl.Int32), pl.col("name_id").cast(pl.Int32), "role",
        pl.col("batch").cast(pl.Int64), pl.col("tokens").cast(pl.Int64),
    ).unique(key, keep="first")  # fmt: skip
    host = ranges.filter(pl.col("kind").fill_null("") != "gpu_annotation").join(known, on=key)
    return host.select("file_id", "rank", "pid", "tid", "start_ns", "end_ns", "role", "batch", "tokens")


def scopes_by_name(ranges: pl.DataFrame, names: pl.DataFrame, domain: str = "traceana") -> pl.DataFrame:
    """Scopes of our own ranges: cycle, draft, verify, re_extend in the NVTX domain, or in none where it has no ranges.

    torch.cuda.nvtx knows no domains, so there the bare names have to do; but only if `verify` is among them, because
    engines call ranges of their own `draft`.
    """
    own = names.filter(pl.col("name").is_in(OWN)).select(
        "file_id", "name_id", pl.col("name").alias("role"), pl.lit(None).alias("batch"), pl.lit(None).alias("tokens")
    )
    found = scopes_of_ranges(ranges.filter(pl.col("domain") == domain), own)
    if found.height:
        return found
    bare = scopes_of_ranges(ranges.filter(pl.col("domain").is_null()), own)
    return bare if bare.filter(pl.col("role") == "verify").height else bare.clear()


def number_cycles(scopes: pl.DataFrame) -> pl.DataFrame:
    """Rows of SCOPES: a `cycle` row per cycle, its phases, and prefills (cycle null).

    Args:
        scopes: file_id, rank, pid, tid, start_ns, end_ns, role, batch, tokens; host ranges of any number of threads.
    """
    scopes = scopes.filter(pl.col("role").is_in(ROLES))
    if not scopes.height:
        return pl.DataFrame(schema=SCOPES)
    (lane,), _ = dense_codes([scopes], THREAD)
    scopes = scopes.with_columns(pl.Series("lane", lane))
    rounds, phases = _rounds_and_phases(scopes)
    phases = _by_range(phases) if rounds.height else phases.with_columns(pl.lit(None, pl.Int64).alias("of"))
    with_range = phases.filter(pl.col("of").is_not_null())
    lanes = with_range.get_column("lane").unique()
    loose = _by_verify(phases.filter(~pl.col("lane").is_in(lanes.implode())))
    found = [_assemble(loose, None)]
    if with_range.height:
        found.append(_assemble(with_range, rounds))
    elif not loose.height:  # ranges around the rounds and nothing inside: all that is known
        found.append(_assemble(with_range, rounds, empty_rounds=True))
    prefills = phases.filter(pl.col("role") == PREFILL).with_columns(pl.lit(None, pl.Int64).alias("cycle"))
    return pl.concat([_number(pl.concat(found)), _shape(prefills)])


def _rounds_and_phases(scopes: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Innermost `cycle` ranges (with their place, `of`), and outermost phases with the round they are in."""
    rounds = scopes.filter(pl.col("role") == "cycle")
    parents = _nest(rounds).parents()
    holds = np.zeros(rounds.height, np.bool_)
    holds[parents[parents >= 0]] = True
    rounds = rounds.filter(~holds).with_row_index("of").with_columns(pl.col("of").cast(pl.Int64))
    phases = scopes.filter(pl.col("role") != "cycle")
    phases = phases.filter(_nest(phases).parents() < 0).filter(pl.col("role") != "capture")
    of = innermost(_nest(rounds), *(column(phases, name) for name in ("lane", "start_ns", "end_ns")))
    phases = phases.with_columns(pl.Series("of", of, pl.Int64)).with_columns(
        pl.when(pl.col("of") >= 0).then("of").alias("of")
    )
    return rounds, phases.sort("lane", "start_ns")


def _nest(scopes: pl.DataFrame) -> Nesting:
    return nest(*(column(scopes, name) for name in ("lane", "start_ns", "end_ns")))


def _by_range(phases: pl.DataFrame) -> pl.DataFrame:
    """Phases with `of`, the round they lie in; null where they lie in none, or in one with a prefill."""
    spoilt = (pl.col("role") == PREFILL).any().over("of")
    return phases.with_columns(pl.when(~spoilt).then("of").alias("of"))


def _by_verify(phases: pl.DataFrame) -> pl.DataFrame:
    """Phases with `of` counted by the verifies of the thread: drafts belong to the next one, re-extends to the last.

    A plain step counts like a verify. Where a thread drafts and no name says verify, its steps are the verifies. What a
    prefill separates from its verify belongs to no cycle (a draft thrown away, the drafter's own prefill).
    """
    drafts, verifies = ((pl.col("role") == role).any().over("lane") for role in ("draft", "verify"))
    implied = (pl.col("role") == "step") & drafts & ~verifies
    phases = phases.with_columns(
        pl.when(implied).then(pl.lit("verify")).otherwise("role").alias("role"), implied.alias("implied")
    )
    anchor = pl.col("role").is_in(["verify", "step"])
    count = anchor.cast(pl.Int64).cum_sum().over("lane")
    phases = phases.with_columns(
        pl.when(pl.col("role") == "draft").then(count).otherwise(count - 1).alias("of"),
        (pl.col("role") == PREFILL).cast(pl.Int64).cum_sum().over("lane").alias("prefills"),
    )
    at_anchor = pl.when(anchor).then("prefills").max().over("lane", "of")
    kept = (pl.col("role") != PREFILL) & (pl.col("prefills") == at_anchor)
    return phases.filter(kept.fill_null(False)).drop("prefills")


def _assemble(phases: pl.DataFrame, rounds: pl.DataFrame | None, *, empty_rounds: bool = False) -> pl.DataFrame:
    """Phases and one `cycle` row for each `of`: the round's own range, or the span of its phases."""
    group = ["lane", "of"]
    anchor = pl.col("role").is_in(["verify", "step"])
    whole = phases.filter(pl.col("role") != PREFILL).group_by(group).agg(
        pl.col("file_id", "rank", "pid", "tid").first(), pl.col("start_ns").min(), pl.col("end_ns").max(),
        pl.col("batch", "tokens").filter(anchor).first(),
    )  # fmt: skip
    if rounds is not None:
        whole = rounds.join(
            whole.select(*group, "batch", "tokens"), on=group, how="left" if empty_rounds else "inner", suffix="_in"
        )
        whole = whole.with_columns(
            pl.coalesce("batch_in", "batch").alias("batch"), pl.coalesce("tokens_in", "tokens").alias("tokens")
        )
    if "implied" not in phases.columns:
        phases = phases.with_columns(pl.lit(False).alias("implied"))
    shared = ["lane", "of", "file_id", "rank", "pid", "tid", "start_ns", "end_ns", "role", "batch", "tokens", "implied"]
    whole = whole.with_columns(pl.lit("cycle").alias("role"), pl.lit(False).alias("implied"))
    made = pl.concat([phases.filter(pl.col("role") != PREFILL).select(shared), whole.select(shared)])
    return made.with_columns(pl.lit(rounds is not None).alias("ranged"))


def _number(rows: pl.DataFrame) -> pl.DataFrame:
    """Cycle numbers 0, 1, ... per process, in order of the cycles' starts."""
    cycles = rows.filter(pl.col("role") == "cycle").sort(*PROCESS, "start_ns")
    key = ["lane", "of", "ranged"]
    numbers = cycles.select(*key, (pl.col("of").cum_count().over(PROCESS).cast(pl.Int64) - 1).alias("cycle"))
    return _shape(rows.join(numbers, on=key).sort(*PROCESS, "cycle", "start_ns"))


def _shape(rows: pl.DataFrame) -> pl.DataFrame:
    phase = pl.col("role").replace({"step": "forward"})
    if "implied" not in rows.columns:
        rows = rows.with_columns(pl.lit(False).alias("implied"))
    provenance = pl.when(pl.col("implied")).then(pl.lit("derived")).otherwise(pl.lit("measured"))
    return rows.select(
        "file_id", "rank", "pid", "tid", "cycle", phase.alias("phase"), pl.col("start_ns").alias("host_start_ns"),
        pl.col("end_ns").alias("host_end_ns"), "batch", "tokens", provenance.alias("provenance"),
    ).select(pl.col(name).cast(kind) for name, kind in SCOPES.items())  # fmt: skip
