"""Facts (and a baseline's) to load levels and the verdict, which needs two steady windows on either side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from traceana.facts.model import Facts, Regime
from traceana.facts.results_model import Results
from traceana.report.diagnosis import Level, Verdict
from traceana.report.trace_verdict import trace_sentence
from traceana.rules.interface import Finding, Severity
from traceana.speculation.breakeven import break_even_accept_length

_ACCEPTANCE = {"ACC001", "ACC002", "ACC003", "ACC006", "ACC007"}
_CYCLE = {"CYC001", "CYC004", "CYC005", "CYC006", "CYC007", "GRF001", "GRF002", "GRF003"}
_CYCLE |= {"COM006", "COM007", "COM008", "COM010"}
_FATAL = ("STB001", "STB002", "STB003", "CFG002", "CFG003")


def levels(facts: Facts, baseline: Facts | None) -> tuple[Level, ...]:
    """One Level per load of the run; a load only the baseline saw is left out."""
    made = [_level(regime, baseline.regime(regime.running) if baseline else None) for regime in facts.regimes]
    unsteady = next((i for i, level in enumerate(made) if not level.windows), None)
    if unsteady is not None:  # said once, not at each of them
        note = "loads with 0 steady windows show throughput with prefill, idle time or load changes in it"
        made[unsteady] = replace(made[unsteady], note=note)
    return tuple(made)


def _level(regime: Regime, base: Regime | None) -> Level:
    cycle = regime.cycle_ms.median if regime.cycle_ms else None
    step = base.cycle_ms.median if base is not None and base.cycle_ms else None
    both = base is not None and regime.n_steady > 0 and base.n_steady > 0
    return Level(
        running=regime.running,
        windows=regime.n_steady,
        gen_tps=regime.gen_tps.median,
        gen_tps_low=regime.gen_tps.low if regime.n_steady > 1 else None,
        gen_tps_high=regime.gen_tps.high if regime.n_steady > 1 else None,
        accept_length=regime.accept_length.mean if regime.accept_length else None,
        tokens_per_cycle=regime.tokens_per_cycle.mean if regime.tokens_per_cycle else None,
        cycle_ms=cycle,
        tokens_per_forward=regime.tokens_per_forward,
        graph_share=regime.graph_share,
        baseline_gen_tps=base.gen_tps.median if base is not None else None,
        baseline_step_ms=step,
        speedup=regime.gen_tps.median / base.gen_tps.median if both and base is not None else None,
        break_even_accept_length=break_even_accept_length(cycle, step) if cycle and step else None,
    )


def _judge(regime: Regime, base: Regime) -> tuple[str, float, float | None, float | None]:
    """(pays | loses | even | unknown, speed-up, low, high) at one load, from the spread of both runs' windows."""
    ratio = regime.gen_tps.median / base.gen_tps.median
    if min(regime.n_steady, base.n_steady) < 2:
        return "unknown", ratio, None, None
    low, high = regime.gen_tps.low / base.gen_tps.high, regime.gen_tps.high / base.gen_tps.low
    word = "pays" if low > 1.0 else "loses" if high < 1.0 else "even" if high / low < 1.1 else "unknown"
    return word, ratio, low, high


def verdict(facts: Facts, baseline: Facts | None, findings: Sequence[Finding]) -> Verdict:
    """The answer in one line, from facts and findings; from benchmark results where the log shows no load."""
    limiter, because = _limiter(facts, findings)
    fatal = next((f for f in findings if f.code in _FATAL), None)
    if fatal is not None and not facts.regimes:
        return Verdict(sentence=f"No speed to judge. {fatal.title}.", limiter="unknown")
    length = facts.acceptance.accept_length.value
    earned = facts.acceptance.tokens_per_cycle.value
    if facts.trace is not None and facts.trace_only:
        return Verdict(sentence=trace_sentence(facts.trace), limiter=limiter)
    if facts.results is not None and facts.main_regime is None:
        return _of_results(facts.results, limiter, because)
    if facts.results_only and facts.collective_times is not None:
        return Verdict(sentence=facts.collective_times.verdict)
    if facts.speculation.active.value is False:
        return Verdict(sentence=_plain_sentence(facts), limiter="unknown")
    matched = [
        (r, b)
        for r in facts.regimes
        if baseline is not None and (b := baseline.regime(r.running)) is not None and r.n_steady and b.n_steady
    ]
    if not matched:
        return Verdict(
            sentence=_alone_sentence(facts, baseline is not None, limiter, because, findings),
            accept_length=length,
            tokens_per_cycle=earned,
            limiter=limiter,
            limiter_reason=because,
        )
    judged = [(r, b, *_judge(r, b)) for r, b in matched]
    # a load at which speculation loses is the story; else the one with the most windows
    main = max(judged, key=lambda j: (j[2] == "loses", min(j[0].n_steady, j[1].n_steady), j[0].running))
    regime, base = main[0], main[1]
    even = (
        break_even_accept_length(regime.cycle_ms.median, base.cycle_ms.median)
        if regime.cycle_ms and base.cycle_ms
        else None
    )
    return Verdict(
        sentence=_compared_sentence([(j[0].running, j[2], j[3]) for j in judged], limiter, because),
        speculation=main[2],
        speedup=main[3],
        speedup_low=main[4],
        speedup_high=main[5],
        at_running=regime.running,
        accept_length=length,
        tokens_per_cycle=earned,
        break_even_accept_length=even,
        limiter=limiter,
        limiter_reason=because,
    )


