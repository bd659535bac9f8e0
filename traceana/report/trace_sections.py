"""The trace part of the page: capture quality first, then the cycle by phase, by rank, and what stands out in it."""

from __future__ import annotations

from dataclasses import replace

from traceana.facts.trace_model import JoinedCycle, RunMatch, cycles_by_timeline, unit
from traceana.report.diagnosis import Diagnosis
from traceana.report.page import Labelled, Row, Section, Table
from traceana.report.text import NONE, count, figure, legend, letter, ms, share, two, whole
from traceana.report.trace_report import CaptureReport, TraceReport
from traceana.report.trace_sums import sums_section
from traceana.report.trace_tables import BUCKETS, phase_tables, rank_table, whole_table

_MOST_CATEGORIES = 6
_LEAST_CATEGORY = 0.005
#: share of the cycle from which copies and host waits are worth a line
_WORTH = 0.01
_COLLECTIVES = {"all_reduce": "allreduce", "all_gather": "allgather", "all_to_all": "all-to-all"}
_BEFORE = {
    "busy": "its GPU was still computing",
    "launch_gap": "its host had not launched yet",
    "idle": "the collective was launched and held back",
}


def trace_sections(diagnosis: Diagnosis) -> tuple[Section, ...]:
    """The sections of the traces, none when the run has none."""
    trace = diagnosis.trace
    if trace is None:
        return ()
    sums = sums_section(trace)
    cycle = (_cycle(trace),) if sums is None or trace.phases or trace.whole else ()
    return (_capture(trace), *_joined(trace), *cycle, *((sums,) if sums is not None else ()))


def _capture(trace: TraceReport) -> Section:
    """What was captured, and what is wrong with it; notes that one and the same command cures stand together."""
    by_command: dict[str, list[str]] = {}
    for note in trace.capture:
        by_command.setdefault(note.command, []).append(_note(note))
    texts = [Labelled("", (*lines, f"capture: {command}")) for command, lines in by_command.items()]
    if trace.apart is not None:
        texts.insert(0, Labelled("", (f"not of one capture: {trace.apart}; nothing is added up over these traces",)))
    return Section("Capture", lead=(" · ".join(_what(trace)),), texts=tuple(texts))


def _note(note: CaptureReport) -> str:
    return f"{note.severity}: {note.what}: {note.consequence}"


def _what(trace: TraceReport) -> list[str]:
    gpus = len(cycles_by_timeline(trace.phases)) or len(trace.whole)
    pieces = []
    if trace.cycles:
        pieces.append(f"{count(trace.cycles, _unit(trace))} from {trace.source} ({letter(trace.provenance)})")
    elif trace.sums and not trace.whole:
        pieces.append(f"{count(len(trace.sums), 'capture')} of sums, without the time of any event")
    else:
        pieces.append("no cycle recognised: neither ranges nor graph launches mark one")
    if trace.on_cpu:
        pieces.append("the engine computes on the CPU")
    if gpus:
        pieces.append(count(gpus, "GPU"))
    if trace.world_size not in (None, 1) and trace.traced_ranks:
        pieces.append(f"{len(trace.traced_ranks)} of {trace.world_size} ranks traced")
    pieces += [", ".join(trace.gpus[:3])] if trace.gpus else []
    batch = trace.batch
    if batch is not None:
        low, high = whole(batch.low), whole(batch.high)
        pieces.append(f"batch {low}" if low == high else f"batch {low} to {high}")
    return pieces


def _cycle(trace: TraceReport) -> Section:
    cycle = trace.cycle
    if trace.apart is not None:
        lead = "each GPU for itself: these traces are not of one capture"
    elif cycle is not None and cycle.n:
        spread = "" if cycle.n < 2 else f", 10th to 90th percentile {figure(cycle.low)} to {figure(cycle.high)}"
        lead = f"median {ms(cycle.median)}{spread} ({letter(trace.provenance)}; profiler running)"
    elif trace.whole:
        lead = "no cycle was found: each GPU from its first to its last operation"
    elif trace.phases:
        lead = "on the host only: " + ("the engine computes there" if trace.on_cpu else "the traces hold no GPU event")
    else:
        lead = "nothing to divide: no cycle and no GPU timeline"
    tables = (*(phase_tables(trace) if trace.apart is None else ()), rank_table(trace), whole_table(trace))
    texts = [*_allreduces(trace), *_skew(trace), *_host_collectives(trace), *_waits(trace), *_copies(trace)]
    texts = [] if trace.apart is not None else [*texts, *_categories(trace)]
    shown = _with_legend([table for table in tables if table is not None])
    return Section(
        f"Trace {_unit(trace)}" if trace.cycles else "Whole trace", lead=(lead,), tables=shown, texts=_lines(texts)
    )


