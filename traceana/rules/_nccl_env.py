"""NCCL variables as the workers' own lines show them, and as a launch command asked for them."""

from __future__ import annotations

from traceana.facts.model import Facts, Setting
from traceana.rules._wording import clip
from traceana.rules.interface import CannotTell

#: several rules answer with these, word for word, so that a report can list them once
NO_NCCL_LINES = CannotTell(
    "the log holds no NCCL lines",
    "NCCL_DEBUG=INFO in the environment of one start (INIT and ENV lines are on by default)",
)
NO_ENV_LINES = CannotTell(
    "no process shows an NCCL ENV line: either no variable is set, or ENV lines are filtered out",
    "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS unset, or INIT,ENV,GRAPH, for one start",
)
NO_CONNECTIONS = CannotTell(
    "NCCL's connection lines are not in the log",
    "NCCL_DEBUG=INFO for one start, and at least one request: NCCL 2.22 and newer connect at the first collective",
)
NO_COMMAND = CannotTell(
    "no launch command with NCCL variables is among the inputs, and NCCL passes over names it does not know in silence",
    "give the launch script, unit or env file as a further input, or start with `set -x`",
)


def env_rows(facts: Facts) -> tuple[Setting, ...]:
    """All "set by environment to" rows, per process first, each process and variable once."""
    rows = [row for process in facts.nccl.processes for row in process.env]
    rows += facts.settings.of_origin("nccl_env")
    return tuple({(row.pid, row.name): row for row in reversed(rows)}.values())[::-1]


def clean_value(value: str) -> str:
    """A value as the user wrote it: without blanks, quotes and the full stop NCCL prints after numbers."""
    return clip(value.strip().strip("\"'").removesuffix("."), 60)


def value_of(facts: Facts, name: str) -> str | None:
    """The value of a variable in the first process that shows it, or None."""
    return next((clean_value(row.value) for row in env_rows(facts) if row.name == name), None)


def asked_value(facts: Facts, name: str) -> str | None:
    """The value a launch command gives the variable, or None."""
    return next((clean_value(row.value) for row in facts.nccl.requested if row.name == name), None)


def seen_value(facts: Facts, name: str) -> str | None:
    """The value in a worker, else the one asked for, else None."""
    worker = value_of(facts, name)
    return worker if worker is not None else asked_value(facts, name)
