"""SGLang: which methods are timed, by version. Read from the wheels; tests prove each row against them.

`draft`, `verify` and the draft-extend after it are wrapped, never what runs inside a captured graph (`draft_forward`).
The overlap workers (V2) only launch: their host time says nothing, CUDA events do.
"""

from __future__ import annotations

from traceana_instrument.hook import Hook

_V1 = "sglang.srt.speculative.eagle_worker"
_V2 = "sglang.srt.speculative.eagle_worker_v2"
_EAGLE = "EAGLE, EAGLE3, NEXTN, STANDALONE"

HOOKS: tuple[Hook, ...] = (
    Hook(_V1, "EAGLEWorker.forward_batch_speculative_generation", "cycle", "0.4.6..0.5.2", _EAGLE, read="sglang_batch"),
    Hook(_V1, "EAGLEWorker.forward_batch_generation", "cycle", "0.5.3..0.5.12", _EAGLE, read="sglang_batch"),
    Hook(_V1, "EAGLEWorker.draft", "draft", "0.4.6..0.5.12", _EAGLE),
    Hook(_V1, "EAGLEWorker.verify", "verify", "0.4.6..0.5.12", _EAGLE, read="sglang_verify"),
    Hook(_V1, "EAGLEWorker.forward_draft_extend_after_decode", "re_extend", "0.4.6..0.5.12", _EAGLE),
    Hook(_V2, "EAGLEWorkerV2.forward_batch_generation", "cycle", "0.5.3.post3..", _EAGLE, read="sglang_batch"),
    Hook(_V2, "EAGLEWorkerV2.verify", "verify", "0.5.3.post3..", _EAGLE),
    Hook(_V2, "EagleDraftWorker.draft", "draft", "0.5.4..", _EAGLE),
    Hook(_V2, "EagleDraftWorker._draft_extend_for_decode", "re_extend", "0.5.4..", _EAGLE),
    Hook(
        "sglang.srt.managers.tp_worker",
        "TpModelWorker.forward_batch_generation",
        "verify",
        "0.5.3..",
        "NGRAM, DFLASH, DSPARK",
        when="is_verify",
        note="the target's forward of workers that have no verify method",
    ),
)
