"""vLLM's lines, 0.6 to 0.33. Sources: v1/metrics/loggers.py, v1/spec_decode/metrics.py and others of the released wheels.

To add a line: one row below with an example; docs/add-a-log-line.md says how.
"""

from __future__ import annotations

from traceana_parsers.logs.grammar import Example, Field, Grammar, KeyValueGrammar, PatternGrammar

_H = "(APIServer pid=12) INFO 02-03 09:15:20 [loggers.py:271] "
_S = "(APIServer pid=12) INFO 02-03 09:15:20 [metrics.py:101] "

ENGINE = KeyValueGrammar(
    name="engine",
    engine="vllm",
    anchor="Avg prompt throughput: ",
    anchor_is_key=True,
    lead=r"(?P<engine_index>(?:Engine [0-9]+: |[0-9]+ Engines Aggregated: )?)",
    table="decode_samples",
    fields=(
        Field("avg prompt throughput", "prompt_tps", "float"),
        Field("avg generation throughput", "gen_tps", "float"),
        Field("running", "running", "int"),
        Field("waiting", "queued", "int"),
        Field("pending", "queued", "int"),
        Field("gpu kv cache usage", "token_usage", "percent"),
        Field("xpu kv cache usage", "token_usage", "percent"),
        Field("cpu kv cache usage", "token_usage", "percent"),
    ),
    required=("gen_tps", "running"),
    constants=(("engine", "vllm"),),
    versions="V0 0.6 - 0.8, V1 0.8.5 - 0.33",
    source="engine/metrics.py (V0); v1/metrics/loggers.py (V1)",
    examples=(
        Example(
            "INFO 02-03 09:15:20 metrics.py:455] Avg prompt throughput: 11.5 tokens/s, Avg generation throughput: 402.1 "
            "tokens/s, Running: 4 reqs, Swapped: 0 reqs, Pending: 2 reqs, GPU KV cache usage: 12.5%, CPU KV cache usage: "
            "0.0%.",
            {"prompt_tps": 11.5, "gen_tps": 402.1, "running": 4, "queued": 2, "token_usage": 0.125},
            "0.7",
        ),
        Example(
            f"{_H}Engine 003: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 402.1 tokens/s, Running: 4 "
            "reqs, Waiting: 1 reqs, GPU KV cache usage: 12.5%, Prefix cache hit rate: 0.0%",
            {"gen_tps": 402.1, "running": 4, "queued": 1, "engine_index": 3, "pid": 12},
            "0.9",
        ),
        Example(
            f"{_H}8 Engines Aggregated: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 402.1 tokens/s, "
            "Running: 4 reqs, Waiting: 1 reqs, Deferred: 2 reqs, KV fetch: 1 waiting to start, 0 in progress, 3 completed "
            "waiting, CPU KV cache usage: 0.2%, MM cache hit rate: 1.0%",
            {"running": 4, "queued": 1, "engine_index": None, "token_usage": 0.002},
            "0.32",
        ),
    ),
)

