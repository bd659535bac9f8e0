"""Which methods of SGLang are timed, and as what: data only. The versions are proven against the released wheels.

`versions` says where a method is defined by its class, over the releases that were read (0.4.6 to 0.5.23). A method
that a class inherits is wrapped at the class that defines it. Never wrapped: what runs inside a captured graph
(`draft_forward`). Prefill batches pass through the cycles' methods too: a cycle in which nothing was verified is one.
docs/add-a-hook.md says how to add a row.
"""

from __future__ import annotations

from traceana_instrument.hook import Hook

_SPEC = "sglang.srt.speculative."
_EAGLE_1, _EAGLE_2 = _SPEC + "eagle_worker", _SPEC + "eagle_worker_v2"
_LAYERS_1, _LAYERS_2 = _SPEC + "multi_layer_eagle_worker", _SPEC + "multi_layer_eagle_worker_v2"
_FROZEN_1, _FROZEN_2 = _SPEC + "frozen_kv_mtp_worker", _SPEC + "frozen_kv_mtp_worker_v2"
_DFLASH_1, _DFLASH_2 = _SPEC + "dflash_worker", _SPEC + "dflash_worker_v2"
_NGRAM, _UNO = _SPEC + "ngram_worker", _SPEC + "uno_worker_v2"
_DSPARK = _SPEC + "dspark_components.dspark_"
_STATE = "sglang.srt.distributed.parallel_state"

_TRAINED = "EAGLE, EAGLE3, NEXTN"
_EAGLE = f"{_TRAINED}, STANDALONE"
_LAYERS = "multi-layer EAGLE"

#: EAGLE and its kin before the overlapped workers: everything on the scheduler's stream
_EAGLE_V1_ROWS = (
    Hook(
        _EAGLE_1,
        "EAGLEWorker.forward_batch_speculative_generation",
        "cycle",
        "0.4.6..0.5.2",
        _EAGLE,
        read="sglang_batch",
    ),
    Hook(_EAGLE_1, "EAGLEWorker.forward_batch_generation", "cycle", "0.5.3..0.5.12", _EAGLE, read="sglang_batch"),
    Hook(_EAGLE_1, "EAGLEWorker.draft", "draft", "0.4.6..0.5.12", _EAGLE),
    Hook(
        _EAGLE_1,
        "EAGLEWorker.verify",
        "verify",
        "0.4.6..0.5.12",
        _EAGLE,
        read="sglang_verify",
        note="waits for the GPU: the host clock reads verify too long and draft too short here",
    ),
    Hook(_EAGLE_1, "EAGLEWorker.forward_draft_extend_after_decode", "re_extend", "0.4.6..0.5.12", _EAGLE),
    Hook(
        _LAYERS_1,
        "MultiLayerEagleWorker.forward_batch_generation",
        "cycle",
        "0.5.7..0.5.12",
        _LAYERS,
        read="sglang_batch",
    ),
    Hook(_LAYERS_1, "MultiLayerEagleWorker.draft", "draft", "0.5.7..0.5.12", _LAYERS),
    Hook(_LAYERS_1, "MultiLayerEagleWorker.verify", "verify", "0.5.7..0.5.12", _LAYERS, read="sglang_verify"),
    Hook(_LAYERS_1, "MultiLayerEagleWorker.forward_draft_extend_after_decode", "re_extend", "0.5.7..0.5.12", _LAYERS),
)

