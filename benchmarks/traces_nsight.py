"""CPU time and memory of reading an Nsight SQLite export to Parquet, as ratios to sqlite3 and to SQLite's own sum().

    python benchmarks/traces_nsight.py                                    # 200 k kernels, 1 M ranges, about 100 MB
    python benchmarks/traces_nsight.py --kernels 860000 --ranges 4200000 --launches 2600000   # about 450 MB

A synthetic export (ranks as processes, cycles of nested ranges, half of them with their text in the row) is written to a
temporary folder. References, each in a process of its own: the rows and columns that are read, fetched with Python's
sqlite3 in batches and thrown away; and the floor, where SQLite counts and adds them up without handing out a row. Ratios
travel between machines, seconds do not. CPU time is that above the import of the libraries.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RANKS = 8
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
    """Writes an export with that many rows."""
    rng = np.random.default_rng(7)
    db = sqlite3.connect(path)
    db.executescript(SCHEMA)
    texts = [*NAMES, *CALLS, *RANGES]
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(texts))
    db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1767225600000000000, '2026-01-01T00:00:00', NULL)")

    def spans(rows: int, longest: int):
        start = np.sort(rng.integers(0, 120_000_000_000, rows))
        rank = rng.integers(0, RANKS, rows)
        return start, start + rng.integers(1_000, longest, rows), rank, (1 << 48) | (4_000 + rank) << 24

    def insert(sql: str, *columns) -> None:
        for at in range(0, len(columns[0]), 100_000):
            db.executemany(sql, zip(*(column[at : at + 100_000].tolist() for column in columns), strict=True))

    start, end, rank, process = spans(kernels, 400_000)
    name = rng.integers(0, len(NAMES), kernels)
    insert(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,?,1,NULL,?,?,?,?,?,NULL,1,0,64,?,1,1,128,1,1,0,32768,0,0,?,65536,?,0)",
        start, end, rank, np.where(name == 0, 20, 7), np.arange(kernels), process, name, name, rng.integers(1, 400, kernels),
        np.arange(kernels), np.where(rng.random(kernels) < 0.5, rng.integers(1, 900, kernels).astype(object), None),
    )  # fmt: skip
    start, end, rank, process = spans(launches, 9_000)
    insert(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,0,?,?,?,0,NULL)",
        start, end, process | (4_000 + rank), np.arange(launches), len(NAMES) + rng.integers(0, len(CALLS), launches),
    )  # fmt: skip
    start, end, rank, process = spans(ranges, 30_000_000)
    which, inline = rng.integers(0, len(RANGES), ranges), rng.random(ranges) < 0.5
    insert(
        "INSERT INTO NVTX_EVENTS VALUES (?,?,59,NULL,NULL,NULL,?,?,NULL,?,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL)",
        start, end, np.where(inline, np.array(RANGES, object)[which], None), process | (4_000 + rank),
        np.where(inline, None, (len(NAMES) + len(CALLS) + which).astype(object)),
    )  # fmt: skip
    db.commit()
    db.close()


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
        counted, after, _ = measured(FLOOR, path)
        assert [p.name for p in Path(folder).iterdir()] == [path.name]
    assert rows == fetched == counted == given.kernels + given.launches + given.ranges
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
    }
    if given.json:
        print(json.dumps(found))
        return
    print(f"to Parquet: {found['cpu_s']} CPU-s for {size / 1e6:.0f} MB, {rows} rows, peak {found['peak_mib']} MiB")
    print(f"            {found['ratio_to_sqlite3']} x fetching the rows with sqlite3 ({found['sqlite3_cpu_s']} CPU-s)")
    print(f"            {found['ratio_to_floor']} x SQLite's floor of {found['floor_cpu_s']} CPU-s")


if __name__ == "__main__":
    main()