SPEC = KeyValueGrammar(
    name="spec_decoding",
    engine="vllm",
    anchor="SpecDecoding metrics: ",
    table="spec_samples",
    fields=(
        Field("mean acceptance length", "accept_length_printed", "float"),
        Field("draft acceptance rate", "accept_rate_printed", "percent"),
        Field("avg draft acceptance rate", "accept_rate_printed", "percent"),
        Field("accepted throughput", "accepted_tps", "float"),
        Field("drafted throughput", "drafted_tps", "float"),
        Field("accepted", "accepted", "int"),
        Field("drafted", "drafted", "int"),
        Field("per-position acceptance rate", "per_position", "list"),
    ),
    required=("accepted", "drafted"),
    constants=(("form", "vllm_v1"),),
    versions="0.8.5 - 0.33",
    source="v1/spec_decode/metrics.py SpecDecodingLogging.log",
    examples=(
        Example(
            "INFO 02-03 09:15:20 [metrics.py:86] SpecDecoding metrics: Draft acceptance rate: 38.8%, Mean acceptance "
            "length: 2.16, Accepted: 150 tokens, Drafted: 387 tokens, Per-position acceptance rate: 0.543, 0.357, 0.264",
            {"accept_length_printed": 2.16, "accepted": 150, "per_position": [0.543, 0.357, 0.264]},
            "0.8.5 - 0.10.1",
        ),
        Example(
            f"{_S}SpecDecoding metrics: Mean acceptance length: 2.58, Accepted throughput: 120.10 tokens/s, Drafted "
            "throughput: 228.00 tokens/s, Accepted: 1201 tokens, Drafted: 2280 tokens, Per-position acceptance rate: "
            "0.801, 0.502, 0.277, Avg Draft acceptance rate: 52.7%",
            {
                "drafted_tps": 228.0,
                "drafted": 2280,
                "accept_rate_printed": 0.527,
                "per_position": [0.801, 0.502, 0.277],
            },
            "0.10.2+",
        ),
        Example(
            f"{_S}SpecDecoding metrics: Draft acceptance rate: 88.8%, Mean acceptance length: 5.44, Accepted throughput: "
            "4.37 tokens/s, Drafted throughput: 4.92 tokens/s, Accepted: 262 tokens, Drafted: 295 tokens, Per-position "
            "acceptance rate: 0.983, 0.949",
            {"accept_length_printed": 5.44, "accept_rate_printed": 0.888, "accepted": 262},
            "development builds of 2025-09",
        ),
        Example(
            "SpecDecoding metrics: Draft acceptance rate: 100.0%, Accepted: 66 tokens, Drafted: 66 tokens",
            {"accepted": 66, "drafted": 66, "accept_rate_printed": 1.0},
            "development builds of 2025-04",
        ),
    ),
)

SPEC_V0 = KeyValueGrammar(
    name="spec_decoding_v0",
    engine="vllm",
    anchor="Speculative metrics: ",
    table="spec_samples",
    fields=(
        Field("draft acceptance rate", "accept_rate_printed", "float"),
        Field("system efficiency", "efficiency", "float"),
        Field("number of speculative tokens", "num_spec_tokens", "int"),
        Field("number of accepted tokens", "accepted", "int"),
        Field("number of draft tokens", "drafted", "int"),
        Field("number of draft tokens tokens", "drafted", "int"),
        Field("number of emitted tokens", "emitted", "int"),
        Field("number of emitted tokens tokens", "emitted", "int"),
    ),
    required=("accepted", "drafted"),
    constants=(("form", "vllm_v0"),),
    versions="V0 0.6 - 0.9",
    source="engine/metrics.py _format_spec_decode_metrics_str; counters since start",
    examples=(
        Example(
            "INFO 02-03 09:15:20 metrics.py:475] Speculative metrics: Draft acceptance rate: 0.400, System efficiency: "
            "0.350, Number of speculative tokens: 4, Number of accepted tokens: 400, Number of draft tokens: 1000, Number "
            "of emitted tokens: 437.",
            {"efficiency": 0.35, "num_spec_tokens": 4, "accepted": 400, "drafted": 1000, "emitted": 437},
            "0.6 - 0.8",
        ),
        Example(
            "INFO 02-03 09:15:20 metrics.py:316] Speculative metrics: Draft acceptance rate: 0.310, System efficiency: "
            "0.400, Number of speculative tokens: 3, Number of accepted tokens: 310, Number of draft tokens tokens: 1000, "
            "Number of emitted tokens tokens: 533.",
            {"num_spec_tokens": 3, "accepted": 310, "drafted": 1000, "emitted": 533},
            "0.5",
        ),
        Example(
            "Speculative metrics: Draft acceptance rate: 1.000, Number of accepted tokens: 66, Number of draft tokens: 66, ",
            {"accepted": 66, "drafted": 66},
            "0.8 development",
        ),
    ),
)

