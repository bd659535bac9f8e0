"""Weights that one GPU reads in one forward, from a model's shape. Formulas and their sources: docs/arithmetic.md.

A floor: biases, norms, rotary tables, a drafter's input projection and the indexer of sparse attention are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceana.speculation.whatif import Span

#: model types whose layers are attention (grouped heads or MLA) with a gated MLP of three matrices, or experts of such
KNOWN = frozenset(
    {
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "minimax_m2", "gpt_oss"),
        *("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe", "glm_moe_dsa"),
    }
)
#: bits of a weight whose type the config does not say
_DEFAULT_BITS = 16.0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A model's shape: columns of `model_configs` by their names; `layers` and `hidden` are always known."""

    layers: int
    hidden: int
    model_type: str | None = None
    architecture: str | None = None
    drafter: bool | None = None
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    moe_intermediate: int | None = None
    shared_intermediate: int | None = None
    dense_layers: int | None = None
    q_lora_rank: int | None = None
    kv_lora_rank: int | None = None
    qk_nope_dim: int | None = None
    qk_rope_dim: int | None = None
    v_dim: int | None = None
    mtp_layers: int | None = None
    dtype_bits: float | None = None
    quantization: str | None = None
    weight_bits: float | None = None
    kept: str | None = None
    kept_partly: str | None = None
    unusual: str | None = None


@dataclass(frozen=True, slots=True)
class WeightsRead:
    """Bytes that one GPU reads for one forward. `experts`: distinct experts per layer, None without experts."""

    bytes: Span
    experts: Span | None


def touched_experts(experts: int, per_token: int, tokens: int) -> Span:
    """Distinct experts of one layer that `tokens` tokens go through, each through `per_token` of `experts`.

    At least those of one token (all choose alike); at most, on average, what even and independent choices give,
    `experts x (1 - (1 - per_token / experts)^tokens)`: uneven or related choices touch fewer. Raises ValueError
    unless 1 <= per_token <= experts and tokens >= 1. Formula: docs/arithmetic.md.
    """
    if not 1 <= per_token <= experts or tokens < 1:
        raise ValueError(f"{per_token} of {experts} experts for {tokens} tokens")
    spread = experts * (1.0 - (1.0 - per_token / experts) ** tokens)
    return Span(float(per_token), max(float(per_token), spread))


def weights_read(shape: ModelShape, tokens: int, ranks: int, loaded_bits: float | None = None) -> WeightsRead | str:
    """Weights that each of `ranks` tensor-parallel GPUs reads for a forward of `tokens` tokens, or why it is not known.

    Each matrix is read once. A column or row of ranks holds `1 / ranks` of it; MLA's down-projections and the router
    are on every rank, key and value heads at least one per rank. `loaded_bits`: bits per weight that the engine makes
    of an unquantised model when it loads it.
    """
    missing = _missing(shape)
    if missing is not None:
        return missing
    bits = _bits(shape, loaded_bits)
    if isinstance(bits, str):
        return bits
    quantised, plain = bits
    kept, kept_partly = ((text or "").split(",") for text in (shape.kept, shape.kept_partly))

    def size(part: str, weights: float) -> Span:
        """Bytes of a part's weights; where some layers are left unquantised, all or none of them may be."""
        low = plain if part in kept else quantised
        high = max(low, plain) if part in kept_partly else low
        return Span(weights * min(low, high) / 8, weights * high / 8)

    layers, dense = shape.layers, shape.layers if shape.experts is None else shape.dense_layers or 0
    parts = [
        _times(size("attention", _attention(shape, ranks)), Span(layers, layers)),
        _times(size("mlp", _gated(shape.hidden, shape.intermediate or 0) / ranks), Span(dense, dense)),
    ]
    touched: Span | None = None
    if shape.experts is not None and shape.experts_per_token is not None:
        sparse = float(layers - dense)
        touched = touched_experts(shape.experts, shape.experts_per_token, tokens)
        router = shape.hidden * shape.experts * plain / 8
        one = size("experts", _gated(shape.hidden, shape.moe_intermediate or 0) / ranks)
        shared = size("shared", _gated(shape.hidden, shape.shared_intermediate or 0) / ranks)
        parts += [_times(one, Span(sparse * touched.low, sparse * touched.high)), _times(shared, Span(sparse, sparse))]
        parts.append(Span(sparse * router, sparse * router))
    head = (shape.vocab or 0) * shape.hidden / ranks * plain / 8
    parts.append(Span(head, head))
    return WeightsRead(Span(sum(p.low for p in parts), sum(p.high for p in parts)), touched)


