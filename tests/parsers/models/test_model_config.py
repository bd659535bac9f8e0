"""config.json files as inputs: read by what they hold, and one line for what is none."""

from __future__ import annotations

import json
from dataclasses import fields

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceana import api
from traceana.errors import TraceanaError
from traceana.speculation.floors.weights import ModelShape, weights_read
from traceana_parsers.interface import MemorySink
from traceana_parsers.model_config import ModelConfigError, model_config, read_model_config
from traceana_parsers.read import read_run
from traceana_parsers.schema import polars_schema
from traceana_parsers.tables.models import MODEL_TABLES

PLAIN = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
LOG = "[2026-03-01 10:00:00] The server is fired up and ready to roll!\n"


def read(tmp_path, config: object):
    path = tmp_path / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    sink = MemorySink()
    (report,) = read_run([str(path)], sink)
    return report, sink.tables.get("model_configs", [])


def test_every_column_but_the_place_is_a_field_of_the_shape():
    columns = [c.name for c in MODEL_TABLES["model_configs"] if c.name not in ("file_id", "line", "byte_offset")]
    assert sorted(columns) == sorted(f.name for f in fields(ModelShape))


def test_a_config_is_an_input_of_its_own_kind(tmp_path):
    report, (frame,) = read(tmp_path, PLAIN)
    assert (report.format, report.recognised, report.problem) == ("model_config", 1, None)
    assert frame.select("layers", "hidden", "drafter").row(0) == (32, 4096, False)


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_models_that_also_see_keep_the_text_model_below(key):
    found = model_config({"architectures": ["SomeForConditionalGeneration"], key: PLAIN, "vision_config": {}})
    assert (found["layers"], found["architecture"]) == (32, "SomeForConditionalGeneration")


@pytest.mark.parametrize(
    "more",
    [
        {"architectures": ["LlamaForCausalLMEagle3"]},
        {"draft_vocab_size": 32000},
        {"architectures": ["DeepseekV3ForCausalLMNextN"]},
        {"model_type": "deepseek_mtp"},
    ],
)
def test_a_drafter_says_that_it_is_one(more):
    assert model_config({**PLAIN, **more})["drafter"] is True


@pytest.mark.parametrize(
    ("quantization", "bits", "kept", "partly"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8.0, None, None),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 4.125, None, None),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4.0, None, None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, 4.5, "head", None),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, None, None, None),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, 4.25, "attention", None),
        ({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.down_proj"]}, 8.0, None, "mlp"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"g": {"weights": {"num_bits": 4, "group_size": 32}}},
                "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.gate$"],
            },
            4.5,
            "shared,attention",
            None,
        ),
        ({"quant_method": "fp8", "expert_dtype": "fp4"}, None, None, None),
        ({"quant_method": {"a": 1}, "ignore": "lm_head", "bits": "4"}, None, None, None),
    ],
)
def test_bits_per_weight_and_what_is_left_out(quantization, bits, kept, partly):
    found = model_config({**PLAIN, "quantization_config": quantization})
    assert (found["weight_bits"], found["kept"], found["kept_partly"]) == (bits, kept, partly)


def test_a_part_that_is_left_out_layer_by_layer_is_left_out_as_a_whole():
    names = [f"model.layers.{layer}.self_attn.o_proj" for layer in range(32)]
    found = model_config({**PLAIN, "quantization_config": {"quant_method": "fp8", "ignored_layers": names}})
    assert (found["kept"], found["kept_partly"]) == ("attention", None)


@pytest.mark.parametrize(
    ("more", "dense"),
    [
        ({"first_k_dense_replace": 3}, 3),
        ({"decoder_sparse_step": 2, "mlp_only_layers": [1]}, 17),
        ({"mlp_layer_types": ["dense"] * 4 + ["sparse"] * 28}, 4),
        ({"moe_layer_freq": [0] * 2 + [1] * 30}, 2),
        ({}, 0),
    ],
)
def test_layers_without_experts_are_counted(more, dense):
    assert model_config({**PLAIN, "num_experts": 8, **more})["dense_layers"] == dense


@pytest.mark.parametrize("value", [0, -1, 1 << 40, True, "61", 61.5, None, [61]])
def test_impossible_sizes_are_no_sizes(value):
    with pytest.raises(ModelConfigError):
        model_config({**PLAIN, "num_hidden_layers": value})


def test_a_cut_off_config_is_counted_unread_and_named(tmp_path):
    report, frames = read(tmp_path, json.dumps(PLAIN)[:-5])
    assert not frames
    assert report.unread == 1
    assert "not JSON" in (report.problem or "")


def test_a_config_alone_is_no_run(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PLAIN))
    with pytest.raises(TraceanaError, match="beside the server's log"):
        api.read_facts([str(tmp_path)])


def test_a_config_beside_a_log_gives_the_shape_and_survives_the_store(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "config.json").write_text(json.dumps(PLAIN))
    (tmp_path / "in" / "server.log").write_text(LOG)
    direct = api.read_facts([str(tmp_path / "in")])
    api.ingest([str(tmp_path / "in")], str(tmp_path / "store"))
    for facts in (direct, api.read_facts([str(tmp_path / "store")])):
        assert facts.box is not None
        assert facts.box.target.value == ModelShape(**model_config(PLAIN))


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[]", b"{", b'{"num_hidden_layers": 4}'])
def test_what_is_no_config_is_one_line(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelConfigError, match=r"config\.json: [^\n]+$"):
        read_model_config(str(path))


NAMES = (
    "model_type", "architectures", "num_experts", "n_shared_experts", "moe_intermediate_size", "intermediate_size",
    "moe_layer_freq", "mlp_only_layers", "decoder_sparse_step", "first_k_dense_replace", "quantization_config",
    "quant_method", "quant_algo", "ignore", "bits", "group_size", "config_groups", "weights", "num_bits", "layer_types",
    "torch_dtype", "text_config", "num_attention_heads", "num_experts_per_tok", "kv_lora_rank", "vocab_size",
)  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 1 << 70),
    st.floats(),
    st.sampled_from(["fp8", "NVFP4", "awq", "llama", "x"]),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=8),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12), st.integers(1, 64), st.integers(1, 16))
def test_whatever_a_config_holds_it_gives_a_row_and_a_range_or_a_reason(odd, tokens, ranks):
    row = model_config({**odd, "num_hidden_layers": 61, "hidden_size": 7168, "text_config": None})
    frame = pl.DataFrame([row], schema={n: t for n, t in polars_schema("model_configs").items() if n in row})
    read = weights_read(ModelShape(**frame.row(0, named=True)), tokens, ranks)
    assert isinstance(read, str) or 0 <= read.bytes.low <= read.bytes.high
