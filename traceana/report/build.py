"""Facts and the rules' outcomes to a Diagnosis."""

from __future__ import annotations

from collections.abc import Sequence

from traceana.facts.gap import measured_against_floor
from traceana.facts.model import Facts
from traceana.facts.whatif_choice import worthwhile
from traceana.report import parts
from traceana.report.diagnosis import (
    AcceptanceReport,
    Cycle,
    Diagnosis,
    DriversReport,
    InputReport,
    NotChecked,
    Part,
    RunInfo,
    StageReport,
)
from traceana.report.verdict import levels, verdict
from traceana.report.whatif_report import whatif_report
from traceana.rules.interface import CannotTell, Clear, Finding, NotApplicable, Outcome, Rule
from traceana.rules.order import ordered
from traceana.rules.registry import NO_TRACE
from traceana.rules.weigh import weigh

_BAD_BASELINE = "the run given as --baseline speculates itself: it gives no step time, and no break-even is stated"
#: what a user should capture first: the comparison, then NCCL's word, then the rest
_CAPTURE_FIRST = ("CYC002", "COM", "ENV", "ACC", "GRF", "CAP", "CFG", "STB", "CYC")

#: how to see inside a cycle, by engine
_INSIDE = {
    "sglang": "start the server with SGLANG_ENABLE_METRICS_DEVICE_TIMER=1 --enable-metrics (SGLang >= 0.5.7; draft and "
    "verify apart from 0.5.15) and scrape /metrics, or capture a profile with POST /start_profile",
    "vllm": "start the server with --enable-logging-iteration-details (vLLM >= 0.14) for the time of every step, and "
    "capture a torch profile with VLLM_CUSTOM_SCOPES_FOR_PROFILING=1 for draft and verify apart",
}


def diagnosis(
    facts: Facts,
    outcomes: Sequence[tuple[Rule, Outcome]],
    baseline: Facts | None = None,
    baseline_outcomes: Sequence[tuple[Rule, Outcome]] = (),
) -> Diagnosis:
    """The whole answer for a run, with the baseline's own diagnosis inside when there is one."""
    shown = baseline
    if baseline is not None and baseline.speculation.active.value:
        baseline = None  # a speculating run is no baseline: no step, no break-even
    findings = ordered([(rule, o) for rule, o in outcomes if isinstance(o, Finding)])
    judged = verdict(facts, baseline, [finding for _, finding in findings])
    better = worthwhile(facts, baseline, judged.at_running)
    looked_at = {rule.code for rule, o in outcomes if isinstance(o, (Clear, NotApplicable))}
    return Diagnosis(
        run=_run(facts, baseline is None and shown is not None),
        verdict=judged,
        cycle=_cycle(facts),
        acceptance=_acceptance(facts),
        levels=levels(facts, baseline),
        windows=parts.windows(facts),
        windows_total=facts.windows.n,
        windows_steady=facts.windows.n_steady,
        context_levels=parts.context_levels(facts),
        drivers=None
        if facts.drivers is None
        else DriversReport(
            facts.drivers.n, facts.drivers.sd_ln_tps, facts.drivers.acceptance_share, facts.drivers.cycle_share
        ),
        trace=None if facts.trace is None else parts.trace(facts.trace),
        results=facts.results,
        collective_times=facts.collective_times,
        floor=measured_against_floor(facts),
        what_if=None if better is None else whatif_report(better),
        capacity=parts.capacity(facts),
        collectives=facts.collectives,
        nccl=parts.nccl(facts),
        settings=parts.settings(facts),
        startup=tuple(StageReport(s.name, s.seconds, s.rank) for s in facts.startup.stages),
        streams=parts.streams(facts),
        findings=tuple(parts.finding(rule, finding, looked_at) for rule, finding in findings),
        weighed=() if facts.results_only else weigh(facts, outcomes),
        not_checked=_not_checked(facts, outcomes),
        clear=tuple(rule.code for rule, outcome in outcomes if isinstance(outcome, Clear)),
        inputs=tuple(
            InputReport(i.path, i.format, i.lines, i.recognised, i.unread, i.partial, i.problem, i.unread_example)
            for i in facts.inputs
        ),
        baseline=None if shown is None else diagnosis(shown, baseline_outcomes),
    )


def _run(facts: Facts, bad_baseline: bool) -> RunInfo:
    spec, ranks, who = facts.speculation, facts.parallelism, facts.identity
    named = {
        "active": spec.active.value,
        "method": spec.method.value,
        "draft_model": spec.draft_model.value,
        "num_steps": spec.num_steps.value,
        "topk": spec.topk.value,
        "num_draft_tokens": spec.num_draft_tokens.value,
        "k": spec.k.value,
        "adaptive": spec.adaptive.value,
    }
    return RunInfo(
        engine=who.engine.value,
        version=who.version.value,
        version_range=who.version_range,
        model=who.model.value,
        quantization=who.quantization.value,
        nccl_version=who.nccl_version.value,
        tp=ranks.tp.value,
        pp=ranks.pp.value,
        dp=ranks.dp.value,
        ep=ranks.ep.value,
        speculative={key: value for key, value in named.items() if value is not None},
        span_s=facts.windows.span_s,
        lines=sum(i.lines for i in facts.inputs),
        unread=sum(i.unread for i in facts.inputs),
        load_levels=len(facts.regimes),
        results_only=facts.results_only,
        notes=(*_notes(facts), *((_BAD_BASELINE,) if bad_baseline else ())),
    )


