"""Builders of what ranks and NCCL say: path statements, processes, incidents, captures."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.rules.builders import at, fact
from traceana.facts.model import (
    Capture,
    Evidence,
    Facts,
    GraphFacts,
    Identity,
    Incident,
    NcclFacts,
    NcclProcess,
    Parallelism,
    PathStatement,
    RankActivity,
    Setting,
    Settings,
    Startup,
    WindowsFacts,
)
from traceana.rules.interface import Finding, Outcome

NOON = datetime(2026, 2, 3, 12, 0, 0)


def found(outcome: Outcome) -> Finding:
    """The finding, or a failure that shows what came instead."""
    assert isinstance(outcome, Finding), outcome
    assert outcome.evidence, "a finding shows where it was seen"
    assert outcome.fix, "a finding says what to do"
    return outcome


def node(
    *rows: Setting, engine: str | None = "sglang", version: str | None = None, tp: int | None = 8, **more: Any
) -> Facts:
    """A server of `tp` ranks with these settings; other fields of Facts by name."""
    facts = Facts(
        identity=Identity(engine=fact(engine), version=fact(version)),
        parallelism=Parallelism(tp=fact(tp)),
        settings=Settings(rows),
    )
    return replace(facts, **more)


def says(kind: str, state: str, reason: str = "", ranks: tuple[int, ...] = tuple(range(8))) -> PathStatement:
    """A statement that every rank makes."""
    return PathStatement(kind, state, reason, ranks, len(ranks) or 1, at(30))


def env(name: str, value: str, pid: int | None = 900) -> Setting:
    """One "set by environment to" row."""
    return Setting(name, value, "nccl_env", value, pid=pid, evidence=at(50))


def process(rank: int, variables: dict[str, str] | None = None, nranks: int = 8, **more: Any) -> NcclProcess:
    """One rank's process that finished its initialisation."""
    pid = 900 + rank
    rows = tuple(env(name, value, pid) for name, value in (variables or {}).items())
    fields: dict[str, Any] = {"host": "node07", "init_complete": True, "evidence": at(60 + rank)}
    return NcclProcess(pid=pid, rank=rank, nranks=nranks, env=rows, **{**fields, **more})


def nccl(*processes: NcclProcess, **more: Any) -> NcclFacts:
    """NCCL's lines of these processes."""
    return NcclFacts(processes=processes, **more)


def asked(name: str, value: str) -> Setting:
    """A variable of a launch command."""
    return Setting(name, value, "nccl_env", value, evidence=at(1, "start.sh"))


def incident(kind: str, text: str, rank: int | None = None, second: int | None = 0, **more: Any) -> Incident:
    """An incident `second` seconds after noon."""
    ts = None if second is None else NOON + timedelta(seconds=second)
    return Incident(kind, ts, rank, text, Evidence("server.log", 400, text=text), **more)


def capture(name: str, rank: int | None = 0, took: float | None = None, **more: Any) -> Capture:
    """A capture that ended after `took` seconds, or did not end."""
    fields: dict[str, Any] = {"begin": at(200), "end": at(210) if took is not None else None}
    return Capture(name, rank, took is not None, took, **{**fields, **more})


def graphs(*captures: Capture, **more: Any) -> GraphFacts:
    """Captures of a start-up."""
    return GraphFacts(captures=captures, **more)


def last(rank: int, second: int, text: str = "Decode batch") -> RankActivity:
    """The last thing a rank logged."""
    return RankActivity(rank, NOON + timedelta(seconds=second), text, at(300 + rank))


def ready() -> Startup:
    """A start-up that came to its end."""
    return Startup(ready=fact(NOON))


def served(n: int = 10) -> WindowsFacts:
    """Some windows."""
    return WindowsFacts(n=n, n_steady=n)