#: the overlapped workers: host time inside them is launch time only
_EAGLE_V2_ROWS = (
    Hook(_EAGLE_2, "EAGLEWorkerV2.forward_batch_generation", "cycle", "0.5.3.post3..", _EAGLE, read="sglang_batch"),
    Hook(
        _EAGLE_2,
        "EAGLEWorkerV2.draft",
        "draft",
        "0.5.3.post3",
        _TRAINED,
        note="that release only; the draft worker has it since",
    ),
    Hook(_EAGLE_2, "EagleDraftWorker.draft", "draft", "0.5.4..", _EAGLE),
    Hook(_EAGLE_2, "EAGLEWorkerV2.verify", "verify", "0.5.3.post3..", f"{_EAGLE}, FROZEN_KV_MTP"),
    Hook(_EAGLE_2, "EagleDraftWorker._draft_extend_for_decode", "re_extend", "0.5.4..", _EAGLE),
    Hook(
        _LAYERS_2, "MultiLayerEagleWorkerV2.forward_batch_generation", "cycle", "0.5.7..", _LAYERS, read="sglang_batch"
    ),
    Hook(_LAYERS_2, "MultiLayerEagleDraftWorker.draft", "draft", "0.5.7..", _LAYERS),
    Hook(_LAYERS_2, "MultiLayerEagleWorkerV2.verify", "verify", "0.5.7..", _LAYERS),
    Hook(_LAYERS_2, "MultiLayerEagleDraftWorker._draft_extend_for_decode", "re_extend", "0.5.7..", _LAYERS),
)

#: frozen-KV MTP
_FROZEN_ROWS = (
    Hook(
        _FROZEN_1,
        "FrozenKVMTPWorker.forward_batch_generation",
        "cycle",
        "0.5.12..0.5.13",
        "FROZEN_KV_MTP",
        read="sglang_batch",
    ),
    Hook(_FROZEN_1, "FrozenKVMTPWorker.draft", "draft", "0.5.12..0.5.13", "FROZEN_KV_MTP"),
    Hook(_FROZEN_1, "FrozenKVMTPWorker.verify", "verify", "0.5.12..0.5.13", "FROZEN_KV_MTP", read="sglang_verify"),
    Hook(
        _FROZEN_1, "FrozenKVMTPWorker.forward_draft_extend_after_decode", "re_extend", "0.5.12..0.5.13", "FROZEN_KV_MTP"
    ),
    Hook(
        _FROZEN_2,
        "FrozenKVMTPWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.14..",
        "FROZEN_KV_MTP",
        read="sglang_batch",
    ),
    Hook(_FROZEN_2, "FrozenKVMTPDraftWorker.draft", "draft", "0.5.14..", "FROZEN_KV_MTP"),
    Hook(_FROZEN_2, "FrozenKVMTPDraftWorker._draft_extend_for_decode", "re_extend", "0.5.14..", "FROZEN_KV_MTP"),
)

#: no drafter model: a look-up on the host
_NGRAM_ROWS = (
    Hook(_NGRAM, "NGRAMWorker.forward_batch_generation", "cycle", "0.5.3..", "NGRAM", read="sglang_batch"),
    Hook(_NGRAM, "NGRAMWorker._prepare_for_speculative_decoding", "draft", "0.5.3..", "NGRAM"),
    Hook(
        _SPEC + "ngram_utils",
        "NgramVerifyInput.verify",
        "verify",
        "0.5.3",
        "NGRAM",
        note="the accept part of verify; its forward is TpModelWorker's",
    ),
    Hook(
        _SPEC + "ngram_info",
        "NgramVerifyInput.verify",
        "verify",
        "0.5.3.post3..0.5.13",
        "NGRAM",
        note="the accept part of verify; inside the cycle's other time since 0.5.14",
    ),
)

