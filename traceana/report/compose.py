"""From a Diagnosis to the page: which sections there are and what their texts say. Nothing is escaped here."""

from __future__ import annotations

from traceana.report.collective_section import collective_section
from traceana.report.diagnosis import AcceptanceReport, Cycle, Diagnosis, RunInfo
from traceana.report.gap_section import gap_section
from traceana.report.lists import communication, findings, inputs, not_checked, startup, streams
from traceana.report.loads import load_table, speculating
from traceana.report.names import with_short_names
from traceana.report.page import Labelled, Page, Row, Section, Table
from traceana.report.results_sections import results_only_header, results_sections
from traceana.report.text import (
    ENGINES,
    NONE,
    count,
    duration,
    figure,
    legend,
    letter,
    ms,
    share,
    span,
    times,
    two,
    whole,
)
from traceana.report.trace_sections import trace_sections
from traceana.report.weighed import weighed
from traceana.report.whatif_section import whatif_section

#: spread of ln tok/s (about the relative spread) below which it is noise not worth a line
QUIET = 0.05
_LIMITERS = {"acceptance": "acceptance", "cycle": "the cycle", "both": "acceptance and the cycle"}


def compose(diagnosis: Diagnosis) -> Page:
    """The page of a diagnosis."""
    diagnosis = with_short_names(diagnosis)
    logged = not traces_only(diagnosis) and not results_only(diagnosis)
    sections = (
        _loads(diagnosis) if logged else None,
        _contexts(diagnosis),
        *results_sections(diagnosis.results),
        collective_section(diagnosis.collective_times, diagnosis.verdict.sentence),
        *trace_sections(diagnosis),
        _cycle(diagnosis.cycle, speculating(diagnosis)) if logged else None,
        _acceptance(diagnosis.acceptance, speculating(diagnosis)) if logged else None,
        findings(diagnosis),
        *weighed(diagnosis),
        gap_section(diagnosis.floor),
        whatif_section(diagnosis.what_if),
        startup(diagnosis),
        streams(diagnosis),
        _capacity(diagnosis),
        communication(diagnosis),
        not_checked(diagnosis.not_checked),
        inputs(diagnosis),
    )
    return Page(
        header=_header(diagnosis),
        below_header=_below_header(diagnosis),
        verdict=diagnosis.verdict.sentence,
        tone=_tone(diagnosis),
        verdict_figures=_verdict_figures(diagnosis),
        sections=tuple(section for section in sections if section is not None),
    )


def compose_trace(diagnosis: Diagnosis) -> Page:
    """The page of what the traces say, alone."""
    diagnosis = with_short_names(diagnosis)
    return Page(_header(diagnosis), (), "Ledger of the traces", "unknown", (), trace_sections(diagnosis))


def _header(diagnosis: Diagnosis) -> tuple[str, ...]:
    run = diagnosis.run
    engine = ENGINES.get(run.engine or "", run.engine or "engine unknown")
    if traces_only(diagnosis) and diagnosis.trace is not None:
        ranks = len(diagnosis.trace.traced_ranks)
        pieces = (
            _version(engine, run),
            count(ranks, "rank") if ranks else "",
            *diagnosis.trace.gpus[:1],
            "traces only",
        )
        return tuple(piece for piece in pieces if piece)
    if results_only(diagnosis):
        said = results_only_header(diagnosis.results, diagnosis.collective_times is not None)
        pieces = (_version(engine, run), _model(run), *said, f"{count(run.lines, 'line')} read, {run.unread:,} unread")
        return tuple(piece for piece in pieces if piece)
    levels = count(run.load_levels, "load level") if run.load_levels else "no load level"
    known_span = "" if run.span_s is None else f" in {duration(run.span_s)}"
    pieces = (
        _version(engine, run),
        _model(run),
        _ranks(run),
        _speculation(diagnosis),
        f"NCCL {run.nccl_version}" if run.nccl_version else "",
        levels + known_span,
        f"{count(run.lines, 'line')} read, {run.unread:,} unread",
    )
    return tuple(piece for piece in pieces if piece)


def traces_only(diagnosis: Diagnosis) -> bool:
    """True when traces are all that could be read."""
    return diagnosis.trace is not None and diagnosis.trace.match is None


def results_only(diagnosis: Diagnosis) -> bool:
    """True when benchmark results are all that could be read."""
    return diagnosis.run.results_only


def _version(engine: str, run: RunInfo) -> str:
    if run.version:
        return f"{engine} {run.version}"
    if run.version_range:
        return f"{engine}, lines of {run.version_range}"
    return f"{engine}, version unknown" if run.engine else engine


