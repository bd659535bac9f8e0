"""EAGLE3_PROFILE lines (ours and hand-made), TensorRT-LLM iteration lines, llama.cpp draft lines.

Sources: docs/eagle3-profile.md for our line; tensorrt_llm/_torch/pyexecutor/py_executor.py; llama.cpp server and
common/speculative.cpp.
"""

from __future__ import annotations

from traceana_parsers.logs.grammar import Example, Field, Grammar, KeyValueGrammar, PatternGrammar

PROFILE = KeyValueGrammar(
    name="eagle3_profile",
    engine="eagle3_profile",
    anchor="EAGLE3_PROFILE",
    table="cycles",
    fields=(
        Field("rank", "rank", "int"),
        Field("cycle", "iteration", "int"),
        Field("cycles", "cycles", "int"),
        Field("n", "cycles", "int"),
        Field("bs", "batch", "int"),
        Field("batch", "batch", "int"),
        Field("batch_size", "batch", "int"),
        Field("k", "k", "int"),
        Field("draft_ms", "draft_ms", "float"),
        Field("draft_step", "draft_ms", "float"),
        Field("draft", "draft_ms", "float"),
        Field("verify_ms", "verify_ms", "float"),
        Field("verify", "verify_ms", "float"),
        Field("target_verify", "verify_ms", "float"),
        Field("re_extend_ms", "re_extend_ms", "float"),
        Field("re_extend", "re_extend_ms", "float"),
        Field("draft_extend", "re_extend_ms", "float"),
        Field("other_ms", "other_ms", "float"),
        Field("avg_total", "total_ms", "float"),
        Field("total_ms", "total_ms", "float"),
        Field("total", "total_ms", "float"),
        Field("accept", "accept_length_printed", "float"),
        Field("accept_len", "accept_length_printed", "float"),
        Field("accept_length", "accept_length_printed", "float"),
    ),
    required=("verify_ms",),
    constants=(("source", "eagle3_profile"),),
    examples=(
        Example(
            "[2026-02-03 09:15:20 TP2] EAGLE3_PROFILE cycle=41 draft_ms=1.913 verify_ms=29.970 re_extend_ms=0.840 accept=1 "
            "bs=1",
            {"iteration": 41, "draft_ms": 1.913, "verify_ms": 29.97, "batch": 1, "tp": 2},
            "hand-made",
        ),
        Example(
            "EAGLE3_PROFILE: avg_total=33.10ms draft_step=1.90ms verify=29.97ms re_extend=0.84ms accept=0.92",
            {"total_ms": 33.1, "draft_ms": 1.9, "verify_ms": 29.97, "accept_length_printed": 0.92},
            "hand-made",
        ),
        Example(
            "EAGLE3_PROFILE avg_total: 33.10, draft_step: 1.90, verify: 29.97, re_extend: 0.84, accept: 0.92",
            {"total_ms": 33.1, "verify_ms": 29.97},
            "hand-made",
        ),
    ),
)

PROFILE_JSON = PatternGrammar(
    name="eagle3_profile_json",
    engine="eagle3_profile",
    anchor="EAGLE3_PROFILE {",
    pattern=r"EAGLE3_PROFILE (?P<json>\{.*\})",
    kind="eagle3_profile",
    table="cycles",
    versions="v 1",
    examples=(
        Example(
            '[2026-02-03 09:15:20 TP2] EAGLE3_PROFILE {"v":1,"rank":2,"cycles":200,"batch":1,"k":3,"draft_ms":1.91,'
            '"verify_ms":29.97,"re_extend_ms":0.84,"other_ms":0.4,"accept_length":1.92,"clock":"cuda_event"}',
            {"rank": 2, "cycles": 200, "verify_ms": 29.97, "accept_length_printed": 1.92, "clock": "cuda_event"},
        ),
    ),
)

PROFILE_START = PatternGrammar(
    name="eagle3_profile_start",
    engine="eagle3_profile",
    anchor="EAGLE3_PROFILE_START",
    pattern=r'EAGLE3_PROFILE_START \{"v":1,"engine":"(?P<subject>[^"]*)","version":"?(?P<version>[^",]*)"?,"pid":(?P<pid>[0-9]+)'
    r'(?:.*?"rank":(?P<rank>[0-9]+))?(?:.*?"method":"(?P<method>[^"]*)","k":(?P<k>[0-9]+|null))?',
    kind="profile_start",
    versions="v 1",
    examples=(
        Example(
            '[2026-02-03 09:15:20 TP2] EAGLE3_PROFILE_START {"v":1,"engine":"sglang","version":"0.5.12","pid":4711,"ppid":4700,'
            '"process":"MainProcess","rank":2,"python":"3.11.7","method":"EAGLE3","k":3,"hooks":["speculative.eagle_worker_v2.'
            'EAGLEWorkerV2.verify:verify"],"missing":[],"nvtx":"torch.cuda.nvtx","switch":null,"per_cycle_files":false,'
            '"env":{"NCCL_PROTO":"LL"}}',
            {"subject": "sglang", "version": "0.5.12", "pid": "4711", "rank": "2", "method": "EAGLE3", "k": "3"},
        ),
    ),
)