def _of_results(results: Results, limiter: str, because: str | None) -> Verdict:
    """The verdict of benchmark results; with the figures of the load at which speculation loses, else the highest."""
    levels = [level for block in results.sweep.blocks for level in block.levels] if results.sweep is not None else []
    judged = [level for level in levels if level.ratio is not None and not level.queues]
    if not judged:
        return Verdict(sentence=results.verdict, limiter=limiter, limiter_reason=because)
    main = max(judged, key=lambda v: (v.ratio is not None and v.ratio.verdict == "loses", v.load or 0.0))
    ratio, word = main.ratio, main.ratio.verdict if main.ratio is not None else "unknown"
    return Verdict(
        sentence=results.verdict,
        speculation="unknown" if word == "inconclusive" else word,
        speedup=ratio.value if ratio is not None else None,
        speedup_low=ratio.low if ratio is not None else None,
        speedup_high=ratio.high if ratio is not None else None,
        at_running=int(main.load) if main.load is not None else None,
        accept_length=main.spec.accept_length,
        tokens_per_cycle=main.spec.tokens_per_cycle,
        break_even_accept_length=main.break_even,
        limiter=limiter,
        limiter_reason=because,
    )


def _limiter(facts: Facts, findings: Sequence[Finding]) -> tuple[str, str | None]:
    """Which part of a cycle holds the speed back, as far as findings say so."""
    codes = list(dict.fromkeys(f.code for f in findings))  # what explains most first
    acceptance, cycle = [c for c in codes if c in _ACCEPTANCE], [c for c in codes if c in _CYCLE]
    if acceptance and cycle:
        return "both", f"{acceptance[0]} and {cycle[0]}"
    if acceptance:
        return "acceptance", acceptance[0]
    if cycle:
        return "cycle", cycle[0]
    if facts.speculation.active.value and any(r.n_steady >= 2 for r in facts.regimes) and not codes:
        return "none", None
    return "unknown", None


def _plain_sentence(facts: Facts) -> str:
    main = facts.main_regime
    plain = "This run does not speculate"
    if facts.identity.engine.value == "vllm" and facts.settings.get("speculative_config") is None:
        # acceptance has lines of its own there, which an excerpt may leave out
        plain = "No line of the log counts drafts, so it is read as a run without speculation"
    if main is None or main.cycle_ms is None:
        return f"{plain}; the log has no steady window of decoding."
    return (
        f"{plain}: {main.gen_tps.median:.1f} tok/s and {main.cycle_ms.median:.1f} ms per step at "
        f"{main.running} running (median of {main.n_steady} steady {'window' if main.n_steady == 1 else 'windows'})."
    )


def _alone_sentence(
    facts: Facts, has_baseline: bool, limiter: str, because: str | None, findings: Sequence[Finding]
) -> str:
    parts = []
    acceptance = facts.acceptance
    lookup = facts.speculation.drafts_every_step is False
    if lookup and acceptance.tokens_per_cycle.value is not None:
        parts.append(f"{acceptance.tokens_per_cycle.value:.2f} tokens per cycle")
    elif acceptance.accept_length.value is not None:
        top = f" of at most {acceptance.ceiling}" if acceptance.ceiling else ""
        parts.append(f"accept length {acceptance.accept_length.value:.2f}{top}")
    if facts.cycle.total_ms.value is not None:
        at = f" at {facts.cycle.batch} running" if facts.cycle.batch else ""
        parts.append(f"cycle {facts.cycle.total_ms.value:.1f} ms{at}")
    if not parts:
        if facts.results_only and facts.trace is None:
            return (
                "The inputs hold no figure of speed or acceptance that could be read: nothing can be said about speed. "
                "Figures that cannot be are left out; lines that were not read stand below Inputs."
            )
        what = "log shows no decode window" if facts.trace is None else "inputs show no whole cycle"
        told = next((f" {f.title}." for f in findings if f.severity is not Severity.INFO), "")
        if facts.collective_times is not None:
            told += f" {facts.collective_times.verdict}"
        return f"The {what} to judge: nothing can be said about speed.{told}"
    text = "; ".join(parts)
    text = text[0].upper() + text[1:] + "."
    words = {
        "acceptance": " Acceptance limits the throughput",
        "cycle": " The length of the cycle limits the throughput",
    }
    if limiter in words:
        text += f"{words[limiter]} ({because})."
    missing = (
        "no load level is steady in both runs" if has_baseline else "that needs a run without speculation (--baseline)"
    )
    return f"{text} Whether speculation pays is unknown: {missing}."


def _compared_sentence(judged: list[tuple[int, str, float]], limiter: str, because: str | None) -> str:
    def listed(word: str) -> str:
        return ", ".join(f"{running} ({ratio:.2f}x)" for running, found, ratio in judged if found == word)

    clauses = [
        f"{text} at {listed(word)} running"
        for word, text in (("pays", "pays"), ("loses", "loses"), ("even", "makes no difference"))
        if listed(word)
    ]
    unsure = listed("unknown")
    text = f"Speculation {', '.join(clauses)}." if clauses else ""
    if unsure:
        why = "too few steady windows or too wide a spread to tell"
        text = f"{text} Inconclusive at {unsure} running: {why}.".strip()
    loses = any(word == "loses" for _, word, _ in judged)
    if limiter == "cycle":
        reason = "The cycle's length is the reason, not the drafter" if loses else "The cycle's length limits the gain"
        text += f" {reason} ({because})."
    elif limiter == "acceptance":
        text += f" {'Acceptance is the reason' if loses else 'Acceptance limits the gain'} ({because})."
    return text
