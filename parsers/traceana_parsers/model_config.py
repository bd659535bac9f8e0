"""A model's `config.json` (Transformers' names): its shape, and how its weights are stored.

One row of the table `model_configs` per file. Only what the file says is in the row; what follows from it (weights read
per forward, allreduces) is arithmetic of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceana_parsers.model_quantization import kept_parts, method_of, weight_bits

if TYPE_CHECKING:
    from traceana_parsers.interface import FileReport, Sink
    from traceana_parsers.sources import Stream

FORMAT = "model_config"
_MOST_BYTES = 16 << 20
_MOST = 1 << 24  # no width, count or vocabulary is larger
#: configs of models that also see or hear keep the text model below one of these
_NESTED = ("text_config", "llm_config", "language_config", "transformer_layer_config")
#: column -> names that models use for it, the first that is there
_NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "num_layers"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
    "intermediate": ("intermediate_size",),
    "heads": ("num_attention_heads", "n_head"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim",),
    "vocab": ("draft_vocab_size", "vocab_size"),
    "experts": ("n_routed_experts", "num_local_experts", "num_experts"),
    "experts_per_token": ("num_experts_per_tok", "experts_per_token", "num_experts_per_token"),
    "moe_intermediate": ("moe_intermediate_size",),
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_nope_dim": ("qk_nope_head_dim",),
    "qk_rope_dim": ("qk_rope_head_dim",),
    "v_dim": ("v_head_dim",),
    "mtp_layers": ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"),
}
_BITS = {"bfloat16": 16.0, "float16": 16.0, "float32": 32.0, "half": 16.0}
_DRAFTER = re.compile(r"eagle|nextn|medusa|mtp|dflash|dspark", re.IGNORECASE)
_DRAFTER_KEYS = ("draft_vocab_size", "eagle_config", "speculators_model_type", "dflash_config", "medusa_num_heads")
#: keys of layers that are no attention with an MLP or experts behind it
_UNUSUAL = re.compile(r"ssm_|mamba|linear_(?:attn|num|key|value)|state_size|rwkv|conv_kernel|compress_ratios|hc_mult")
_KEY = re.compile(rb'"([A-Za-z_]{2,60})"\s*:')

#: a column's value: text, number, true/false, or None
Value = Any


class ModelConfigError(Exception):
    """A file that is no model configuration; `str()` is the line for the user."""


def sniff(head: bytes) -> bool:
    """True when a JSON file that begins with `head` names what a model configuration names."""
    keys = {match[1].decode() for match in _KEY.finditer(head)}
    return bool(keys & {"architectures", "model_type"}) and all(
        keys & set(_NAMES[column]) for column in ("layers", "hidden")
    )


def read(stream: Stream, report: FileReport, sink: Sink, _answers: Mapping[str, str]) -> None:
    """Adds the row of the file and closes the stream; what is wrong with it is in the report."""
    import polars as pl

    from traceana_parsers.schema import polars_schema
    from traceana_parsers.sources import StreamState, blocks

    report.format = FORMAT
    data, state = bytearray(), StreamState()
    with stream:
        for block in blocks(stream, state):
            data += block.data
            if len(data) > _MOST_BYTES:
                break
    report.bytes, report.lines = len(data), data.count(b"\n") + (not data.endswith(b"\n"))
    if state.problem:
        report.problem, report.unread = state.problem, 1
        return
    try:
        row = model_config(_decoded(bytes(data)))
    except ModelConfigError as error:
        report.problem, report.unread = str(error), 1
        return
    report.recognised = 1
    row |= {"file_id": report.file_id, "line": 1, "byte_offset": 0}
    sink.add("model_configs", pl.DataFrame([row], schema=polars_schema("model_configs"), orient="row"))


def read_model_config(path: str) -> dict[str, Value]:
    """The columns of `model_configs` (without the place) of a config.json; layers and hidden are there, above 0.

    Raises ModelConfigError when the file cannot be read or lacks either.
    """
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ModelConfigError(f"{path}: {error.strerror or error}") from error
    try:
        return model_config(_decoded(data))
    except ModelConfigError as error:
        raise ModelConfigError(f"{path}: {error}") from error


def _decoded(data: bytes) -> object:
    import msgspec

    if len(data) > _MOST_BYTES:
        raise ModelConfigError(f"more than {_MOST_BYTES >> 20} MB: no model's config.json is that long")
    try:
        found: object = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ModelConfigError(f"not JSON ({error})") from error
    return found


def model_config(obj: object) -> dict[str, Value]:
    """The columns of `model_configs` of a decoded config.json. ModelConfigError without layers and hidden size."""
    if not isinstance(obj, Mapping):
        raise ModelConfigError("no num_hidden_layers and hidden_size; give the model's config.json")
    for level in (obj, *(obj.get(key) for key in _NESTED)):
        if isinstance(level, Mapping) and _count(level, "layers") and _count(level, "hidden"):
            return _row(level, obj)
    raise ModelConfigError("no num_hidden_layers and hidden_size; give the model's config.json")


def _row(text: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Value]:
    quantization = next(
        (q for level in (text, whole) if isinstance(q := level.get("quantization_config"), Mapping)), {}
    )
    whole_parts, some_layers = kept_parts(quantization, _count(text, "layers") or 1)
    row: dict[str, Value] = {column: _count(text, column) for column in _NAMES}
    row |= {
        "model_type": _text(text.get("model_type")) or _text(whole.get("model_type")),
        "architecture": _architecture(text) or _architecture(whole),
        "drafter": _is_drafter(text) or _is_drafter(whole),
        "shared_intermediate": _shared(text),
        "dense_layers": _dense_layers(text),
        "dtype_bits": _dtype_bits(text) or _dtype_bits(whole),
        "quantization": method_of(quantization),
        "weight_bits": weight_bits(quantization),
        "kept": ",".join(whole_parts) or None,
        "kept_partly": ",".join(some_layers) or None,
        "unusual": ",".join(sorted({*_unusual(text), *_unusable(text)})) or None,
    }
    if row["experts"] is not None and row["moe_intermediate"] is None:
        row["moe_intermediate"] = row["intermediate"]  # Mixtral, gpt-oss, MiniMax: the experts are the only MLP
    return row


def _count(level: Mapping[str, Any], column: str) -> int | None:
    """The first of a column's names that holds a whole number above 0."""
    for name in _NAMES[column]:
        value = _whole(level.get(name))
        if value is not None:
            return value
    return None


