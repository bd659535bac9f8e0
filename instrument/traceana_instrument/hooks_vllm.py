"""Which methods of vLLM are timed, and as what: data only. The versions are proven against the released wheels.

`versions` says where a target is defined, over the releases that were read (0.6.6 to 0.33.0). A method that a class
inherits is wrapped at the class that defines it. docs/add-a-hook.md says how to add a row.
"""

from __future__ import annotations

from traceana_instrument.hook import Hook

_V0 = "vllm.spec_decode."
_V1 = "vllm.v1.spec_decode."
_V1_RUNNER = "vllm.v1.worker.gpu_model_runner"
_V2_RUNNER = "vllm.v1.worker.gpu.model_runner"
_V2 = "vllm.v1.worker.gpu.spec_decode."

#: the old engine: one process per rank, the driver runs the cycle; it has no re-extend of its own
_OLD_ENGINE = (
    Hook(
        _V0 + "spec_decode_worker",
        "SpecDecodeWorker._run_speculative_decoding_step",
        "cycle",
        "0.6.6..0.9.2",
        note="the driver's rank only",
    ),
    Hook(
        _V0 + "multi_step_worker", "MultiStepWorker.get_spec_proposals", "draft", "0.6.6..0.9.2", "draft model, EAGLE"
    ),
    Hook(_V0 + "smaller_tp_proposer_worker", "SmallerTpProposerWorker.get_spec_proposals", "draft", "0.6.6..0.9.2"),
    Hook(_V0 + "ngram_worker", "NGramWorker.get_spec_proposals", "draft", "0.6.6..0.9.2", "ngram"),
    Hook(_V0 + "medusa_worker", "MedusaWorker.get_spec_proposals", "draft", "0.6.6..0.9.2", "medusa"),
    Hook(_V0 + "batch_expansion", "BatchExpansionTop1Scorer.score_proposals", "verify", "0.6.6..0.9.2"),
    Hook(_V0 + "mqa_scorer", "MQAScorer.score_proposals", "verify", "0.6.6..0.9.2"),
    Hook(
        _V0 + "spec_decode_worker",
        "SpecDecodeWorker._verify_tokens",
        "verify",
        "0.6.6..0.9.2",
        note="the accept part of verify",
    ),
)

#: V1 engine, V1 runner (CPUModelRunner is one)
_RUNNER_1 = (
    Hook(
        _V1_RUNNER,
        "GPUModelRunner.execute_model",
        "cycle",
        "0.6.6..",
        until="sample_tokens",
        note="the whole step to 0.11.0; since 0.11.1 it ends with sample_tokens. To 0.11.0 nothing marks the target's "
        "forward: verify is what drafting leaves of the step",
    ),
    Hook(_V1_RUNNER, "GPUModelRunner._model_forward", "verify", "0.11.1..", note="the target's forward"),
    Hook(_V1_RUNNER, "GPUModelRunner._sample", "verify", "0.10.2..", note="the accept part of verify"),
    Hook(
        _V1_RUNNER,
        "GPUModelRunner.generate_draft_token_ids",
        "draft",
        "0.7.3..0.9.1",
        "ngram",
        note="EAGLE drafts in EagleProposer.propose there",
    ),
    Hook(_V1_RUNNER, "GPUModelRunner.propose_draft_token_ids", "draft", "0.9.2.."),
    Hook(_V1 + "ngram_proposer", "NgramProposer.propose", "draft", "0.7.3..", "ngram"),
    Hook(_V1 + "ngram_proposer_gpu", "NgramProposerGPU.propose", "draft", "0.18.0..", "ngram on the GPU"),
    Hook(_V1 + "eagle", "EagleProposer.propose", "draft", "0.8.5..0.14.1", "EAGLE, EAGLE3, MTP"),
    Hook(_V1 + "eagle", "SpecDecodeBaseProposer.propose", "draft", "0.15.0..0.19.1", "EAGLE, EAGLE3, MTP, draft model"),
    Hook(
        _V1 + "llm_base_proposer",
        "SpecDecodeBaseProposer.propose",
        "draft",
        "0.20.0..",
        "EAGLE, EAGLE3, MTP, DFlash, draft model",
    ),
    Hook(_V1 + "step3p5", "Step3p5MTPProposer.propose", "draft", "0.23.0..", "Step-3.5 MTP"),
    Hook(_V1 + "medusa", "MedusaProposer.propose", "draft", "0.9.0..0.32.0", "medusa"),
    Hook(_V1 + "suffix_decoding", "SuffixDecodingProposer.propose", "draft", "0.11.1..", "suffix"),
    Hook(
        _V1 + "eagle",
        "SpecDecodeBaseProposer.set_inputs_first_pass",
        "re_extend",
        "0.15.0..0.19.1",
        "EAGLE, EAGLE3, MTP, draft model",
        until="_greedy_sample",
        note="the drafter's first pass, over the verified tokens, up to its sampling (a method of its own since 0.17)",
    ),
    Hook(
        _V1 + "llm_base_proposer",
        "SpecDecodeBaseProposer.set_inputs_first_pass",
        "re_extend",
        "0.20.0..",
        "EAGLE, EAGLE3, MTP, draft model",
        until="_greedy_sample",
        note="the drafter's first pass, over the verified tokens, up to its sampling; earlier releases have it inline",
    ),
)

