"""Builds small Kineto traces, event by event, and the committed fixtures from them.

python tests/parsers/traces/build_kineto.py     # rewrites fixtures/traces/kineto/
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[3] / "fixtures" / "traces" / "kineto"
BASE_NS = 1_767_225_600_000_000_000  # 2026-01-01 00:00:00 UTC
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "nvjet_tst_64x8_64x16_1x4_h_bz_splitK_TNT"
ATTENTION = (
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1> >(...)"
)
TREE = "void VerifyTreeGreedy<long, long>(long*, long*, long*)"


class Trace:
    """A trace under construction; times in microseconds, after the base where there is one."""

    def __init__(self, pid: int = 4242, device: int = 0, **top: Any) -> None:
        self.pid, self.device = pid, device
        self.top = {"schemaVersion": 1, "deviceProperties": [{"id": device, "name": "Invented GPU 96GB"}], **top}
        self.events: list[dict[str, Any]] = []
        self._correlation = 100

    def event(self, cat: str, name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
        """One complete event on the host; `more` replaces or adds fields."""
        made = {"ph": "X", "cat": cat, "name": name, "pid": self.pid, "tid": self.pid, "ts": ts, "dur": dur, **more}
        self.events.append(made)
        return made

    def annotate(self, name: str, ts: float, dur: float, **more: Any) -> None:
        """A range on the host."""
        self.event("user_annotation", name, ts, dur, args={"External id": len(self.events) + 1}, **more)

    def launch(self, ts: float, name: str = "cudaLaunchKernel", dur: float = 4.0, cat: str = "cuda_runtime") -> int:
        """A runtime call; its correlation id."""
        self._correlation += 1
        self.event(cat, name, ts, dur, args={"cbid": 211, "correlation": self._correlation})
        return self._correlation

    def kernel(self, name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any) -> None:
        """A kernel on the device."""
        args = {
            "queued": 0, "device": self.device, "context": 1, "stream": stream, "correlation": correlation,
            "grid": [8, 1, 1], "block": [512, 1, 1], **args,
        }  # fmt: skip
        self.event("kernel", name, ts, dur, pid=self.device, tid=stream, args=args)

    def run(self, name: str, ts: float, dur: float, wait: float = 10.0, **args: Any) -> None:
        """A launch and its kernel, `wait` later."""
        self.kernel(name, ts + wait, dur, self.launch(ts), **args)

    def copy(self, name: str, ts: float, dur: float, size: int, cat: str = "gpu_memcpy") -> None:
        """A copy or fill, with its call."""
        correlation = self.launch(ts, "cudaMemcpyAsync")
        args = {"device": self.device, "context": 1, "stream": 7, "correlation": correlation, "bytes": size}
        self.event(cat, name, ts + 5, dur, pid=self.device, tid=7, args=args)

    def document(self, events_first: bool = False) -> dict[str, Any]:
        """The whole trace as one object; `events_first`: the other keys follow the events."""
        return {"traceEvents": self.events, **self.top} if events_first else {**self.top, "traceEvents": self.events}

    def text(self, events_first: bool = False, **layout: Any) -> bytes:
        """The trace as JSON; `layout` goes to json.dumps."""
        return json.dumps(self.document(events_first), **layout).encode()

    def write(self, path: Path, **layout: Any) -> Path:
        """Write it, compressed where the name ends in .gz; the same bytes every time."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = self.text(**layout)
        path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
        return path


def nccl(elements: int, ranks: int = 2) -> dict[str, Any]:
    """What torch writes on a communication kernel."""
    return {
        "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "Group size": ranks,
        "dtype": "BFloat16", "Process Group Name": "3", "Process Group Description": "undefined",
        "Process Group Ranks": str(list(range(ranks))),
    }  # fmt: skip