def _unusable(level: Mapping[str, Any]) -> set[str]:
    """Names that are there and hold no number that can be: what they say is not known, and not that they are absent."""
    named = (name for names in _NAMES.values() for name in names if level.get(name) not in (None, 0, False))
    return {f"{name} that is no count" for name in named if _whole(level[name]) is None}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST else None


def _text(value: object) -> str | None:
    return value[:100] if isinstance(value, str) else None


def _architecture(level: Mapping[str, Any]) -> str | None:
    named = level.get("architectures")
    return _text(named[0]) if isinstance(named, list) and named else None


def _is_drafter(level: Mapping[str, Any]) -> bool:
    words = f"{_architecture(level) or ''} {_text(level.get('model_type')) or ''}"
    return any(level.get(key) for key in _DRAFTER_KEYS) or _DRAFTER.search(words) is not None


def _shared(level: Mapping[str, Any]) -> int | None:
    """Width of a layer's shared experts: said as a width (Qwen), or as a number of experts (DeepSeek)."""
    width, number = _whole(level.get("shared_expert_intermediate_size")), _whole(level.get("n_shared_experts"))
    each = _count(level, "moe_intermediate")
    return width or (_whole(number * each) if number and each else None)


def _dense_layers(level: Mapping[str, Any]) -> int | None:
    """Layers without experts: the first ones, or those that a list or a step leaves out; None without experts."""
    layers = _count(level, "layers")
    if _count(level, "experts") is None or layers is None:
        return None
    kinds = level.get("mlp_layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return kinds.count("dense")
    frequency = level.get("moe_layer_freq")
    if isinstance(frequency, list) and len(frequency) == layers:
        return sum(1 for step in frequency if not step)
    step = _whole(level.get("decoder_sparse_step")) or _whole(frequency) or 1
    only = level.get("mlp_only_layers")
    plain = {n for n in only if isinstance(n, int)} if isinstance(only, list) else set()
    first = _whole(level.get("first_k_dense_replace")) or 0
    shift = 1 if "decoder_sparse_step" in level else 0  # Qwen counts layers from 1, DeepSeek from 0
    return sum(n < first or n in plain or (n + shift) % step != 0 for n in range(min(layers, 10_000)))


def _dtype_bits(level: Mapping[str, Any]) -> float | None:
    named = _text(level.get("dtype")) or _text(level.get("torch_dtype"))
    return _BITS.get(named.removeprefix("torch.")) if named else None


def _unusual(level: Mapping[str, Any]) -> Iterator[str]:
    is_set: Callable[[object], bool] = lambda value: value not in (None, False, 0, [], {})  # noqa: E731
    for key, value in level.items():
        if _UNUSUAL.match(key) and is_set(value):
            yield key[:40]
    kinds = level.get("layer_types")
    if isinstance(kinds, list) and any(isinstance(kind, str) and "linear" in kind for kind in kinds):
        yield "layer_types"