#: a drafter that proposes a block at once; the re-extend writes the verified tokens into its KV cache
_DFLASH_ROWS = (
    Hook(_DFLASH_1, "DFlashWorker.forward_batch_generation", "cycle", "0.5.11..0.5.13", "DFLASH", read="sglang_batch"),
    Hook(_DFLASH_1, "DFlashWorker._prepare_for_speculative_decoding", "draft", "0.5.11..0.5.13", "DFLASH"),
    Hook(_DFLASH_1, "DFlashWorker._append_target_hidden_to_draft_kv", "re_extend", "0.5.11..0.5.13", "DFLASH"),
    Hook(_SPEC + "dflash_info", "DFlashVerifyInput.verify", "verify", "0.5.11..0.5.13", "DFLASH"),
    Hook(_DFLASH_2, "DFlashWorkerV2.forward_batch_generation", "cycle", "0.5.14..", "DFLASH", read="sglang_batch"),
    Hook(_DFLASH_2, "DFlashWorkerV2._append_target_hidden_to_draft_kv_by_loc", "re_extend", "0.5.14..", "DFLASH"),
    Hook(
        "sglang.srt.model_executor.model_runner",
        "ModelRunner.forward",
        "draft",
        "0.4.6..",
        "DFLASH",
        when="draft_runner",
        note="DFLASH drafts inline since 0.5.14: the drafter's forward, where no phase is open yet",
    ),
)

#: block drafters with their own executors
_BLOCK_ROWS = (
    Hook(
        _DSPARK + "worker_v2",
        "DSparkWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.16..",
        "DSPARK",
        read="sglang_batch",
    ),
    Hook(_DSPARK + "draft", "DraftBlockProposer.propose", "draft", "0.5.16..", "DSPARK"),
    Hook(_DSPARK + "verify", "TargetVerifyExecutor.run_compact", "verify", "0.5.16..", "DSPARK"),
    Hook(_DSPARK + "verify", "TargetVerifyExecutor.run_non_compact", "verify", "0.5.16..", "DSPARK"),
    Hook(_UNO, "UnoWorkerV2.forward_batch_generation", "cycle", "0.5.20..", "UNO", read="sglang_batch"),
    Hook(_UNO, "UnoWorkerV2._run_draft_block", "draft", "0.5.20..", "UNO"),
    Hook(_UNO, "UnoWorkerV2._run_target_block", "verify", "0.5.20..", "UNO"),
)

#: whatever the algorithm: the target's forward over the drafts
_TARGET_ROWS = (
    Hook(
        "sglang.srt.managers.tp_worker",
        "TpModelWorker.forward_batch_generation",
        "verify",
        "0.4.6..",
        when="is_verify",
        note="says that it verifies since 0.5.3; EAGLE's verify encloses it",
    ),
)

#: the scheduler's own counter of accepted drafts, on the host: exact for the overlapped workers too
_COUNT_ROWS = (
    Hook(
        "sglang.srt.managers.scheduler_metrics_mixin",
        "SchedulerMetricsMixin.update_spec_metrics",
        "count",
        "0.5.3.post3..0.5.9",
        read="sglang_spec_metrics",
    ),
    Hook(
        "sglang.srt.observability.scheduler_metrics_mixin",
        "SchedulerMetricsMixin.update_spec_metrics",
        "count",
        "0.5.10..0.5.12",
        read="sglang_spec_metrics",
    ),
    Hook(
        "sglang.srt.managers.scheduler_components.metrics_reporter",
        "SchedulerMetricsReporter.update_spec_metrics",
        "count",
        "0.5.13..",
        read="sglang_spec_metrics",
    ),
)

#: eager collectives, below the custom ops that torch.compile traces; what a captured graph replays is not seen
_COMM_ROWS = (
    Hook(_STATE, "GroupCoordinator._all_reduce_in_place", "comm", "0.4.6..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._all_reduce_out_place", "comm", "0.4.6..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._all_gather_into_tensor", "comm", "0.4.6..", read="first_tensor"),
    Hook(_STATE, "GroupCoordinator._reduce_scatter_tensor", "comm", "0.5.5..", read="first_tensor"),
)

#: first and last release that was read
READ = ("0.4.6", "0.5.23")
HOOKS: tuple[Hook, ...] = (
    *_EAGLE_V1_ROWS,
    *_EAGLE_V2_ROWS,
    *_FROZEN_ROWS,
    *_NGRAM_ROWS,
    *_DFLASH_ROWS,
    *_BLOCK_ROWS,
    *_TARGET_ROWS,
    *_COUNT_ROWS,
    *_COMM_ROWS,
)
