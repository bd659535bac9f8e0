"""Lines that both engines (or Python, CUDA, the kernel) print: allreduce path, exceptions, deaths."""

from __future__ import annotations

from traceana_parsers.logs.grammar import Example, Grammar, PatternGrammar

_W = "(Worker_TP2 pid=77) WARNING 02-03 09:10:00 [custom_all_reduce.py:150] "


def _p(
    name: str, anchor: str, pattern: str, example: str, gives: dict[str, object], kind: str = "", **more: object
) -> PatternGrammar:
    return PatternGrammar(
        name=name,
        engine="any",
        anchor=anchor,
        pattern=pattern,
        kind=kind or name,
        examples=(Example(example, gives),),
        **more,  # type: ignore[arg-type]
    )


_ANYWHERE = r"(?:^|[ \])|.])"
#: where the text of an uncaught exception begins: warnings quote others ("failed to import x: ImportError: ...")
_LINE_OF_AN_ERROR = r"(?:^ *|\| |stderr F |[0-9]:[0-9]{2} |ERROR [^\]]{1,80}\] |pid=[0-9]+\) |\[rank[0-9]+\]: )"
_ERRORS = (
    *(
        "TypeError",
        "ValueError",
        "RuntimeError",
        "OutOfMemoryError",
        "KeyError",
        "AcceleratorError",
        "DistBackendError",
    ),
)
_ERRORS_ALSO_QUOTED = (
    *("AttributeError", "NotImplementedError", "IndexError", "ImportError", "ModuleNotFoundError", "TimeoutError"),
    *("FileNotFoundError", "OutOfResources", "DistStoreError", "BackendCompilerFailed", "InductorError"),
    *("InternalTorchDynamoError", "ZeroDivisionError", "UnboundLocalError", "NameError", "ActorDiedError"),
    *("RayActorError", "RayChannelTimeoutError"),
)


def _error(name: str, begin: str) -> PatternGrammar:
    """Exceptions of this name, where the text before them ends with `begin`."""
    return _p(
        f"exception_{name.lower()}",
        f"{name}:",
        rf"{begin}(?P<subject>[A-Za-z_.]*{name}): (?P<message>[^\n]{{1,400}})",
        f"(EngineCore pid=7) ERROR 02-03 09:10:00 [core.py:9] {name}: something went wrong",
        {"subject": name, "message": "something went wrong"},
        kind="exception",
        optional=True,
        fold=True,
    )


