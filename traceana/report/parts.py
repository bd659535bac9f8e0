"""Facts to the plain parts of a Diagnosis: copies with names, no judgement."""

from __future__ import annotations

from dataclasses import fields

from traceana.facts.model import Facts, Spread
from traceana.facts.trace_model import TraceFacts
from traceana.report.diagnosis import (
    CapacityReport,
    ContextLevel,
    ExplainsReport,
    FindingReport,
    NcclReport,
    SettingReport,
    WindowReport,
)
from traceana.report.trace_report import CaptureReport, TraceReport
from traceana.rules.interface import Explains, Finding, Rule

_MOST_SETTINGS = 600


def context_levels(facts: Facts) -> tuple[ContextLevel, ...]:
    """Steady windows by context length."""
    return tuple(
        ContextLevel(
            context_tokens=r.context_tokens.median,
            running=r.running,
            windows=r.n_steady,
            gen_tps=r.gen_tps.median,
            accept_length=r.accept_length.mean if r.accept_length else None,
            cycle_ms=r.cycle_ms.median if r.cycle_ms else None,
        )
        for r in facts.context_regimes
        if r.context_tokens is not None and r.n_steady
    )


def capacity(facts: Facts) -> CapacityReport:
    """KV pool, cap and queue."""
    c = facts.capacity
    return CapacityReport(
        kv_tokens=c.kv_tokens.value,
        max_running=c.max_running.value,
        usage_max=c.usage_max.value,
        windows_full=c.windows_full,
        windows_queued=c.windows_queued,
        retractions=len(c.retractions),
        preemptions=c.preemptions,
    )


def nccl(facts: Facts) -> tuple[NcclReport, ...]:
    """NCCL's lines by process."""
    return tuple(
        NcclReport(
            pid=p.pid,
            host=p.host,
            rank=p.rank,
            nranks=p.nranks,
            env={e.name: e.value for e in p.env},
            transports=dict(p.transports),
            channels=p.channels,
        )
        for p in facts.nccl.processes
    )


def settings(facts: Facts) -> tuple[SettingReport, ...]:
    """Every setting, each name and value once, at most `_MOST_SETTINGS`."""
    seen = {(s.name, s.value, s.origin): s for s in reversed(facts.settings.rows)}
    out = []
    for s in list(reversed(seen.values()))[:_MOST_SETTINGS]:
        path, line = (s.evidence.path, s.evidence.line) if s.evidence else (None, None)
        out.append(SettingReport(s.name, s.value[:400], s.origin, s.rank, path, line))
    return tuple(out)


def streams(facts: Facts) -> tuple[dict[str, str | int | float | None], ...]:
    """DP ranks or engines, when there are several."""

    def median(spread: Spread | None) -> float | None:
        return None if spread is None else spread.median

    return tuple(
        {
            "name": s.name,
            "windows": s.n_windows,
            "running": median(s.running),
            "gen_tps": median(s.gen_tps),
            "accept_length": median(s.accept_length),
        }
        for s in facts.streams
    )


def windows(facts: Facts) -> tuple[WindowReport, ...]:
    """The sampled windows; a window begins where the one before it of the same stream ended."""
    last: dict[str, str] = {}
    out = []
    for w in facts.windows.sample:
        end = w.ts.isoformat(sep=" ") if w.ts else None
        out.append(
            WindowReport(
                start=last.get(w.stream) if facts.windows.n == len(facts.windows.sample) else None,
                end=end,
                stream=w.stream,
                running=w.running,
                gen_tps=w.gen_tps,
                accept_length=w.accept_length,
                cycle_ms=w.cycle_ms,
                steady=w.steady,
                reason=w.reason,
                line=w.evidence.line,
            )
        )
        if end is not None:
            last[w.stream] = end
    return tuple(out)


def finding(rule: Rule, finding: Finding, excluded: set[str]) -> FindingReport:
    """A finding, ready to draw; rivals whose own rule looked and found nothing (`excluded`) are dropped."""
    return FindingReport(
        code=finding.code,
        name=rule.name,
        title=finding.title,
        severity=finding.severity.value,
        confidence=finding.confidence.value,
        why=finding.why,
        fix=finding.fix,
        confirm=finding.confirm,
        rivals=tuple(rival for rival in finding.rivals if rival not in excluded),
        explains_ms_per_token=_explains(finding.explains_ms_per_token),
        explains_ms_per_cycle=_explains(finding.explains_ms_per_cycle),
        evidence=finding.evidence,
    )


def _explains(part: Explains | None) -> ExplainsReport | None:
    return None if part is None else ExplainsReport(part.low_ms, part.high_ms, part.provenance.value, part.basis)


def trace(found: TraceFacts) -> TraceReport:
    """What the traces say."""
    same = {f.name for f in fields(TraceReport)} & {f.name for f in fields(TraceFacts)}
    return TraceReport(
        **{name: getattr(found, name) for name in same}
        | {
            "provenance": found.provenance.value,
            "skew_provenance": found.skew_provenance.value,
            "categories": _by_category(found.categories),
            "capture": tuple(CaptureReport(*note) for note in found.notes),
        }
    )


def _by_category(shares: tuple[tuple[str, str, float], ...]) -> dict[str, float]:
    """Share of kernel time by category; the family is named only where the category does not say it."""
    return {
        category if family in ("compute", category) else f"{family}: {category}": share
        for family, category, share in shares
    }