def sglang_cycles(rank: int, cycles: int = 3, late_us: float = 0.0) -> Trace:
    """One of two ranks of an SGLang server with speculation, verify in a CUDA graph; `late_us`: rank 1 comes late.

    A cycle is 30 ms: draft 4 ms in 3 kernels, verify 20 ms in one replay of 2 layers (2 allreduces of 8 x 4096 bf16),
    re-extend 2 ms in 1 kernel.
    """
    trace = Trace(
        pid=5000 + rank,
        device=rank,
        distributedInfo={"backend": "nccl", "rank": rank, "world_size": 2, "nccl_version": "2.27.3"},
        host_name="node-a",
        baseTimeNanoseconds=BASE_NS,
    )
    for cycle in range(cycles):
        t = 1_000_000.5 + cycle * 30_000.0
        trace.annotate("scheduler.run_batch", t, 29_000)
        trace.annotate("draft", t + 100, 4_000)
        for step in range(3):
            trace.run(GEMM, t + 200 + step * 1200, 900.25)
        trace.annotate("step[VERIFY bs=8]", t + 4_500, 1_500)
        replay = trace.launch(t + 4_600, "cudaGraphLaunch", 350.0)
        at = t + 5_000 + late_us * rank
        for layer in range(2):
            trace.kernel(ATTENTION, at + layer * 10_000, 4_000, replay)
            trace.kernel(GEMM, at + layer * 10_000 + 4_000, 4_000, replay)
            end = t + 5_000 + late_us + (layer + 1) * 10_000
            trace.kernel(
                ALL_REDUCE, at + layer * 10_000 + 8_000, end - (at + layer * 10_000 + 8_000), replay, **nccl(8 * 4096)
            )
        trace.run(TREE, t + 25_200, 50)
        trace.copy("Memcpy DtoH (Device -> Pinned)", t + 25_300, 3, 64)
        trace.annotate("draft_extend", t + 25_500, 2_000)
        trace.run(GEMM, t + 25_600, 1_800)
    return trace


def vllm_cpu(rank: int) -> Trace:
    """A CPU worker of vLLM, tensor parallel 2: one verify of one request with three drafts, then one draft."""
    trace = Trace(
        pid=6000 + rank,
        record_shapes=1,
        distributedInfo={"backend": "gloo", "rank": rank, "world_size": 2},
        vllm_version="0.32.0",
        host_name="node-b",
        baseTimeNanoseconds=BASE_NS,
    )
    trace.top["deviceProperties"] = []
    trace.annotate("execute_context_0(0)_generation_1(4)", 1000.25, 6000)
    trace.annotate("gpu_model_runner: forward", 1100.5, 5500)
    for index in range(5):
        args = {"Input Dims": [[], [4, 128]], "Input type": ["Scalar", "float"]}
        trace.event("cpu_op", "_C::shm_allreduce", 1200 + index * 900.125, 100, args=args)
        trace.event("cpu_op", "aten::mm", 1320 + index * 900.125, 700, args={"Input Dims": [[4, 128], [128, 128]]})
    trace.annotate("gpu_model_runner: draft", 7100, 3000)
    args = {"Input Dims": [[], [1, 512], [2, 512]], "Input type": ["Scalar", "float", "float"]}
    trace.event("cpu_op", "_C::shm_all_gather", 8000, 40, args=args)
    return trace


def capitals_2021() -> Trace:
    """Categories and times as written in 2021: absolute, whole microseconds, no distributedInfo."""
    trace = Trace()
    trace.top = {}
    trace.event("Runtime", "cudaLaunchKernel", 1_630_000_000_000_100, 9, args={"correlation": 11, "external id": 0})
    trace.event(
        "Kernel", "ampere_sgemm_128x64_nn", 1_630_000_000_000_120, 30, pid=1, tid="stream 7",
        args={"device": 1, "stream": 7, "correlation": 11, "grid": [4, 1, 1], "block": [128, 1, 1]},
    )  # fmt: skip
    trace.event("Memcpy", "Memcpy HtoD (Pageable -> Device)", 1_630_000_000_000_200, 2, pid=1, args={"bytes": 4096})
    return trace


def write_fixtures(folder: Path = FIXTURES) -> list[Path]:
    """All committed traces."""
    return [
        sglang_cycles(0, late_us=500).write(folder / "1767225600.5-TP-0.trace.json.gz"),
        sglang_cycles(1, late_us=500).write(folder / "1767225600.5-TP-1.trace.json.gz", indent=1),
        vllm_cpu(0).write(folder / "rank0.1767225601000000000.pt.trace.json.gz"),
        capitals_2021().write(folder / "old_worker0.json", indent=1),
    ]


if __name__ == "__main__":
    write_fixtures()