ITERATION = PatternGrammar(
    name="iteration",
    engine="vllm",
    anchor="iteration elapsed time: ",
    pattern=r"Iteration\((?P<iteration>[0-9]+)\): (?P<context_requests>[0-9]+) context requests, (?P<context_tokens>[0-9]+) "
    r"context tokens, (?P<batch>[0-9]+) generation requests, (?P<generation_tokens>[0-9]+) generation tokens, "
    r"(?:[^:]*: [^,]*, )*?iteration elapsed time: (?P<total_ms>[0-9.]+) ms",
    kind="vllm_iteration",
    table="cycles",
    versions="0.14+ with --enable-logging-iteration-details",
    source="v1/engine/core.py; v1/metrics/loggers.py",
    examples=(
        Example(
            "(EngineCore_DP0 pid=12) INFO 02-03 09:15:20 [core.py:411] Iteration(20): 0 context requests, 0 context tokens, "
            "2 generation requests, 8 generation tokens, iteration elapsed time: 10.31 ms",
            {"iteration": 20, "batch": 2, "generation_tokens": 8, "total_ms": 10.31},
            "0.14 - 0.20",
        ),
        Example(
            f"{_H}Engine 000: Iteration(7): 1 context requests, 30 context tokens, 1 generation requests, 4 generation "
            "tokens, iteration elapsed time: 24.86 ms (dummy), GPU KV cache usage: 0.1%, encoder inputs: 0",
            {"iteration": 7, "context_tokens": 30, "total_ms": 24.86},
            "0.28+",
        ),
    ),
)

STAGES_V0 = PatternGrammar(
    name="v0_stage_times",
    engine="vllm",
    anchor="SpecDecodeWorker stage times",
    pattern=r"average_time_per_proposal_tok_ms=(?P<draft_ms>[0-9.]+) scoring_time_ms=(?P<verify_ms>[0-9.]+) "
    r"verification_time_ms=(?P<other_ms>[0-9.]+)",
    kind="vllm_v0_stages",
    table="cycles",
    versions="0.6.6 - 0.8.5",
    source="spec_decode/spec_decode_worker.py; draft_ms is per proposed token; scoring is the target's forward",
    examples=(
        Example(
            "INFO 02-03 09:15:20 spec_decode_worker.py:1088] SpecDecodeWorker stage times: "
            "average_time_per_proposal_tok_ms=1.20 scoring_time_ms=21.50 verification_time_ms=0.80",
            {"draft_ms": 1.2, "verify_ms": 21.5, "other_ms": 0.8},
        ),
    ),
)


def _p(
    name: str, anchor: str, pattern: str, example: str, gives: dict[str, object], kind: str = "", **more: object
) -> PatternGrammar:
    return PatternGrammar(
        name=name,
        engine="vllm",
        anchor=anchor,
        pattern=pattern,
        kind=kind or name,
        examples=(Example(example, gives),),
        **more,  # type: ignore[arg-type]
    )


_T = "(Worker_TP1 pid=42) INFO 02-03 09:10:00 [gpu_model_runner.py:52] "

