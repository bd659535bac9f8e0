"""CPU time and memory of PyTorch-profiler traces to a store with attribution, and of reading it back; beside json.load.

    python benchmarks/traces_kineto.py                       # one rank of 200 MB, json.load on 40 MB of the same
    python benchmarks/traces_kineto.py --mb 508              # flat? compare the memory
    python benchmarks/traces_kineto.py --mb 500 --ranks 8    # 4 GB in a temporary folder; minutes

Synthetic traces in Kineto's own layout (pretty-printed; operators, runtime calls, flow arrows, kernels, annotations) are
written to a temporary folder: steps of 200 kernels that the host launches ahead and waits for, one allreduce in ten, which
all ranks leave together. `traceana ingest` takes them to Parquet with attribution, `traceana ledger STORE` reads that, and
json.load takes a small one, each in a process of its own. Memory is above that of a process that only imports. Ratios
travel between machines, seconds do not.
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ALLREDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "nvjet_tst_64x8_64x16_1x4_h_bz_splitK_TNT",
    "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int)",
    'void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 64u, 2u> >(\\"p\\")',
    "fused_moe_kernel",
)
OPERATORS = ("aten::empty", "aten::mm", "aten::copy_", "sgl_kernel::rmsnorm") * 12 + (
    "c10d::allreduce_",
    "record_param_comms",
)
HEAD = """
  {{
    "schemaVersion": 1,
    "deviceProperties": [
    {{
      "id": {rank}, "name": "Invented GPU 96GB", "totalGlobalMem": 101970870272
    }}
    ],
      "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {ranks}}},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1767225600000000000,
  "traceEvents": ["""
OPERATOR = """
  {{
    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": {pid}, "tid": {pid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n},"Record function id": 0, "Input Dims": [[{n}, 128], [], []], "Ev Idx": {n}
    }}
  }},"""
LAUNCH = """
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {pid}, "tid": {pid},
    "ts": {ts:.3f}, "dur": 3.500,
    "args": {{
      "External id": {n}, "cbid": 211, "correlation": {n}
    }}
  }},
  {{
    "ph": "s", "id": {n}, "pid": {pid}, "tid": {pid}, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},"""
KERNEL = """
  {{
    "ph": "X", "cat": "kernel", "name": "{name}", "pid": {rank}, "tid": 7,
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n}, "queued": 0, "device": {rank}, "context": 1,
      "stream": 7, "correlation": {n},
      "registers per thread": 32,
      "shared memory": 0,
      "blocks per SM": 0.106952,
      "warps per SM": 0.427807,
      "grid": [{grid}, 1, 1],
      "block": [128, 1, 1],
      "est. achieved occupancy %": 0
    }}
  }},
  {{
    "ph": "f", "id": {n}, "pid": {rank}, "tid": 7, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},"""
STEP = """
  {{
    "ph": "X", "cat": "user_annotation", "name": "step[VERIFY bs={bs}]", "pid": {pid}, "tid": {pid},
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n}
    }}
  }},"""
TAIL = """
  {
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": 0
  }
  ],
  "traceName": "trace.json"
}
"""


PER_STEP = 200


def make(path: Path, size: int, rank: int = 0, ranks: int = 1, compress: bool = False) -> int:
    """Writes about `size` bytes of one rank's trace (before compression). Returns the number of kernels.

    Ranks share their random numbers, and so the times at which they leave an allreduce; each arrives up to 3 us before
    the last.
    """
    shared, own = random.Random(7), random.Random(rank)
    pid, n, written = 4242 + rank, 0, 0
    host = device = 5_412_000.0
    with gzip.open(path, "wb", compresslevel=1) if compress else path.open("wb") as out:
        written += out.write(HEAD.format(rank=rank, ranks=ranks).encode())
        while written < size:
            begin = host = max(host, device) + 5  # the host has waited for the step before
            parts = []
            for at in range(PER_STEP):
                n += 1
                host += 2 + shared.random() * 4
                start, length = max(device, host + 4), 4 + shared.random() * 4
                device = start + length
                early = own.random() * 3 if at % 10 == 9 else 0
                before = own.random() * 3 if at % 10 == 8 else 0
                name = ALLREDUCE if at % 10 == 9 else shared.choice(KERNELS)
                parts += [
                    OPERATOR.format(name=shared.choice(OPERATORS), ts=host - 2, dur=2.5, n=n, pid=pid),
                    LAUNCH.format(ts=host, n=n, pid=pid),
                    KERNEL.format(
                        name=name, ts=start - early, dur=length + early - before, n=n, grid=shared.randint(1, 999),
                        rank=rank,
                    ),
                ]  # fmt: skip
            parts.append(STEP.format(bs=8, ts=begin, dur=host + 5 - begin, n=n, pid=pid))
            written += out.write("".join(parts).encode())
        out.write(TAIL.encode())
    return n


#: prints CPU seconds and peak MiB of the process itself (ru_maxrss begins with that of the process that started it)
FIGURES = """
import time
from pathlib import Path
def figures():
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    print(time.process_time(), peak, flush=True)
"""
IMPORT = """
import traceana.api, traceana.attribution.results, traceana.cli.app, traceana.store.dataset
import numpy, polars, pyarrow.parquet, traceana_parsers.read, traceana_parsers.traces.kineto
figures()
"""
COMMAND = """
import sys
from traceana.cli.app import main
out, sys.stdout = sys.stdout, open("/dev/null", "w")
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.stdout = out
figures()
"""
LOAD = """
import json, sys
with open(sys.argv[1], "rb") as file:
    document = json.load(file)