def _with_legend(tables: list[Table]) -> tuple[Table, ...]:
    """The tables, the last of which says what the letters mean."""
    if not tables:
        return ()
    letters = legend(row.letter for table in tables for row in table.rows)
    last = replace(tables[-1], remarks=(*tables[-1].remarks, letters))
    return (*tables[:-1], last)


def _unit(trace: TraceReport) -> str:
    return unit(trace.phases, trace.provenance)


def _lines(texts: list[str]) -> tuple[Labelled, ...]:
    return tuple(Labelled("", (text,)) for text in texts)


def _timelines(trace: TraceReport) -> int:
    """Cycles of all timelines together."""
    return sum(cycles_by_timeline(trace.phases).values())


def _allreduces(trace: TraceReport) -> list[str]:
    """How many communication kernels a cycle has, by which library, how large."""
    cycles = _timelines(trace)
    kinds: dict[tuple[str, str], list[int]] = {}
    sizes: dict[tuple[str, str], set[int]] = {}
    for c in trace.comm:
        key = (c.collective, c.library or "library not known")
        kinds.setdefault(key, []).append(c.instances)
        sizes.setdefault(key, set()).update([c.bytes] if c.bytes is not None else [])
    found = []
    for key, instances in sorted(kinds.items(), key=lambda item: -sum(item[1]))[:4]:
        known = sorted(sizes[key])
        size = (
            f" of {known[0]:,} to {known[-1]:,} bytes" if len(known) > 1 else f" of {known[0]:,} bytes" if known else ""
        )
        number = figure(sum(instances) / cycles).removesuffix(".0") if cycles else NONE
        name = _named(key[0]).replace("_", "-")
        found.append(f"{number} {name}{size} per {_unit(trace)} ({key[1]})")
    return [", ".join(found)] if found else []


def _skew(trace: TraceReport) -> list[str]:
    """Transfer or waiting, per collective and rank, and who is waited for."""
    if trace.skew == "inconclusive" or trace.wait_ms is None or trace.transfer_ms is None:
        if not trace.instances:
            return []
        why = trace.skew_reason or "no collective that waits for all ranks was matched"
        return [f"whether transfer or waiting dominates the collectives is not known: {why}"]
    each = trace.instances * max(trace.ranks, 1)
    on = "matched over" if trace.ranks > 1 else "estimated on"
    text = (
        f"collectives are {trace.skew}: {_us(trace.transfer_ms / each)} transfer and {_us(trace.wait_ms / each)} "
        f"waiting each and per rank, mean of {count(trace.instances, 'instance')} {on} {count(trace.ranks, 'rank')} "
        f"({letter(trace.skew_provenance)})"
    )
    return [text, *_late(trace)]


def _us(milliseconds: float) -> str:
    return f"{figure(1000 * milliseconds)} us" if milliseconds < 1 else ms(milliseconds)


def _late(trace: TraceReport) -> list[str]:
    if not trace.late:
        return []
    first = trace.late[0]
    who = f"rank {first.rank}" if first.rank is not None else f"device {first.device}"
    did = f"; before it came, {_BEFORE[first.before]}" if first.before in _BEFORE else ""
    total = sum(late.wait_caused_ms for late in trace.late)
    part = f", {share(first.wait_caused_ms / total)} of all waiting is for it" if total else ""
    return [
        f"the others wait most for {who}: last at {share(first.share_last)} of {count(trace.instances, 'collective')}"
        f"{part}{did}"
    ]


def _host_collectives(trace: TraceReport) -> list[str]:
    """Collectives per phase, for captures that record them on the host."""
    seen = {p.phase: p.collectives for p in trace.phases if p.collectives}
    words = {phase: _named(text) for phase, text in seen.items()}
    return [f"collectives in one {phase}: {text}" for phase, text in words.items()]


def _named(text: str) -> str:
    """Collectives as the field writes them."""
    for name, word in _COLLECTIVES.items():
        text = text.replace(name, word)
    return text


def _cycle_ms(trace: TraceReport) -> float:
    cycles = _timelines(trace)
    return sum(p.window_ns or 0 for p in trace.phases) / cycles / 1e6 if cycles else 0.0