EVENTS: tuple[PatternGrammar, ...] = (
    _p(
        "banner_version",
        "  version ",
        r"█  version (?P<subject>[0-9][^\s]*)",
        "(APIServer pid=1) INFO 02-03 09:10:00 [utils.py:306]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.19.1",
        {"subject": "0.19.1"},
        kind="version",
        optional=True,
    ),
    _p(
        "world",
        "distributed_init_method=",
        r"world_size=(?P<value>[0-9]+) rank=(?P<rank>[0-9]+)",
        "(Worker pid=42) INFO 02-03 09:10:00 [parallel_state.py:1427] world_size=8 rank=3 local_rank=3 "
        "distributed_init_method=tcp://127.0.0.1:45215 backend=nccl",
        {"value": 8.0, "rank": "3"},
        kind="world",
        optional=True,
    ),
    _p(
        "rank_assigned",
        "is assigned as DP rank",
        r"rank (?P<rank>[0-9]+) in world size (?P<value>[0-9]+) is assigned as DP rank (?P<dp>[0-9]+), PP rank (?P<pp>[0-9]+),"
        r".*?TP rank (?P<tp>[0-9]+)",
        "(Worker pid=42) INFO 02-03 09:10:00 [parallel_state.py:1740] rank 3 in world size 8 is assigned as DP rank 0, PP "
        "rank 0, PCP rank 0, TP rank 3, EP rank 3, EPLB rank N/A",
        {"value": 8.0, "tp": "3"},
        kind="rank_assigned",
    ),
    _p(
        "nccl_version",
        "vLLM is using nccl==",
        r"nccl==(?P<subject>[0-9.]+)",
        "(Worker pid=42) INFO 02-03 09:10:00 [pynccl.py:113] vLLM is using nccl==2.27.3",
        {"subject": "2.27.3"},
    ),
    _p(
        "load_begin",
        "Starting to load model",
        r"load model (?P<subject>\S+?)\.\.\.",
        f"{_T}Starting to load model org/model...",
        {"subject": "org/model"},
    ),
    _p(
        "load_draft",
        "Loading drafter model",
        r"Loading drafter",
        f"{_T}Loading drafter model...",
        {},
        kind="load_draft_begin",
    ),
    _p(
        "weights",
        "Loading weights took",
        r"took (?P<value>[0-9.]+) seconds",
        f"{_T}Loading weights took 67.26 seconds",
        {"value": 67.26},
        kind="weights",
    ),
    _p(
        "load_end",
        "Model loading took",
        r"took (?P<mem_gb>[0-9.]+) (?:GiB|GB)(?: memory)? and (?P<value>[0-9.]+) seconds",
        f"{_T}Model loading took 56.62 GiB memory and 109.207956 seconds",
        {"value": 109.207956, "mem_gb": "56.62"},
    ),
    _p(
        "compile",
        "torch.compile took",
        r"took (?P<value>[0-9.]+) s in total",
        f"{_T}torch.compile took 45.24 s in total",
        {"value": 45.24},
        optional=True,
    ),
    _p(
        "kv_cache",
        "KV cache size: ",
        r"KV cache size: (?P<tokens>[0-9,]+) tokens",
        "(EngineCore pid=380) INFO 02-03 09:10:00 [kv_cache_utils.py:1731] GPU KV cache size: 319,232 tokens",
        {"tokens": "319,232"},
    ),
    _p(
        "max_concurrency",
        "Maximum concurrency for ",
        r"for (?P<tokens>[0-9,]+) tokens per request: (?P<value>[0-9.]+)x",
        "(EngineCore pid=380) INFO 02-03 09:10:00 [kv_cache_utils.py:1732] Maximum concurrency for 202,752 tokens per "
        "request: 1.57x",
        {"value": 1.57},
    ),
    _p(
        "capture_progress",
        "Capturing CUDA graph",
        r".*Capturing CUDA graph(?:s|s \((?P<subject>[^)]*)\)| shapes)?: +[0-9]+%\|[^|]*\| (?P<progress>[0-9]+/[0-9]+)",
        "(Worker_TP0 pid=42) Capturing CUDA graphs (decode, FULL):  12%|#2   | 4/33 [00:18<09:37, 18.1s/it]",
        {"subject": "decode, FULL", "progress": "4/33"},
        fold=True,
        last=True,
        optional=True,
    ),
    _p(
        "capture_end",
        "Graph capturing finished in",
        r"finished in (?P<value>[0-9.]+) secs, took (?P<mem_gb>[0-9.]+) GiB",
        f"{_T}Graph capturing finished in 41 secs, took 2.39 GiB",
        {"value": 41.0},
    ),
    _p(
        "graph_sizes",
        "Profiling CUDA graph memory: ",
        r"memory: (?P<subject>.*)",
        f"{_T}Profiling CUDA graph memory: PIECEWISE=33 (largest=256), FULL=33 (largest=256)",
        {"subject": "PIECEWISE=33 (largest=256), FULL=33 (largest=256)"},
        versions="0.20+",
    ),
    _p(
        "enforce_eager",
        "Enforce eager set, ",
        r"Enforce eager set, (?P<subject>.*)",
        "(APIServer pid=1) WARNING 02-03 09:10:00 [vllm.py:1703] Enforce eager set, disabling torch.compile and CUDAGraphs.",
        {},
    ),
    _p(
        "cudagraph_mode",
        "setting cudagraph_mode=",
        r"(?P<reason>.*?)setting cudagraph_mode=(?P<subject>[A-Z_]+)",
        "(EngineCore pid=3) WARNING 02-03 09:10:00 [gpu_model_runner.py:91] CUDAGraphMode.FULL is not supported with MLA "
        "backend; setting cudagraph_mode=PIECEWISE",
        {"subject": "PIECEWISE"},
    ),
    *(
        _p(
            f"runtime_mode_{mode.lower()}",
            f"| {mode} ",
            rf"\| *(?P<tokens>[0-9]+) *\| *(?P<padded>[0-9]+) *\| *(?P<paddings>[0-9]+) *\| *(?P<subject>{mode}) *\| *(?P<value>[0-9]+) *\|",
            f"| 16 | 16 | 0 | {mode} | 37 |",
            {"subject": mode, "value": 37.0, "tokens": "16"},
            kind="runtime_mode",
            optional=True,
        )
        for mode in ("FULL", "PIECEWISE", "NONE")
    ),
    _p(
        "init_engine",
        "init engine (profile, create kv cache, warmup model) took",
        r"took (?P<value>[0-9.]+) s",
        "(EngineCore pid=380) INFO 02-03 09:10:00 [core.py:299] init engine (profile, create kv cache, warmup model) took "
        "234.64 s (compilation: 56.37 s)",
        {"value": 234.64},
    ),
    _p(
        "ready",
        "Application startup complete.",
        r"complete",
        "INFO:     Application startup complete.",
        {},
    ),
    _p(
        "async_scheduling",
        "Asynchronous scheduling is",
        r"is (?P<subject>enabled|disabled)",
        "(APIServer pid=1) INFO 02-03 09:10:00 [vllm.py:968] Asynchronous scheduling is enabled.",
        {"subject": "enabled"},
        optional=True,
    ),
    _p(
        "diffusion",
        "DiffusionDecoding metrics: ",
        r"Mean tokens committed per denoising step: (?P<value>[0-9.]+)",
        "(APIServer pid=12) INFO 02-03 09:15:20 [metrics.py:101] DiffusionDecoding metrics: Committed token throughput: "
        "101.00 tokens/s, Mean denoising steps per canvas: 8.00, Mean tokens committed per denoising step: 3.10, Committed: "
        "1010 tokens, Denoising steps: 326, Canvas positions evaluated: 10432",
        {"value": 3.1},
        versions="0.24+, diffusion models; no speculation",
    ),
    _p(
        "jit_stall",
        "JIT compilation during inference",
        r"inference: (?P<subject>[^.\s]+)",
        "(Worker_TP0 pid=42) WARNING 02-03 09:20:00 [jit_monitor.py:107] Triton kernel JIT compilation during inference: "
        "eagle_prepare_inputs_padded_kernel. This causes a latency spike; consider extending warmup to cover this "
        "shape/config.",
        {"subject": "eagle_prepare_inputs_padded_kernel"},
    ),
    _p(
        "runner_version",
        "using the V1 model runner instead",
        r"(?P<subject>Model Runner V2 .*?); using the V1",
        "(APIServer pid=1) WARNING 02-03 09:10:00 [vllm.py:725] Model Runner V2 requires Triton; using the V1 model runner "
        "instead.",
        {"subject": "Model Runner V2 requires Triton"},
        fold=True,
    ),
    _p(
        "mtp_same_layer",
        "will run multiple times of forward on same MTP layer",
        r"num_speculative_tokens > (?P<value>[0-9]+)",
        "(APIServer pid=1) WARNING 02-03 09:10:00 [speculative.py:820] Enabling num_speculative_tokens > 1 will run multiple "
        "times of forward on same MTP layer,which may result in lower acceptance rate",
        {"value": 1.0},
    ),
    _p(
        "shm_broadcast_stall",
        "No available shared memory broadcast block found",
        r"block found(?: in (?P<value>[0-9]+) seconds)?",
        "(EngineCore pid=380) INFO 02-03 09:10:00 [shm_broadcast.py:698] No available shared memory broadcast block found in "
        "60 seconds. This typically happens when some processes are hanging",
        {"value": 60.0},
    ),
    _p(
        "cache_reset",
        "Successfully reset prefix cache",
        r"Successfully reset (?P<subject>prefix cache)",
        "(EngineCore pid=380) INFO 02-03 09:10:00 [block_pool.py:280] Successfully reset prefix cache",
        {"subject": "prefix cache"},
        kind="cache_flushed",
        source="v1/core/block_pool.py reset_prefix_cache",
    ),
    _p(
        "preemption",
        "is preempted by",
        r"total_num_cumulative_preemption=(?P<value>[0-9]+)",
        "WARNING 02-03 09:20:00 scheduler.py:1839] Sequence group 12 is preempted by PreemptionMode.RECOMPUTE mode because "
        "there is not enough KV cache space. total_num_cumulative_preemption=51",
        {"value": 51.0},
        versions="V0",
    ),
    _p(
        "eplb",
        "expert weight update cycle completed",
        r"total_layers=(?P<value>[0-9]+)",
        "(Worker_DP4_TP0_EP8 pid=1578) INFO 02-03 09:20:00 [eplb_loader.py:130] [eplb/d2d_loader] Full expert weight update "
        "cycle completed, total_layers=61",
        {"value": 61.0},
        versions="vllm-ascend",
    ),
    _p(
        "shutdown",
        "[shutdown] ",
        r"\[shutdown\] (?P<subject>[^:]+)",
        "(APIServer pid=1) INFO 02-03 09:30:00 [core_client.py:770] [shutdown] MPClient: start timeout=0s",
        {"subject": "MPClient"},
        fold=True,
    ),
    _p("uvicorn_shutdown", "INFO:     Shutting down", r"Shutting", "INFO:     Shutting down", {}, kind="shutdown"),
    _p(
        "worker_died",
        "died unexpectedly",
        r"Worker proc (?P<subject>\S+) died unexpectedly(?: \(exit code: (?P<exit_code>[^)]*)\))?",
        "(EngineCore pid=380) ERROR 02-03 09:20:00 [multiproc_executor.py:281] Worker proc VllmWorker-0 died unexpectedly "
        "(exit code: -4), shutting down executor.",
        {"subject": "VllmWorker-0", "exit_code": "-4"},
    ),
    _p(
        "engine_dump",
        "Dumping input data",
        r"Dumping input data",
        "(EngineCore pid=380) ERROR 02-03 09:20:00 [dump_input.py:72] Dumping input data",
        {},
        kind="engine_dead",
        source="logging_utils/dump_input.py: a forward failed",
    ),
    _p(
        "engine_fatal",
        "EngineCore encountered a fatal error",
        r"fatal error",
        "(EngineCore pid=380) ERROR 02-03 09:20:00 [core.py:1512] EngineCore encountered a fatal error.",
        {},
        kind="engine_dead",
        follow=160,
    ),
    _p(
        "engine_dead",
        "EngineDeadError: ",
        r"EngineDeadError: (?P<subject>.*)",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root "
        "cause.",
        {},
        fold=True,
    ),
    _p(
        "engine_start_failed",
        "Engine core initialization failed",
        r"(?P<subject>Engine core initialization failed)",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        {},
        kind="start_failed",
    ),
    _p(
        "engine_start_failed_core",
        "EngineCore failed to start",
        r"failed to start",
        "(EngineCore pid=12) ERROR 02-03 09:20:00 [core.py:1510] EngineCore failed to start.",
        {},
        kind="start_failed",
        follow=160,
    ),
    _p(
        "worker_start_failed",
        "WorkerProc failed to start",
        r"failed to start",
        "(Worker pid=12) ERROR 02-03 09:20:00 [multiproc_executor.py:810] WorkerProc failed to start.",
        {},
        kind="start_failed",
        follow=160,
    ),
    _p(
        "worker_exception",
        "WorkerProc hit an exception",
        r"exception",
        "(Worker_TP0 pid=12) ERROR 02-03 09:20:00 [multiproc_executor.py:950] WorkerProc hit an exception.",
        {},
        kind="worker_exception",
        follow=160,
    ),
)


