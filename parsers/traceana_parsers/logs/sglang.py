"""SGLang's lines, 0.4.6 to 0.5.23. Sources: managers/scheduler*.py, server_args.py and others of the released wheels.

To add a line: one row below with an example; docs/add-a-log-line.md says how.
"""

from __future__ import annotations

from traceana_parsers.logs.grammar import Example, Field, Grammar, KeyValueGrammar, PatternGrammar

_GRAPH = ("cuda graph", "cpu graph", "npu graph", "musa graph")

DECODE = KeyValueGrammar(
    name="decode",
    engine="sglang",
    anchor="Decode batch",
    table="decode_samples",
    fields=(
        Field("#running-req", "running", "int"),
        Field("#queue-req", "queued", "int"),
        Field("#token", "tokens", "int"),
        Field("#full token", "tokens", "int"),
        Field("#gpu token", "tokens", "int"),
        Field("token usage", "token_usage", "float"),
        Field("full token usage", "token_usage", "float"),
        Field("gpu token usage", "token_usage", "float"),
        Field("gen throughput (token/s)", "gen_tps", "float"),
        Field("accept len", "accept_length_printed", "float"),
        Field("accept rate", "accept_rate_printed", "float"),
        *(Field(key, "cuda_graph", "bool") for key in _GRAPH),
        Field("#retracted-req", "retracted", "int"),
    ),
    required=("running", "gen_tps"),
    extras=(("forward_ct", "Decode batch [", r"Decode batch \[([0-9]+)\]"),),
    constants=(("engine", "sglang"),),
    versions="0.4.6 - 0.5.23",
    source="scheduler.py log_decode_stats; scheduler_metrics_mixin.py; metrics_reporter.py report_decode_stats",
    examples=(
        Example(
            "[2026-02-03 09:15:20 TP0] Decode batch. #running-req: 4, #token: 9021, token usage: 0.02, "
            "accept len: 2.41, gen throughput (token/s): 402.11, #queue-req: 0",
            {"running": 4, "tokens": 9021, "accept_length_printed": 2.41, "gen_tps": 402.11, "queued": 0, "tp": 0},
            "0.4.6",
        ),
        Example(
            "[2026-02-03 09:15:20] Decode batch. #running-req: 4, #token: 9021, token usage: 0.02, accept len: 2.41, "
            "cuda graph: True, gen throughput (token/s): 402.11, #queue-req: 0, timestamp: 2026-02-03T09:15:20.104233",
            {"running": 4, "cuda_graph": True, "gen_tps": 402.11, "queued": 0},
            "0.4.9.post2",
        ),
        Example(
            "[2026-02-03 09:15:20 DP1 TP4] Decode batch [880], #running-req: 4, #token: 9021, token usage: 0.02, "
            "accept len: 2.41, accept rate: 0.60, cuda graph: False, gen throughput (token/s): 402.11, #queue-req: 2, ",
            {"dp": 1, "tp": 4, "accept_rate_printed": 0.6, "cuda_graph": False, "queued": 2, "forward_ct": 880},
            "0.5.4",
        ),
        Example(
            "[2026-02-03 09:15:20.512 DP0 PP1 TP2 EP2] Decode batch, #running-req: 4, #full token: 9021, "
            "full token usage: 0.52, #swa token: 212, swa token usage: 0.11, accept len: 2.41, accept rate: 0.47, "
            "cuda graph: True, gen throughput (token/s): 402.11, #queue-req: 3",
            {"pp": 1, "ep": 2, "tokens": 9021, "token_usage": 0.52, "queued": 3, "accept_rate_printed": 0.47},
            "0.5.11",
        ),
        Example(
            "[2026-02-03 09:15:20] Decode batch, #running-req: 4, #token: 9021, token usage: 0.02, accept len: 2.41, "
            "accept rate: 0.47, pre-allocated usage: 0.00, #prealloc-req: 0, #transfer-req: 1, #retracted-req: 5, "
            "npu graph: True, gen throughput (token/s): 402.11, #queue-req: 3, fwd occupancy: 88.50%",
            {"retracted": 5, "cuda_graph": True, "gen_tps": 402.11, "queued": 3},
            "0.5.20",
        ),
    ),
)

