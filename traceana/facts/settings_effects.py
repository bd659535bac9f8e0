"""What is known of a setting that differs between two runs: how suspicious, what it acts on, how much it can do.

The table is `settings_effects.toml` beside this module; sizes of NCCL's variables are in `nccl_variables.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from traceana.facts.nccl_variables import variable
from traceana.toml_table import toml_table

_NCCL_MODEL = "modelled for 8 ranks on PCIe"
_NCCL_SOURCES = "NCCL's sources: no effect below about 0.5 MB"
_UNFELT_RANK = 45  # a variable that small allreduces do not feel


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of the table. `us_per_allreduce` is the most it does to one small allreduce, 0 where it does nothing.

    `cycle_factor` is (least, most) by which the cycle was seen to grow; both None: its size is not known.
    `deliberate`: a comparison that has this difference is about it.
    """

    kind: str
    rank: int
    acts_on: tuple[str, ...]
    why: str
    unfair: bool = False
    harmless: bool = False
    deliberate: bool = False
    us_per_allreduce: float | None = None
    cycle_factor: tuple[float, float] | None = None
    source: str | None = None
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class RunNoise:
    """How far identical runs were seen to differ: standard deviation / mean."""

    low: float
    high: float
    what: str
    source: str


@cache
def _data() -> dict[str, Any]:
    return toml_table("traceana.facts", "settings_effects.toml")


@cache
def _effects() -> tuple[tuple[tuple[str, ...], Effect], ...]:
    return tuple((tuple(row["names"]), _effect(row)) for row in _data()["difference"])


def _effect(row: dict[str, Any]) -> Effect:
    factor = row.get("cycle_factor")
    return Effect(
        kind=row["kind"],
        rank=row["rank"],
        acts_on=tuple(row["acts_on"]),
        why=row["why"],
        unfair=row.get("unfair", False),
        harmless=row.get("harmless", False),
        us_per_allreduce=row.get("us_per_allreduce"),
        cycle_factor=None if factor is None else (float(factor[0]), float(factor[1])),
        source=row.get("source"),
        confirm=row.get("confirm"),
    )


def effect_of(name: str) -> Effect:
    """What is known of an engine argument or a variable; the last row of the table fits every name."""
    wanted = name.replace("-", "_")
    found = next(made for names, made in _effects() if any(fnmatchcase(wanted, pattern) for pattern in names))
    row = variable(name)
    if row is None:
        return found
    if row.weight == "none":
        return replace(
            found,
            rank=_UNFELT_RANK,
            why=row.note or found.why,
            us_per_allreduce=0.0,
            source=_NCCL_SOURCES,
            confirm=None,
        )
    us = row.small_allreduce_us
    return replace(found, us_per_allreduce=us, source=_NCCL_MODEL if us else None)


@cache
def run_noise() -> tuple[RunNoise, ...]:
    """Run-to-run spreads seen in public, for an idea of what is usual."""
    return tuple(RunNoise(row["low"], row["high"], row["what"], row["source"]) for row in _data()["run_noise"])


def assumed_run_noise() -> float:
    """The run-to-run spread (standard deviation of the logarithm) that stands in where none was measured."""
    return float(_data()["assumed_run_noise"]["value"])


def assumed_figure_noise() -> float:
    """The same for a bare figure: neither requests, windows nor repeats stand behind it."""
    return float(_data()["assumed_figure_noise"]["value"])


def machine_noise() -> tuple[tuple[float, float], str]:
    """By which factors the cycle of one and the same run was seen to change with the machine's load, and where."""
    row = _data()["machine_noise"]
    return (float(row["cycle_factor"][0]), float(row["cycle_factor"][1])), str(row["source"])
