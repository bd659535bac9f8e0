"""Which methods of vLLM are timed, and as what: data only. The versions are proven against the released wheels.

`versions` says where a row applies, over the releases that were read (0.6.0 to 0.33.0): where its class defines the
method, and an ender of the span too. A method that a class inherits is wrapped at the class that defines it.

Both runners of the V1 engine: `execute_model` is the target's forward (verify), `sample_tokens`, which follows, accepts
and drafts; to 0.11.0 one call does both. The drafter's first pass over the verified tokens is the re-extend, the passes
after it are the draft. docs/add-a-hook.md says how to add a row.
"""

from __future__ import annotations

from traceana_instrument.hook import Hook

_V0 = "vllm.spec_decode."
_V1 = "vllm.v1.spec_decode."
_V2 = "vllm.v1.worker.gpu.spec_decode."
_RUNNER_1 = "vllm.v1.worker.gpu_model_runner"
_RUNNER_2 = "vllm.v1.worker.gpu.model_runner"
_AUTOREGRESSIVE = _V2 + "autoregressive.speculator"
_TARGET_DEPENDENT = _V2 + "target_dependent_ar.speculator"
_STATE = "vllm.distributed.parallel_state"
_EAGLE = "eagle, eagle3"
_MTP = "eagle, eagle3, mtp"
_SAMPLING = "_sample_draft_tokens, _greedy_sample"
_ACCEPTS = "the accept part of verify"
_EAGER = "eager only: replayed as one graph it counts as draft"

#: the V0 engine: the driver's rank runs the cycle; it has no re-extend of its own
_OLD_ENGINE = (
    Hook(
        _V0 + "spec_decode_worker",
        "SpecDecodeWorker._run_speculative_decoding_step",
        "cycle",
        "0.6.0..0.9.2",
        read="vllm_v0_step",
        note="the driver's rank only",
    ),
    Hook(
        _V0 + "multi_step_worker", "MultiStepWorker.get_spec_proposals", "draft", "0.6.0..0.9.2", "eagle, draft_model"
    ),
    Hook(_V0 + "smaller_tp_proposer_worker", "SmallerTpProposerWorker.get_spec_proposals", "draft", "0.6.0..0.9.2"),
    Hook(_V0 + "ngram_worker", "NGramWorker.get_spec_proposals", "draft", "0.6.0..0.9.2", "ngram"),
    Hook(_V0 + "medusa_worker", "MedusaWorker.get_spec_proposals", "draft", "0.6.0..0.9.2", "medusa"),
    Hook(_V0 + "batch_expansion", "BatchExpansionTop1Scorer.score_proposals", "verify", "0.6.0..0.9.2"),
    Hook(_V0 + "mqa_scorer", "MQAScorer.score_proposals", "verify", "0.6.3..0.9.2"),
    Hook(_V0 + "spec_decode_worker", "SpecDecodeWorker._verify_tokens", "verify", "0.6.0..0.9.2", note=_ACCEPTS),
)

#: V1 runner (CPUModelRunner is one): a row with an ender stands before its twin for the releases without that ender
_FIRST_RUNNER = (
    Hook(_RUNNER_1, "GPUModelRunner.execute_model", "verify", "0.6.4.."),
    Hook(_RUNNER_1, "GPUModelRunner.execute_model", "cycle", "0.11.1..", read="vllm_step", until="sample_tokens"),
    Hook(_RUNNER_1, "GPUModelRunner.execute_model", "cycle", "0.6.4..0.11.0", read="vllm_step"),
    Hook(_RUNNER_1, "GPUModelRunner._sample", "verify", "0.10.2..", note=_ACCEPTS),
    Hook(_RUNNER_1, "GPUModelRunner.sample_tokens", "count", "0.11.1..", read="vllm_output"),
    Hook(_RUNNER_1, "AsyncGPUModelRunnerOutput.get_output", "count", "0.10.2..", read="vllm_async_output"),
    Hook(_RUNNER_1, "GPUModelRunner.execute_model", "count", "0.6.4..", read="vllm_execute_output"),
    Hook(_RUNNER_1, "GPUModelRunner.generate_draft_token_ids", "draft", "0.7.3..0.9.1", "ngram"),
    Hook(_RUNNER_1, "GPUModelRunner.propose_draft_token_ids", "draft", "0.9.2.."),
    Hook(_V1 + "ngram_proposer", "NgramProposer.propose", "draft", "0.7.3..", "ngram"),
    Hook(_V1 + "ngram_proposer_gpu", "NgramProposerGPU.propose", "draft", "0.18.0..", "ngram_gpu"),
    Hook(_V1 + "eagle", "EagleProposer.propose", "draft", "0.8.3..0.14.1", _MTP),
    Hook(_V1 + "eagle", "SpecDecodeBaseProposer.propose", "draft", "0.15.0..0.19.1", f"{_MTP}, draft_model"),
    Hook(
        _V1 + "llm_base_proposer", "SpecDecodeBaseProposer.propose", "draft", "0.20.0..", f"{_MTP}, draft_model, dflash"
    ),
    Hook(_V1 + "step3p5", "Step3p5MTPProposer.propose", "draft", "0.23.0..", "mtp"),
    Hook(_V1 + "medusa", "MedusaProposer.propose", "draft", "0.9.0..0.32.0", "medusa"),
    Hook(_V1 + "suffix_decoding", "SuffixDecodingProposer.propose", "draft", "0.11.1..", "suffix"),
    Hook(
        _V1 + "eagle",
        "SpecDecodeBaseProposer.propose",
        "re_extend",
        "0.17.0..0.19.1",
        f"{_MTP}, draft_model",
        before=_SAMPLING,
        note="ends at the first draft token; before 0.17 nothing marks it and it counts as draft",
    ),
    Hook(
        _V1 + "llm_base_proposer",
        "SpecDecodeBaseProposer.propose",
        "re_extend",
        "0.20.0..",
        f"{_MTP}, draft_model",
        before=_SAMPLING,
        note="ends at the first draft token",
    ),
)

