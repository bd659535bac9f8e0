"""Trace tables of a run to its attribution: cycles, ledger, skew, late ranks, and what is wrong with the capture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana.attribution.capture_quality import count_trace, judge_capture
from traceana.attribution.cycle_contents import comm_kernels, copies
from traceana.attribution.cycles import cycles_of_replays, cycles_of_scopes
from traceana.attribution.host_waits import host_waits
from traceana.attribution.late import late_arrivals, late_ranks
from traceana.attribution.ledger import build_ledger
from traceana.attribution.model import CaptureNote, Ledger, SkewVerdict
from traceana.attribution.ops import device_ops
from traceana.attribution.phase_table import phase_spans, phase_table
from traceana.attribution.ranks import match_ranks, splits
from traceana.attribution.scopes import number_cycles, scopes_by_name, scopes_of_ranges
from traceana.attribution.skew import judge, split_one_rank
from traceana_parsers.kernels import classify
from traceana_parsers.traces.annotations import annotate

if TYPE_CHECKING:
    import polars as pl

    from traceana.store.dataset import Tables

_TABLES = ("kernels", "memops", "graphs", "launches", "ranges", "collectives")


@dataclass(frozen=True, slots=True)
class Attribution:
    """What the traces of a run say.

    `phases`: the phase table (medians per rank, device and phase); `ledger`: None without GPU cycles; `host`: per rank
    and phase, cycles and the median host span (`host_span_ns`) with collectives per cycle (`collectives`, text) and the
    time in them; `late`: see late.late_ranks; `categories`: family, category, total_ns of kernels, most first;
    `source`: where the cycles come from; `provenance`: measured, or derived from the pattern of graph launches.
    Inside cycles: `rounds`, one row per cycle and timeline (file_id, rank, pid, device, cycle, batch, tokens,
    host_start_ns, host_end_ns, window_ns; device and window null without GPU work); `waits`, see host_waits.HOST_WAITS;
    `comm`, see cycle_contents.COMM_KERNELS; `copies`, see cycle_contents.COPIES.
    """

    phases: pl.DataFrame
    ledger: Ledger | None
    host: pl.DataFrame
    skew: SkewVerdict
    late: pl.DataFrame
    categories: pl.DataFrame
    notes: tuple[CaptureNote, ...]
    cycles: int
    source: str
    provenance: str
    rounds: pl.DataFrame
    waits: pl.DataFrame
    comm: pl.DataFrame
    copies: pl.DataFrame


def analyse(tables: Tables, engine: str | None = None) -> Attribution | None:
    """The attribution of a run's traces; None when the run has no trace.

    Raises LedgerError when buckets do not add up, which is an error of ours.
    """
    traces = tables.frame("traces")
    if not traces.height:
        return None
    found = {name: tables.frame(name) for name in _TABLES}
    names = tables.frame("names")
    kinds = names.select("file_id", "name_id").hstack(
        classify(names["name"]).select("family", "category", "collective", "library")
    )
    ops = device_ops(found["kernels"], found["memops"], found["graphs"], found["launches"], kinds, found["collectives"])
    said = names.select("file_id", "name_id").hstack(annotate(names["name"]))
    engine = engine or _engine(said)
    scopes, source = _scopes(found["ranges"], names, said)
    cycles = cycles_of_scopes(scopes, found["launches"], ops)
    provenance = "measured"
    if not cycles.filter(cycles["phase"] == "cycle").height and not number_cycles(scopes).height:
        cycles = cycles_of_replays(found["launches"], ops, found["graphs"])
        source, provenance = "the periodic pattern of graph launches", "derived"
    members, late = _collectives(
        found["collectives"], found["kernels"], ops, "relative" not in traces["clock"].to_list()
    )
    on_device = cycles.filter(cycles["device"].is_not_null())
    ledger = build_ledger(on_device, ops, splits(members)) if on_device.height else None
    if ledger is not None:
        ledger.self_check()
    return Attribution(
        phases=phase_table(phase_spans(cycles, found["launches"], ops)),
        ledger=ledger,
        host=_host(number_cycles(scopes), found["collectives"]),
        skew=judge(members),
        late=late,
        categories=_categories(found["kernels"], kinds),
        notes=tuple(judge_capture(traces, count_trace(traces, found, ops, cycles), engine)),
        cycles=_count(cycles),
        source=source,
        provenance=provenance,
        rounds=_rounds(cycles),
        waits=host_waits(cycles, found["launches"], ops, names),
        comm=comm_kernels(
            cycles, ops, found["kernels"], found["collectives"], kinds.select("file_id", "name_id", "library")
        ),
        copies=copies(cycles, found["memops"]),
    )


def _rounds(cycles: pl.DataFrame) -> pl.DataFrame:
    """One row per cycle and timeline, in time order."""
    import polars as pl

    window = (pl.col("window_end_ns") - pl.col("window_start_ns")).alias("window_ns")
    who = ["file_id", "rank", "pid", "device", "cycle"]
    return (
        cycles.filter(pl.col("phase") == "cycle")
        .select(*who, "batch", "tokens", "host_start_ns", "host_end_ns", window)
        .sort("host_start_ns")
    )


def _count(cycles: pl.DataFrame) -> int:
    """Cycles of the rank that has the most."""
    whole = cycles.filter(cycles["phase"] == "cycle").unique(["file_id", "pid", "cycle"])
    most = whole.group_by("file_id", "pid").len()["len"].max() if whole.height else 0
    return int(most) if isinstance(most, int) else 0


def _engine(said: pl.DataFrame) -> str | None:
    """The engine whose annotations are in the traces; None without any, or with those of several."""
    engines = said["engine"].drop_nulls().unique().to_list()
    return str(engines[0]) if len(engines) == 1 else None


def _scopes(ranges: pl.DataFrame, names: pl.DataFrame, said: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Host ranges that bound cycles and phases: our own where there are any, else the engine's annotations (`said`)."""
    own = scopes_by_name(ranges, names)
    if own.height:
        return own, "ranges of the instrumentation"
    roles = said.with_columns(said["generation_tokens"].alias("tokens"))
    return scopes_of_ranges(ranges, roles), "the engine's own step annotations"


