"""Which methods of SGLang are timed, and as what: data only. The versions are proven against the released wheels.

`versions` says where a target is defined, over the releases that were read (0.4.6 to 0.5.23). A method that a class
inherits is wrapped at the class that defines it. docs/add-a-hook.md says how to add a row.
"""

from __future__ import annotations

from traceana_instrument.hook import Hook

_SPEC = "sglang.srt.speculative."
_EAGLE = "EAGLE, EAGLE3, NEXTN"
_PREFILL_TOO = "prefill batches pass through it too: a cycle without verify is dropped"

#: EAGLE and its kin before the overlapped workers: everything on the scheduler's stream
_EAGLE_V1 = (
    Hook(
        _SPEC + "eagle_worker",
        "EAGLEWorker.forward_batch_speculative_generation",
        "cycle",
        "0.4.6..0.5.2",
        f"{_EAGLE}, STANDALONE",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "eagle_worker",
        "EAGLEWorker.forward_batch_generation",
        "cycle",
        "0.5.3..0.5.12",
        f"{_EAGLE}, STANDALONE",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(_SPEC + "eagle_worker", "EAGLEWorker.draft", "draft", "0.4.6..0.5.12", f"{_EAGLE}, STANDALONE"),
    Hook(
        _SPEC + "eagle_worker",
        "EAGLEWorker.verify",
        "verify",
        "0.4.6..0.5.12",
        f"{_EAGLE}, STANDALONE",
        read="sglang_verify",
        note="waits for the GPU: the host clock reads verify too long and draft too short here",
    ),
    Hook(
        _SPEC + "eagle_worker",
        "EAGLEWorker.forward_draft_extend_after_decode",
        "re_extend",
        "0.4.6..0.5.12",
        f"{_EAGLE}, STANDALONE",
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker",
        "MultiLayerEagleWorker.forward_batch_generation",
        "cycle",
        "0.5.7..0.5.12",
        f"{_EAGLE} with several layers",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker",
        "MultiLayerEagleWorker.draft",
        "draft",
        "0.5.7..0.5.12",
        f"{_EAGLE} with several layers",
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker",
        "MultiLayerEagleWorker.verify",
        "verify",
        "0.5.7..0.5.12",
        f"{_EAGLE} with several layers",
        read="sglang_verify",
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker",
        "MultiLayerEagleWorker.forward_draft_extend_after_decode",
        "re_extend",
        "0.5.7..0.5.12",
        f"{_EAGLE} with several layers",
    ),
)

#: the overlapped workers; host time inside them is launch time only
_EAGLE_V2 = (
    Hook(
        _SPEC + "eagle_worker_v2",
        "EAGLEWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.3.post3..",
        f"{_EAGLE}, STANDALONE",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "eagle_worker_v2",
        "EAGLEWorkerV2.draft",
        "draft",
        "0.5.3.post3",
        _EAGLE,
        note="that release only; the draft worker has it since",
    ),
    Hook(_SPEC + "eagle_worker_v2", "EagleDraftWorker.draft", "draft", "0.5.4..", f"{_EAGLE}, STANDALONE"),
    Hook(
        _SPEC + "eagle_worker_v2",
        "EAGLEWorkerV2.verify",
        "verify",
        "0.5.3.post3..",
        f"{_EAGLE}, STANDALONE, FROZEN_KV_MTP",
    ),
    Hook(
        _SPEC + "eagle_worker_v2",
        "EagleDraftWorker._draft_extend_for_decode",
        "re_extend",
        "0.5.4..",
        f"{_EAGLE}, STANDALONE",
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker_v2",
        "MultiLayerEagleWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.7..",
        f"{_EAGLE} with several layers",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker_v2",
        "MultiLayerEagleDraftWorker.draft",
        "draft",
        "0.5.7..",
        f"{_EAGLE} with several layers",
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker_v2",
        "MultiLayerEagleWorkerV2.verify",
        "verify",
        "0.5.7..",
        f"{_EAGLE} with several layers",
    ),
    Hook(
        _SPEC + "multi_layer_eagle_worker_v2",
        "MultiLayerEagleDraftWorker._draft_extend_for_decode",
        "re_extend",
        "0.5.7..",
        f"{_EAGLE} with several layers",
    ),
)

_FROZEN_KV = (
    Hook(
        _SPEC + "frozen_kv_mtp_worker",
        "FrozenKVMTPWorker.forward_batch_generation",
        "cycle",
        "0.5.12..0.5.13",
        "FROZEN_KV_MTP",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(_SPEC + "frozen_kv_mtp_worker", "FrozenKVMTPWorker.draft", "draft", "0.5.12..0.5.13", "FROZEN_KV_MTP"),
    Hook(
        _SPEC + "frozen_kv_mtp_worker",
        "FrozenKVMTPWorker.verify",
        "verify",
        "0.5.12..0.5.13",
        "FROZEN_KV_MTP",
        read="sglang_verify",
    ),
    Hook(
        _SPEC + "frozen_kv_mtp_worker",
        "FrozenKVMTPWorker.forward_draft_extend_after_decode",
        "re_extend",
        "0.5.12..0.5.13",
        "FROZEN_KV_MTP",
    ),
    Hook(
        _SPEC + "frozen_kv_mtp_worker_v2",
        "FrozenKVMTPWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.14..",
        "FROZEN_KV_MTP",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(_SPEC + "frozen_kv_mtp_worker_v2", "FrozenKVMTPDraftWorker.draft", "draft", "0.5.14..", "FROZEN_KV_MTP"),
    Hook(
        _SPEC + "frozen_kv_mtp_worker_v2",
        "FrozenKVMTPDraftWorker._draft_extend_for_decode",
        "re_extend",
        "0.5.14..",
        "FROZEN_KV_MTP",
    ),
)

#: no drafter model: a look-up on the host
_NGRAM = (
    Hook(
        _SPEC + "ngram_worker",
        "NGRAMWorker.forward_batch_generation",
        "cycle",
        "0.5.3..",
        "NGRAM",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(_SPEC + "ngram_worker", "NGRAMWorker._prepare_for_speculative_decoding", "draft", "0.5.3..", "NGRAM"),
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

_DFLASH = (
    Hook(
        _SPEC + "dflash_worker",
        "DFlashWorker.forward_batch_generation",
        "cycle",
        "0.5.11..0.5.13",
        "DFLASH",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "dflash_worker",
        "DFlashWorker._prepare_for_speculative_decoding",
        "draft",
        "0.5.11..0.5.13",
        "DFLASH",
    ),
    Hook(
        _SPEC + "dflash_worker",
        "DFlashWorker._append_target_hidden_to_draft_kv",
        "re_extend",
        "0.5.11..0.5.13",
        "DFLASH",
    ),
    Hook(_SPEC + "dflash_info", "DFlashVerifyInput.verify", "verify", "0.5.11..0.5.13", "DFLASH"),
    Hook(
        _SPEC + "dflash_worker_v2",
        "DFlashWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.14..",
        "DFLASH",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "dflash_worker_v2",
        "DFlashWorkerV2._append_target_hidden_to_draft_kv_by_loc",
        "re_extend",
        "0.5.14..",
        "DFLASH",
    ),
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

_DSPARK = (
    Hook(
        _SPEC + "dspark_components.dspark_worker_v2",
        "DSparkWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.16..",
        "DSPARK",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(
        _SPEC + "dspark_components.dspark_draft",
        "DraftBlockProposer.propose",
        "draft",
        "0.5.16..",
        "DSPARK",
    ),
    Hook(
        _SPEC + "dspark_components.dspark_verify",
        "TargetVerifyExecutor.run_compact",
        "verify",
        "0.5.16..",
        "DSPARK",
    ),
    Hook(
        _SPEC + "dspark_components.dspark_verify",
        "TargetVerifyExecutor.run_non_compact",
        "verify",
        "0.5.16..",
        "DSPARK",
    ),
)

_UNO = (
    Hook(
        _SPEC + "uno_worker_v2",
        "UnoWorkerV2.forward_batch_generation",
        "cycle",
        "0.5.20..",
        "UNO",
        read="sglang_batch",
        note=_PREFILL_TOO,
    ),
    Hook(_SPEC + "uno_worker_v2", "UnoWorkerV2._run_draft_block", "draft", "0.5.20..", "UNO"),
    Hook(_SPEC + "uno_worker_v2", "UnoWorkerV2._run_target_block", "verify", "0.5.20..", "UNO"),
)

#: whatever the algorithm: the target's forward over the drafts
_TARGET = (
    Hook(
        "sglang.srt.managers.tp_worker",
        "TpModelWorker.forward_batch_generation",
        "verify",
        "0.4.6..",
        "NGRAM, DFLASH, DSPARK, UNO and any other",
        when="is_verify",
        note="says that it verifies since 0.5.3; EAGLE's verify encloses it",
    ),
)

#: the scheduler's own counter of accepted drafts, on the host: exact for the overlapped workers too
_COUNT = tuple(
    Hook(module, target, "count", versions, read="sglang_spec_metrics")
    for module, target, versions in (
        (
            "sglang.srt.managers.scheduler_metrics_mixin",
            "SchedulerMetricsMixin.update_spec_metrics",
            "0.5.3.post3..0.5.9",
        ),
        (
            "sglang.srt.observability.scheduler_metrics_mixin",
            "SchedulerMetricsMixin.update_spec_metrics",
            "0.5.10..0.5.12",
        ),
        (
            "sglang.srt.managers.scheduler_components.metrics_reporter",
            "SchedulerMetricsReporter.update_spec_metrics",
            "0.5.13..",
        ),
    )
)

#: eager collectives, below the custom ops that torch.compile traces; what a captured graph replays is not seen
_COMM = tuple(
    Hook("sglang.srt.distributed.parallel_state", f"GroupCoordinator.{method}", "comm", versions, read="first_tensor")
    for method, versions in (
        ("_all_reduce_in_place", "0.4.6.."),
        ("_all_reduce_out_place", "0.4.6.."),
        ("_all_gather_into_tensor", "0.4.6.."),
        ("_reduce_scatter_tensor", "0.5.5.."),
    )
)

#: first and last release that was read
READ = ("0.4.6", "0.5.23")
HOOKS: tuple[Hook, ...] = (
    *_EAGLE_V1,
    *_EAGLE_V2,
    *_FROZEN_KV,
    *_NGRAM,
    *_DFLASH,
    *_DSPARK,
    *_UNO,
    *_TARGET,
    *_COUNT,
    *_COMM,
)