GRAMMARS: tuple[Grammar, ...] = (
    _p(
        "custom_allreduce_off",
        "is disabled because ",
        r"(?i)(?P<which>custom ?all_?reduce\S*) is disabled because (?P<subject>.*?)(?:\. To silence .*)?$",
        f"{_W}Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs. To silence this "
        "warning, specify disable_custom_all_reduce=True explicitly.",
        {"subject": "it's not supported on more than two PCIe-only GPUs"},
        optional=True,
    ),
    _p(
        "custom_allreduce_off_world",
        "llreduce is disabled due to",
        r"is disabled due to (?P<subject>.*?)(?:\. To silence .*)?$",
        f"{_W}Custom allreduce is disabled due to an unsupported world size: 6. Supported world sizes: [2, 4, 6, 8].",
        {},
        kind="custom_allreduce_off",
    ),
    _p(
        "custom_allreduce_failed",
        "Setup Custom allreduce failed with",
        r"failed with (?P<subject>.*?)(?:\. To silence .*)?$",
        "[2026-02-03 09:10:00 TP0] Setup Custom allreduce failed with invalid device ordinal. To silence this warning, "
        "specify --disable-custom-all-reduce explicitly.",
        {"subject": "invalid device ordinal"},
    ),
    _p(
        "custom_allreduce_missing",
        "of missing custom allreduce library",
        r"(?P<subject>of missing custom allreduce library)",
        "INFO 02-03 09:10:00 [custom_all_reduce.py:90] Custom allreduce is disabled of missing custom allreduce library",
        {},
        kind="custom_allreduce_off",
    ),
    _p(
        "custom_allreduce_on",
        "PCIe custom allreduce enabled",
        r"PCIe custom allreduce enabled (?P<subject>.*)",
        "(Worker pid=42) INFO 02-03 09:10:00 [custom_all_reduce.py:355] PCIe custom allreduce enabled via "
        "VLLM_ENABLE_PCIE_ALLREDUCE=1 (backend=cpp)",
        {},
        versions="forks",
    ),
    _p(
        "custom_allreduce_cutoff",
        "custom allreduce cutoff (",
        r"cutoff=(?P<value>[0-9]+) bytes(?:, ignore_cutoff_max_rows=(?P<rows>[0-9]+))?",
        "(Worker pid=42) INFO 02-03 09:10:00 [custom_all_reduce.py:490] Using dynamic C++ custom allreduce cutoff "
        "(cutoff=57344 bytes, ignore_cutoff_max_rows=8).",
        {"value": 57344.0, "rows": "8"},
        versions="forks",
    ),
    _p(
        "custom_allreduce_active",
        "All Reduce config: symmetric_memory",
        r"symmetric_memory = (?P<value>[0-9.]+) MB",
        "[2026-02-03 09:10:00 TP0] All Reduce config: symmetric_memory = 16.00 MB, local_buffer = 8.00 MB, multicast = True",
        {"value": 16.0},
        kind="custom_allreduce_on",
    ),
    _p(
        "cuda_graph_addresses",
        "cuda graph addresses",
        r"Registering (?P<value>[0-9]+) cuda graph addresses",
        "(Worker_TP0 pid=42) INFO 02-03 09:10:00 [custom_all_reduce.py:669] Registering 634 cuda graph addresses",
        {"value": 634.0},
        optional=True,
    ),
    _p(
        "symm_mem_off",
        "SymmMemCommunicator: Device capability",
        r"Device capability (?P<subject>[0-9.]+) not supported",
        "(Worker pid=42) WARNING 02-03 09:10:00 [symm_mem.py:66] SymmMemCommunicator: Device capability 12.0 not "
        "supported, communicator is not available.",
        {"subject": "12.0"},
    ),
    _p(
        "flashinfer_fusion_world",
        "Flashinfer allreduce fusion is not supported",
        r"(?P<subject>not supported for world size [0-9]+)",
        "(Worker_TP1 pid=42) WARNING 02-03 09:10:00 [allreduce_rms_fusion.py:1194] Flashinfer allreduce fusion is not "
        "supported for world size 8 or max size is not provided",
        {"subject": "not supported for world size 8"},
        kind="flashinfer_fusion_failed",
    ),
    _p(
        "fusion_pass_off",
        "AllReduce fusion pass is disabled",
        r"(?P<subject>AllReduce fusion pass is disabled)",
        "(Worker_TP1 pid=42) WARNING 02-03 09:10:00 [allreduce_rms_fusion.py:1304] AllReduce fusion pass is disabled.",
        {},
    ),
    _p(
        "p2p_cache",
        "GPU P2P access cache",
        r"(?P<subject>generating|reading) GPU P2P access cache",
        "(Worker pid=42) INFO 02-03 09:10:00 [custom_all_reduce_utils.py:246] reading GPU P2P access cache from /tmp/p2p.json",
        {"subject": "reading"},
    ),
    _p(
        "shm_too_small",
        "Error while creating shared memory segment",
        r"segment (?P<subject>\S+)(?: \(size (?P<value>[0-9]+)\))?",
        "node01:11:11 [0] misc/shmutils.cc:72 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-x1 "
        "(size 9637888)",
        {"subject": "/dev/shm/nccl-x1", "value": 9637888.0},
    ),
    _p(
        "traceback",
        "Traceback (most recent call last):",
        r"Traceback",
        "Traceback (most recent call last):",
        {},
        fold=True,
    ),
    *(_error(name, _ANYWHERE) for name in _ERRORS),
    *(_error(name, _LINE_OF_AN_ERROR) for name in _ERRORS_ALSO_QUOTED),
    _p(
        "exception_pydantic",
        "Value error, ",
        r"(?P<subject>Value error), (?P<message>.{1,400}?)(?: \[type=value_error.*)?$",
        "  Value error, Drafts of that kind are not available [type=value_error, input_value=ArgsKwargs(()), "
        "input_type=ArgsKwargs]",
        {"subject": "Value error", "message": "Drafts of that kind are not available"},
        kind="exception",
        optional=True,
        fold=True,
    ),
    _p(
        "exception_assertion",
        "AssertionError",
        r"(?:^|[ \])|])(?P<subject>AssertionError)(?:: (?P<message>[^\n]{1,400}))?\s*$",
        "AssertionError",
        {"subject": "AssertionError"},
        kind="exception",
        optional=True,
        fold=True,
    ),
    _p(
        "http_error",
        'HTTP/1.1" 5',
        r'"(?P<method>[A-Z]+) (?P<subject>[^ ?"]+)[^"]* HTTP/1\.1" (?P<value>5[0-9]{2})',
        'INFO:     127.0.0.1:60034 - "GET /health HTTP/1.1" 503 Service Unavailable',
        {"subject": "/health", "value": 503.0},
        optional=True,
        fold=True,
    ),
    _p("killed", "Killed", r"^(?:.*\| )?Killed\s*$", "Killed", {}, optional=True),
    _p(
        "cuda_illegal",
        "an illegal memory access was encountered",
        r"(?P<subject>illegal memory access)",
        "CUDA error: an illegal memory access was encountered",
        {},
        kind="cuda_error",
        fold=True,
    ),
    _p(
        "fatal_signal",
        "Fatal Python error: ",
        r"Fatal Python error: (?P<subject>.*)",
        "Fatal Python error: Illegal instruction",
        {"subject": "Illegal instruction"},
        fold=True,
    ),
    _p(
        "core_dumped",
        "(core dumped)",
        r"(?P<subject>Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception) +\(core dumped\)",
        "run.sh: line 9: 4120 Bus error               (core dumped) python -m sglang.launch_server",
        {"subject": "Bus error"},
        kind="fatal_signal",
        optional=True,
    ),
    _p(
        "segfault", "Segfault encountered", r"Segfault", "!!!!!!! Segfault encountered !!!!!!!", {}, kind="fatal_signal"
    ),
    _p(
        "terminate_called",
        "terminate called after throwing",
        r"instance of '(?P<subject>[^']+)'",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        {"subject": "c10::DistBackendError"},
        kind="fatal_signal",
        fold=True,
    ),
    _p(
        "gpu_memory_fault",
        "Memory access fault by GPU",
        r"Reason: (?P<subject>[^.]+)",
        "Memory access fault by GPU node-2 (Agent handle: 0x5500) on address 0x7f00. Reason: Unknown.",
        {"subject": "Unknown"},
        kind="fatal_signal",
        optional=True,
    ),
    _p(
        "gpu_xid",
        "NVRM: Xid",
        r"Xid \((?P<device>[^)]*)\): (?P<subject>[0-9]+)",
        "[Tue Feb  3 09:20:00 2026] NVRM: Xid (PCI:0000:41:00): 31, pid=4120, name=python, Ch 00000008",
        {"subject": "31", "device": "PCI:0000:41:00"},
    ),
    _p(
        "oom_kill",
        "oom-kill event",
        r"oom-kill event",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=12.0.",
        {},
        kind="killed",
    ),
    _p(
        "device_assert",
        "Assertion `",
        r"block: \[.*Assertion `(?P<subject>.+?)` failed",
        "/pytorch/aten/IndexKernel.cu:92: operator(): block: [0,0,0], thread: [3,0,0] Assertion `i < n` failed.",
        {"subject": "i < n"},
        kind="cuda_error",
        optional=True,
        fold=True,
    ),
    _p(
        "nccl_timeout",
        "Watchdog caught collective operation timeout",
        r"(?:\[rank(?P<rank>[0-9]+)\]:.*?)?(?:PG (?:ID )?(?P<group>[0-9]+) .*?)?(?:Rank (?P<member>[0-9]+)\] )?Watchdog "
        r"caught collective operation timeout: WorkNCCL\(SeqNum=(?P<value>[0-9]+), OpType=(?P<subject>[A-Z_]+)"
        r"(?:, NumelIn=(?P<elements>[0-9]+))?",
        "[rank3]:[E203 09:10:00.1 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=4711, OpType=ALLREDUCE, NumelIn=7168, Timeout(ms)=600000) ran for 600010 milliseconds",
        {"value": 4711.0, "subject": "ALLREDUCE", "rank": "3", "member": "3", "elements": "7168"},
    ),
)
