"""The table of model configurations: config.json files given beside a log or a trace."""

from __future__ import annotations

from traceana_parsers.tables.columns import WHERE, Column

MODEL_TABLES: dict[str, tuple[Column, ...]] = {
    "model_configs": (
        *WHERE,
        Column("model_type", "str", "", "model_type of the text model"),
        Column("architecture", "str", "", "first of `architectures`"),
        Column("drafter", "bool", "", "the file says that it is of a drafter (EAGLE, MTP, Medusa)"),
        Column("layers", "i32", "", "transformer layers"),
        Column("hidden", "i32", "", "hidden size"),
        Column("intermediate", "i32", "", "width of the dense MLP"),
        Column("heads", "i32", "", "attention heads"),
        Column("kv_heads", "i32", "", "key and value heads"),
        Column("head_dim", "i32", "", "width of a head"),
        Column("vocab", "i32", "", "rows of the output layer; the draft vocabulary where there is one"),
        Column("experts", "i32", "", "routed experts per layer; null without experts"),
        Column("experts_per_token", "i32", "", "routed experts that a token goes through"),
        Column("moe_intermediate", "i32", "", "width of a routed expert"),
        Column("shared_intermediate", "i32", "", "width of the shared experts of a layer together"),
        Column("dense_layers", "i32", "", "layers without experts, in a model that has experts"),
        Column("q_lora_rank", "i32", "", "MLA: rank of the query projection; null without one"),
        Column("kv_lora_rank", "i32", "", "MLA: rank of the compressed keys and values; null without MLA"),
        Column("qk_nope_dim", "i32", "", "MLA: width of a head's query without position"),
        Column("qk_rope_dim", "i32", "", "MLA: width of a head's query with position"),
        Column("v_dim", "i32", "", "MLA: width of a head's value"),
        Column("mtp_layers", "i32", "", "layers for multi-token prediction, beside `layers`"),
        Column("dtype_bits", "f64", "bits", "per weight that is not quantised"),
        Column("quantization", "str", "", "quant_method, and its algorithm; null where the config has none"),
        Column("weight_bits", "f64", "bits", "per quantised weight, scales counted; null where not known"),
        Column("kept", "str", "", "parts that stay as they are in all layers: attention, mlp, shared, experts, head"),
        Column("kept_partly", "str", "", "parts that stay as they are in some layers"),
        Column("unusual", "str", "", "keys of layers of another kind (state space, linear attention), comma separated"),
    ),
}
