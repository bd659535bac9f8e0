"""Short builders of Facts for the tests of rules. Numbers hang together: gen_tps = tokens * running * 1000 / cycle."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from traceana.facts.model import (
    Acceptance,
    Capacity,
    Drivers,
    Evidence,
    Fact,
    Facts,
    GraphFacts,
    Identity,
    Provenance,
    Regime,
    Retraction,
    Setting,
    Settings,
    Speculation,
    Spread,
    Stability,
    WindowsFacts,
)

T = TypeVar("T")


def at(line: int, path: str = "server.log") -> Evidence:
    """Evidence at one line."""
    return Evidence(path, line, line)


def fact(value: T | None, line: int = 1, provenance: Provenance = Provenance.MEASURED) -> Fact[T]:
    """A known fact with evidence, or an unknown one for None."""
    return Fact() if value is None else Fact(value, provenance, (at(line),))


def spread(median: float, n: int = 5, around: float = 0.01) -> Spread:
    """A spread of n windows, `around` as a share of the median to both sides."""
    low, high = median * (1 - around), median * (1 + around)
    return Spread(n, median, median, low, high, median * around / 1.28 if n > 1 else None)


def level(
    running: int,
    cycle_ms: float,
    tokens: float = 1.0,
    k: int = 0,
    n: int = 5,
    around: float = 0.01,
    line: int | None = None,
    **more: Any,
) -> Regime:
    """A load level: `tokens` per cycle (1 without speculation) and k drafts; gen_tps follows. `around`: see spread."""
    drafted = spread(tokens, n, around) if k else None
    values: dict[str, Any] = {
        "running": running,
        "n_windows": n,
        "n_steady": n,
        "gen_tps": spread(1000 * tokens * running / cycle_ms, n, around),
        "accept_length": drafted,
        "tokens_per_cycle": drafted,
        "cycle_ms": spread(cycle_ms, n, around) if cycle_ms else None,
        "tokens_per_forward": running * (k + 1),
        "evidence": (at(line if line is not None else 100 + running),),
    }
    return Regime(**{**values, **more})


def setting(name: str, parsed: object, origin: str = "server_args", line: int = 2) -> Setting:
    """One argument as a process reported it."""
    return Setting(name, str(parsed), origin, parsed, evidence=at(line))


def run(
    *levels: Regime,
    engine: str | None = "sglang",
    settings: tuple[Setting, ...] = (),
    windows: int | None = None,
    span_s: float | None = 600.0,
    **more: Any,
) -> Facts:
    """A run without speculation. Other fields of Facts by name."""
    n = sum(r.n_windows for r in levels) if windows is None else windows
    facts = Facts(
        identity=Identity(engine=fact(engine)),
        speculation=Speculation(active=fact(False)),
        settings=Settings(settings),
        windows=WindowsFacts(n=n, n_steady=sum(r.n_steady for r in levels), span_s=span_s),
        regimes=levels,
    )
    return replace(facts, **more)


def drafting(
    *levels: Regime,
    method: str = "EAGLE3",
    draft: str | None = "example-org/draft",
    k: int | None = 3,
    tokens: float | None = None,
    lines: int = 30,
    acceptance: dict[str, Any] | None = None,
    speculation: dict[str, Any] | None = None,
    **more: Any,
) -> Facts:
    """A run with speculation; `tokens` is the accept length (that of the first level when not given)."""
    if tokens is None and levels and levels[0].tokens_per_cycle is not None:
        tokens = levels[0].tokens_per_cycle.median
    accepted: dict[str, Any] = {
        "accept_length": fact(tokens, 10),
        "accept_rate": fact((tokens - 1) / k if tokens is not None and k else None, 10),
        "coverage": fact(1.0 if tokens is not None else None, 10),
        "tokens_per_cycle": fact(tokens, 10),
        "ceiling": None if k is None else k + 1,
        "n_samples": lines if tokens is not None else 0,
        "evidence": (at(11), at(12)),
    }
    spec: dict[str, Any] = {
        "active": fact(True),
        "method": fact(method, 2),
        "draft_model": fact(draft, 2),
        "num_steps": fact(k),
        "topk": fact(1),
        "num_draft_tokens": fact(None if k is None else k + 1),
        "k": fact(k),
        "drafts_every_step": True,
    }
    facts = run(*levels, **{"windows": lines, **more} if not levels else more)
    return replace(
        facts,
        speculation=Speculation(**{**spec, **(speculation or {})}),
        acceptance=Acceptance(**{**accepted, **(acceptance or {})}),
    )


def drivers(acceptance: float, sd: float = 0.2, n: int = 40) -> Drivers:
    """What moves throughput: `acceptance` is its share, the cycle has the rest."""
    return Drivers(n, sd, acceptance, 1 - acceptance)


def graphs(**fields: Any) -> GraphFacts:
    """Graph coverage; captured_max and switched_off are given as plain values."""
    for name in ("captured_max", "switched_off"):
        if name in fields:
            fields[name] = fact(fields[name], 5)
    if fields.get("windows_eager"):
        fields.setdefault("eager_evidence", (at(40), at(41)))
    return GraphFacts(**fields)


def capacity(**fields: Any) -> Capacity:
    """KV pool and queue; kv_tokens, max_running and usage_max are given as plain values."""
    for name in ("kv_tokens", "max_running", "usage_max"):
        if name in fields:
            fields[name] = fact(fields[name], 6)
    return Capacity(**fields)


def retraction(
    before: float | None, after: float | None, line: int = 60, best: float | None = None, n_after: int = 20
) -> Retraction:
    """One retraction line with the throughput around it; `best` is what it came back to for a while."""
    return Retraction(None, 1, before, after, at(line), best, n_after if after is not None else 0)


def stability(cv: float | None = 0.03, n: int = 40, **fields: Any) -> Stability:
    """Stability at 8 running requests."""
    return Stability(**{"running": 8, "n": n, "cv": cv, **fields})
