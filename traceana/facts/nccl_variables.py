"""Which NCCL variables exist, since when, and what a wrong name was probably meant to be.

The table is `nccl_variables.toml` beside this module; its head says where the facts come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from packaging.version import Version

from traceana.facts.versions import parse_version
from traceana.speculation.floors.nccl_model import path_costs
from traceana.toml_table import toml_table

#: how far a misspelt name may be from a real one, in edits, and never more than a third of its length
_MAX_EDITS = 3


@dataclass(frozen=True, slots=True)
class Variable:
    """One row of the table. `small_allreduce_us` is modelled, for 8 PCIe ranks; `weight`: tens | none | None."""

    name: str
    kind: str  # integer | text
    first: Version | None  # None: as old as the oldest release read, or not determined
    last: Version | None  # None: the newest release read still has it
    at_init: bool = False
    weight: str | None = None
    small_allreduce_us: float | None = None
    deprecated: Version | None = None
    instead: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class VariableStatus:
    """What a name is to one NCCL release.

    `state`: known | deprecated (still read) | too_new (a later release reads it) | removed | foreign (someone else
    reads it, or nobody) | plugin (a network plugin's prefix) | unknown (no NCCL ever read it).
    """

    state: str
    note: str | None = None
    instead: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class NcclTable:
    """The whole table. `oldest` and `newest` are the first and last release read."""

    oldest: Version
    newest: Version
    variables: dict[str, Variable]
    removed: dict[str, VariableStatus]
    foreign: dict[str, VariableStatus]
    aliases: dict[str, str]
    plugin_prefixes: tuple[str, ...]


@cache
def load() -> NcclTable:
    """The table, read once. Raises KeyError when the file lacks a section."""
    data = toml_table("traceana.facts", "nccl_variables.toml")
    return NcclTable(
        oldest=Version(data["oldest"]),
        newest=Version(data["newest"]),
        variables={name: _variable(name, row) for name, row in data["variables"].items()},
        removed={name: _status("removed", row) for name, row in data["removed"].items()},
        foreign={name: _status("foreign", row) for name, row in data["foreign"].items()},
        aliases=dict(data["aliases"]),
        plugin_prefixes=tuple(data["plugin_prefixes"]),
    )


def variable(name: str) -> Variable | None:
    """The table's row for `name`, or None."""
    return load().variables.get(name)


def is_known(name: str) -> bool:
    """True when some NCCL release reads or read `name`."""
    table = load()
    return name in table.variables or name in table.removed


def nearest(name: str) -> str | None:
    """The variable that was probably meant by an unknown name: a known misspelling, else few edits away, else None."""
    table = load()
    if name in table.aliases:
        return table.aliases[name]
    limit = min(_MAX_EDITS, max(1, (len(name) - len("NCCL_")) // 3))
    by_edits = sorted((_edits(name, known), known) for known in table.variables if abs(len(known) - len(name)) <= limit)
    if by_edits and by_edits[0][0] <= limit:
        return by_edits[0][1]
    close = get_close_matches(name, table.variables, n=1, cutoff=0.92)
    return close[0] if close else None


def status(name: str, nccl_version: str | None) -> VariableStatus:
    """What `name` is to the NCCL release `nccl_version`; None or unreadable stands for the newest release read."""
    table = load()
    if name in table.foreign:
        return table.foreign[name]
    if name in table.removed:
        return table.removed[name]
    row = table.variables.get(name)
    if row is None:
        plugin = any(name.startswith(prefix) for prefix in table.plugin_prefixes)
        return VariableStatus("plugin" if plugin else "unknown", instead=None if plugin else nearest(name))
    version = parse_version(nccl_version) if nccl_version else None
    return _state_of(row, _release(version or table.newest))


def _state_of(row: Variable, release: tuple[int, int]) -> VariableStatus:
    if row.last is not None and release > _release(row.last):
        return VariableStatus("removed", row.note or f"last read by NCCL {row.last}", row.instead)
    if row.first is not None and release < _release(row.first):
        return VariableStatus("too_new", f"read since NCCL {row.first}", row.instead)
    deprecated = row.deprecated is not None and release >= _release(row.deprecated)
    return VariableStatus("deprecated" if deprecated else "known", row.note, row.instead)


def _cost_us(kind: str) -> float:
    """What a cost makes one small allreduce of 8 PCIe ranks longer, in whole us: the model is no more precise."""
    return float(round(next(c.high_us for c in path_costs(8, "pcie") if c.kind == kind)))


def _variable(name: str, row: dict[str, Any]) -> Variable:
    first = row.get("first")
    return Variable(
        name=name,
        kind=row["kind"],
        first=Version(first) if first not in (None, "?") else None,
        last=Version(row["last"]) if "last" in row else None,
        at_init=row.get("at_init", False),
        weight=row.get("weight"),
        small_allreduce_us=_cost_us(row["cost"]) if "cost" in row else None,
        deprecated=Version(row["deprecated"]) if "deprecated" in row else None,
        instead=row.get("instead"),
        note=row.get("note"),
    )


def _status(state: str, row: dict[str, Any]) -> VariableStatus:
    return VariableStatus(state, row.get("note"), row.get("instead"), row.get("owner"))


def _release(version: Version) -> tuple[int, int]:
    """Major and minor: releases of one minor number are not told apart, the table was read from some of them only."""
    return version.major, version.minor


def _edits(a: str, b: str) -> int:
    """Levenshtein distance."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]
