"""CPU time and memory of reading a server log to Parquet, as ratios to `rg -c` and to a plain `re` loop in the same run.

    python benchmarks/logs.py                          # 60 MB, mixed families, 60 % noise
    python benchmarks/logs.py --mb 196 --decode-share 1
    python benchmarks/logs.py --mb 10 100 1000         # is cost linear, memory flat?

Each is measured in a process of its own; what is read is checked against the truth of the generated log. The `re` loop
reads the decode lines only, one pattern, and keeps rows in memory: what a script for one log does. Ratios travel
between machines, seconds do not.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from make_log import make

READ = """
import resource, sys, tempfile, time
from pathlib import Path
import polars, pyarrow.parquet
from traceana.store.dataset import RunWriter
from traceana_parsers.read import read_run
imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start = time.process_time()
with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder)) as run:
    read_run([sys.argv[1]], run)
    tables = run.flush()
    seconds, peak = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = tables.frame("decode_samples")["running"]
    print(rows.len(), int(rows.sum()), seconds, peak, imported)
"""
LOOP = r"""
import re, resource, sys, time
line_of = re.compile(
    r"\[(?P<time>[\d-]+ [\d:]+) TP0\] Decode batch, #running-req: (?P<running>\d+), #token: (?P<tokens>\d+), token usage: "
    r"(?P<usage>[\d.]+), accept len: (?P<length>[\d.]+), accept rate: (?P<rate>[\d.]+), cuda graph: (?P<graph>\w+), "
    r"gen throughput \(token/s\): (?P<tps>[\d.]+), #queue-req: (?P<queue>\d+)"
)
imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
start = time.process_time()
rows = []
with open(sys.argv[1], encoding="utf-8", errors="replace") as log:
    for line in log:
        if found := line_of.search(line):
            row = found.groupdict()
            rows.append({name: float(row[name]) for name in ("tokens", "usage", "length", "rate", "tps", "queue")}
                        | {"time": row["time"], "running": int(row["running"]), "graph": row["graph"] == "True"})
seconds = time.process_time() - start
print(len(rows), sum(row["running"] for row in rows), seconds,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, imported)
"""


def measured(code: str, path: Path) -> tuple[int, int, float, float]:
    """Decode rows, sum of their running requests, CPU seconds, and peak MiB above import."""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    rows, running, seconds, peak, imported = done.stdout.split()
    return int(rows), int(running), float(seconds), float(peak) - float(imported)


def ripgrep(path: Path) -> float | None:
    """CPU seconds of counting decode lines with ripgrep; None where it is not installed."""
    if shutil.which("rg") is None:
        return None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["rg", "-c", "-a", "Decode batch", str(path)], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(path: Path, truth: dict[str, int]) -> dict[str, object]:
    """The figures of one log."""
    expected = truth["decode"], truth["sum_running"]
    rows, running, seconds, peak = measured(READ, path)
    loop_rows, loop_running, loop_seconds, loop_peak = measured(LOOP, path)
    for name, found in (("traceana", (rows, running)), ("re loop", (loop_rows, loop_running))):
        if found != expected:
            raise SystemExit(f"{name} read (rows, sum of running) {found}, the log holds {expected}")
    rg_seconds = ripgrep(path)
    size = path.stat().st_size
    return {
        "mb": round(size / 1e6, 1),
        "decode_rows": rows,
        "cpu_s": round(seconds, 2),
        "mb_per_cpu_s": round(size / 1e6 / seconds, 1),
        "peak_above_import_mib": round(peak),
        "cpu_over_re_loop": round(seconds / loop_seconds, 2),
        "peak_over_re_loop": round(peak / loop_peak, 2),
        "cpu_over_rg": None if not rg_seconds else round(seconds / rg_seconds, 1),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mb", type=float, nargs="+", default=[60], help="sizes of the log")
    options.add_argument("--decode-share", type=float, default=0.4, help="share of decode lines; the rest is noise")
    options.add_argument("--json", action="store_true", help="print one JSON object per size")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for mb in given.mb:
            path = Path(folder) / f"{mb:g}.log"
            found = compare(path, make(path, int(mb * 1e6), given.decode_share))
            print(json.dumps(found) if given.json else "  ".join(f"{name} {value}" for name, value in found.items()))
            path.unlink()


if __name__ == "__main__":
    main()