def _model(run: RunInfo) -> str:
    if not run.model:
        return ""
    name = run.model.rstrip("/").rsplit("/", 1)[-1] if run.model.startswith(("/", "…", "~")) else run.model
    told = run.quantization is None or run.quantization.lower() in name.lower()
    return name if told else f"{name} ({run.quantization})"


def _ranks(run: RunInfo) -> str:
    sizes = (("TP", run.tp), ("PP", run.pp), ("DP", run.dp), ("EP", run.ep))
    return " ".join(f"{kind}{n}" for kind, n in sizes if n is not None and (n > 1 or kind == "TP"))


def _speculation(diagnosis: Diagnosis) -> str:
    said = diagnosis.run.speculative
    if said.get("active") is False:
        return "no speculation"
    tree = isinstance(topk := said.get("topk"), int) and topk > 1
    names = (("num_steps", "steps"), ("topk", "topk"), ("num_draft_tokens", "draft tokens")) if tree else (("k", "k"),)
    words = [f"{word}={said[name]}" for name, word in names if said.get(name) is not None]
    method = said.get("method")
    return " ".join([str(method), *words]) if method else " ".join(words)


def _below_header(diagnosis: Diagnosis) -> tuple[Labelled, ...]:
    out = []
    if diagnosis.baseline is not None:
        own = set(_header(diagnosis))
        pieces = [piece for piece in _header(diagnosis.baseline) if piece not in own]
        critical = [finding.code for finding in diagnosis.baseline.findings if finding.severity == "critical"]
        pieces += [f"critical there: {', '.join(critical)}"] if critical else []
        pieces = pieces or ["as above"]
        out.append(Labelled("baseline", (" · ".join(pieces),)))
    if diagnosis.run.notes:
        out.append(Labelled("note", diagnosis.run.notes))
    return tuple(out)


def _tone(diagnosis: Diagnosis) -> str:
    """The verdict's word; `mixed` when speculation pays at one load and loses at another."""
    paying = {level.speedup > 1 for level in diagnosis.levels if level.speedup is not None}
    return "mixed" if len(paying) > 1 else diagnosis.verdict.speculation