def _notes(facts: Facts) -> tuple[str, ...]:
    notes = []
    asked, used = facts.speculation.num_draft_tokens_asked.value, facts.speculation.num_draft_tokens
    if asked is not None:
        notes.append(f"num_draft_tokens {asked} was asked for, {used.value} are in use: {used.reason}")
    if facts.windows.newest_first:
        notes.append("the log is pasted newest first; it was read in the order of time")
    notes.extend(_stream_notes(facts))
    notes.extend(_protocol_notes(facts))
    if facts.startup.starts > 1:
        notes.append(f"{facts.startup.starts} server starts are in these inputs: settings are those of the first")
    if facts.left_out:
        notes.append(facts.left_out)
    return tuple(notes)


def _stream_notes(facts: Facts) -> list[str]:
    """The sum over DP ranks or engines: each prints only its own share."""
    if len(facts.streams) < 2:
        return []
    total = sum(s.gen_tps.median for s in facts.streams)
    lengths = [s.accept_length.median for s in facts.streams if s.accept_length is not None]
    spread = f", accept length {min(lengths):.2f} to {max(lengths):.2f}" if lengths else ""
    return [f"{len(facts.streams)} ranks or engines print their own lines: {total:.0f} tok/s together{spread}"]


def _protocol_notes(facts: Facts) -> list[str]:
    """NCCL's choice per size, the only log source of the protocol in use (kernel names never tell it)."""
    asked = {e.name: e.value for p in facts.nccl.processes for e in p.env if e.name in ("NCCL_PROTO", "NCCL_ALGO")}
    wanted = f", with {', '.join(f'{k}={v}' for k, v in sorted(asked.items()))} set" if asked else ""
    return [
        f"NCCL ran {collective} of {size:,} bytes by {algorithm}/{protocol} (its TUNING line{wanted})"
        for collective, size, algorithm, protocol in facts.nccl.protocols[:4]
    ]


def _cycle(facts: Facts) -> Cycle:
    total = facts.cycle.total_ms
    return Cycle(
        total_ms=total.value,
        provenance=total.provenance.value if total.known else None,
        at_running=facts.cycle.batch,
        parts=tuple(
            Part(p.name, p.ms, p.ms / total.value if total.value else 0.0, p.provenance.value)
            for p in facts.cycle.parts
        ),
        source=facts.cycle.source,
        reason=None if total.known else total.reason,
    )


def _acceptance(facts: Facts) -> AcceptanceReport:
    a = facts.acceptance
    return AcceptanceReport(
        accept_length=a.accept_length.value,
        accept_rate=a.accept_rate.value,
        per_position=a.per_position.value or (),
        coverage=a.coverage.value,
        tokens_per_cycle=a.tokens_per_cycle.value,
        ceiling=a.ceiling,
        printed_accept_length=a.printed_accept_length,
        printed_accept_rate=a.printed_accept_rate,
        definition=a.definition,
        samples=a.n_samples,
        reason=a.accept_length.reason if not a.accept_length.known else None,
    )


def _urgency(codes: Sequence[str]) -> int:
    return min(i for i, prefix in enumerate(_CAPTURE_FIRST) for code in codes if code.startswith(prefix))


def _not_checked(facts: Facts, outcomes: Sequence[tuple[Rule, Outcome]]) -> tuple[NotChecked, ...]:
    """What the inputs could not answer, questions with one cure together."""
    groups: dict[CannotTell, list[Rule]] = {}
    for rule, outcome in outcomes:
        if isinstance(outcome, CannotTell):
            groups.setdefault(outcome, []).append(rule)
    found = [
        NotChecked(
            outcome.what or ", ".join(rule.asks or rule.name.replace("-", " ") for rule in rules),
            outcome.reason,
            outcome.capture,
            tuple(rule.code for rule in rules),
        )
        for outcome, rules in sorted(groups.items(), key=lambda item: _urgency([rule.code for rule in item[1]]))
    ]
    if facts.windows.n and not facts.windows.n_steady:
        why = ", ".join(f"{reason} {count}" for reason, count in facts.windows.unsteady_reasons)
        capture = "hold one load for a minute; SGLang: --decode-log-interval 10 gives shorter windows between prefills"
        found.insert(0, NotChecked("cycle time", f"none of {facts.windows.n} windows is steady ({why})", capture))
    if facts.trace_only or facts.results_only:
        return tuple(found)
    if facts.cycle.total_ms.value is not None and all(p.name == "unknown" for p in facts.cycle.parts):
        untraced = next((row for row in found if row.reason == NO_TRACE.reason), None)
        found = [row for row in found if row is not untraced]
        capture = _INSIDE.get(facts.identity.engine.value or "", "capture a profile of a few cycles")
        found.insert(
            0,
            NotChecked(
                f"where the {facts.cycle.total_ms.value:.1f} ms of a cycle go",
                "the log holds no timer lines and no trace was given"
                if facts.trace is None
                else "the log holds no timer lines, and the traced cycle does not tell it",
                capture,
                untraced.codes if untraced is not None else (),
            ),
        )
    return tuple(found)