PREFILL = KeyValueGrammar(
    name="prefill",
    engine="sglang",
    anchor="Prefill batch",
    table="prefill_samples",
    fields=(
        Field("#new-seq", "new_seqs", "int"),
        Field("#new-token", "new_tokens", "int"),
        Field("#cached-token", "cached_tokens", "int"),
        Field("token usage", "token_usage", "float"),
        Field("full token usage", "token_usage", "float"),
        Field("#running-req", "running", "int"),
        Field("#queue-req", "queued", "int"),
        Field("input throughput (token/s)", "input_tps", "float"),
        *(Field(key, "cuda_graph", "bool") for key in _GRAPH),
    ),
    required=("new_seqs", "new_tokens"),
    versions="0.4.6 - 0.5.23",
    source="scheduler.py log_prefill_stats; metrics_reporter.py report_prefill_stats",
    examples=(
        Example(
            "[2026-02-03 09:15:19 TP0] Prefill batch. #new-seq: 2, #new-token: 812, #cached-token: 12, "
            "token usage: 0.02, #running-req: 3, #queue-req: 1",
            {"new_seqs": 2, "new_tokens": 812, "cached_tokens": 12, "running": 3, "queued": 1},
            "0.4.6",
        ),
        Example(
            "[2026-02-03 09:15:19] Prefill batch, #new-seq: 2, #new-token: 812, #cached-token: 12, token usage: 0.02, "
            "#running-req: 3, #queue-req: 1, #pending-token: 0, cuda graph: False, input throughput (token/s): 62.00",
            {"new_seqs": 2, "queued": 1, "cuda_graph": False, "input_tps": 62.0},
            "0.5.23",
        ),
    ),
)


def _p(
    name: str, anchor: str, pattern: str, example: str, gives: dict[str, object], kind: str = "", **more: object
) -> PatternGrammar:
    return PatternGrammar(
        name=name,
        engine="sglang",
        anchor=anchor,
        pattern=pattern,
        kind=kind or name,
        examples=(Example(example, gives),),
        **more,  # type: ignore[arg-type]
    )


_T = "[2026-02-03 09:10:00 TP3] "

