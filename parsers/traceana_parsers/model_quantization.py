"""The `quantization_config` of a config.json: bits per stored weight, and which parts are left as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

#: bits per weight of a format with its block scales: NVFP4 has 8 bits per 16 weights, MXFP4 8 per 32 (OCP MX 1.0)
_FP4 = {"nvfp4": 4 + 8 / 16, "mxfp4": 4 + 8 / 32}
#: quant_algo of NVIDIA's ModelOpt -> bits
_MODELOPT = {
    "FP8": 8.0,
    "FP8_PB_WO": 8.0,
    "NVFP4": _FP4["nvfp4"],
    "W4A16_NVFP4": _FP4["nvfp4"],
    "MXFP4": _FP4["mxfp4"],
    "W4A8_MXFP4_FP8": _FP4["mxfp4"],
}
#: keys that list modules which stay as they are
_LISTS = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules")
#: part of a layer -> how module names speak of it; the first that fits counts
_PARTS = (
    ("shared", re.compile(r"shared_expert")),
    ("experts", re.compile(r"experts?\b")),
    ("attention", re.compile(r"attn|attention|[qkvo]_proj|q_[ab]_|kv_[ab]_")),
    ("head", re.compile(r"lm_head|shared_head|output_layer")),
    ("mlp", re.compile(r"mlp(?!\\?\.(?:gate|router)(?:\W|$))|gate_up|down_proj")),
)

_LAYER = re.compile(r"layers?\\?\.(\d{1,5})\b")
_NUMBER = re.compile(r"\d")


def method_of(config: Mapping[str, Any]) -> str | None:
    """The method with its algorithm, as the file names them; None without one."""
    pieces = [config.get("quant_method"), config.get("quant_algo"), config.get("format")]
    return " ".join(str(piece)[:40] for piece in pieces if isinstance(piece, str)) or None


def weight_bits(config: Mapping[str, Any]) -> float | None:
    """Bits per quantised weight, block scales counted; None for methods that are not known here, or a mix."""
    method = str(config.get("quant_method") or "").lower()
    algorithm = str(config.get("quant_algo") or "").upper()
    if algorithm:
        return _MODELOPT.get(algorithm)
    if method in ("fp8", "fbgemm_fp8"):
        return None if config.get("expert_dtype") or config.get("store_dtype") else 8.0
    if method in ("mxfp4", "nvfp4", "modelopt_fp4"):
        return _FP4.get(method, _FP4["nvfp4"])
    if method in ("gptq", "awq", "auto-round", "gptq_marlin", "awq_marlin"):
        return _grouped(config.get("bits", config.get("w_bit")), config.get("group_size", config.get("q_group_size")))
    if method == "compressed-tensors":
        found = {_group(group) for group in _groups(config)}
        return found.pop() if len(found) == 1 else None
    return None


def _groups(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        if isinstance(group, Mapping) and isinstance(group.get("weights"), Mapping):
            yield {"format": config.get("format"), **group}


def _group(group: Mapping[str, Any]) -> float | None:
    form = str(group.get("format") or "")
    for name, bits in _FP4.items():
        if form.startswith(name):
            return bits
    return _grouped(group["weights"].get("num_bits"), group["weights"].get("group_size"))


def _grouped(bits: object, group_size: object) -> float | None:
    """Bits of an integer or float weight, with a 16-bit scale per group; per channel it does not count."""
    if not isinstance(bits, int) or not 1 <= bits <= 32:
        return None
    return bits + (16 / group_size if isinstance(group_size, int) and group_size > 0 else 0.0)


def kept_parts(config: Mapping[str, Any], layers: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Parts that the file lists as left unquantised: those left so in all `layers`, and those in some of them."""
    everywhere: set[str] = set()
    in_layers: dict[str, set[int]] = {}
    for key in _LISTS:
        names = config.get(key)
        for name in names if isinstance(names, list) else ():
            part = next((p for p, pattern in _PARTS if isinstance(name, str) and pattern.search(name)), None)
            if part is None:
                continue
            numbered = _LAYER.search(name)
            if numbered is None and _NUMBER.search(name) is None:
                everywhere.add(part)
            else:
                in_layers.setdefault(part, set()).update([int(numbered[1])] if numbered else [])
    everywhere |= {part for part, seen in in_layers.items() if len(seen) >= layers}
    whole, some = (tuple(p for p, _ in _PARTS if p in found) for found in (everywhere, in_layers.keys() - everywhere))
    return whole, some
