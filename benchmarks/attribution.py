"""Speed of attribution on a synthetic trace, as ratios to sorting its own time stamps in the same run.

The reference is numpy's sort of the kernels' and launches' starts and ends, shuffled. Ratios of CPU time hold from machine
to machine, seconds do not. Eight ranks, a cycle of draft, verify and re-extend per 122 kernels, two streams, one allreduce
in ten kernels.

    python benchmarks/attribution.py [--kernels 5e6] [--ranks 8]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
import polars as pl

from traceana.attribution.cycles import cycles_of_scopes
from traceana.attribution.ledger import build_ledger
from traceana.attribution.ops import device_ops
from traceana.attribution.phase_table import phase_spans, phase_table
from traceana.attribution.projection import project
from traceana.attribution.ranks import match_ranks, splits
from traceana.attribution.scopes import scopes_by_name
from traceana_parsers.schema import empty, polars_schema

PER_CYCLE = 122
PHASES = (("draft", 0, 30), ("verify", 30, 110), ("re_extend", 110, PER_CYCLE))
GEMM, ALLREDUCE, LAUNCH = 0, 1, 2
NAMES = ("gemm", "allreduce", "cudaLaunchKernel", "cycle", "draft", "verify", "re_extend")


def frame(table: str, **columns: object) -> pl.DataFrame:
    """Rows of a table; columns not given are null."""
    schema = polars_schema(table)
    given = pl.DataFrame(columns)
    return given.select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(kind).alias(name) for name, kind in schema.items()
    )


def make_rank(rank: int, kernels: int, random: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Tables of one rank."""
    cycles = max(kernels // PER_CYCLE, 1)
    n = cycles * PER_CYCLE
    length = random.integers(2_000, 12_000, n)
    end = np.cumsum(length + np.where(np.arange(n) % PER_CYCLE == 0, 40_000, random.integers(-800, 900, n)))
    start = np.maximum(end - length, 0)
    call = np.maximum.accumulate(start - 6_000)
    call += np.arange(n)  # calls of one thread do not begin together
    place = np.arange(n) % PER_CYCLE
    reduces = place % 10 == 9
    who = {"file_id": rank, "rank": rank, "pid": 1_000 + rank}
    many = {name: np.full(n, value, np.int64) for name, value in who.items()}
    where = {"device": np.zeros(n, np.int64), "stream": np.where(reduces, 8, 7), "correlation": np.arange(n)}
    table = frame("kernels", **many, start_ns=start, end_ns=end, name_id=reduces.astype(np.int64), **where)
    launches = frame(
        "launches", **many, start_ns=call, end_ns=call + 1, name_id=np.full(n, LAUNCH), tid=np.full(n, 7),
        correlation=np.arange(n), is_graph=np.zeros(n, np.bool_),
    )  # fmt: skip
    ranges = []
    first = np.arange(cycles) * PER_CYCLE
    for name, low, high in (("cycle", 0, PER_CYCLE), *PHASES):
        one = {key: np.full(cycles, value, np.int64) for key, value in who.items()}
        ranges.append(
            frame(
                "ranges", **one, start_ns=call[first + low], end_ns=call[first + high - 1] + 1,
                name_id=np.full(cycles, NAMES.index(name)), tid=np.full(cycles, 7),
                domain=np.full(cycles, "traceana"), kind=np.full(cycles, "nvtx"),
            )
        )  # fmt: skip
    collectives = table.filter(pl.col("name_id") == ALLREDUCE).with_columns(pl.lit("all_reduce").alias("collective"))
    collectives = frame(
        "collectives",
        **{name: collectives[name] for name in collectives.columns if name in polars_schema("collectives")},
    )
    return {"kernels": table, "launches": launches, "ranges": pl.concat(ranges), "collectives": collectives}


def measured(work: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds of all threads, and the result."""
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def main() -> None:
    """Make the trace, run each step once, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=float, default=5e6)
    parser.add_argument("--ranks", type=int, default=8)
    wanted = parser.parse_args()
    random = np.random.default_rng(1)
    made = [make_rank(rank, int(wanted.kernels) // wanted.ranks, random) for rank in range(wanted.ranks)]
    tables = {name: pl.concat([one[name] for one in made]) for name in made[0]}
    names = [(rank, at, name) for rank in range(wanted.ranks) for at, name in enumerate(NAMES)]
    named = pl.DataFrame(names, schema=polars_schema("names"), orient="row")
    kinds = named.filter(pl.col("name_id") < LAUNCH).with_columns(
        pl.when(pl.col("name_id") == ALLREDUCE)
        .then(pl.lit("communication"))
        .otherwise(pl.lit("compute"))
        .alias("family"),
        pl.when(pl.col("name_id") == ALLREDUCE).then(pl.lit("all_reduce")).alias("collective"),
    )
    times = [tables[table][name].to_numpy() for table in ("kernels", "launches") for name in ("start_ns", "end_ns")]
    shuffled = [random.permutation(one) for one in times]
    reference, _ = measured(lambda: [np.sort(one) for one in shuffled])
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{tables['kernels'].height:,} kernels, {tables['ranges'].height:,} ranges, {wanted.ranks} ranks")
    print(f"{'sort of the time stamps':28} {reference:6.2f} CPU-s  1.0x")
    total = 0.0

    def step(label: str, work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        nonlocal total
        took, found = measured(work)
        total += took
        print(f"{label:28} {took:6.2f} CPU-s {took / reference:4.1f}x")
        return found  # type: ignore[return-value]

    ops = step("operations and launches", lambda: device_ops(
        tables["kernels"], empty("memops"), empty("graphs"), tables["launches"], kinds, tables["collectives"]
    ))  # fmt: skip
    step("projection of all ranges", lambda: project(tables["ranges"], tables["launches"], ops))
    scopes = scopes_by_name(tables["ranges"], named)
    cycles = step("cycles", lambda: cycles_of_scopes(scopes, tables["launches"], ops))
    members = step("collectives across ranks", lambda: match_ranks(tables["collectives"]).members)
    rows = step("ledger", lambda: build_ledger(cycles, ops, splits(members)).rows)
    step("phase table", lambda: phase_table(phase_spans(cycles, tables["launches"], ops)))
    print(f"{'all':28} {total:6.2f} CPU-s {total / reference:4.1f}x")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cycle_rows = rows.select("file_id", "cycle").n_unique()
    print(f"{cycle_rows:,} cycles in the ledger; peak {peak:,.0f} MiB, of which the tables {base:,.0f}")


if __name__ == "__main__":
    main()
