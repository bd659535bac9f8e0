"""What is known of a GPU or a model by its name: `hardware.toml` and `models.toml` beside this module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from traceana.toml_table import toml_table


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: `system` names its curves in allreduce.csv (None: not measured); `memory_gbps` is the peak in GB/s."""

    name: str
    system: str | None
    memory_gbps: float
    link: str  # nvlink or pcie, as sold
    source: str


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's transformer layers and hidden size."""

    layers: int
    hidden: int


#: Qwen3-30B-A3B, Qwen3.5-122B-A10B, gemma-4-26B-A4B
_ACTIVE = re.compile(r"(?<![\d.])(?P<all>\d{1,4}(?:\.\d)?)B-A(?P<active>\d{1,3}(?:\.\d)?)B", re.IGNORECASE)


@cache
def _table(name: str) -> dict[str, Any]:
    return toml_table("traceana.speculation.floors", name)


def gpu(name: str) -> Gpu | None:
    """The GPU that a device name speaks of, or None."""
    for row in _table("hardware.toml")["gpu"]:
        if re.search(row["pattern"], name, re.IGNORECASE):
            return Gpu(row["name"], row.get("system"), float(row["memory_gbps"]), row["link"], row["source"])
    return None


def gpu_names() -> tuple[str, ...]:
    """The GPUs that the table knows."""
    return tuple(row["name"] for row in _table("hardware.toml")["gpu"])


def shape(model: str) -> Shape | None:
    """Layers and hidden size of a model by its name, or None; assumed, since a name is no proof."""
    for row in _table("models.toml")["model"]:
        if re.search(row["pattern"], model, re.IGNORECASE):
            return Shape(row["layers"], row["hidden"])
    return None


def active_share(model: str) -> float | None:
    """Active weights / all weights of a mixture of experts by its name, or None; assumed, since a name is no proof."""
    named = _ACTIVE.search(model)
    if named is not None and float(named["all"]) > 0:
        share = float(named["active"]) / float(named["all"])
        return share if share < 1 else None
    for row in _table("models.toml")["mixture"]:
        if re.search(row["pattern"], model, re.IGNORECASE):
            return float(row["active"] / row["total"])
    return None