#: V2 runner: a few models since 0.24, all dense ones in 0.28, all in 0.30
_SECOND_RUNNER = (
    Hook(_RUNNER_2, "GPUModelRunner.execute_model", "verify", "0.12.0.."),
    Hook(_RUNNER_2, "GPUModelRunner.execute_model", "cycle", "0.12.0..", read="vllm_step", until="sample_tokens"),
    Hook(_RUNNER_2, "GPUModelRunner.sample", "verify", "0.12.0..", note=_ACCEPTS),
    Hook(_RUNNER_2, "GPUModelRunner.sample_tokens", "count", "0.12.0..", read="vllm_output"),
    Hook("vllm.v1.worker.gpu.async_utils", "AsyncOutput.get_output", "count", "0.12.0..", read="vllm_async_output"),
    Hook(_RUNNER_2, "GPUModelRunner.propose_draft", "draft", "0.12.0..0.16.0", _EAGLE),
    Hook(_V2 + "eagle", "EagleSpeculator.propose", "draft", "0.12.0..0.16.0", _EAGLE),
    Hook(_V2 + "eagle.speculator", "EagleSpeculator.propose", "draft", "0.17.0..0.22.1", _EAGLE),
    Hook(_AUTOREGRESSIVE, "AutoRegressiveSpeculator.propose", "draft", "0.23.0..0.31.0", _MTP),
    Hook(_TARGET_DEPENDENT, "TargetDependentARSpeculator.propose", "draft", "0.32.0..", _MTP),
    Hook(_V2 + "draft_model.speculator", "PlainDraftModelSpeculator.propose", "draft", "0.31.0", "draft_model"),
    Hook(_V2 + "standalone_ar.speculator", "StandaloneARSpeculator.propose", "draft", "0.32.0..", "draft_model"),
    Hook(_V2 + "dflash.speculator", "DFlashSpeculator.propose", "draft", "0.24.0..", "dflash, dspark"),
    Hook(_V2 + "multi_module_mtp.speculator", "MultiModuleMTPSpeculator.propose", "draft", "0.27.0..", "mtp"),
    Hook(_V2 + "ngram.speculator", "NgramGPUSpeculator.propose", "draft", "0.32.0..", "ngram"),
    Hook(_V2 + "eagle.speculator", "EagleSpeculator.prefill", "re_extend", "0.20.0..0.22.1", _EAGLE, note=_EAGER),
    Hook(_AUTOREGRESSIVE, "AutoRegressiveSpeculator._prefill", "re_extend", "0.23.0..0.31.0", _MTP, note=_EAGER),
    Hook(
        _AUTOREGRESSIVE,
        "AutoRegressiveSpeculator.on_prefill_begin",
        "re_extend",
        "0.28.0..0.31.0",
        _EAGLE,
        before="on_prefill_end",
    ),
    Hook(
        _TARGET_DEPENDENT,
        "TargetDependentARSpeculator.on_prefill_begin",
        "re_extend",
        "0.32.0..",
        _EAGLE,
        before="on_prefill_end",
    ),
    Hook(
        _V2 + "mtp.speculator",
        "MTPSpeculator.on_prefill_begin",
        "re_extend",
        "0.28.0..",
        "mtp",
        before="on_prefill_end",
    ),
)

#: eager collectives, below the custom ops that torch.compile traces; what a captured graph replays is not seen
_COMM = (
    Hook(_STATE, "GroupCoordinator._all_reduce_out_place", "comm", "0.6.3..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._all_gather_out_place", "comm", "0.9.0..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._reduce_scatter_out_place", "comm", "0.9.0..", read="first_tensor"),
)

#: first and last release that was read
READ = ("0.6.0", "0.33.0")
HOOKS: tuple[Hook, ...] = (*_OLD_ENGINE, *_FIRST_RUNNER, *_SECOND_RUNNER, *_COMM)