_AUTOREGRESSIVE = "autoregressive.speculator"
_TARGET_DEPENDENT = "target_dependent_ar.speculator"

#: V1 engine, V2 runner: a few models since 0.24, all dense ones in 0.28, all in 0.30
_RUNNER_2 = (
    Hook(_V2_RUNNER, "GPUModelRunner.execute_model", "cycle", "0.12.0..", until="sample_tokens"),
    Hook(_V2_RUNNER, "GPUModelRunner.sample", "verify", "0.12.0..", note="the accept part of verify"),
    Hook(_V2_RUNNER, "GPUModelRunner.propose_draft", "draft", "0.12.0..0.16.0", "EAGLE, EAGLE3"),
    Hook(_V2 + "eagle", "EagleSpeculator.propose", "draft", "0.12.0..0.16.0", "EAGLE, EAGLE3"),
    Hook(_V2 + "eagle.speculator", "EagleSpeculator.propose", "draft", "0.17.0..0.22.1", "EAGLE, EAGLE3"),
    Hook(_V2 + _AUTOREGRESSIVE, "AutoRegressiveSpeculator.propose", "draft", "0.23.0..0.31.0", "EAGLE, EAGLE3, MTP"),
    Hook(_V2 + _TARGET_DEPENDENT, "TargetDependentARSpeculator.propose", "draft", "0.32.0..", "EAGLE, EAGLE3, MTP"),
    Hook(_V2 + "draft_model.speculator", "PlainDraftModelSpeculator.propose", "draft", "0.31.0", "draft model"),
    Hook(_V2 + "standalone_ar.speculator", "StandaloneARSpeculator.propose", "draft", "0.32.0..", "draft model"),
    Hook(_V2 + "dflash.speculator", "DFlashSpeculator.propose", "draft", "0.24.0..", "DFlash, DSpark and kin"),
    Hook(
        _V2 + "multi_module_mtp.speculator", "MultiModuleMTPSpeculator.propose", "draft", "0.27.0..", "MTP, N modules"
    ),
    Hook(_V2 + "ngram.speculator", "NgramGPUSpeculator.propose", "draft", "0.32.0..", "ngram on the GPU"),
    Hook(
        _V2 + "eagle.speculator",
        "EagleSpeculator.prefill",
        "re_extend",
        "0.20.0..0.22.1",
        "EAGLE, EAGLE3",
        note="eager only: replayed as one graph it counts as draft",
    ),
    Hook(
        _V2 + _AUTOREGRESSIVE,
        "AutoRegressiveSpeculator._prefill",
        "re_extend",
        "0.23.0..0.31.0",
        "EAGLE, EAGLE3, MTP",
        note="eager only: replayed as one graph it counts as draft, to 0.27",
    ),
    Hook(
        _V2 + _AUTOREGRESSIVE,
        "AutoRegressiveSpeculator.on_prefill_begin",
        "re_extend",
        "0.28.0..0.31.0",
        "EAGLE, EAGLE3",
        until="on_prefill_end",
    ),
    Hook(
        _V2 + _TARGET_DEPENDENT,
        "TargetDependentARSpeculator.on_prefill_begin",
        "re_extend",
        "0.32.0..",
        "EAGLE, EAGLE3",
        until="on_prefill_end",
    ),
    Hook(
        _V2 + "mtp.speculator", "MTPSpeculator.on_prefill_begin", "re_extend", "0.28.0..", "MTP", until="on_prefill_end"
    ),
)

#: eager collectives; what a captured graph replays is not seen
_COMM = tuple(
    Hook("vllm.distributed.parallel_state", f"GroupCoordinator.{method}", "comm", versions, read="collective")
    for method, versions in (
        ("all_reduce", "0.6.6.."),
        ("all_gather", "0.6.6.."),
        ("reduce_scatter", "0.8.5.."),
    )
)

#: first and last release that was read
READ = ("0.6.6", "0.33.0")
HOOKS: tuple[Hook, ...] = (*_OLD_ENGINE, *_RUNNER_1, *_RUNNER_2, *_COMM)
