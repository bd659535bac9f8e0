"""Errors of the engines' own code, most of them in drafting. A table like `_known_texts.py`."""

from __future__ import annotations

from traceana.rules._known_text import KnownText
from traceana.rules.interface import Confidence

ENGINE_TEXTS: tuple[KnownText, ...] = (
    KnownText(
        ("draft_id_to_target_id", "'d2t'", '"d2t"', "draft_vocab_size"),
        "the drafter's vocabulary map does not fit this engine",
        "An EAGLE-3 checkpoint carries a map from draft to target tokens (d2t) only when its vocabulary is smaller "
        "than the target's; the loader found a map it has no place for, or missed one.",
        (
            "use the checkpoint that belongs to this target; remove d2t and t2d where both vocabularies are the same",
            "check draft_vocab_size in the drafter's config.json against vocab_size",
        ),
        ("a drafter made for another target",),
        Confidence.HIGH,
        "vLLM 0.32 with such a checkpoint",
        "draft_vocab",
    ),
    KnownText(
        ("check_eq(mat1.size", "mat1 and mat2 shapes cannot be multiplied", "mat1.size(ndim - 1), k) failed"),
        "a matrix of the drafter has another width than its input",
        "With EAGLE-3 this is what a wrong number of auxiliary hidden states gives: the drafter's first layer expects "
        "three of the target's layers and gets fewer, because the default layers coincide on a shallow target, or "
        "because the drafter was trained on other layers.",
        (
            "name three different auxiliary layers in the drafter's config (eagle_aux_hidden_state_layer_ids)",
            "check that drafter and target belong together (hidden_size)",
        ),
        ("a target and a drafter of different hidden size",),
        Confidence.MEDIUM,
        "vLLM 0.32, EAGLE-3 on a 4-layer target",
    ),
    KnownText(
        ("generate_token_bitmask", "fill_next_token_bitmask", "grammarmatcher", "_grammar_backend.py", "xgrammar"),
        "a request with a grammar met speculation",
        "Structured output, a JSON schema or a forced tool call restricts each drafted token: the grammar's state runs "
        "along the draft and is rolled back with it. Several releases fail there.",
        (
            "the same requests without response_format, schema or forced tool call: if it stays up, it is the grammar",
            "another --grammar-backend, a newer engine, or no speculation for such requests",
        ),
        ("a grammar that the backend cannot take, with or without speculation",),
        Confidence.MEDIUM,
        "sglang #3724 #14480 #15050 #20148 #24283",
    ),
    KnownText(
        ("merge_batch (eagle_", "merge_batch (spec_", "merge_batch (ngram_"),
        "the drafter's state of two batches does not fit together",
        "Requests that were just prefilled join the running batch, and what the drafter keeps of each (hidden states, "
        "tokens) has different shapes.",
        ("a newer engine", "until then fewer requests at a time (--max-running-requests), or no speculation"),
        ("a drafter made for another target",),
        Confidence.LOW,
        "sglang #10090",
    ),
    KnownText(
        ("rpc call to ",),
        "a worker did not answer in time",
        "The engine core waits for a forward of all workers until VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS (300). "
        "One rank hangs in a kernel or collective, died in silence, or compiles; this line does not say which.",
        (
            "py-spy dump --pid of each worker while it stands, and nvidia-smi: 100 % at low power is a spinning kernel",
            "the same load without speculation, then with --enforce-eager",
        ),
        ("a compilation while serving", "a worker on another node that died", "a KV connector that waits"),
        Confidence.MEDIUM,
        "vllm #19668 #41530 #44185 #48801",
    ),
    KnownText(
        ("memory leak detected", "mem leak detected"),
        "SGLang's own check found KV slots that belong to nobody",
        "When idle it adds up free, cached and held slots, and they are not the pool: a bug of the engine. "
        "Speculation with a page size above 1, aborted requests and hybrid caches have set it off in several releases.",
        (
            "a newer SGLang; --page-size 1 or no speculation tells whether it is the draft's slots",
            "SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE=0 warns instead of ending; token usage then creeps up",
        ),
        (),
        Confidence.HIGH,
        "sglang #6888 #7130 #11970 #27789",
    ),
    KnownText(
        ("prefill out of memory", "decode out of memory. try", "no space left for only one request"),
        "the KV pool had no room for the batch, and nothing was left to retract",
        "The pool is smaller with speculation: the drafter's weights, KV and graphs come out of it.",
        ("lower the load or --max-running-requests", "give the pool more memory (--mem-fraction-static)"),
        ("a leak in the pool's accounting: restart and watch token usage",),
        Confidence.HIGH,
        "SGLang schedule_batch.py",
    ),
)