def next_token_layer(shape: ModelShape) -> ModelShape | None:
    """The drafter that a model brings itself (multi-token prediction): one layer of its own kind; None without one."""
    if not shape.mtp_layers:
        return None
    from dataclasses import replace

    return replace(shape, layers=1, dense_layers=None if shape.experts is None else 0, mtp_layers=None, drafter=True)


def _times(size: Span, number: Span) -> Span:
    return Span(size.low * number.low, size.high * number.high)


def _gated(hidden: int, width: int) -> float:
    """Weights of a gated MLP: gate, up and down."""
    return 3.0 * hidden * width


def _attention(s: ModelShape, ranks: int) -> float:
    """Weights of one layer's attention on one rank."""
    heads = s.heads or 0
    if s.kv_lora_rank is not None:
        nope, rope, value = s.qk_nope_dim or 0, s.qk_rope_dim or 0, s.v_dim or 0
        down = s.hidden * ((s.q_lora_rank or 0) + s.kv_lora_rank + rope)
        query = (s.q_lora_rank or s.hidden) * heads * (nope + rope)
        up = s.kv_lora_rank * heads * (nope + value)
        return down + (query + up + heads * value * s.hidden) / ranks
    width = s.head_dim or s.hidden // max(heads, 1)
    kv_heads = max((s.kv_heads or heads) / ranks, 1.0)
    return 2.0 * s.hidden * heads * width / ranks + 2.0 * s.hidden * kv_heads * width


def _bits(shape: ModelShape, loaded_bits: float | None) -> tuple[float, float] | str:
    """Bits per weight, quantised and not; why they are not known."""
    plain = shape.dtype_bits or _DEFAULT_BITS
    if shape.quantization is None:
        return (loaded_bits or plain, plain)
    if shape.weight_bits is None:
        return f"weights read (how many bits {shape.quantization} stores per weight is not known here)"
    return shape.weight_bits, plain


def _missing(s: ModelShape) -> str | None:
    """Why the weights of a layer do not follow from what is known of it."""
    if s.model_type is None:
        return "weights read (the model's config.json tells them)"
    if s.model_type not in KNOWN or s.unusual:
        form = f" with {s.unusual}" if s.unusual else ""
        return f"weights read (what the layers of {s.model_type}{form} hold is not known here)"
    wanted = {"num_attention_heads": s.heads}
    if s.kv_lora_rank is not None:
        wanted |= {"qk_nope_head_dim": s.qk_nope_dim, "qk_rope_head_dim": s.qk_rope_dim, "v_head_dim": s.v_dim}
    if s.experts is None:
        wanted |= {"intermediate_size": s.intermediate}
    else:
        wanted |= {"num_experts_per_tok": s.experts_per_token, "moe_intermediate_size": s.moe_intermediate}
        wanted |= {"intermediate_size": s.intermediate} if s.dense_layers else {}
        if s.experts_per_token is not None and s.experts_per_token > s.experts:
            return (
                f"weights read ({s.experts_per_token} of {s.experts} experts per token: the config contradicts itself)"
            )
    absent = [name for name, value in wanted.items() if value is None]
    return f"weights read (the config lacks {', '.join(absent)})" if absent else None