def _verdict_figures(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What the sentence rests on, when there is a comparison, and the limiter where the sentence does not name it."""
    verdict = diagnosis.verdict
    out = []
    if verdict.speedup is not None:
        low, high = two(verdict.speedup_low), two(verdict.speedup_high)
        known = f" ({span(low, high)})" if NONE not in (low, high) else ""
        at = "" if verdict.at_running is None else f" at {whole(verdict.at_running)} running"
        out.append(f"{times(verdict.speedup)}{known}{at} {letter(verdict.provenance)}".rstrip())
        if verdict.accept_length is not None:
            out.append(f"accept length {two(verdict.accept_length)}")
        if verdict.tokens_per_cycle is not None and two(verdict.tokens_per_cycle) != two(verdict.accept_length):
            out.append(f"{two(verdict.tokens_per_cycle)} tokens per cycle")
        if verdict.break_even_accept_length is not None:
            out.append(f"break-even {two(verdict.break_even_accept_length)}")
    reason = verdict.limiter_reason
    if reason and reason not in verdict.sentence:
        out.append(f"limited by {_LIMITERS.get(verdict.limiter, verdict.limiter)}: {reason}")
    return tuple(out)


def _loads(diagnosis: Diagnosis) -> Section | None:
    table = load_table(diagnosis)
    total, steady = diagnosis.windows_total, diagnosis.windows_steady
    if table is None:
        why = f"none of {count(total, 'window')} is steady" if total else "no stats line of the engine in the inputs"
        return Section("Load levels", lead=(f"none: {why}",))
    remarks = []
    if len(table.columns) < len(diagnosis.levels):
        remarks.append(f"{len(table.columns)} of {len(diagnosis.levels)} levels shown")
    if total:
        remarks.append(f"{steady:,} of {count(total, 'window')} steady")
    return Section("Load levels", aside=" · ".join(remarks), tables=(table,), texts=_moves(diagnosis))


def _moves(diagnosis: Diagnosis) -> tuple[Labelled, ...]:
    """What moves the throughput while the load stays the same."""
    found = diagnosis.drivers
    if found is None or not speculating(diagnosis) or found.sd_ln_tps < QUIET:
        return ()
    text = (
        f"at constant load tok/s varies by {share(found.sd_ln_tps)}: {_part(found.acceptance_share)} of it is "
        f"acceptance, {_part(found.cycle_share)} the cycle "
        f"(shares of the variance over {count(found.windows, 'steady window')}; d)"
    )
    return (Labelled("", (text,)),)


def _capacity(diagnosis: Diagnosis) -> Section | None:
    """KV pool, running cap and queue, in one line."""
    c = diagnosis.capacity
    pieces = [
        f"KV pool {c.kv_tokens:,} tokens" if c.kv_tokens is not None else "",
        f"in use up to {share(c.usage_max)}" if c.usage_max is not None else "",
        f"at most {c.max_running:,} running" if c.max_running is not None else "",
        f"{count(c.windows_queued, 'window')} with a queue" if c.windows_queued else "",
        count(c.retractions, "retraction") if c.retractions else "",
        count(c.preemptions, "preemption") if c.preemptions else "",
    ]
    text = " · ".join(piece for piece in pieces if piece)
    return Section("Capacity", lead=(text,)) if text else None


def _part(value: float) -> str:
    """A share of a variance; offsetting parts can leave 0 ... 1 a little and are cut there."""
    return share(min(1.0, max(0.0, value)))


def _contexts(diagnosis: Diagnosis) -> Section | None:
    levels = diagnosis.context_levels
    if not levels:
        return None
    rows = [
        Row("tok/s", tuple(figure(x.gen_tps) for x in levels), "m"),
        Row("accept length", tuple(two(x.accept_length) for x in levels), "m"),
        Row("cycle ms" if speculating(diagnosis) else "step ms", tuple(figure(x.cycle_ms) for x in levels), "d"),
        Row("windows", tuple(whole(x.windows) for x in levels)),
    ]
    rows = [row for row in rows if any(cell != NONE for cell in row.cells)]
    columns = tuple(whole(x.context_tokens) for x in levels)
    at = f"at {levels[0].running} running"
    return Section(
        "By context", aside=at, tables=(Table("KV tokens each", columns, tuple(rows), remarks=(legend("md"),)),)
    )


def _cycle(cycle: Cycle, drafts: bool) -> Section:
    title = "Cycle" if drafts else "Step"
    if cycle.total_ms is None:
        return Section(title, lead=(f"not known: {cycle.reason or 'no reason given'}",))
    at = "" if cycle.at_running is None else f" at {whole(cycle.at_running)} running"
    how = " ".join(filter(None, (letter(cycle.provenance), cycle.source and f"from {cycle.source}")))
    lead = f"{ms(cycle.total_ms)}{at}" + (f" ({how})" if how else "")
    if all(part.name == "unknown" for part in cycle.parts):
        phases = "draft, verify and re-extend" if drafts else "phases"
        return Section(title, lead=(f"{lead}; not split into {phases}: the inputs carry no phase times",))
    letters = [letter(part.provenance) for part in cycle.parts]
    same = len(set(letters)) == 1
    rows = [
        Row("ms", tuple(figure(part.ms) for part in cycle.parts), letters[0] if same else ""),
        Row("share", tuple(share(part.share) for part in cycle.parts), letters[0] if same else ""),
    ]
    if not same:
        rows.append(Row("provenance", tuple(letters)))
    names = tuple(part.name for part in cycle.parts)
    return Section(title, lead=(lead,), tables=(Table("", names, tuple(rows), remarks=(legend(letters),)),))


def _acceptance(report: AcceptanceReport, drafts: bool) -> Section | None:
    if not drafts and report.accept_length is None:
        return None
    if report.accept_length is None:
        lead = f"not known: {report.reason or 'no reason given'}"
    else:
        pieces = [f"accept length {two(report.accept_length)}"]
        if report.ceiling is not None:
            pieces[0] += f" of at most {report.ceiling}"
        if report.accept_rate is not None:
            pieces.append(f"accept rate {two(report.accept_rate)}")
        if report.per_position:
            pieces.append("per position " + ", ".join(two(rate) for rate in report.per_position))
        if report.coverage is not None and report.coverage < 1:  # 1 is assumed of drafters that always propose
            pieces.append(f"coverage {share(report.coverage)}")
        if two(report.tokens_per_cycle) not in (NONE, two(report.accept_length)):
            pieces.append(f"{two(report.tokens_per_cycle)} tokens per cycle")
        if report.samples:
            pieces.append(count(report.samples, "sample"))
        lead = " · ".join(pieces)
    return Section("Acceptance", lead=(lead, *_printed(report)))


def _printed(report: AcceptanceReport) -> tuple[str, ...]:
    """What the log printed, where it is not the normalised number, and what its numbers mean."""
    pieces = []
    if two(report.printed_accept_length) not in (NONE, two(report.accept_length)):
        pieces.append(f"accept length {two(report.printed_accept_length)}")
    if two(report.printed_accept_rate) not in (NONE, two(report.accept_rate)):
        pieces.append(f"accept rate {two(report.printed_accept_rate)}")
    lead = f"printed in the log as {', '.join(pieces)}" if pieces else ""
    if report.definition:
        return (f"{lead}: {report.definition}" if lead else report.definition,)
    return (lead,) if lead else ()