figures()
"""


def measured(code: str, *arguments: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of a process of its own."""
    command = [sys.executable, "-c", FIGURES + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seconds, peak = map(float, done.stdout.split()[-2:])
    return seconds, peak


def kernels_in(store: Path) -> int:
    """Kernels of the one run of a store, by its manifest."""
    (manifest,) = store.glob("run=*/run.json")
    return int(json.loads(manifest.read_text())["rows"]["kernels"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mb", type=float, default=200, help="size of each rank's trace (MB of JSON)")
    options.add_argument("--ranks", type=int, default=1, help="number of ranks, a file each")
    options.add_argument("--reference-mb", type=float, default=40, help="size of the trace that json.load reads")
    options.add_argument("--compress", action="store_true", help="gzip the traces")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store, small, traces = Path(folder) / "store", Path(folder) / "small.json", Path(folder) / "traces"
        traces.mkdir()
        suffix = ".json.gz" if given.compress else ".json"
        expected = sum(
            make(traces / f"rank{r}.trace{suffix}", int(given.mb * 1e6), r, given.ranks, given.compress)
            for r in range(given.ranks)
        )
        make(small, int(given.reference_mb * 1e6))
        size, reference_size = int(given.mb * 1e6) * given.ranks, small.stat().st_size
        imports = measured(IMPORT)
        ingest = measured(COMMAND, "ingest", str(traces), "--out", str(store))
        assert kernels_in(store) == expected
        again = measured(COMMAND, "ledger", str(store))
        load = measured(LOAD, str(small))
    speed, reference = size / ingest[0] / 1e6, reference_size / load[0] / 1e6
    found = {
        "bytes": size,
        "ranks": given.ranks,
        "kernels": expected,
        "import_cpu_s": round(imports[0], 2),
        "import_peak_mib": round(imports[1]),
        "ingest_cpu_s": round(ingest[0], 2),
        "ingest_peak_mib_above_import": round(ingest[1] - imports[1]),
        "mb_per_cpu_s": round(speed, 1),
        "again_cpu_s": round(again[0], 2),
        "again_peak_mib_above_import": round(again[1] - imports[1]),
        "json_load_mb_per_cpu_s": round(reference, 1),
        "json_load_peak_over_size": round(load[1] * 2**20 / reference_size, 1),
        "speed_ratio": round(speed / reference, 2),
    }
    if given.json:
        print(json.dumps(found))
        return
    for label, (seconds, peak) in (("import alone", imports), ("ingest", ingest), ("ledger of the store", again)):
        print(f"{label:20} {seconds:7.2f} CPU-s {peak:6.0f} MiB ({peak - imports[1]:4.0f} above import)")
    print(f"{size / 1e6:.0f} MB, {given.ranks} ranks, {expected:,} kernels; {speed:.0f} MB per CPU-s with attribution,")
    print(
        f"{found['speed_ratio']} x json.load ({reference:.0f}), which takes {found['json_load_peak_over_size']} x the file in memory"
    )


if __name__ == "__main__":
    main()
