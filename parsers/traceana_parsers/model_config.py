"""A model's `config.json`: layers and hidden size, for what depends on the model's shape."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_MOST_BYTES = 16 << 20
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_NESTED = ("text_config", "llm_config", "language_config")


class ModelConfigError(Exception):
    """A file that is no model configuration; `str()` is the line for the user."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a config.json says of the model's shape."""

    layers: int
    hidden: int


def read_model_config(path: str) -> ModelConfig:
    """Layers and hidden size from a config.json as model repositories publish it (Transformers' names).

    Raises ModelConfigError when the file cannot be read or lacks either.
    """
    import msgspec

    try:
        with Path(path).open("rb") as stream:
            data = stream.read(_MOST_BYTES)
        found = msgspec.json.decode(data)
    except OSError as error:
        raise ModelConfigError(f"{path}: {error.strerror or error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ModelConfigError(f"{path}: not JSON ({error})") from error
    for level in (found, *(found.get(key) for key in _NESTED)) if isinstance(found, dict) else ():
        if isinstance(level, dict):
            layers = next((level[key] for key in _LAYERS if isinstance(level.get(key), int)), 0)
            hidden = next((level[key] for key in _HIDDEN if isinstance(level.get(key), int)), 0)
            if layers > 0 and hidden > 0:
                return ModelConfig(layers, hidden)
    raise ModelConfigError(f"{path}: no num_hidden_layers and hidden_size; give the model's config.json")
