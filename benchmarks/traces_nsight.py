"""CPU time and memory of an Nsight SQLite export to Parquet and to its ledger, as ratios to sqlite3 and SQLite's sum().

    python benchmarks/traces_nsight.py                                    # 200 k kernels, 1 M ranges, about 100 MB
    python benchmarks/traces_nsight.py --kernels 860000 --ranges 4200000 --launches 2600000   # about 450 MB

A synthetic export (eight ranks as processes, cycles of three phases with a range per layer, half of those with their text
in the row) is written to a temporary folder. References, each in a process of its own: the rows and columns that are read, fetched with Python's
sqlite3 in batches and thrown away; and the floor, where SQLite counts and adds them up without handing out a row. Ratios
travel between machines, seconds do not. CPU time is that above the import of the libraries.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np

RANKS = 8
PER_CYCLE, SLOT_NS, CYCLE_NS = 250, 100_000, 26_000_000  # kernels of a cycle, one every 100 us, and 1 ms of nothing
NAMES = (
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    *(f"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_{i}_64x3_tn_align8>(T1::Params)" for i in range(200)),
)
CALLS = ("cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaEventRecord_v3020", "cuLaunchKernelEx")
RANGES = ("cycle", "draft", "verify", "re_extend", *(f"model.layers.{i}.self_attn.qkv_proj" for i in range(61)))
SCHEMA = """
PRAGMA journal_mode = off; PRAGMA synchronous = off;
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER,
  registersPerThread INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL,
  blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL,
  dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL,
  gridId INTEGER NOT NULL, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER,
  uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
  jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
"""


def make(path: Path, kernels: int, launches: int, ranges: int) -> None:
    """Writes an export with that many rows, about: a whole number of cycles on each rank."""
    rng = np.random.default_rng(7)
    db = sqlite3.connect(path)
    db.executescript(SCHEMA)
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate([*NAMES, *CALLS, *RANGES]))
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1767225600000000000, '2026-01-01T00:00:00', NULL)")
    cycles = max(kernels // (RANKS * PER_CYCLE), 1)
    rank, cycle, at = (axis.ravel() for axis in np.mgrid[:RANKS, :cycles, :PER_CYCLE])
    slot = cycle * CYCLE_NS + at * SLOT_NS
    reduces = at % 12 == 5
    # the ranks come to an allreduce one after the other and leave it together
    start = slot + rng.integers(0, 20_000, len(slot)) + np.where(reduces, rank * 1_500, 0)
    end = np.where(reduces, slot + 95_000, start + rng.integers(40_000, 70_000, len(slot)))
    name = np.where(reduces, 0, 1 + at % (len(NAMES) - 1))
    called = start - 30_000

    def insert(sql: str, when, *columns) -> None:
        order = np.argsort(when, kind="stable")
        for piece in np.array_split(order, max(len(order) // 100_000, 1)):
            db.executemany(sql, zip(*(column[piece].tolist() for column in columns), strict=True))

    process = (1 << 48) | (4_000 + rank) << 24
    node = np.where(rng.random(len(slot)) < 0.5, (1 + at).astype(object), None)
    number = np.arange(len(slot))
    insert(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,1,NULL,?,?,?,?,?,NULL,1,0,64,?,1,1,128,1,1,0,32768,0,0,?,65536,?,0)",
        start, start, end, rank, np.where(reduces, 20, 7), number, process, name, name, at % 132 + 1, number, node,
    )  # fmt: skip
    others = max(launches - len(slot), 0)
    their_rank = np.arange(others) % RANKS
    their_start = np.arange(others) * (cycles * CYCLE_NS // max(others, 1)) + 50
    calls_rank, calls_start = np.concatenate([rank, their_rank]), np.concatenate([called, their_start])
    calls_end = calls_start + rng.integers(1_000, 6_000, len(calls_start))
    which = np.concatenate([np.zeros(len(slot), int), 1 + np.arange(others) % (len(CALLS) - 1)])
    insert(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0,NULL)",
        calls_start, calls_start, calls_end, _thread(calls_rank), np.arange(len(calls_start)), len(NAMES) + which,
    )  # fmt: skip
    # a cycle, its three phases one after the other, and in each as many layers as it takes
    layers = max(ranges // (RANKS * cycles) - 4, 3) // 3
    edges = np.array([0, 60, 225, 250]) * SLOT_NS - 35_000
    offsets = [(edges[0], edges[3])]
    for begin, until in pairwise(edges):
        offsets.append((begin, until - 1_000))
        cuts = np.linspace(begin + 500, until - 1_500, layers + 1).astype(np.int64)
        offsets += zip(cuts[:-1], cuts[1:] - 100, strict=True)
    kinds = [0, *(k for phase in (1, 2, 3) for k in (phase, *(4 + i % (len(RANGES) - 4) for i in range(layers))))]
    rank, cycle, at = (axis.ravel() for axis in np.mgrid[:RANKS, :cycles, : len(offsets)])
    begins, ends = np.array(offsets).T
    which = np.array(kinds)[at]
    inline = (which >= 4) & (rng.random(len(at)) < 0.5)
    insert(
        "INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,NULL,NULL,?,?,NULL,?,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)",
        cycle * CYCLE_NS + begins[at], cycle * CYCLE_NS + begins[at], cycle * CYCLE_NS + ends[at],
        np.where(inline, np.array(RANGES, object)[which], None), _thread(rank),
        np.where(inline, None, (len(NAMES) + len(CALLS) + which).astype(object)),
    )  # fmt: skip
    db.commit()
    db.close()


def _thread(rank):
    return (1 << 48) | (4_000 + rank) << 24 | (4_000 + rank)


#: peak of the process itself; ru_maxrss begins with that of the process that started it
PEAK = """
from pathlib import Path
def peak_mib():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
"""
READ = """
import sys, tempfile, time
import polars, pyarrow.parquet
from traceana.store.dataset import RunWriter
from traceana_parsers.sources import Source
from traceana_parsers.traces import nsight_sqlite
start = time.process_time()
with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder)) as run:
    report = nsight_sqlite.read(Source(sys.argv[1]), 0, run)
    tables = run.flush()
    assert report.problem is None and report.unread == 0, report
    rows = sum(tables.height(name) for name in ("kernels", "launches", "ranges"))
