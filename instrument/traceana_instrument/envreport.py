"""The environment variables that decide how fast a worker is, as the process that asks sees them.

Values are shown for the names of an allow-list only, and only where the value has a plain shape; of every other name
in these families the report says that it is set. Of files it says whether they are there, not where.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

#: prefixes of the variables that are reported at all
FAMILIES = (
    "NCCL_",
    "RCCL_",
    "CUDA_",
    "TORCH_NCCL_",
    "SGLANG_",
    "SGL_",
    "VLLM_",
    "EAGLE3_",
    "FLASHINFER_",
    "TRTLLM_",
)
#: and single names without such a prefix
SINGLES = frozenset({"OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "SPT_NOENV", "LD_PRELOAD"})

SET = "(set)"
FILE_THERE, FILE_MISSING = "(a file that exists)", "(no such file)"

#: names whose value is a path
_FILES = frozenset({"NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE"})

#: names whose values are numbers, switches or words of the library's own vocabulary, by prefix
_SHOWN = frozenset(
    prefix + name
    for prefix, names in (
        (
            "NCCL_",
            "ALGO BUFFSIZE CGA_CLUSTER_SIZE COLLNET_ENABLE CROSS_NIC CTA_POLICY CUMEM_ENABLE "
            "CUMEM_HOST_ENABLE DEBUG DEBUG_SUBSYS DMABUF_ENABLE GRAPH_MIXING_SUPPORT GRAPH_REGISTER "
            "IB_DISABLE IB_GID_INDEX IB_QPS_PER_CONNECTION IGNORE_DISABLED_P2P LAUNCH_MODE LL128_BUFFSIZE "
            "LL128_NTHREADS LL_BUFFSIZE LOCAL_REGISTER MAX_CTAS MAX_NCHANNELS MAX_P2P_NCHANNELS MIN_CTAS "
            "MIN_NCHANNELS MIN_P2P_NCHANNELS MNNVL_ENABLE NET_GDR_LEVEL NO_CACHE NTHREADS NVB_DISABLE "
            "NVLS_ENABLE NVLS_NCHANNELS P2P_DIRECT_DISABLE P2P_DISABLE P2P_LEVEL P2P_LL_THRESHOLD "
            "P2P_READ_ENABLE P2P_USE_CUDA_MEMCPY PROTO PXN_DISABLE RUNTIME_CONNECT SHM_DISABLE "
            "SHM_USE_CUDA_MEMCPY THREAD_THRESHOLDS WIN_ENABLE",
        ),
        (
            "TORCH_NCCL_",
            "ASYNC_ERROR_HANDLING AVOID_RECORD_STREAMS BLOCKING_WAIT CUDA_EVENT_CACHE HIGH_PRIORITY",
        ),
        (
            "CUDA_",
            "DEVICE_MAX_CONNECTIONS DEVICE_ORDER LAUNCH_BLOCKING MODULE_LOADING VISIBLE_DEVICES",
        ),
        (
            "SGLANG_",
            "CHUNKED_PREFILL_SIZE DETERMINISTIC_NCCL_NCHANNELS ENABLE_CUDA_GRAPH_CAPTURE_TRACE "
            "ENABLE_METRICS_DEVICE_TIMER ENABLE_NVTX_OPERATIONS ENABLE_NVTX_SCHEDULER "
            "ENABLE_OVERLAP_PLAN_STREAM ENABLE_PCIE_IPC_ALLREDUCE ENABLE_SPEC_V2 LOG_FORWARD_ITERS LOG_MS "
            "NUMA_BIND_V2 PCIE_IPC_MAX_NUMEL PLUGINS RECORD_STEP_TIME SET_CPU_AFFINITY SIMULATE_ACC_LEN "
            "SKIP_P2P_CHECK SPEC_SKIP_ZERO_STEP_DRAFT_EXTEND SPEC_TP_SYNC",
        ),
        (
            "VLLM_",
            "ALLREDUCE_USE_SYMM_MEM ATTENTION_BACKEND CPU_KVCACHE_SPACE CPU_OMP_THREADS_BIND DISABLE_PYNCCL "
            "ENABLE_V1_MULTIPROCESSING FLASHINFER_ALLREDUCE_BACKEND LOG_STATS_INTERVAL PLUGINS "
            "SKIP_P2P_CHECK USE_FLASHINFER_SAMPLER USE_NCCL_SYMM_MEM USE_V1 USE_V2_MODEL_RUNNER "
            "WORKER_MULTIPROC_METHOD",
        ),
        (
            "EAGLE3_",
            "PROFILE PROFILE_CYCLES PROFILE_SECONDS PROFILE_NVTX",
        ),
        (
            "",
            "OMP_NUM_THREADS PYTORCH_CUDA_ALLOC_CONF PYTORCH_ALLOC_CONF SPT_NOENV",
        ),
    )
    for name in names.split()
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;^+=|\[\] -]{0,100}", re.ASCII)
#: most variables of one process that are reported
MOST = 300


def reported(name: str) -> bool:
    """Whether a variable of this name belongs in the report."""
    return (name.startswith(FAMILIES) or name in SINGLES) and _NAME.fullmatch(name) is not None


def shown(name: str, value: str, file_exists: bool | None = None) -> str:
    """What may be said of a value: itself for plain values of allow-listed names, else "(set)".

    Of a variable that names a file: whether it is there. `file_exists` is the answer where the caller knows it (it
    looks into another process's file system); None: look it up here.
    """
    if name in _FILES:
        there = _exists(value) if file_exists is None else file_exists
        return FILE_THERE if there else FILE_MISSING
    return value if name in _SHOWN and _PLAIN.fullmatch(value) else SET


def is_file_variable(name: str) -> bool:
    """Whether the value of this variable is a path."""
    return name in _FILES


def environment(source: Mapping[str, str] | None = None) -> dict[str, str]:
    """Name -> what may be said of its value, sorted, at most 300 names. `source`: os.environ unless given."""
    found = os.environ if source is None else source
    names = sorted(name for name in found if reported(name))[:MOST]
    return {name: shown(name, found[name]) for name in names}


def _exists(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # too long, a null byte
        return False
