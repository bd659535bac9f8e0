"""Last words of servers, and what they mean. A table: texts to find, the meaning, what to do, what else fits."""

from __future__ import annotations

from traceana.rules._engine_texts import ENGINE_TEXTS
from traceana.rules._known_text import KnownText
from traceana.rules._nccl_texts import NCCL_TEXTS
from traceana.rules._start_texts import LOADER_TEXTS, START_TEXTS
from traceana.rules.interface import Confidence

#: the first row that matches counts: the more specific ones come first
KNOWN_TEXTS: tuple[KnownText, ...] = (
    KnownText(
        ("/dev/shm/nccl-",),
        "NCCL found no room in /dev/shm",
        "NCCL's shared-memory transport could not create its segment: containers get 64 MB of /dev/shm by default.",
        (
            "start the container with --shm-size 16g or --ipc=host",
            "in Kubernetes mount an emptyDir with medium: Memory",
        ),
        (),
        Confidence.HIGH,
        "vllm #1710, xinference #1622",
        "shm_too_small",
    ),
    KnownText(
        ("an illegal instruction was encountered", "misaligned address", "unspecified launch failure"),
        "a GPU kernel failed",
        "The GPU stopped in a kernel. The line that reports it is seldom the kernel that did it, because launches are "
        "asynchronous.",
        (
            "CUDA_LAUNCH_BLOCKING=1 for one run names the kernel",
            "the same load without speculation, then with another attention backend",
        ),
        ("a kernel built for another GPU", "faulty memory"),
        Confidence.LOW,
        "sglang #4188",
    ),
    KnownText(
        ("peer access is not supported", "peeraccessunsupported"),
        "GPUs were told to read each other's memory and cannot",
        "The platform or driver offers no peer access between these GPUs, and a communication path relied on it.",
        (
            "NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce: slower, but it runs",
            "nvidia-smi topo -p2p r shows which pairs have peer access",
        ),
        ("an engine release that takes that path where it should not",),
        Confidence.HIGH,
        "vllm #406 #44003",
    ),
    KnownText(
        ("out of resource: shared memory",),
        "a Triton kernel needs more shared memory than this GPU has",
        "Its tile was chosen for a larger GPU: about 100 KB a block on RTX cards, 64 KB on T4 and MI300.",
        ("another attention or MoE backend", "fewer draft tokens, where the verify's tile grows with them"),
        ("a Triton release with other defaults",),
        Confidence.MEDIUM,
        "triton #8182, sglang #2384, vllm #36802",
    ),
    KnownText(
        ("when stream is capturing", "previous error during capture"),
        "a step that a CUDA graph cannot hold was met during its capture",
        "Something in the captured forward waits for the GPU or allocates: a backend, a compiler option, a print.",
        (
            "another attention backend; --enable-torch-compile off",
            "without graphs (--disable-cuda-graph, --enforce-eager) it starts: that tells, and is slow",
        ),
        ("memory ran out in the capture (an earlier line)",),
        Confidence.MEDIUM,
        "sglang #7918",
    ),
    KnownText(
        ("nvrm: xid", "memory access fault by gpu"),
        "the driver reports a fault of the GPU",
        "An Xid's number says which: 13, 31, 43 and 45 are mostly a program's doing (a kernel outside its memory), 48, "
        "62 to 64, 74, 79, 94 and 95 the hardware's, its link's or its power's.",
        ("look the number up in NVIDIA's Xid list; dmesg -T around this time", "the same load on another GPU"),
        ("a kernel bug that speculation uncovers",),
        Confidence.MEDIUM,
        "NVIDIA Xid documentation",
    ),
    KnownText(
        ("sigill", "illegal instruction", "exit code: -4", "exit code -4"),
        "a worker hit an instruction that its processor does not have",
        "The build uses instructions this CPU or VM does not offer (AMX or AVX-512 kernels, for example).",
        ("use another dtype (--dtype float32 avoids the AMX kernels) or a build for this CPU",),
        ("a damaged installation",),
        Confidence.MEDIUM,
        "vLLM 0.32 on CPU with bfloat16",
    ),
    KnownText(
        ("illegal memory access",),
        "a kernel read or wrote outside its memory",
        "With speculation this was seen with 4 and more draft tokens on long contexts; the line that reports it is "
        "seldom the kernel that did it, because launches are asynchronous.",
        (
            "try 2 draft tokens, then no speculation, at the same load",
            "CUDA_LAUNCH_BLOCKING=1 for one run names the kernel",
        ),
        ("a kernel bug that has nothing to do with speculation", "faulty memory"),
        Confidence.LOW,
        "vllm #40756 #34948",
    ),
    KnownText(
        ("cuda out of memory", "outofmemoryerror", "torch.outofmemory", "cuda error: out of memory"),
        "the GPU ran out of memory",
        "With speculation a drafter's weights, its KV cache and its graphs come on top; older SGLang versions without "
        "SGLANG_ENABLE_SPEC_V2 can load the model twice for NEXTN.",
        (
            "lower --mem-fraction-static or --gpu-memory-utilization",
            "lower the captured batch sizes and the running cap",
            "see that no other process holds memory (nvidia-smi)",
        ),
        ("another process on the same GPU",),
        Confidence.HIGH,
        "rule of thumb of both engines' documentation",
        "out_of_memory",
    ),
    KnownText(
        ("capture cuda graph failed", "capture cudagraph failed"),
        "CUDA graph capture failed",
        "Usually memory: capture needs room beside weights and KV pool, more with a drafter's graphs.",
        ("lower --mem-fraction-static", "lower --cuda-graph-max-bs (not below the running cap)"),
        ("a kernel that cannot be captured",),
        Confidence.MEDIUM,
        "SGLang model_runner and cuda_graph_runner",
    ),
    KnownText(
        ("probability tensor contains either", "nan in the logits", "nan in logits", "nan detected in"),
        "the logits were not numbers",
        "NaN in the target's or the drafter's logits: a kernel bug or a quantisation that does not fit this GPU.",
        ("try another attention or GEMM backend", "check the checkpoint's quantisation against the GPU generation"),
        ("a damaged checkpoint",),
        Confidence.MEDIUM,
        "sglang #19897, flashinfer #2708",
    ),
    KnownText(
        ("collective operation timeout", "worknccl("),
        "a collective did not come back",
        "PyTorch's own watchdog gave up on a collective. When ranks report different sequence numbers or operations, "
        "they ran apart; when all report the same, the network or P2P hangs.",
        (
            "compare SeqNum and OpType of all ranks: the one that differs is the culprit",
            "NCCL_P2P_DISABLE=1 for one start tells whether P2P is the cause",
        ),
        ("a rank that died earlier",),
        Confidence.MEDIUM,
        "sglang #3783 #30642",
        "collective_timeout",
    ),
    KnownText(
        ("unrecognized element token", "no algorithm/protocol available"),
        "NCCL could not use the algorithm or protocol it was told to use",
        "NCCL 2.24 and newer end with an error on an unknown token, and no longer fall back to Ring: NCCL_ALGO=Tree "
        "alone fails every AllGather.",
        ("correct NCCL_ALGO or NCCL_PROTO; per function: allreduce:tree;allgather:ring",),
        (),
        Confidence.HIGH,
        "NCCL enqueue.cc",
    ),
    KnownText(
        ("allreduce fusion requires sm90 or sm10x",),
        "FlashInfer's allreduce fusion was asked for on a GPU it does not support",
        "It needs SM90 or SM10x; SM120 (RTX PRO 6000, RTX 50) is rejected.",
        ("drop --enable-flashinfer-allreduce-fusion",),
        (),
        Confidence.HIGH,
        "SGLang 0.5.14 and newer",
    ),
    KnownText(
        ("0 <= tmp <", "index out of bounds", "device-side assert"),
        "an index ran past a table on the GPU",
        "With a drafter this is often a position past the end of its position table.",
        ("keep the context within the drafter's max_position_embeddings", "CUDA_LAUNCH_BLOCKING=1 names the kernel"),
        ("a token id outside the vocabulary",),
        Confidence.LOW,
        "vllm #47602 #48894",
    ),
    KnownText(
        ("exit code: -9", "exit code -9", "exitcode=-9", "sigkill", "oom-kill", "out of memory: killed"),
        "a process was killed from outside",
        "Signal 9: the kernel's out-of-memory killer, a container limit, or an operator. Loading weights needs host "
        "memory of about their size.",
        ("dmesg | grep -i oom, and the container's memory limit",),
        ("someone or a supervisor killed it",),
        Confidence.MEDIUM,
        "POSIX signal 9",
        "killed",
    ),
    KnownText(
        ("bus error",),
        "a process touched memory that is not there",
        "In a container this is most often /dev/shm: 64 MB by default, and both engines and NCCL share memory there.",
        ("--shm-size 16g or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm", "df -h /dev/shm"),
        ("a file of weights on a network disk that went away", "faulty memory"),
        Confidence.MEDIUM,
        "POSIX signal 7",
    ),
    KnownText(
        (
            "died unexpectedly",
            "crashed with exit code",
            "segmentation fault",
            "core dumped",
            "segfault",
            "terminate called",
            "exitcode=",
        ),
        "a worker process died without a message",
        "It ended outside Python: a crash in native code (signal 4, 6, 7 or 11) or a kill from outside (signal 9). The "
        "traceback that follows is that of the process that noticed.",
        ("PYTHONFAULTHANDLER=1 for one start shows where it stood", "dmesg | grep -iE 'oom|segfault|traps'"),
        ("the out-of-memory killer", "a kernel or driver crash"),
        Confidence.LOW,
        "vLLM multiproc_executor.py, SGLang 0.5.10 and newer",
    ),
)


#: everything that is known; what is said of a start is more specific than what any run can end with
ALL_TEXTS = (*START_TEXTS, *ENGINE_TEXTS, *KNOWN_TEXTS, *NCCL_TEXTS, *LOADER_TEXTS)


def known_text(texts: tuple[str, ...], kinds: tuple[str, ...]) -> KnownText | None:
    """The first row whose text occurs in `texts`, else the first whose kind is among `kinds`, else None."""
    blob = "\n".join(texts).lower()
    for row in ALL_TEXTS:
        if any(text in blob for text in row.texts):
            return row
    return next((row for row in ALL_TEXTS if row.kind is not None and row.kind in kinds), None)
