"""Weights read per forward: the published sizes of models come out of their config.json, and unknown forms give none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from traceana.speculation.floors.weights import ModelShape, next_token_layer, touched_experts, weights_read
from traceana_parsers.model_config import model_config

MLA = {"kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
DEEPSEEK_V3 = {
    **MLA,
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 129280,
    "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
KIMI_K2 = {**DEEPSEEK_V3, "model_type": "kimi_k2", "n_routed_experts": 384, "num_attention_heads": 64}
KIMI_K2 |= {"first_k_dense_replace": 1, "vocab_size": 163840}
QWEN3_30B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "experts_per_token": 4,
    "vocab_size": 201088,
    "quantization_config": {
        "quant_method": "mxfp4",
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
    },
}
LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def shape(config: dict[str, object]) -> ModelShape:
    return ModelShape(**model_config(config))


def billions(config: dict[str, object], *, every_expert: bool) -> float:
    """Weights of a model without its embedding: read at one byte each, by one token or by all experts' tokens."""
    found = replace(shape(config), quantization=None, weight_bits=None, kept=None, dtype_bits=8.0)
    found = replace(found, experts_per_token=found.experts) if every_expert else found
    read = weights_read(found, 1, 1)
    assert not isinstance(read, str)
    return read.bytes.low / 1e9


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        (DEEPSEEK_V3, 671, 37),
        (KIMI_K2, 1026, 32),
        (QWEN3_30B, 30.5, 3.3),
        (GPT_OSS, 116.8, 5.1),
        (LLAMA_70B, 70.6, 70.6),
    ],
    ids=["deepseek-v3", "kimi-k2", "qwen3-30b-a3b", "gpt-oss-120b", "llama-70b"],
)
def test_the_published_size_of_a_model_follows_from_its_config(config, total, active):
    embedding = config["vocab_size"] * config["hidden_size"] / 1e9
    assert billions(config, every_expert=True) + embedding == pytest.approx(total, rel=0.003)
    assert billions(config, every_expert=False) == pytest.approx(active, rel=0.1)


def test_more_tokens_touch_more_experts_within_a_range():
    one, many = touched_experts(256, 8, 1), touched_experts(256, 8, 16)
    assert one.low == pytest.approx(one.high)
    assert (many.low, round(many.high)) == (8, 102)
    assert touched_experts(4, 4, 100).high == pytest.approx(4)


def test_ranks_share_what_can_be_split_and_repeat_what_cannot():
    whole, eighth = (weights_read(shape(DEEPSEEK_V3), 1, n).bytes.low for n in (1, 8))
    assert whole / 8 < eighth < whole / 6  # MLA's down-projections and the router are on every rank
    few_heads = weights_read(shape(QWEN3_30B), 1, 8).bytes.low
    assert few_heads > weights_read(shape(QWEN3_30B), 1, 1).bytes.low / 8  # 4 key heads on 8 ranks


def test_quantised_weights_count_by_their_bits_and_what_is_left_out_by_its_own():
    fp8, plain = (weights_read(shape({**LLAMA_70B, **more}), 1, 1).bytes for more in ({"quantization_config": FP8}, {}))
    head = 128256 * 8192 * 2
    assert fp8.low - head == pytest.approx((plain.low - head) / 2)
    partly = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "ignore": ["lm_head", "model.layers.3.self_attn.q_proj"],
    }
    mixed = weights_read(shape({**LLAMA_70B, "quantization_config": partly}), 1, 1).bytes
    assert mixed.low < mixed.high < plain.low


FP8 = {"quant_method": "fp8"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "zamba"}, "zamba"),
        ({"mamba_d_state": 16}, "mamba_d_state"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "layer_types"),
        ({"quantization_config": {"quant_method": "exl3"}}, "exl3"),
        ({"intermediate_size": None}, "intermediate_size"),
    ],
)
def test_a_form_that_is_not_known_gives_a_reason_and_no_number(change, words):
    read = weights_read(shape({**LLAMA_70B, **change}), 4, 8)
    assert isinstance(read, str)
    assert words in read


def test_layers_and_hidden_size_alone_tell_no_weights():
    assert "config.json" in weights_read(ModelShape(61, 7168), 4, 8)


def test_a_model_may_bring_a_layer_that_drafts():
    layer = next_token_layer(shape(DEEPSEEK_V3))
    assert layer is not None
    assert layer.layers == 1
    assert next_token_layer(shape(LLAMA_70B)) is None