def _settings(name: str, anchor: str, pattern: str, origin: str, *examples: Example) -> PatternGrammar:
    return PatternGrammar(
        name=name, engine="vllm", anchor=anchor, pattern=pattern, kind=origin, table="settings", examples=examples
    )


SETTINGS = (
    _settings(
        "non_default_args",
        "non-default args: ",
        r"non-default args: (?P<subject>\{.*)",
        "non_default_args",
        Example(
            "(APIServer pid=1) INFO 02-03 09:10:00 [utils.py:240] non-default args: {'model': 'org/m', "
            "'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}",
            {"model": "'org/m'", "speculative_config.num_speculative_tokens": "3"},
            "0.9+",
        ),
    ),
    _settings(
        "namespace",
        "args: Namespace(",
        r"args: (?P<subject>Namespace\(.*)",
        "non_default_args",
        Example(
            "INFO 02-03 09:10:00 api_server.py:652] args: Namespace(model='org/m', tensor_parallel_size=2)",
            {"tensor_parallel_size": "2"},
            "0.6 - 0.9",
        ),
    ),
    _settings(
        "engine_config",
        "LLM engine (v",
        r"LLM engine \(v(?P<version>[^)]*)\) with config: (?P<subject>.*)",
        "engine_config",
        Example(
            "(EngineCore pid=12) INFO 02-03 09:10:00 [core.py:109] Initializing a V1 LLM engine (v0.19.1) with config: "
            "model='org/m', speculative_config=SpeculativeConfig(method='eagle3', model='org/d', num_spec_tokens=3), "
            "tensor_parallel_size=8, enforce_eager=False",
            {"version": "0.19.1", "speculative_config.num_spec_tokens": "3", "tensor_parallel_size": "8"},
            "0.8+",
        ),
        Example(
            "INFO 02-03 09:10:00 llm_engine.py:234] Initializing an LLM engine (v0.6.6.post1) with config: model='org/m', "
            "speculative_config=None, tensor_parallel_size=2",
            {"version": "0.6.6.post1", "speculative_config": "None"},
            "0.6",
        ),
    ),
    _settings(
        "unknown_env",
        "Unknown vLLM environment variable detected: ",
        r"detected: (?P<name>[A-Z0-9_]+)",
        "unknown_env",
        Example(
            "(APIServer pid=1) WARNING 02-03 09:10:00 [envs.py:1908] Unknown vLLM environment variable detected: VLLM_FASTER",
            {"VLLM_FASTER": ""},
        ),
    ),
)

GRAMMARS: tuple[Grammar, ...] = (ENGINE, SPEC, SPEC_V0, ITERATION, STAGES_V0, *SETTINGS, *EVENTS)
