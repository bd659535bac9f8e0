"""CPU time and memory of attribution on a synthetic store, as ratios to sorting the same trace's time stamps.

The reference is numpy's sort of the kernels' and launches' starts and ends, shuffled, in the same run. Ratios of CPU time
hold from machine to machine, seconds do not. A cycle of draft, verify and re-extend per 122 kernels, two streams, one
allreduce in ten kernels; the store is read back from disk, as `traceana ingest` does.

    python benchmarks/attribution.py [--kernels 5e6] [--ranks 8]

One rank, then all of them: memory should grow by what is kept of each cycle and collective, not by the events.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from traceana.store.dataset import RunWriter
from traceana_parsers.schema import polars_schema

PER_CYCLE = 122
PHASES = (("draft", 0, 30), ("verify", 30, 110), ("re_extend", 110, PER_CYCLE))
GEMM, ALLREDUCE, LAUNCH = 0, 1, 2
NAMES = (
    "nvjet_tst_64x8_64x16_1x4_h_bz_splitK_TNT",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "cudaLaunchKernel",
    "cycle",
    "draft",
    "verify",
    "re_extend",
)


def frame(table: str, **columns: object) -> pl.DataFrame:
    """Rows of a table; columns not given are null."""
    schema = polars_schema(table)
    given = pl.DataFrame(columns)
    return given.select(
        (pl.col(name) if name in columns else pl.lit(None)).cast(kind).alias(name) for name, kind in schema.items()
    )


def make_rank(rank: int, kernels: int, random: np.random.Generator) -> dict[str, pl.DataFrame]:
    """Tables of one rank. All ranks leave an allreduce together: `random` begins with the same seed for each."""
    cycles = max(kernels // PER_CYCLE, 1)
    n = cycles * PER_CYCLE
    length = random.integers(6_000, 12_000, n)
    end = np.cumsum(length + np.where(np.arange(n) % PER_CYCLE == 0, 40_000, random.integers(-800, 900, n)))
    early = np.random.default_rng(rank).integers(0, 4_000, n)  # this rank's arrival before the last one's
    start = np.maximum(end - length - np.where(np.arange(n) % 10 == 9, early, 0), 0)
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
    names = pl.DataFrame(
        [(rank, at, name) for at, name in enumerate(NAMES)], schema=polars_schema("names"), orient="row"
    )
    span = {"start_ns": [int(start.min())], "end_ns": [int(end.max())]}
    traces = frame("traces", **{key: [value] for key, value in who.items()}, **span, clock=["utc"], notes=["[]"])
    return {
        "names": names,
        "traces": traces,
        "kernels": table,
        "launches": launches,
        "ranges": pl.concat(ranges),
        "collectives": collectives,
    }


#: prints CPU seconds of all threads, kernels, cycles, and MiB above what importing takes
ATTRIBUTE = """
import sys, time
from pathlib import Path
from traceana.attribution.results import attribute
from traceana.store.dataset import RunWriter, open_run
import pyarrow.parquet
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
begin, base, out = time.process_time(), peak(), Path(sys.argv[1])
tables = open_run(sys.argv[1])[0]
with RunWriter(out / "results") as writer:
    attribute(tables, writer)
    cycles = writer.flush().height("trace_cycles")
print(time.process_time() - begin, tables.height("kernels"), cycles, peak() - base)
"""


def sort_seconds(made: dict[str, pl.DataFrame], ranks: int) -> float:
    """CPU seconds of sorting the time stamps of that many such ranks."""
    random = np.random.default_rng(2)
    stamps = [
        random.permutation(made[t][c].to_numpy()) for t in ("kernels", "launches") for c in ("start_ns", "end_ns")
    ]
    begin = time.process_time()
    for _ in range(ranks):
        for one in stamps:
            np.sort(one)
    return time.process_time() - begin


def main() -> None:
    """Make the stores, attribute each in a process of its own, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=float, default=5e6)
    parser.add_argument("--ranks", type=int, default=8)
    wanted = parser.parse_args()
    print(
        f"{'ranks':>5} {'kernels':>10} {'cycles':>8} {'CPU-s':>7} {'x sort':>7} {'CPU us/kernel':>14} {'MiB above import':>17}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for ranks in sorted({1, wanted.ranks}):
            store, made = Path(folder) / str(ranks), {}
            with RunWriter(store) as writer:
                for rank in range(ranks):
                    made = make_rank(rank, int(wanted.kernels) // wanted.ranks, np.random.default_rng(1))
                    for name, rows in made.items():
                        writer.add(name, rows)
                writer.commit("r", {})
            reference = sort_seconds(made, ranks)
            done = subprocess.run(
                [sys.executable, "-c", ATTRIBUTE, str(store)], capture_output=True, text=True, check=True
            )
            seconds, kernels, cycles, peak = map(float, done.stdout.split())
            each = seconds / kernels * 1e6
            print(
                f"{ranks:5} {kernels:10,.0f} {cycles:8,.0f} {seconds:7.2f} {seconds / reference:7.1f} {each:14.2f} {peak:17,.0f}"
            )


if __name__ == "__main__":
    main()
