"""Forms of the range names that engines, profilers and torch push: a table, each form with its examples above it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """One form. Named groups of `pattern` fill the counts: cr ct gr gt (context/generation requests/tokens), b (batch).

    `role` None: decided by the counts. `examples`: name -> fields that must come out.
    """

    label: str
    engine: str | None
    role: str | None
    pattern: str
    examples: dict[str, dict[str, object]]


_TOKENS = (
    r"\((?:sq)?{0}(?:[_s][^)]*)?\)"  # (4), (888_788544) or (sq32sk32785sqsq32sqsk32785): the first is query tokens
)
_CONTEXT = _TOKENS.format(r"(?P<ct>\d+)")
_GENERATION = _TOKENS.format(r"(?P<gt>\d+)")
_PAIRS = r"(?: \w+=[\w.-]*)*"  # detailed annotations append key=value pairs

FORMS: tuple[Form, ...] = (
    # ---- SGLang: ModelRunner.forward, 0.5.11 and later ----
    Form(
        examples={
            "step[VERIFY bs=8]": {"role": "verify", "batch": 8, "generation_requests": 8, "generation_tokens": None},
            "step[TARGET_VERIFY bs=8]": {"role": "verify", "batch": 8},
            "step[VERIFY bs=8 g_sq=32]": {"role": "verify", "generation_tokens": 32},
        },
        label="step[VERIFY]",
        engine="sglang",
        role="verify",
        pattern=rf"step\[(?:TARGET_)?VERIFY bs=(?P<gr>\d+)(?: g_sq=(?P<gt>\d+))?{_PAIRS}\]",
    ),
    Form(
        examples={
            "step[DECODE bs=32]": {"role": "step", "batch": 32, "generation_requests": 32},
            "step[DECODE bs=64 g_sq=256 g_sk=81920]": {"role": "verify", "generation_tokens": 256},
        },
        label="step[DECODE]",
        engine="sglang",
        role=None,
        pattern=rf"step\[DECODE bs=(?P<gr>\d+)(?: g_sq=(?P<gt>\d+))?{_PAIRS}\]",
    ),
    Form(
        examples={
            "step[EXTEND bs=15 toks=15360]": {"role": "prefill", "context_requests": 15, "context_tokens": 15360},
            "step[EXTEND bs=1]": {"role": "prefill", "context_requests": 1, "context_tokens": None},
        },
        label="step[EXTEND]",
        engine="sglang",
        role="prefill",
        pattern=rf"step\[EXTEND bs=(?P<cr>\d+)(?: toks=(?P<ct>\d+))?{_PAIRS}\]",
    ),
    Form(
        examples={"step[MIXED bs=9 toks=2056]": {"role": "step", "batch": 9}},
        label="step[MIXED]",
        engine="sglang",
        role="step",
        pattern=rf"step\[MIXED bs=(?P<b>\d+){_PAIRS}\]",
    ),
    Form(
        examples={
            "step[DRAFT bs=8]": {"role": "draft", "batch": 8},
            "step[DRAFT_LOOP raw_bs=5 bs=8 topk=1]": {"role": "draft", "batch": 5},
        },
        label="step[DRAFT]",
        engine="sglang",
        role="draft",
        pattern=rf"step\[DRAFT(?:_LOOP)? (?:raw_)?bs=(?P<b>\d+){_PAIRS}\]",
    ),
    Form(
        examples={
            "step[DRAFT_EXTEND bs=8]": {"role": "re_extend", "batch": 8},
            "step[DRAFT_EXTEND_V2 bs=8]": {"role": "re_extend", "batch": 8, "engine": "sglang"},
        },
        label="step[DRAFT_EXTEND]",
        engine="sglang",
        role="re_extend",
        pattern=rf"step\[DRAFT_EXTEND(?:_V2)? bs=(?P<b>\d+){_PAIRS}\]",
    ),
    Form(
        examples={"step[IDLE bs=0]": {"role": "other", "batch": 0}, "step[PREBUILT bs=4]": {"role": "other"}},
        label="step[...]",
        engine="sglang",
        role="other",
        pattern=rf"step\[\w+(?: bs=(?P<b>\d+))?{_PAIRS}\]",
    ),
    Form(
        # re-extend under SGLang's own word; also what the worker's stage span is called, 0.5.14 and later
        examples={"draft_extend": {"role": "re_extend", "engine": "sglang"}},
        label="draft_extend",
        engine="sglang",
        role="re_extend",
        pattern=r"draft_extend",
    ),
    Form(
        # may hold a prefill; a round without verify or draft inside is a plain step
        examples={"scheduler.run_batch": {"role": "cycle", "engine": "sglang"}},
        label="scheduler.run_batch",
        engine="sglang",
        role="cycle",
        pattern=r"scheduler\.run_batch",
    ),
    Form(
        examples={"scheduler.recv_requests": {"role": "other"}, "scheduler.process_batch_result": {"role": "other"}},
        label="scheduler",
        engine="sglang",
        role="other",
        pattern=r"scheduler\.\w+",
    ),
    # ---- vLLM: the worker's execute_model ----
    Form(
        examples={
            # one request verified with three draft tokens
            "execute_context_0(0)_generation_1(4)": {
                "role": "verify",
                "context_requests": 0,
                "context_tokens": 0,
                "generation_requests": 1,
                "generation_tokens": 4,
                "batch": 1,
                "engine": "vllm",
            },
            "execute_context_0(0)_generation_1(1)": {"role": "step", "generation_tokens": 1},
            "execute_context_1(888_788544)_generation_0(0)": {
                "role": "prefill",
                "context_requests": 1,
                "context_tokens": 888,
            },
            "execute_context_1(512)_generation_3(12)": {"role": "verify", "batch": 4},
            "execute_context_2(512)_generation_3(3)": {"role": "step", "batch": 5},
            "execute_context_0(0)_generation_0(0)": {"role": "other", "batch": 0},
        },
        label="execute_context_generation",
        engine="vllm",
        role=None,
        pattern=rf"execute_context_(?P<cr>\d+){_CONTEXT}_generation_(?P<gr>\d+){_GENERATION}",
    ),
    Form(
        # patched engines on ROCm, SGLang and vLLM: all tokens, then sums over query and key lengths
        examples={
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)": {
                "role": "step",
                "generation_requests": 32,
                "generation_tokens": 32,
                "engine": None,
            },
            "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)": {
                "role": "step",
                "context_requests": 9,
                "context_tokens": 8155,
                "batch": 46,
            },
            "execute_128_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq128sk99sqsq128sqsk99)": {"role": "verify"},
        },
        label="execute_context_generation",
        engine=None,
        role=None,
        pattern=rf"execute_\d+_context_(?P<cr>\d+){_CONTEXT}_generation_(?P<gr>\d+){_GENERATION}",
    ),
    Form(
        # 0.11 to 0.13: new requests and running ones; running ones may still be in prefill
        examples={
            "execute_new_2_cached_0": {"role": "prefill", "context_requests": 2, "batch": 2},
            "execute_new_0_cached_5": {"role": "step", "batch": 5, "generation_requests": None},
            "execute_new_0_cached_0": {"role": "other", "batch": 0},
        },
        label="execute_new_cached",
        engine="vllm",
        role=None,
        pattern=r"execute_new_(?P<cr>\d+)_cached_(?P<running>\d+)",
    ),
    # ---- vLLM: VLLM_CUSTOM_SCOPES_FOR_PROFILING, V1 runner; capitalised in 0.10.2 to 0.11.0 ----
    Form(
        examples={"gpu_model_runner: forward": {"role": "step", "engine": "vllm"}, "Forward": {"role": "step"}},
        label="gpu_model_runner: forward",
        engine="vllm",
        role="step",
        pattern=r"gpu_model_runner: forward|Forward",
    ),
    Form(
        examples={"gpu_model_runner: draft": {"role": "draft"}, "Draft": {"role": "draft", "engine": "vllm"}},
        label="gpu_model_runner: draft",
        engine="vllm",
        role="draft",
        pattern=r"gpu_model_runner: draft|Draft",
    ),
    Form(
        examples={"gpu_model_runner: sample": {"role": "sample"}, "Sample": {"role": "sample", "engine": "vllm"}},
        label="gpu_model_runner: sample",
        engine="vllm",
        role="sample",
        pattern=r"gpu_model_runner: sample|Sample",
    ),
    Form(
        examples={
            "gpu_model_runner: bookkeep": {"role": "other", "engine": "vllm"},
            "gpu_model_runner: ModelRunnerOutput": {"role": "other"},
            "EPLB": {"role": "other"},
            "llm_engine step: process_outputs": {"role": "other"},
            "schedule: allocate_slots": {"role": "other"},
        },
        label="engine stage",
        engine="vllm",
        role="other",
        pattern=r"gpu_model_runner: \w+|Preprocess|Postprocess|Bookkeep|EPLB|llm_engine step: \w+|schedule: \w+",
    ),
    # ---- TensorRT-LLM: py_executor ----
    Form(
        examples={
            "[Executor] _forward_step 6120: 0 ctx reqs, 0 ctx tokens, 32 gen reqs": {
                "role": "step",
                "generation_requests": 32,
                "context_tokens": 0,
                "engine": "trtllm",
            },
            "[Executor] _forward_step 12: 2 ctx reqs, 0 gen reqs": {"role": "prefill", "context_requests": 2},
            "[Executor] _forward_step: 0 ctx reqs, 8 gen reqs": {"role": "step", "batch": 8},
        },
        label="[Executor] _forward_step",
        engine="trtllm",
        role=None,
        pattern=r"\[Executor\] _forward_step(?: \d+)?: (?P<cr>\d+) ctx reqs, (?:(?P<ct>\d+) ctx tokens, )?"
        r"(?P<gr>\d+) gen reqs",
    ),
    # ---- ranges of the instrumentation (NVTX domain traceana; nsys may print `:draft` or `traceana:draft`) ----
    Form(
        examples={"cycle": {"role": "cycle"}, "traceana:cycle": {"role": "cycle"}},
        label="cycle",
        engine=None,
        role="cycle",
        pattern=r"cycle",
    ),
    Form(
        # also SGLang's stage span around the draft steps
        examples={"draft": {"role": "draft", "engine": None}, ":draft": {"role": "draft"}},
        label="draft",
        engine=None,
        role="draft",
        pattern=r"draft",
    ),
    Form(
        examples={"verify": {"role": "verify"}},
        label="verify",
        engine=None,
        role="verify",
        pattern=r"verify",
    ),
    Form(
        examples={"re_extend": {"role": "re_extend"}},
        label="re_extend",
        engine=None,
        role="re_extend",
        pattern=r"re_extend",
    ),
    # ---- graph capture ----
    Form(
        examples={
            "capture_32_DECODE": {"role": "capture", "batch": 32, "engine": None},
            "capture_32_FULL": {"role": "capture", "batch": 32},
        },
        label="capture",
        engine=None,
        role="capture",
        pattern=r"capture_(?P<b>\d+)_[A-Z_]+",
    ),
    # ---- profiler, torch, NCCL ----
    Form(
        examples={"ProfilerStep#12": {"role": "other", "engine": "torch"}},
        label="ProfilerStep",
        engine="torch",
        role="other",
        pattern=r"ProfilerStep#\d+",
    ),
    Form(
        examples={"ncclAllReduce": {"role": "other", "engine": "nccl"}, "nccl:all_reduce": {"role": "other"}},
        label="",
        engine="nccl",
        role="other",
        pattern=r"nccl[A-Z]\w*|nccl:\w+",
    ),
    Form(
        examples={
            "aten::to, op_id = 990347": {"role": "other", "label": "aten::to", "engine": "torch"},
            "FlashAttnFunc, seq = 47575, op_id = 999172": {"role": "other", "label": "FlashAttnFunc"},
        },
        label="",
        engine="torch",
        role="other",
        pattern=r".+, (?:op_id|seq) = \d+",
    ),
)