print(rows, time.process_time() - start, peak_mib())
"""
COLUMNS = """
TABLES = (
    ("CUPTI_ACTIVITY_KIND_KERNEL",
     "start end deviceId streamId correlationId globalPid demangledName shortName graphNodeId gridX blockX"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId"),
    ("NVTX_EVENTS", "start end eventType globalTid endGlobalTid textId domainId text"),
)
"""
LEDGER = """
import sys, time
import polars, pyarrow.parquet
from traceana import api
from traceana.attribution.analyse import analyse
start = time.process_time()
with api.load([sys.argv[1]]) as loaded:
    found = analyse(loaded.tables)
print(found.cycles, time.process_time() - start, peak_mib())
"""
FETCH = """
import sqlite3, sys, time
start = time.process_time()
db = sqlite3.connect(sys.argv[1])
rows = 0
for table, columns in TABLES:
    names = ", ".join(f'"{name}"' for name in columns.split())
    cursor = db.execute(f"SELECT {names} FROM {table}")
    while batch := cursor.fetchmany(65_536):
        rows += len(batch)
print(rows, time.process_time() - start, peak_mib())
"""
FLOOR = """
import sqlite3, sys, time
start = time.process_time()
db = sqlite3.connect(sys.argv[1])
rows = 0
for table, columns in TABLES:
    sums = ", ".join(f'total("{name}")' if name != "text" else "sum(length(text))" for name in columns.split())
    rows += db.execute(f"SELECT count(*), {sums} FROM {table}").fetchone()[0]
print(rows, time.process_time() - start, peak_mib())
"""


def measured(code: str, path: Path) -> tuple[int, float, float]:
    """Rows, CPU seconds and peak MiB of a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK + COLUMNS + code, str(path)], capture_output=True, text=True, check=True
    )
    rows, seconds, peak = done.stdout.split()
    return int(rows), float(seconds), float(peak)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kernels", type=int, default=200_000)
    options.add_argument("--launches", type=int, default=500_000)
    options.add_argument("--ranges", type=int, default=1_000_000)
    options.add_argument("--json", action="store_true", help="print one JSON object")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "export.sqlite"
        make(path, given.kernels, given.launches, given.ranges)
        size = path.stat().st_size
        _, before, _ = measured(FLOOR, path)
        fetched, python, python_peak = measured(FETCH, path)
        rows, seconds, peak = measured(READ, path)
        cycles, all_seconds, all_peak = measured(LEDGER, path)
        counted, after, _ = measured(FLOOR, path)
        assert [p.name for p in Path(folder).iterdir()] == [path.name]
    assert rows == fetched == counted
    floor = (before + after) / 2
    found = {
        "bytes": size,
        "rows": rows,
        "cpu_s": round(seconds, 2),
        "floor_cpu_s": round(floor, 2),
        "sqlite3_cpu_s": round(python, 2),
        "ratio_to_sqlite3": round(seconds / python, 2),
        "ratio_to_floor": round(seconds / floor, 2),
        "us_per_row": round(seconds / rows * 1e6, 2),
        "peak_mib": round(peak),
        "sqlite3_peak_mib": round(python_peak),
        "cycles": cycles,
        "ledger_cpu_s": round(all_seconds, 2),
        "ledger_ratio_to_sqlite3": round(all_seconds / python, 2),
        "ledger_peak_mib": round(all_peak),
    }
    if given.json:
        print(json.dumps(found))
        return
    print(f"to Parquet: {found['cpu_s']} CPU-s for {size / 1e6:.0f} MB, {rows} rows, peak {found['peak_mib']} MiB")
    print(f"            {found['ratio_to_sqlite3']} x fetching the rows with sqlite3 ({found['sqlite3_cpu_s']} CPU-s)")
    print(f"            {found['ratio_to_floor']} x SQLite's floor of {found['floor_cpu_s']} CPU-s")
    print(f"to a ledger of {cycles} cycles: {found['ledger_cpu_s']} CPU-s, peak {found['ledger_peak_mib']} MiB")
    print(f"            {found['ledger_ratio_to_sqlite3']} x fetching the rows with sqlite3")


if __name__ == "__main__":
    main()
