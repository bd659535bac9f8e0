"""The audit of an environment as plain data: what `traceana env --format json` writes. Fields: docs/cli.md."""

from __future__ import annotations

from dataclasses import dataclass

SCHEMA = "traceana/env/1"

YES, NO, SOME, UNKNOWN = "yes", "no", "some", "cannot tell"


@dataclass(frozen=True, slots=True)
class Answer:
    """yes, no, some (of the workers) or cannot tell, and what says so."""

    state: str
    why: str


@dataclass(frozen=True, slots=True)
class ProcessVerdict:
    """One variable in one worker. `value`: what may be said of the value there; None: not seen."""

    pid: int
    value: str | None
    reached: Answer
    used: Answer


@dataclass(frozen=True, slots=True)
class VariableVerdict:
    """One variable: asked for -> reached the workers -> used. `value`: as asked for, else as the workers have it."""

    name: str
    value: str
    asked: Answer
    reached: Answer
    used: Answer
    processes: tuple[ProcessVerdict, ...]


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """One process and how far its environment can be read.

    `environment`: read, blanked, empty, denied, gone or not running. `sources`: everything that says something of it.
    """

    pid: int
    role: str
    rank: str
    worker: bool
    title: str
    environment: str
    variables: int
    sources: tuple[str, ...]
    how: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to mend. `code`: the rule that explains it (`traceana explain CODE`)."""

    code: str
    title: str
    severity: str
    confidence: str
    why: str
    fix: str


@dataclass(frozen=True, slots=True)
class ConfReport:
    """A configuration file of NCCL's as the server's processes see it. `state`: read or denied."""

    path: str
    state: str
    variables: dict[str, str]


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server. `pid`: the process that was started; None where only logs were given."""

    pid: int | None
    command: str
    engine: str | None
    version: str | None
    nccl_version: str | None
    processes: tuple[ProcessReport, ...]
    variables: tuple[VariableVerdict, ...]
    problems: tuple[Problem, ...]
    conf_files: tuple[ConfReport, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EnvReport:
    """The whole answer."""

    schema: str
    servers: tuple[ServerReport, ...]