def _waits(trace: TraceReport) -> list[str]:
    """Calls in which the host waits, with the idle time they bring about."""
    cycles, whole_cycle = _timelines(trace), _cycle_ms(trace)
    sums: dict[str, list[float]] = {}
    for w in trace.waits:
        mine = sums.setdefault(w.call, [0.0, 0.0])
        mine[0] += w.calls / cycles if cycles else 0.0
        mine[1] += w.idle_ms / cycles if cycles else 0.0
    return [
        f"host waits: {call} {two(calls)} times per {_unit(trace)}, the GPU idles {ms(idle)} of each after it"
        for call, (calls, idle) in sorted(sums.items(), key=lambda item: -item[1][1])[:3]
        if idle >= _WORTH * whole_cycle
    ]


def _copies(trace: TraceReport) -> list[str]:
    """Copies by direction, where they take a visible part of the cycle."""
    cycles, whole_cycle = _timelines(trace), _cycle_ms(trace)
    sums: dict[str, list[float]] = {}
    for c in trace.copies:
        mine = sums.setdefault(c.kind, [0.0, 0.0, 0.0])
        for at, value in enumerate((c.copies, c.total_ms, c.bytes or 0)):
            mine[at] += value / cycles if cycles else 0.0
    found = [
        f"{kind} {figure(n).removesuffix('.0')} per {_unit(trace)}, {figure(size / 1e6)} MB in {ms(time)}"
        for kind, (n, time, size) in sorted(sums.items(), key=lambda item: -item[1][1])
        if time >= _WORTH * whole_cycle
    ]
    return [f"copies: {'; '.join(found)}"] if found else []


def _categories(trace: TraceReport) -> list[str]:
    named = [(name, value) for name, value in trace.categories.items() if value >= _LEAST_CATEGORY][:_MOST_CATEGORIES]
    if not named:
        return []
    rest = 1.0 - sum(value for _, value in named)
    words = ", ".join(f"{name} {share(value)}" for name, value in named)
    more = f", the rest {share(rest)}" if rest >= _LEAST_CATEGORY else ""
    return [f"kernel time of the whole capture (summed, waiting included): {words}{more}"]


def _joined(trace: TraceReport) -> tuple[Section, ...]:
    """How the log and the traces fit together; None without a log."""
    if trace.match is None:
        return ()
    lead, texts = _match(trace.match), []
    joined = trace.joined
    tables: tuple[Table, ...] = ()
    if joined is not None:
        texts.append(_compared(joined))
        texts += [f"doubt: {text}" for text in joined.doubts]
        tables = _with_legend(_split(joined))
    return (Section("Log + trace", lead=lead, tables=tables, texts=_lines(texts)),)


def _match(match: RunMatch) -> tuple[str, ...]:
    if match.verdict == "different":
        return (
            f"kept apart: these traces are not of this run: {'; '.join(match.against)}",
            "what follows about the traces is not about the log's run",
        )
    if match.verdict == "unknown":
        return ("taken as one run because they were given together: nothing in them tells",)
    doubts = [f"though {text}" for text in match.against]
    sure = any(text.startswith("the log names") for text in match.how)
    return (f"{'of' if sure else 'taken as'} one run: {'; '.join((*match.how, *doubts))}",)


def _compared(joined: JoinedCycle) -> str:
    at = "" if joined.log_running is None else f" at {whole(joined.log_running)} running"
    batch = "" if joined.trace_batch is None else f" with {whole(joined.trace_batch)} in the batch"
    return (
        f"the log's cycle is {ms(joined.log_ms)}{at} ({joined.log_source}), the traced one {ms(joined.trace_ms)}"
        f"{batch} "
        f"({two(joined.ratio)}x: the profiler's overhead, and what differs between the moment and the whole run)"
    )


def _split(joined: JoinedCycle) -> list[Table]:
    """The log's cycle in the shares of the traced one."""
    if not joined.split:
        return []
    names = [name for name in BUCKETS if any(name in parts for parts in joined.split.values())]
    total = sum(sum(parts.values()) for parts in joined.split.values())
    rows = []
    for name in names:
        cells = [parts.get(name, 0.0) for parts in joined.split.values()]
        line = (*(figure(c) for c in cells), figure(sum(cells)), share(sum(cells) / total if total else None))
        rows.append(Row(BUCKETS[name], line, "d"))
    return [Table("ms of the log's cycle", (*joined.split, "cycle", "share"), tuple(rows))]
