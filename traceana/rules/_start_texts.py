"""Last words of servers that did not come up. A table like `_known_texts.py`."""

from __future__ import annotations

from traceana.rules._known_text import KnownText
from traceana.rules.interface import Confidence

START_TEXTS: tuple[KnownText, ...] = (
    KnownText(
        ("are not supported for now",),
        "this build does not know the architecture of a model it was given",
        "The name is `architectures` of that model's config.json; with a drafter's name it is the drafter that is not "
        "known, not the target.",
        (
            "a newer engine, or the image that the drafter's page names",
            "a drafter of a kind this build knows; the message lists them",
        ),
        ("a drafter given with another method than it was made for",),
        Confidence.HIGH,
        "vllm #24967, spark-vllm-docker #364",
    ),
    KnownText(
        ("model runner v2 does not yet support",),
        "vLLM's second model runner does not have this kind of drafting",
        "The message names what is missing; the first runner has it.",
        ("VLLM_USE_V2_MODEL_RUNNER=0, or a newer vLLM",),
        (),
        Confidence.HIGH,
        "intel-xpu-backend-for-triton #7166 #7322",
    ),
    KnownText(
        ("unknown speculative decoding method",),
        "the engine does not run this drafting method",
        "The method may still be accepted as an argument: engine V1 dropped some of V0's.",
        ("another method for this drafter, or the release that had it",),
        (),
        Confidence.HIGH,
        "vllm #47825",
    ),
    KnownText(
        ("multi-layer eagle requires",),
        "the speculative arguments do not fit multi-layer EAGLE",
        "It drafts a chain: the number of draft tokens is steps + 1, topk is 1. The engine's defaults can break it.",
        ("give all three: --speculative-num-steps N --speculative-eagle-topk 1 --speculative-num-draft-tokens N+1",),
        (),
        Confidence.HIGH,
        "sglang #36536",
    ),
    KnownText(
        ("no common block size",),
        "target and drafter use attention backends without a common KV block size",
        "Both share one KV cache; each backend allows only some block sizes.",
        ("another --attention-backend for target or drafter", "a newer engine, where backends take more block sizes"),
        (),
        Confidence.HIGH,
        "vllm #39616 #54180",
    ),
    KnownText(
        ("cannot be other value than",),
        "the drafter's tensor parallelism is neither 1 nor the target's",
        "vLLM runs a drafter on one GPU or on all of the target's.",
        ("draft_tensor_parallel_size 1, or the target's; EAGLE heads have wanted 1 in some releases",),
        (),
        Confidence.HIGH,
        "vllm #10483",
    ),
    KnownText(
        ("please try to increase --mem-fraction-static",),
        "the weights leave no room for a KV pool",
        "With speculation the drafter's weights are there too, and a NEXTN or EAGLE start without a draft path can "
        "load the target twice. A higher fraction then ends out of memory: the model does not fit.",
        (
            "raise --mem-fraction-static; if that ends out of memory: more GPUs, a smaller quantisation or drafter",
            "see in the log which models were loaded, and how large",
        ),
        ("another process on the same GPU",),
        Confidence.HIGH,
        "sglang #4330 #6875, PR #23862",
    ),
    KnownText(
        (
            "no available memory for the cache blocks",
            "tokens that can be stored in kv cache",
            "larger than the available kv cache memory",
        ),
        "the KV cache has no room for one request of the full context",
        "Weights, the drafter and graph memory come first; what is left is less than max_model_len tokens need.",
        ("a lower --max-model-len, or a higher --gpu-memory-utilization", "fewer captured sizes, a smaller drafter"),
        ("another process on the same GPU",),
        Confidence.HIGH,
        "vLLM kv_cache_utils.py",
    ),
    KnownText(
        ("address already in use",),
        "the port is taken",
        "Another server listens there: often one that should have ended, and still holds GPU memory.",
        ("end it (ss -ltnp names it), or give another --port",),
        (),
        Confidence.HIGH,
        "POSIX EADDRINUSE",
    ),
    KnownText(
        ("is not a valid model identifier", "repository not found", "cannot access gated repo"),
        "a model could not be fetched",
        "The path or name does not exist, or needs a token. The message names it: target or drafter.",
        ("check the path (in the container), the spelling and HF_TOKEN",),
        (),
        Confidence.HIGH,
        "huggingface_hub",
    ),
)

#: where loading stood says less than what it said: asked last
LOADER_TEXTS: tuple[KnownText, ...] = (
    KnownText(
        ("load_weights (",),
        "a checkpoint's weights do not fit the model's code",
        "Loading met a weight that the model has no place for, or missed one: another format of the same model, a "
        "quantisation that this code does not know, or a drafter of another kind.",
        ("see which checkpoint (target or drafter) and weight it was; use the one made for this engine release",),
        ("a damaged or incomplete download",),
        Confidence.LOW,
        "vllm #26328 #40247",
    ),
)
