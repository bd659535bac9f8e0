"""Tables of a run to its Facts. The only place that knows which tables feed which facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from traceana.facts import (
    acceptance,
    acceptance_counts,
    bench,
    box,
    capacity,
    collective_times,
    collectives,
    cycles,
    graphs,
    incidents,
    joined,
    locate,
    log_points,
    plausible,
    regimes,
    runs,
    settings,
    stability,
    startup,
    traces,
    version_hint,
    windows,
)
from traceana.facts.model import Acceptance, Fact, Facts, Identity, Parallelism, Provenance, Speculation
from traceana.store.dataset import Tables
from traceana_parsers.schema import empty

if TYPE_CHECKING:
    import polars as pl

    from traceana.facts.trace_model import TraceFacts

#: what facts take from scrapes of /metrics
METRICS = ["file_id", "scrape", "name", "value"]


def build(tables: Tables) -> Facts:
    """All facts of a run. Needs the tables `inputs`, `decode_samples`, `prefill_samples`, `spec_samples`, `cycles`,
    `events`, `settings`, `bench_points`, `bench_requests` and `model_configs`; each may be empty."""
    inputs, events = tables.frame("inputs"), tables.frame("events")
    decode, prefill, spec_rows = (tables.frame(t) for t in ("decode_samples", "prefill_samples", "spec_samples"))
    cycle_rows = tables.frame("cycles")
    where = locate.locator(inputs)
    decode, odd_decode = plausible.checked(decode, where)
    prefill, odd_prefill = plausible.checked(prefill, where)
    spec_rows, odd_spec = plausible.checked(spec_rows, where)
    decode, setting_rows, plain_starts = runs.without_plain_starts(decode, spec_rows, tables.frame("settings"), where)
    found = settings.settings(setting_rows, where)
    who = settings.identity(found, events, inputs["format"].to_list(), where)
    if who.engine.value == "sglang" and not who.version.known:
        who = replace(who, version_range=version_hint.sglang_range(decode, prefill))
    engine, mixed = runs.one_engine(who.engine.value, decode, spec_rows)
    decode = decode.filter(decode["engine"] == engine) if mixed else decode
    decode, plain_files = runs.one_run(decode, spec_rows, where)
    timers = cycles.timer_lines(cycle_rows, events)
    drafting = acceptance.drafting_lines(decode, spec_rows) or timers.drafting
    width = acceptance.inferred_width(decode) or timers.width
    spec = settings.speculation(found, events, drafting, decode.height > 0, width, where)
    starts = events.filter(events["kind"] == "ready")
    interval = found.value("decode_log_interval")
    view, earned, spec, newest_first = _windows(
        engine,
        decode,
        prefill,
        spec_rows,
        starts,
        spec,
        who.version.value,
        interval if isinstance(interval, int) else None,
        where,
    )
    if not earned.accept_length.known:
        earned = acceptance.from_timers(cycle_rows, spec, where) or earned
    earned, beyond = acceptance.within_ceiling(earned)
    left_out = (mixed, plain_files, plain_starts, odd_decode, odd_prefill, odd_spec, beyond)
    view = regimes.with_levels(view)
    k = spec.k.value if spec.k.known else acceptance_counts.positions(spec_rows)
    per_request = k if spec.active.value else 0
    benched = bench.points(tables.frame("bench_points"), tables.frame("bench_requests"), where)
    levels = regimes.regimes(view, per_request, where)
    facts = Facts(
        inputs=locate.input_facts(inputs),
        identity=who,
        parallelism=settings.parallelism(found, events, decode, where),
        speculation=spec,
        settings=found,
        windows=regimes.window_facts(view, newest_first, where),
        regimes=levels,
        context_regimes=regimes.context_regimes(view, per_request, where),
        streams=regimes.stream_facts(view, where) if view.height else (),
        drivers=regimes.drivers(view),
        acceptance=earned,
        graphs=graphs.graph_facts(view, events, found, k, _last(events, view), where),
        capacity=capacity.capacity(view, prefill, events, tables.frame("metrics", METRICS), found, where),
        collectives=collectives.statements(events, where),
        nccl=collectives.nccl_facts(events, found, where),
        startup=startup.startup(events, where),
        incidents=incidents.incidents(events, where),
        stall=incidents.stall(events, decode, where),
        collective_timeouts=incidents.collective_timeouts(events, where),
        last_seen=incidents.last_seen({"events": events, "decode_samples": decode, "prefill_samples": prefill}, where),
        stability=stability.stability(view, events, prefill, where),
        points=(
            *(p for p in benched if p.timed),
            *log_points.points(view, levels, engine, spec, earned),
        ),
        earned=tuple(p for p in benched if not p.timed),
        collective_times=collective_times.collective_times(tables, where),
        results_only=_results_only(tables),
        left_out=" · ".join(text for text in left_out if text) or None,
    )
    cycle = cycles.cycle_facts(cycle_rows, events, facts.main_regime, levels, where)
    trace = traces.trace_facts(tables, who.engine.value, where)
    gpus = () if trace is None else trace.gpus
    facts = replace(facts, cycle=cycle, box=box.box(tables.frame("model_configs"), who, spec, gpus, where))
    return facts if trace is None else _with_trace(replace(facts, trace=trace), trace, tables, where)


def _with_trace(facts: Facts, trace: TraceFacts, tables: Tables, where: locate.Locator) -> Facts:
    """The facts of the log with those of its traces: joined where they are of one run, kept apart where not."""
    cycle, who = facts.cycle, facts.identity
    if (device := facts.settings.get("device_config")) is not None and device.value.strip("'\"") == "cpu":
        trace = replace(trace, notes=tuple(note for note in trace.notes if note[1] != "no-gpu-events"), on_cpu=True)
    if not facts.trace_only:
        logged = [
            tables.frame(name, ["ts", "pid"]) for name in ("events", "decode_samples", "prefill_samples", "cycles")
        ]
        trace = replace(trace, match=joined.match_run(facts, trace, logged, tables.frame("traces")))
        trace, cycle = joined.join(facts, trace, cycle)
    if cycle.total_ms.value is None and (trace.match is None or trace.match.verdict != "different"):
        cycle = traces.cycle_of(trace) or cycle
    if not who.engine.known and trace.engine:
        who = replace(who, engine=Fact(trace.engine, Provenance.DERIVED))
    spec = facts.speculation
    if not spec.active.known and any(p.phase in ("draft", "re-extend") for p in trace.phases):
        spec = replace(spec, active=Fact(True, Provenance.DERIVED))
    return replace(facts, trace=trace, cycle=cycle, identity=who, speculation=spec)


def run_facts(tables: Tables) -> tuple[Identity, Parallelism, Speculation]:
    """Who ran, on how many ranks, and how it speculated, without reading the stats lines (for the `runs` table)."""
    inputs, events = tables.frame("inputs"), tables.frame("events")
    decode, spec_rows = empty("decode_samples"), tables.frame("spec_samples")
    where = locate.locator(inputs)
    found = settings.settings(tables.frame("settings"), where)
    who = settings.identity(found, events, inputs["format"].to_list(), where)
    ranks = settings.parallelism(found, events, decode, where)
    return who, ranks, settings.speculation(found, events, spec_rows.height > 0, False, None, where)


_LOGGED = ("events", "decode_samples", "prefill_samples", "spec_samples", "cycles", "traces", "settings", "metrics")


def _results_only(tables: Tables) -> bool:
    """True when nothing but benchmark results was read: neither a log nor a trace nor a scrape."""
    measured = any(tables.height(name) for name in ("bench_points", "collective_points"))
    return measured and not any(tables.height(name) for name in _LOGGED)


def _last(events: pl.DataFrame, view: pl.DataFrame) -> object:
    times = [t for t in (events["ts"].max(), view["ts"].max()) if t is not None]
    return max(times) if times else None


def _windows(
    engine: str,
    decode: pl.DataFrame,
    prefill: pl.DataFrame,
    spec_rows: pl.DataFrame,
    starts: pl.DataFrame,
    spec: Speculation,
    version: str | None,
    interval: int | None,
    where: locate.Locator,
) -> tuple[pl.DataFrame, Acceptance, Speculation, bool]:
    """Windows in time order, what drafting earns, the settings as the windows show them, and whether a file was pasted
    newest first."""
    speculating = spec.active.value is True
    rows = windows.streams(decode)
    turned = windows.in_time_order(decode).newest_first
    if engine == "vllm" or (engine not in ("sglang", "vllm") and spec_rows.height):
        v1 = spec_rows.filter(spec_rows["form"] != "vllm_v0")
        joined = windows.streams(windows.join_vllm(decode, v1))
        k = spec.k.value if spec.k.known else acceptance_counts.positions(v1)
        bonus, words = acceptance_counts.printed_with_bonus(v1, k, version)
        if spec.drafts_every_step is None and acceptance_counts.skips_steps(joined, k):
            spec = replace(spec, drafts_every_step=False)
        every_step = spec.drafts_every_step is not False
        view = windows.vllm(joined, k, every_step, speculating, bonus)
        if spec_rows.height and (spec_rows["form"] == "llamacpp").all():
            return view.select(windows.COLUMNS), acceptance_counts.llamacpp(spec_rows, where), spec, turned
        earned = acceptance_counts.vllm(view, spec_rows, spec, bonus, words, where)
    else:
        view = windows.sglang(rows, prefill, starts, speculating, interval)
        earned = acceptance.sglang(view, spec, version, where)
    return view.select(windows.COLUMNS), earned, spec, turned