def _collectives(
    collectives: pl.DataFrame, kernels: pl.DataFrame, ops: pl.DataFrame, wall_clock: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Collectives with transfer and wait, and who came late: matched across ranks, else estimated on the one rank."""
    match = match_ranks(collectives, wall_clock=wall_clock)
    if match.members.height:
        return match.members, late_ranks(late_arrivals(match.members, ops))
    return split_one_rank(collectives, kernels), late_ranks(late_arrivals(match.members, ops))


def _categories(kernels: pl.DataFrame, kinds: pl.DataFrame) -> pl.DataFrame:
    import polars as pl

    timed = kernels.join(kinds, on=["file_id", "name_id"], how="left")
    return (
        timed.group_by("family", "category")
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("total_ns"), pl.len().alias("kernels"))
        .sort("total_ns", descending=True)
    )


def _host(scopes: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """Host spans of phases per rank, and the host-side collectives inside them (CPU backends trace those)."""
    import polars as pl

    phases = scopes.filter((pl.col("phase") != "cycle") & pl.col("cycle").is_not_null())
    phases = phases.with_row_index("range")
    host = collectives.filter(pl.col("device").is_null()).sort("start_ns")
    inside = phases.sort("host_start_ns").select("range", "file_id", "pid", "host_start_ns", "host_end_ns")
    joined = host.join_asof(
        inside,
        left_on="start_ns",
        right_on="host_start_ns",
        by=["file_id", "pid"],
        strategy="backward",
        check_sortedness=False,
    ).filter(pl.col("end_ns") <= pl.col("host_end_ns"))
    per_range = joined.group_by("range", "collective").agg(
        pl.len().alias("n"), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    )
    keys = ["file_id", "rank", "pid", "phase"]
    spans = phases.group_by(keys).agg(
        pl.len().alias("ranges"), (pl.col("host_end_ns") - pl.col("host_start_ns")).median().alias("host_span_ns")
    )
    counts = (
        per_range.join(phases.select("range", *keys), on="range")
        .group_by(*keys, "collective")
        .agg(pl.col("n").median().alias("per_range"), pl.col("ns").median().alias("ns"))
        .sort("per_range", descending=True)
        .with_columns(pl.format("{} {}", pl.col("per_range").cast(pl.Int64), "collective").alias("text"))
        .group_by(keys, maintain_order=True)
        .agg(pl.col("text").str.join(", ").alias("collectives"), pl.col("ns").sum().alias("collective_ns"))
    )
    return spans.join(counts, on=keys, how="left", nulls_equal=True).sort(keys)
