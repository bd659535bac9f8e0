"""CPU time and memory of reading a PyTorch-profiler trace, as ratios to the standard library's json.load.

    python benchmarks/traces_kineto.py                  # 200 MB, json.load on 40 MB of the same
    python benchmarks/traces_kineto.py --mb 508 --compress

A synthetic trace in Kineto's own layout (pretty-printed; operators, runtime calls, flow arrows, kernels, annotations) is
written to a temporary folder, then read to Parquet in one process and by json.load in another. Bytes per CPU second and
peak memory over file size are printed for both. Ratios travel between machines, seconds do not.
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

KERNELS = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >"
    "(int, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul>)",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
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
  {
    "schemaVersion": 1,
    "deviceProperties": [
    {
      "id": 0, "name": "Invented GPU 96GB", "totalGlobalMem": 101970870272
    }
    ],
      "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": 1767225600000000000,
  "traceEvents": ["""
OPERATOR = """
  {{
    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 4242, "tid": 4242,
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n},"Record function id": 0, "Input Dims": [[{n}, 128], [], []], "Ev Idx": {n}
    }}
  }},"""
LAUNCH = """
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242,
    "ts": {ts:.3f}, "dur": 3.500,
    "args": {{
      "External id": {n}, "cbid": 211, "correlation": {n}
    }}
  }},
  {{
    "ph": "s", "id": {n}, "pid": 4242, "tid": 4242, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g"
  }},"""
KERNEL = """
  {{
    "ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7,
    "ts": {ts:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n}, "queued": 0, "device": 0, "context": 1,
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
    "ph": "f", "id": {n}, "pid": 0, "tid": 7, "ts": {ts:.3f},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},"""
STEP = """
  {{
    "ph": "X", "cat": "user_annotation", "name": "step[VERIFY bs={bs}]", "pid": 4242, "tid": 4242,
    "ts": {ts:.3f}, "dur": 900.125,
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


def make(path: Path, size: int, compress: bool = False) -> int:
    """Writes about `size` bytes of trace (before compression). Returns the number of kernels."""
    rng = random.Random(7)
    ts, n, written = 5_412_000.0, 0, 0
    with gzip.open(path, "wb", compresslevel=1) if compress else path.open("wb") as out:
        written += out.write(HEAD.encode())
        while written < size:
            n += 1
            ts += rng.random() * 8
            parts = [
                OPERATOR.format(name=rng.choice(OPERATORS), ts=ts, dur=rng.random() * 90, n=n),
                LAUNCH.format(ts=ts + 1, n=n),
                KERNEL.format(
                    name=rng.choice(KERNELS), ts=ts + 9, dur=rng.random() * 300, n=n, grid=rng.randint(1, 999)
                ),
            ]
            if n % 200 == 0:
                parts.append(STEP.format(bs=rng.randint(1, 64), ts=ts, n=n))
            written += out.write("".join(parts).encode())
        out.write(TAIL.encode())
    return n


READ = """
import resource, sys, tempfile, time
from pathlib import Path
import polars, pyarrow.parquet
from traceana.store.dataset import RunWriter
from traceana_parsers.sources import Source
from traceana_parsers.traces.kineto import KinetoReader
start = time.process_time()
with tempfile.TemporaryDirectory() as folder, RunWriter(Path(folder)) as run:
    report = KinetoReader().read(Source(sys.argv[1]), 0, run)
    kernels = run.flush().height("kernels")
    assert report.problem is None and report.unread == 0, report
print(report.bytes, kernels, time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
LOAD = """
import json, resource, sys, time
start = time.process_time()
with open(sys.argv[1], "rb") as file:
    document = json.load(file)
kernels = sum(e.get("cat") == "kernel" for e in document["traceEvents"])
import os
print(os.path.getsize(sys.argv[1]), kernels, time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def measured(code: str, path: Path) -> tuple[int, int, float, float]:
    """Bytes read, kernels found, CPU seconds and peak MiB of a process of its own."""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    size, kernels, seconds, peak = done.stdout.split()
    return int(size), int(kernels), float(seconds), float(peak)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--mb", type=float, default=200, help="size of the trace (MB of JSON)")
    options.add_argument("--reference-mb", type=float, default=40, help="size of the trace that json.load reads")
    options.add_argument("--compress", action="store_true", help="gzip the large trace")
    options.add_argument("--json", action="store_true", help="print one JSON object")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / ("large.json.gz" if given.compress else "large.json"), Path(folder) / "small.json"
        expected = make(large, int(given.mb * 1e6), given.compress), make(small, int(given.reference_mb * 1e6))
        size, kernels, seconds, peak = measured(READ, large)
        reference_size, reference_kernels, reference_seconds, reference_peak = measured(LOAD, small)
        assert (kernels, reference_kernels) == expected, (kernels, reference_kernels, expected)
    found = {
        "bytes": size,
        "kernels": kernels,
        "cpu_s": round(seconds, 2),
        "peak_mib": round(peak),
        "mb_per_cpu_s": round(size / seconds / 1e6, 1),
        "json_load_mb_per_cpu_s": round(reference_size / reference_seconds / 1e6, 1),
        "speed_ratio": round(size / seconds / (reference_size / reference_seconds), 2),
        "json_load_peak_over_size": round(reference_peak * 2**20 / reference_size, 1),
        "peak_over_size": round(peak * 2**20 / size, 2),
    }
    if given.json:
        print(json.dumps(found))
        return
    print(
        f"to Parquet: {found['cpu_s']} CPU-s for {size / 1e6:.0f} MB, {kernels} kernels, peak {found['peak_mib']} MiB"
    )
    print(
        f"            {found['mb_per_cpu_s']} MB per CPU-s, {found['speed_ratio']} x json.load ({found['json_load_mb_per_cpu_s']})"
    )
    print(f"            memory {found['peak_over_size']} x the file, json.load {found['json_load_peak_over_size']} x")


if __name__ == "__main__":
    main()