EVENTS: tuple[PatternGrammar, ...] = (
    _p("init_begin", "Init torch distributed begin", r"begin", f"{_T}Init torch distributed begin.", {}),
    _p(
        "init_end",
        "Init torch distributed ends",
        r"ends\.(?: elapsed=(?P<value>[0-9.]+) s,)?",
        f"{_T}Init torch distributed ends. elapsed=0.27 s, mem usage=0.09 GB",
        {"value": 0.27},
        versions="value from 0.5.9",
    ),
    _p(
        "init_end_parallel",
        "Init parallel ends",
        r"elapsed=(?P<value>[0-9.]+) s",
        f"{_T}Init parallel ends. elapsed=0.27 s",
        {"value": 0.27},
        kind="init_end",
        versions="0.5.21+",
    ),
    _p(
        "cache_flushed",
        "Cache flushed successfully!",
        r"(?P<subject>Cache) flushed successfully",
        f"{_T}Cache flushed successfully!",
        {"subject": "Cache"},
        source="managers/scheduler.py flush_cache",
    ),
    _p(
        "nccl_version",
        "sglang is using nccl==",
        r"nccl==(?P<subject>[0-9.]+)",
        f"{_T}sglang is using nccl==2.27.3",
        {"subject": "2.27.3"},
    ),
    _p(
        "load_begin",
        "Load weight begin",
        r"begin\.(?: avail mem=(?P<value>[0-9.]+) GB)?",
        f"{_T}Load weight begin. avail mem=94.10 GB",
        {"value": 94.1},
    ),
    _p(
        "load_end",
        "Load weight end",
        r"end\.(?: elapsed=(?P<value>[0-9.]+) s,)?(?: type=(?P<subject>[^,]+),)?.*?(?:mem usage=(?P<mem_gb>[0-9.]+) GB)?\.?\s*$",
        f"{_T}Load weight end. elapsed=61.97 s, type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail mem=20.1 GB, "
        "mem usage=71.28 GB.",
        {"value": 61.97, "subject": "DeepseekV3ForCausalLM", "mem_gb": "71.28"},
    ),
    _p(
        "kv_cache",
        "KV Cache is allocated",
        r"#tokens: (?P<value>[0-9]+)",
        f"{_T}KV Cache is allocated. dtype: torch.bfloat16, #tokens: 992896, K size: 68.18 GB, V size: 68.18 GB",
        {"value": 992896.0},
    ),
    _p(
        "kv_cache_post",
        "KV cache allocated.",
        r"#tokens: (?P<value>[0-9]+)",
        f"{_T}Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: 99289, KV size: 6.18 GB, "
        "avail mem=3.10 GB",
        {"value": 99289.0},
        kind="kv_cache",
        versions="0.5.17+",
    ),
    _p(
        "memory_pool_end",
        "Memory pool end",
        r"avail mem=(?P<value>[0-9.]+) GB",
        f"{_T}Memory pool end. avail mem=25.26 GB",
        {"value": 25.26},
    ),
    _p(
        "capture_begin_old",
        "cuda graph begin",
        r"Capture (?P<subject>.*?) ?cuda graph begin\.(?:.*?avail mem=(?P<value>[0-9.]+) GB)?",
        f"{_T}Capture draft cuda graph begin. This can take up to several minutes. avail mem=24.14 GB",
        {"subject": "draft", "value": 24.14},
        kind="capture_begin",
        versions="0.4.6 - 0.5.13",
    ),
    _p(
        "capture_end_old",
        "cuda graph end",
        r"Capture (?P<subject>.*?) ?cuda graph end\. Time elapsed: (?P<value>[0-9.]+) s",
        f"{_T}Capture cuda graph end. Time elapsed: 12.11 s. mem usage=0.54 GB. avail mem=16.74 GB.",
        {"subject": "", "value": 12.11},
        kind="capture_end",
        versions="0.4.6 - 0.5.13",
    ),
    _p(
        "capture_begin",
        "graph begin. backe",
        r"Capture (?P<subject>.*?) (?:CUDA|CPU|NPU|MUSA) graph begin\."
        r"(?:.*?num_tokens_per_(?:bs|req)=(?P<tokens_per_request>[0-9]+))?(?:.*?\bbs=\[(?P<sizes>[0-9, ]+)\])?",
        f"{_T}Capture target verify CUDA graph begin. backend=full, num_tokens_per_req=4, bs=[1, 2, 4, 8], "
        "avail mem=7.10 GB",
        {"subject": "target verify", "tokens_per_request": "4", "sizes": "1, 2, 4, 8"},
        versions="0.5.14+",
    ),
    _p(
        "capture_end",
        "graph end. elapsed",
        r"Capture (?P<subject>.*?) (?:CUDA|CPU|NPU|MUSA) graph end\. elapsed=(?P<value>[0-9.]+) s(?:.*?\bbs=\[(?P<sizes>[0-9, ]+)\])?",
        f"{_T}Capture target verify CUDA graph end. elapsed=3.74 s, mem usage=0.60 GB, avail mem=23.54 GB.",
        {"subject": "target verify", "value": 3.74},
        versions="0.5.14+",
    ),
    _p(
        "capture_sizes",
        "Capture cuda graph bs [",
        r"bs \[(?P<sizes>[0-9, ]+)\]",
        f"{_T}Capture cuda graph bs [1, 2, 4, 8, 16]",
        {"sizes": "1, 2, 4, 8, 16"},
    ),
    _p(
        "capture_progress",
        "Capturing batches",
        r".*Capturing batches \((?:bs=(?P<subject>[0-9]+) )?[^)]*\): +[0-9]+%\|[^|]*\| (?P<progress>[0-9]+/[0-9]+)",
        "Capturing batches (bs=16 avail_mem=13.56 GB):  17%|#6        | 1/6 [00:16<01:22, 16.57s/it]",
        {"subject": "16", "progress": "1/6"},
        fold=True,
        last=True,
    ),
    _p(
        "capture_failed",
        "Capture cuda graph failed",
        r"failed: (?P<subject>[^\n]{0,200})",
        f"{_T}Scheduler hit: Capture cuda graph failed: CUDA out of memory",
        {"subject": "CUDA out of memory"},
    ),
    _p(
        "limits",
        "max_total_num_tokens=",
        r"max_total_num_tokens=(?P<value>[0-9]+)(?:.*?max_running_requests=(?P<max_running_requests>[0-9]+))?"
        r"(?:.*?context_len=(?P<context_len>[0-9]+))?",
        f"{_T}max_total_num_tokens=992896, chunked_prefill_size=16384, max_prefill_tokens=16384, "
        "max_running_requests=48, context_len=40960, available_gpu_mem=21.22 GB",
        {"value": 992896.0, "max_running_requests": "48", "context_len": "40960"},
        optional=True,
    ),
    _p(
        "ready",
        "The server is fired up",
        r"ready to roll",
        "[2026-02-03 09:14:00] The server is fired up and ready to roll!",
        {},
    ),
    _p(
        "max_running_reset",
        "Max running requests is reset to",
        r"reset to (?P<value>[0-9]+)",
        "[2026-02-03 09:10:00] Max running requests is reset to 48 for speculative decoding.",
        {"value": 48.0},
    ),
    _p(
        "draft_tokens_adjusted",
        "speculative_num_draft_tokens is adjusted",
        r"adjusted to speculative_num_steps \+ 1",
        "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1",
        {},
    ),
    _p(
        "overlap_off",
        "Overlap scheduler is disabled",
        r"disabled (?P<subject>.*)",
        "[2026-02-03 09:10:00] Overlap scheduler is disabled because of using eagle speculative decoding.",
        {"subject": "because of using eagle speculative decoding."},
    ),
    _p(
        "spec_version",
        "pec v2 is ",
        r"(?P<subject>(?:Non-overlap \(synchronous\) |Overlap )?[Ss]pec v2 is .*)",
        "[2026-02-03 09:10:00] Spec v2 is enabled by default for eagle/eagle3/standalone speculative decoding.",
        {"subject": "Spec v2 is enabled by default for eagle/eagle3/standalone speculative decoding."},
    ),
    _p(
        "spec_version_v1",
        "Spec v1 is used",
        r"(?P<subject>Spec v1 is used .*)",
        "[2026-02-03 09:10:00] Spec v1 is used for eagle/eagle3/standalone speculative decoding because overlap schedule "
        "is disabled.",
        {},
        kind="spec_version",
    ),
    _p(
        "adaptive_init",
        "AdaptiveSpeculativeParams initialized",
        r"steps=(?P<value>[0-9]+)",
        f"{_T}AdaptiveSpeculativeParams initialized: steps=3, candidate_steps=[1, 3, 7]",
        {"value": 3.0},
    ),
    _p(
        "adaptive_update",
        "Adaptive spec params updated",
        r"steps (?P<from>[0-9]+) -> (?P<value>[0-9]+)",
        f"{_T}Adaptive spec params updated: steps 3 -> 1 (ema_accept_len=0.42)",
        {"value": 1.0, "from": "3"},
    ),
    _p(
        "adaptive_switch",
        "Switch adaptive runtime state",
        r"steps (?P<from>[0-9]+) -> (?P<value>[0-9]+)",
        f"{_T}Switch adaptive runtime state: steps 3 -> 0, draft_tokens 4 -> 1",
        {"value": 0.0},
    ),
    _p(
        "adaptive_off",
        "speculative_adaptive disabled",
        r"disabled: (?P<subject>.*?)(?: Falling back.*)?$",
        "[2026-02-03 09:10:00] speculative_adaptive disabled: topk is not 1. Falling back to static speculative params.",
        {"subject": "topk is not 1."},
    ),
    _p(
        "retraction",
        "KV cache pool is full. Retract requests",
        r"#retracted_reqs: (?P<value>[0-9]+)(?:.*?#new_token_ratio: (?P<ratio_from>[0-9.]+) -> (?P<ratio_to>[0-9.]+))?",
        f"{_T}KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 512, "
        "#new_token_ratio: 0.5000 -> 0.7000",
        {"value": 2.0, "ratio_to": "0.7000"},
    ),
    _p(
        "retraction_old",
        "Decode out of memory happened",
        r"#retracted_reqs: (?P<value>[0-9]+)",
        f"{_T}Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.8024 -> 0.9085",
        {"value": 1.0},
        kind="retraction",
        versions="0.4.6",
    ),
    _p(
        "out_of_memory",
        "out of memory. Try to lower your batch size",
        r"(?P<subject>Prefill|Decode) out of memory",
        "RuntimeError: Prefill out of memory. Try to lower your batch size.",
        {"subject": "Prefill"},
    ),
    _p(
        "watchdog",
        "atchdog timeout (self.watchdog_timeout=",
        r"watchdog_timeout=(?P<value>[0-9.]+)",
        f"{_T}Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
        {"value": 300.0},
    ),
    _p(
        "pyspy",
        "Pyspy dump for PID",
        r"PID (?P<subject>[0-9]+)",
        f"{_T}Pyspy dump for PID 309:",
        {"subject": "309"},
        follow=60,
    ),
    _p(
        "pyspy_failed",
        "Pyspy failed to dump PID",
        r"PID (?P<subject>[0-9]+)\. Error: (?P<error>.*)",
        f"{_T}Pyspy failed to dump PID 113. Error: /bin/bash: line 1: py-spy: command not found",
        {"subject": "113"},
    ),
    _p(
        "scheduler_exception",
        "Scheduler hit an exception",
        r"exception: (?P<subject>.*)",
        f"{_T}Scheduler hit an exception: Traceback (most recent call last):",
        {},
        follow=80,
    ),
    _p(
        "hicache_draft_skipped",
        "not supported for HiCache, skipping.",
        r"Draft pool type (?P<subject>[A-Za-z_0-9]{1,80}) not supported",
        f"{_T}Draft pool type DSATokenToKVPool not supported for HiCache, skipping.",
        {"subject": "DSATokenToKVPool"},
        fold=True,
    ),
    _p(
        "nan_logits",
        "Detected errors during sampling!",
        r"(?:^|\] )Detected errors during sampling! (?P<subject>NaN in the logits)",
        f"{_T}Detected errors during sampling! NaN in the logits.",
        {"subject": "NaN in the logits"},
        optional=True,
        fold=True,
    ),
    _p(
        "nan_sanitized",
        "NaN detected in ",
        r"NaN detected in (?P<subject>[^;]{1,80}); values were sanitized",
        f"{_T}NaN detected in next_token_logits; values were sanitized before sampling. This usually indicates numerical "
        "overflow (e.g. fp16 activations) or an upstream bug producing NaN. Logged once; further occurrences are silent.",
        {"subject": "next_token_logits"},
        kind="nan_logits",
        optional=True,
        fold=True,
    ),
    _p(
        "scheduler_dead",
        "scheduler is dead",
        r"(?P<subject>Rank [0-9]+) scheduler is dead",
        "[2026-02-03 09:20:05] Rank 2 scheduler is dead. Please check if there are relevant logs.",
        {"subject": "Rank 2"},
        kind="engine_dead",
    ),
    _p(
        "child_failed",
        "Child process unexpectedly failed with",
        r"exitcode=(?P<exit_code>-?[0-9]+)",
        "[2026-02-03 09:20:05] Child process unexpectedly failed with exitcode=-9. pid=4120",
        {"exit_code": "-9"},
        kind="subprocess_crashed",
    ),
    _p(
        "sigquit",
        "sigquit from a child proces",
        r"Received",
        "[2026-02-03 09:20:05] Received sigquit from a child process. It usually means the child failed.",
        {},
    ),
    _p(
        "sigquit_new",
        "SIGQUIT received.",
        r"signum=(?P<subject>[^,]+)",
        "[2026-02-03 09:20:05] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
        {},
        kind="sigquit",
    ),
    _p(
        "subprocess_crashed",
        "crashed with exit code",
        r"Subprocess (?P<subject>\S+) .*?crashed with exit code (?P<value>-?[0-9]+)",
        "[2026-02-03 09:20:05] Subprocess scheduler_0 (pid=812) crashed with exit code -6. Triggering SIGQUIT for cleanup...",
        {"subject": "scheduler_0", "value": -6.0},
    ),
    _p(
        "health_check",
        "Health check failed. Server couldn't get a response",
        r"for last (?P<value>[0-9]+) seconds",
        "[2026-02-03 09:20:05] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. "
        "tic start time: 09:19:45. last_heartbeat time: 09:19:40.",
        {"value": 20.0},
    ),
    _p(
        "context_length",
        "context_length (",
        r"(?P<subject>User-specified|Target model's) context_length \((?P<value>[0-9]+)\) is greater than the derived "
        r"context_length \((?P<derived>[0-9]+)\)",
        "ValueError: Warning: Target model's context_length (262144) is greater than the derived context_length (131072). "
        "This may lead to incorrect model outputs or CUDA errors.",
        {"value": 262144.0, "derived": "131072", "subject": "Target model's"},
    ),
    _p(
        "flashinfer_fusion_on",
        "FlashInfer AllReduce Fusion enabled",
        r"backend=(?P<subject>[^,]+)",
        f"{_T}FlashInfer AllReduce Fusion enabled and workspace initialized: backend=trtllm, rank=0, world_size=8",
        {"subject": "trtllm"},
    ),
    _p(
        "flashinfer_fusion_failed",
        "Disabling flashinfer allreduce fusion permanently",
        r"Failed to initialize FlashInfer workspace(?: \(backend=[^)]*\))?: (?P<subject>.*?)\. Disabling",
        f"{_T}Failed to initialize FlashInfer workspace (backend=trtllm): cuMemCreate failed. Disabling flashinfer allreduce "
        "fusion permanently.",
        {"subject": "cuMemCreate failed"},
    ),
    _p(
        "flashinfer_fusion_preflight",
        "FlashInfer workspace preflight",
        r"preflight: (?P<subject>.*)",
        f"{_T}FlashInfer workspace preflight: cuMemCreate probe failed on at least one rank. Skipping allreduce fusion",
        {},
        kind="flashinfer_fusion_failed",
    ),
    _p(
        "flashinfer_fusion_no_api",
        "unified allreduce_fusion API is not available",
        r"(?P<subject>flashinfer\.comm unified .*)",
        f"{_T}flashinfer.comm unified allreduce_fusion API is not available, falling back to standard implementation",
        {},
        kind="flashinfer_fusion_failed",
    ),
    _p(
        "flashinfer_fusion_arch",
        "FlashInfer allreduce fusion requires",
        r"(?P<subject>requires .*)",
        "ValueError: FlashInfer allreduce fusion requires SM90 or SM10X NVIDIA GPUs.",
        {"subject": "requires SM90 or SM10X NVIDIA GPUs."},
        kind="flashinfer_fusion_failed",
        versions="0.5.14+",
    ),
    _p(
        "pcie_ipc_on",
        "FlashInfer PCIe-IPC all-reduce enabled",
        r"world=(?P<value>[0-9]+)",
        f"{_T}FlashInfer PCIe-IPC all-reduce enabled (world=8, workspace sized on first reduction)",
        {"value": 8.0},
        versions="0.5.21+",
    ),
    _p(
        "pcie_ipc_failed",
        "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE is set but",
        r"is set but (?P<subject>.*)",
        f"{_T}SGLANG_ENABLE_PCIE_IPC_ALLREDUCE is set but this FlashInfer build has no pcie_ipc_comm; falling back to NCCL "
        "all-reduce.",
        {},
    ),
    _p(
        "pcie_ipc_partial",
        "PCIe-IPC all-reduce serves bf16 only",
        r"bf16 only; (?P<subject>.*)",
        f"{_T}FlashInfer PCIe-IPC all-reduce serves bf16 only; fp16 reductions stay on NCCL.",
        {},
        kind="pcie_ipc_failed",
    ),
    _p(
        "deterministic",
        "NCCL_ALGO is set to 'allreduce:tree'",
        r"NCCL_ALGO is set to '(?P<subject>[^']+)'",
        "[2026-02-03 09:10:00] NCCL_ALGO is set to 'allreduce:tree' and custom all reduce is disabled for deterministic "
        "inference when TP size > 1.",
        {"subject": "allreduce:tree"},
        kind="nccl_algo_forced",
    ),
    _p(
        "argument_site_assert",
        "speculative_num_draft_tokens is None",
        r"(?P<subject>(?:self|cfg)\.speculative_num_draft_tokens is None)",
        "    and self.speculative_num_draft_tokens is None",
        {"subject": "self.speculative_num_draft_tokens is None"},
        kind="argument_site",
        optional=True,
    ),
    _p(
        "argument_site_compare",
        "speculative_eagle_topk > 1",
        r"(?P<subject>(?:self|cfg)\.speculative_eagle_topk > 1)",
        "    if self.speculative_eagle_topk > 1 and self.page_size > 1:",
        {"subject": "self.speculative_eagle_topk > 1"},
        kind="argument_site",
        optional=True,
    ),
    _p(
        "flashinfer_jit",
        "flashinfer.jit: ",
        r"flashinfer\.jit: (?P<subject>.*)",
        "2026-02-03 09:10:00,633 - INFO - flashinfer.jit: Prebuilt kernels not found, using JIT backend",
        {"subject": "Prebuilt kernels not found, using JIT backend"},
        fold=True,
    ),
    _p(
        "pool_state",
        "[full] total=",
        r"total=(?P<value>[0-9]+), available=(?P<available>[0-9]+)(?:, evictable=(?P<evictable>[0-9]+))?",
        "[full] total=464256, available=768, evictable=432960, protected=30464, session_held=0, uncached=0",
        {"value": 464256.0, "available": "768"},
    ),
)

SETTINGS = PatternGrammar(
    name="server_args",
    engine="sglang",
    anchor="server_args=",
    pattern=r"server_args=(?P<subject>(?:ServerArgs\(|\{).*)",
    kind="server_args",
    table="settings",
    versions="ServerArgs(...) to 0.5.18, a dict from 0.5.19",
    optional=True,
    examples=(
        Example(
            "[2026-02-03 09:10:00] server_args=ServerArgs(model_path='org/m', tp_size=8, speculative_algorithm='EAGLE3')",
            {"tp_size": "8", "speculative_algorithm": "'EAGLE3'"},
        ),
        Example(
            "[2026-02-03 09:10:00] server_args={'model_path': 'org/m', 'tp_size': 8, 'api_key': None}",
            {"tp_size": "8", "model_path": "'org/m'"},
        ),
    ),
)

GRAMMARS: tuple[Grammar, ...] = (DECODE, PREFILL, SETTINGS, *EVENTS)