PROFILE_NOTE = PatternGrammar(
    name="eagle3_profile_note",
    engine="eagle3_profile",
    anchor="EAGLE3_PROFILE_NOTE",
    pattern=r"EAGLE3_PROFILE_NOTE (?P<subject>.*)",
    kind="profile_note",
    versions="v 1",
    examples=(
        Example(
            "EAGLE3_PROFILE_NOTE timers are off: the switch file is gone",
            {"subject": "timers are off: the switch file is gone"},
        ),
    ),
)

PHASE_BLOCK = PatternGrammar(
    name="phase_block",
    engine="eagle3_profile",
    anchor=" ms/cycle",
    pattern=r"(?P<subject>[A-Za-z][A-Za-z _-]*?) *[:=] *(?P<value>[0-9.]+) ms/cycle",
    kind="phase_ms",
    examples=(Example("  Target verify: 29.97 ms/cycle (95.1%)", {"subject": "Target verify", "value": 29.97}),),
)

TRTLLM = PatternGrammar(
    name="trtllm_iteration",
    engine="trtllm",
    anchor="host_step_time = ",
    pattern=r"\biter = (?P<iteration>[0-9]+), .*?rank = (?P<rank>[0-9]+)",
    columns=(
        ("batch", r"num_scheduled_requests(?: =|:) ([0-9]+)"),
        ("total_ms", r"host_step_time = ([0-9.]+)ms"),
        ("context_requests", r"'num_ctx_requests': (?:tensor\()?([0-9]+)"),
        ("context_tokens", r"'num_ctx_tokens': (?:tensor\()?([0-9]+)"),
        ("generation_tokens", r"'num_generation_tokens': (?:tensor\()?([0-9]+)"),
    ),
    kind="trtllm_iteration",
    table="cycles",
    versions="0.2x - 1.2",
    examples=(
        Example(
            "iter = 12, global_rank = 0, rank = 0, currank_total_requests = 1/8, host_step_time = 7.42ms, "
            "prev_device_step_time = 7.31ms, timestamp = 2026-02-03 09:15:20, num_scheduled_requests: 8, states = "
            "{'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 32}",
            {"iteration": 12, "rank": 0, "batch": 8, "total_ms": 7.42, "generation_tokens": 32},
            "0.2x - 1.0",
        ),
        Example(
            "[02/03/2026-09:15:20] [TRT-LLM] [I] [_torch][RANK 1] iter = 259, global_rank = 1, rank = 1, "
            "num_scheduled_requests = 4, kv_cache_util = 0.1, currank_total_requests = 0/1, host_step_time = 7.42ms, "
            "prev_device_step_time = N/A, timestamp = 2026-02-03 09:15:20, states = {'num_ctx_requests': 0, "
            "'num_ctx_tokens': 0, 'num_generation_tokens': tensor(16), 'cached_kv_tokens': 638}",
            {"iteration": 259, "rank": 1, "batch": 4, "generation_tokens": 16, "context_requests": 0},
            "1.2+",
        ),
    ),
)

LLAMACPP_RATE = PatternGrammar(
    name="llamacpp_acceptance",
    engine="llamacpp",
    anchor=" accepted / ",
    pattern=r"draft acceptance(?: rate)? = (?P<accept_rate_printed>[0-9.]+) \( *(?P<accepted>[0-9]+) accepted / +(?P<drafted>[0-9]+) "
    r"generated\)(?:, mean acceptance length = *(?P<accept_length_printed>[0-9.]+))?"
    r"(?:, acceptance rate per position = \((?P<per_position>[0-9., ]+)\))?",
    kind="llamacpp",
    table="spec_samples",
    optional=True,
    examples=(
        Example(
            "draft acceptance rate = 0.37500 (    3 accepted /     8 generated)",
            {"accept_rate_printed": 0.375, "accepted": 3, "drafted": 8},
        ),
        Example(
            "0.06.896.015 I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 "
            "generated), mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)",
            {"accepted": 167, "accept_length_printed": 2.92, "per_position": [0.805, 0.632, 0.483]},
            "2026-06",
        ),
    ),
)

LLAMACPP_STATS = PatternGrammar(
    name="llamacpp_statistics",
    engine="llamacpp",
    anchor="#gen drafts = ",
    pattern=r"statistics +(?P<subject>[^:]+): #calls.*?#gen drafts = +(?P<drafts>[0-9]+), #acc drafts = +(?P<acc_drafts>[0-9]+), "
    r"#gen tokens = +(?P<drafted>[0-9]+), #acc tokens = +(?P<accepted>[0-9]+)"
    r"(?:.*?dur\(b,g,a\) = +(?P<begin_ms>[0-9.]+), +(?P<value>[0-9.]+))?",
    kind="llamacpp_statistics",
    examples=(
        Example(
            "1.12.930.414 I statistics draft-mtp: #calls(b,g,a) = 1 4 4, #gen drafts = 4, #acc drafts = 2, #gen tokens = 8, "
            "#acc tokens = 3, dur(b,g,a) = 0.006, 21.272, 0.010 ms",
            {"subject": "draft-mtp", "value": 21.272, "drafted": "8"},
        ),
    ),
)

GRAMMARS: tuple[Grammar, ...] = (
    PROFILE_JSON,
    PROFILE_START,
    PROFILE_NOTE,
    PROFILE,
    PHASE_BLOCK,
    TRTLLM,
    LLAMACPP_RATE,
    LLAMACPP_STATS,
)
