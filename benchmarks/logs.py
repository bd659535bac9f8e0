"""CPU time and memory of reading a server log to Parquet, as ratios to a plain `re` loop and to `rg -c` in the same run.

    python benchmarks/logs.py                     # 10 MB and 196 MB mixed (60 % noise), 196 MB of decode lines
    python benchmarks/logs.py --full              # and 1 GB: is cost linear, memory flat?
    python benchmarks/logs.py --mb 60 --repeat 3  # other sizes, the least of three runs

Every program runs in a process of its own; what was read is checked against the truth of the generated log, and a
difference ends the run. Columns are explained in README.md. Ratios travel between machines, seconds do not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from make_log import make

HERE = Path(__file__).parent
TRACEANA = [sys.executable, "-m", "traceana"]
#: what `traceana ingest` has loaded when it ends
IMPORTS = (
    "import polars, numpy, pyarrow.parquet, pyarrow.compute, traceana.cli.app, traceana.facts.build, traceana.store.dataset, "
    "traceana_parsers.read"
)
#: counts and sums of a store, under the names of the generator's truth
COUNT = """
import json, sys
from traceana.store.dataset import open_run
tables, _ = open_run(sys.argv[1])
decode = tables.frame("decode_samples", ["running", "gen_tps"])
print(json.dumps({
    "decode": decode.height, "prefill": tables.height("prefill_samples"), "profile": tables.height("cycles"),
    "lines": int(tables.frame("inputs")["lines"].sum()), "sum_running": int(decode["running"].sum()),
    "sum_gen_tps_x100": int((decode["gen_tps"] * 100).round().sum()),
}))
"""


@dataclass(frozen=True)
class Used:
    """What one process used: seconds of CPU (user and system) and of wall clock, peak resident memory in MiB."""

    cpu_s: float
    wall_s: float
    peak_mib: float


@dataclass(frozen=True)
class Row:
    """The figures of one log; `None` where a program is not installed."""

    log: str
    mb: float
    decode_rows: int
    ingest_cpu_s: float
    read_cpu_s: float
    loop_cpu_s: float
    rg_cpu_s: float | None
    cat_cpu_s: float
    peak_above_import_mib: float
    loop_peak_mib: float


def run(command: list[str], repeat: int = 1) -> tuple[Used, str]:
    """The least used in `repeat` runs, and what the last of them printed."""
    best, text = Used(1e9, 1e9, 1e9), ""
    for _ in range(repeat):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            start = time.perf_counter()
            child = subprocess.Popen(command, stdout=out, stderr=err)
            _, status, usage = os.wait4(child.pid, 0)
            wall = time.perf_counter() - start
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            err.seek(0)
            text = out.read().decode()
            if child.returncode:
                raise SystemExit(f"{' '.join(command)} ended with {child.returncode}: {err.read().decode()}")
        used = Used(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)
        best = Used(*(min(a, b) for a, b in zip(asdict(best).values(), asdict(used).values(), strict=True)))
    return best, text


def check(who: str, found: dict[str, int], truth: dict[str, int]) -> None:
    """Ends the run when a program read anything but what the generator wrote."""
    wrong = {name: (count, truth[name]) for name, count in found.items() if count != truth[name]}
    if wrong:
        raise SystemExit(f"{who}: (read, written) differ: {wrong}")


def measure(name: str, path: Path, truth: dict[str, int], imported: Used, repeat: int) -> Row:
    """The figures of one log."""
    with tempfile.TemporaryDirectory(dir=path.parent) as store:
        used, _ = run([*TRACEANA, "ingest", str(path), "--out", store, "--run", "log"], repeat)
        check("traceana", json.loads(run([sys.executable, "-c", COUNT, store])[1]), truth)
    loop, text = run([sys.executable, str(HERE / "reference_re.py"), str(path)], repeat)
    check("the re loop", json.loads(text), truth)
    cat, _ = run(["sh", "-c", 'exec cat "$1" > /dev/null', "sh", str(path)], repeat)
    rg = run(["rg", "-a", "-c", "Decode batch", str(path)], repeat) if shutil.which("rg") else None
    if rg is not None:
        check("rg", {"decode": int(rg[1])}, truth)
    return Row(
        log=name,
        mb=path.stat().st_size / 1e6,
        decode_rows=truth["decode"],
        ingest_cpu_s=used.cpu_s,
        read_cpu_s=used.cpu_s - imported.cpu_s,
        loop_cpu_s=loop.cpu_s,
        rg_cpu_s=rg[0].cpu_s if rg is not None else None,
        cat_cpu_s=cat.cpu_s,
        peak_above_import_mib=used.peak_mib - imported.peak_mib,
        loop_peak_mib=loop.peak_mib,
    )


def costs(rows: list[Row]) -> list[str]:
    """The table of costs, as Markdown."""
    lines = [
        "| log | MB | decode rows | ingest CPU s | above import | re loop CPU s | cat CPU s | ingest / re loop | ingest / rg |"
        " peak above import MiB | re loop peak MiB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in rows:
        rg = f"{r.ingest_cpu_s / r.rg_cpu_s:.0f}" if r.rg_cpu_s else "no rg"
        lines.append(
            f"| {r.log} | {r.mb:.0f} | {r.decode_rows:,} | {r.ingest_cpu_s:.2f} | {r.read_cpu_s:.2f} | {r.loop_cpu_s:.2f} | "
            f"{r.cat_cpu_s:.2f} | {r.ingest_cpu_s / r.loop_cpu_s:.2f} | {rg} | {r.peak_above_import_mib:.0f} | {r.loop_peak_mib:.0f} |"
        )
    return lines


def growth(rows: list[Row]) -> list[str]:
    """How cost and memory of the mixed logs grow with the size, as Markdown."""
    mixed = sorted((r for r in rows if r.log == "mixed"), key=lambda r: r.mb)
    if len(mixed) < 2:
        return []
    lines = [
        "",
        "| mixed log, from MB | to MB | CPU ms per further MB | peak above import MiB, from | to |",
        "|---:|---:|---:|---:|---:|",
    ]
    for a, b in pairwise(mixed):
        per_mb = (b.ingest_cpu_s - a.ingest_cpu_s) / (b.mb - a.mb)
        lines.append(
            f"| {a.mb:.0f} | {b.mb:.0f} | {per_mb * 1e3:.1f} | {a.peak_above_import_mib:.0f} | {b.peak_above_import_mib:.0f} |"
        )
    return lines


def start_up(folder: Path, repeat: int) -> list[str]:
    """Wall clock of short commands, each a new process, as Markdown: the median, and ratios."""
    log = folder / "1.log"
    make(log, 1_000_000)
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -c 'import polars'": [sys.executable, "-c", "import polars"],
        "traceana --help": [*TRACEANA, "--help"],
        "traceana diagnose, 1 MB log": [*TRACEANA, "diagnose", str(log)],
    }
    walls: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        run(command)  # byte code and page cache
    for _ in range(repeat):  # in turn, so that a busy moment meets all of them
        for name, command in commands.items():
            walls[name].append(run(command)[0].wall_s)
    median = {name: statistics.median(found) for name, found in walls.items()}
    nothing, polars, *_ = median.values()
    lines = ["", "| start to end | wall ms | to `python -c pass` | to `import polars` |", "|---|---:|---:|---:|"]
    lines += [f"| `{n}` | {s * 1e3:.0f} | {s / nothing:.1f} | {s / polars:.2f} |" for n, s in median.items()]
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--full", action="store_true", help="also a mixed log of 1 GB")
    options.add_argument("--mb", type=float, nargs="+", help="sizes of the log, instead of the standard ones")
    options.add_argument("--decode-share", type=float, default=0.4, help="with --mb: share of decode lines")
    options.add_argument(
        "--repeat", type=int, default=1, help="runs of each program; the least CPU time and peak count"
    )
    options.add_argument("--folder", type=Path, help="keep the logs here and take those that are there already")
    options.add_argument("--json", action="store_true", help="print one JSON object per log instead of the tables")
    given = options.parse_args()
    wanted = [("mixed", 10.0, 0.4), ("mixed", 196.0, 0.4), ("decode only", 196.0, 1.0)]
    if given.full:
        wanted.append(("mixed", 1000.0, 0.4))
    if given.mb:
        share = given.decode_share
        wanted = [("mixed" if share == 0.4 else f"{share:.0%} decode", mb, share) for mb in given.mb]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        imported, _ = run([sys.executable, "-c", IMPORTS], max(given.repeat, 3))
        rows = []
        for name, mb, share in wanted:
            path = folder / f"{mb:g}-{share:g}.log"
            rows.append(measure(name, path, make(path, int(mb * 1e6), share), imported, given.repeat))
            if given.json:
                print(json.dumps(asdict(rows[-1])))
            if given.folder is None:
                path.unlink()
        if not given.json:
            print("\n".join([*costs(rows), *growth(rows), *start_up(folder, max(given.repeat, 5))]))


if __name__ == "__main__":
    main()
