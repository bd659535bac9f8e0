"""A log and traces among the same inputs: are they of one run, and does the traced cycle agree with the log's?

A trace's clock is UTC; a log prints local time and no zone. The capture belongs to the log's time if it lies inside it
under some offset that is in use (whole and quarter hours); process ids that both name are the better proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from traceana.attribution.model import BUCKETS
from traceana.facts.model import CycleFacts, CyclePart, Facts, Provenance
from traceana.facts.trace_model import JoinedCycle, RunMatch, TraceFacts

if TYPE_CHECKING:
    import polars as pl

#: a log may begin after, or end before, the capture by so much: nobody asked anything, or lines were not flushed
_SLACK = timedelta(seconds=60)
#: offsets from UTC that are in use, in quarter hours: -12:00 to +14:00
_OFFSETS = sorted(range(-48, 57), key=lambda quarters: (abs(quarters), quarters % 4 != 0))
#: traced / log cycle within which the profiler is taken to stretch all parts alike (a choice, not calibrated)
_ALIKE = (0.8, 1.25)
#: traced / log of one phase against that of the cycle, beyond which the two disagree (a choice, not calibrated)
_PHASE_ALIKE = 1.25


def match_run(facts: Facts, trace: TraceFacts, frames: Sequence[pl.DataFrame], traces: pl.DataFrame) -> RunMatch:
    """Whether the traces are of the log's run.

    Args:
        frames: tables of the log with `ts` (naive, local) and `pid`. traces: the `traces` table.
    """
    how: list[str] = []
    against: list[str] = []
    shared = _pids(frames) & _known(traces.filter(traces["start_ns"].is_not_null()), "pid")
    if shared:
        named = ", ".join(map(str, sorted(shared)[:4])) + (", ..." if len(shared) > 4 else "")
        how.append(f"the log names the traced {'process' if len(shared) == 1 else 'processes'} ({named})")
    clock = _clock(frames, traces)
    if clock is not None:
        (against if clock.name is None else how).append(clock.words)
    against += _contradictions(facts, trace)
    if shared:
        verdict = "same"
    elif against:
        verdict = "different"
    else:
        verdict = "same" if how else "unknown"
    return RunMatch(
        verdict,
        tuple(how),
        tuple(against),
        clock.name if clock else None,
        clock.start.isoformat(sep=" ") if clock and clock.start else None,
        clock.end.isoformat(sep=" ") if clock and clock.end else None,
    )


def _pids(frames: Sequence[pl.DataFrame]) -> set[int]:
    return {pid for frame in frames for pid in _known(frame, "pid")}


def _known(frame: pl.DataFrame, name: str) -> set[int]:
    return set(frame[name].drop_nulls().unique().to_list())


@dataclass(frozen=True, slots=True)
class _Clock:
    """How the log's clock relates to UTC, in words; if an offset fits, its name and the capture on the log's clock."""

    words: str
    name: str | None = None
    start: datetime | None = None
    end: datetime | None = None


def _clock(frames: Sequence[pl.DataFrame], traces: pl.DataFrame) -> _Clock | None:
    """None where the log or the traces have no time of day."""
    logged = _log_span(frames)
    timed = traces.filter((traces["clock"] == "utc") & traces["start_ns"].is_not_null())
    if logged is None or not timed.height:
        return None
    capture = _utc(int(timed["start_ns"].min())), _utc(int(timed["end_ns"].max()))  # type: ignore[arg-type]
    years = {0, capture[0].year - logged[0].year}  # vLLM prints no year: it was taken from the file
    found = [
        (timedelta(minutes=15 * quarters), year)
        for year in sorted(years, key=abs)
        for quarters in _OFFSETS
        if _inside(capture, timedelta(minutes=15 * quarters), logged, year)
    ]
    if not found:
        words = (
            f"the capture ({_minute(capture[0])} UTC) is outside of the log ({_minute(logged[0])} to "
            f"{_minute(logged[1])}, local time) in every time zone"
        )
        return _Clock(words)
    offset, _ = found[0]
    name = _offset_name(offset)
    at = f"{_second(capture[0] + offset)} to {_second(capture[1] + offset)}"
    words = f"the capture ({at}) lies inside the log's time, if the log's clock shows {name}"
    if len(found) > 1:
        words += f" (not the only one that fits: {len(found)} of {len(_OFFSETS)} offsets do)"
    return _Clock(words, name, capture[0] + offset, capture[1] + offset)


def _log_span(frames: Sequence[pl.DataFrame]) -> tuple[datetime, datetime] | None:
    times = [t for frame in frames for t in (frame["ts"].min(), frame["ts"].max()) if isinstance(t, datetime)]
    return (min(times), max(times)) if times else None


def _inside(capture: tuple[datetime, datetime], offset: timedelta, log: tuple[datetime, datetime], years: int) -> bool:
    try:
        begin, end = (t.replace(year=t.year + years) for t in log)
        return begin - _SLACK <= capture[0] + offset and capture[1] + offset <= end + _SLACK
    except (ValueError, OverflowError):  # 29 February, or a year no calendar has
        return False


def _utc(nanoseconds: int) -> datetime:
    seconds = min(max(nanoseconds // 10**9, 0), 253_402_000_000)  # up to the year 9999
    return datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)


def _offset_name(offset: timedelta) -> str:
    minutes = int(offset.total_seconds() // 60)
    sign = "-" if minutes < 0 else "+"
    return "UTC" if not minutes else f"UTC{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _minute(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M")


def _second(time: datetime) -> str:
    return time.strftime("%H:%M:%S")


def _contradictions(facts: Facts, trace: TraceFacts) -> list[str]:
    """What the traces say of the job that the log says otherwise."""
    found = []
    engine, tp = facts.identity.engine.value, facts.parallelism.tp.value
    if engine and trace.engine and trace.engine != engine:
        found.append(f"the traces hold annotations of {trace.engine}, the log is of {engine}")
    if tp and trace.world_size and trace.world_size % tp:
        found.append(f"the traces are of a job of {trace.world_size} ranks, the log's tensor-parallel group has {tp}")
    drafts = any(p.phase in ("draft", "re-extend") for p in trace.phases)
    if drafts and facts.speculation.active.value is False:
        found.append("the traced run drafts, the log's does not")
    return found


def join(facts: Facts, trace: TraceFacts, log: CycleFacts) -> tuple[TraceFacts, CycleFacts]:
    """The traces with the log's cycle beside theirs, and the cycle to report: the log's, split where that is allowed.

    `log` is the cycle as the log alone tells it.
    """
    if trace.cycle is None or (trace.match is not None and trace.match.verdict == "different"):
        return trace, log
    if log.total_ms.value is None:
        return trace, log
    batch = None if trace.batch is None else trace.batch.median
    regime = facts.regime(int(batch)) if batch is not None else None
    log_ms, running, source = log.total_ms.value, log.batch, log.source or "the log"
    timed = {part.name: part.ms for part in log.parts if part.name != "unknown"}
    if running != batch and regime is not None and regime.cycle_ms is not None and regime.n_steady:
        log_ms, running, timed = regime.cycle_ms.median, regime.running, {}
        source = f"the median of steady windows (n={regime.n_steady}) at {running} running"
    ratio = trace.cycle.median / log_ms
    doubts = _doubts(running, batch, ratio, log_ms, trace.cycle.median)
    split = {} if doubts else _split(trace, log_ms, timed)
    if split and batch is None and running is not None:
        doubts.append(f"how many requests the traced cycles served is not in the traces: taken as {running}")
    doubts += _phase_doubts(trace, timed, ratio)
    joined = JoinedCycle(log_ms, source, running, trace.cycle.median, batch, ratio, split, tuple(doubts))
    if split and not timed and running == log.batch:
        parts = tuple(CyclePart(p, sum(b.values()), Provenance.DERIVED) for p, b in split.items())
        log = replace(log, parts=parts, source=f"{source}; split in the shares of {trace.cycles} traced cycles")
    return replace(trace, joined=joined), log


def _doubts(running: int | None, batch: float | None, ratio: float, log_ms: float, trace_ms: float) -> list[str]:
    found = []
    if running is not None and batch is not None and running != batch:
        found.append(
            f"the log's cycle is of {running} running, the traced cycles serve {batch:g}: another load, not compared"
        )
    if not _ALIKE[0] <= ratio <= _ALIKE[1]:
        found.append(
            f"the log says {log_ms:.1f} ms, the trace {trace_ms:.1f} ms ({ratio:.2f}x): the profiler, another load or "
            "another context length; the traced shares are not carried over to the log's cycle"
        )
    return found


def _split(trace: TraceFacts, log_ms: float, timed: dict[str, float]) -> dict[str, dict[str, float]]:
    """The log's cycle by phase and bucket. A phase that the log times itself keeps its time and is split inside."""
    total = sum(p.window_ns or 0 for p in trace.on_gpu)
    sums: dict[str, dict[str, int]] = {}
    for p in trace.on_gpu:
        mine = sums.setdefault(p.phase, dict.fromkeys(BUCKETS, 0))
        for name, ns in p.bucket_ns.items():
            mine[name] += ns
    found = {}
    for phase, buckets in sums.items():
        whole = sum(buckets.values())
        ms = timed.get(phase, log_ms * whole / total if not timed and total else 0.0)
        if whole and ms:
            found[phase] = {name: ms * ns / whole for name, ns in buckets.items() if ns}
    return found


def _phase_doubts(trace: TraceFacts, timed: dict[str, float], ratio: float) -> list[str]:
    """Phases whose own timers and whose traced windows disagree by more than the cycle does."""
    found = []
    count = max(len(trace.timelines), 1)
    for phase, ms in timed.items():
        traced = sum((p.window_ms or 0.0) for p in trace.on_gpu if p.phase == phase) / count
        if traced and ms and not 1 / _PHASE_ALIKE <= traced / ms / ratio <= _PHASE_ALIKE:
            found.append(f"{phase}: {ms:.1f} ms by the log's timers, {traced:.1f} ms traced")
    return found
