"""vLLM: which methods are timed, by version. Read from the wheels; tests prove each row against them.

V1 runner: `execute_model` is the target's forward (verify) and `sample_tokens`, which follows, accepts and drafts; until
0.11.0 one call does both. The drafter's first pass over the verified tokens is the re-extend, the passes after it are
the draft. V2 runner: the same calls with other classes below.
"""

from __future__ import annotations

from traceana_instrument.hook import Hook

_V1 = "vllm.v1.worker.gpu_model_runner"
_V2 = "vllm.v1.worker.gpu.model_runner"
_BASE = "vllm.v1.spec_decode.llm_base_proposer"
_AR = "vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator"
_STATE = "vllm.distributed.parallel_state"

HOOKS: tuple[Hook, ...] = (
    Hook(_V1, "GPUModelRunner.execute_model", "verify", "0.8.0.."),
    Hook(_V1, "GPUModelRunner._sample", "verify", "0.10.2.."),
    Hook(_V1, "GPUModelRunner.propose_draft_token_ids", "draft", "0.9.2.."),
    Hook(_V1, "GPUModelRunner.sample_tokens", "count", "0.11.1..", read="vllm_output"),
    Hook(_V1, "AsyncGPUModelRunnerOutput.get_output", "count", "0.11.0..", read="vllm_async_output"),
    Hook(_V1, "GPUModelRunner.execute_model", "cycle", "0.11.1..", read="vllm_step", until="sample_tokens"),
    Hook(
        _BASE,
        "SpecDecodeBaseProposer.set_inputs_first_pass",
        "re_extend",
        "0.20.0..",
        methods="eagle, eagle3, mtp, draft_model",
        before="_sample_draft_tokens, _greedy_sample",
        note="ends at the first draft token: the drafter's pass over the verified tokens",
    ),
    Hook(_V2, "GPUModelRunner.execute_model", "verify", "0.20.0.."),
    Hook(_V2, "GPUModelRunner.sample", "verify", "0.20.0.."),
    Hook(_V2, "GPUModelRunner.execute_model", "cycle", "0.20.0..", read="vllm_step", until="sample_tokens"),
    Hook(_V2, "GPUModelRunner.sample_tokens", "count", "0.20.0..", read="vllm_output"),
    Hook("vllm.v1.worker.gpu.async_utils", "AsyncOutput.get_output", "count", "0.20.0..", read="vllm_async_output"),
    Hook(_AR, "TargetDependentARSpeculator.propose", "draft", "0.32.0..", methods="eagle, eagle3, mtp"),
    Hook(_AR, "TargetDependentARSpeculator.on_prefill_begin", "re_extend", "0.32.0..", before="on_prefill_end"),
    Hook(_STATE, "GroupCoordinator._all_reduce_out_place", "comm", "0.8.0..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._all_gather_out_place", "comm", "0.10.0..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._reduce_scatter_out_place", "comm", "0.10.0..", read="first_tensor"),
)
