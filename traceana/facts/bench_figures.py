"""The figures of one load point from the rows that measured it: what is written, what follows, and what is not known.

A repeat counts as much as another: figures are means over the rows that have them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from traceana.facts.bench_acceptance import (
    Reader,
    Row,
    accept_length,
    accept_rate,
    speculates,
    tokens_per_chunk,
    tokens_per_cycle,
)
from traceana.facts.locate import Locator
from traceana.facts.model import Fact, Provenance
from traceana.speculation.load import requests_decoding

#: throughput times time per token may exceed the requests asked for by rounding only
_BEYOND = 1.05
#: a written accept length is compared with tokens per chunk only above this
_ODD = 0.15


@dataclass(frozen=True, slots=True)
class Figures:
    """What `figures` returns; see LoadPoint for the meaning of each."""

    gen_tps: Fact[float]
    user_tps: Fact[float]
    ttft_ms: Fact[float]
    tpot_ms: Fact[float]
    itl_ms: Fact[float]
    latency_kind: str
    tokens_per_chunk: Fact[float]
    accept_length: Fact[float]
    accept_rate: Fact[float]
    tokens_per_cycle: Fact[float]
    decoding: Fact[float]
    cycle_ms: Fact[float]


def figures(rows: Sequence[Row], where: Locator) -> Figures:
    """All figures of one point; each is a Fact that says where it comes from, or why it is not known."""
    read = Reader(rows, tuple(where.at(row) for row in rows[:8]))
    plain = speculates(rows) is False
    kind = (
        "mean" if any(row["tpot_mean_ms"] is not None or row["itl_mean_ms"] is not None for row in rows) else "median"
    )
    tpot = read.time("tpot", kind)
    per_chunk = [row for row in rows if row["itl_of"] == "chunk"]
    itl = Reader(per_chunk, read.evidence).time("itl", kind)
    if not tpot.known:
        of_token = [row for row in rows if row["itl_of"] == "token"]
        tpot = Reader(of_token, read.evidence).time("itl", kind)
    if not tpot.known:
        tpot = read.derived(_tpot_of_user)
    if not tpot.known and plain and itl.known:
        tpot = itl  # without speculation a chunk is a token
    gen_tps = read.fact("output_tps")
    if not gen_tps.known:
        gen_tps = read.derived(_tps_of_tokens)
    if not gen_tps.known:
        gen_tps = read.derived(lambda row: _tps_of_tpot(row, tpot.value))
    chunk = tokens_per_chunk(read, tpot, itl, plain)
    length = accept_length(read, plain)
    per_cycle = tokens_per_cycle(read, chunk, length, plain)
    decoding = _decoding(read, gen_tps, tpot)
    return Figures(
        gen_tps=gen_tps,
        user_tps=_user_tps(read, tpot),
        ttft_ms=read.time("ttft", kind),
        tpot_ms=tpot,
        itl_ms=itl,
        latency_kind=kind,
        tokens_per_chunk=chunk,
        accept_length=length,
        accept_rate=Fact(reason="this set-up does not speculate") if plain else accept_rate(read),
        tokens_per_cycle=per_cycle,
        decoding=decoding,
        cycle_ms=_cycle(read, gen_tps, tpot, itl, per_cycle, decoding, plain),
    )


def _tpot_of_user(row: Row) -> float | None:
    return 1000.0 / row["user_tps"] if row["user_tps"] else None


def _tps_of_tokens(row: Row) -> float | None:
    tokens, seconds = row["output_tokens"], row["duration_s"]
    return tokens / seconds if tokens and seconds else None


def _tps_of_tpot(row: Row, tpot: float | None) -> float | None:
    return 1000.0 * row["concurrency"] / tpot if tpot and row["concurrency"] else None


def _user_tps(read: Reader, tpot: Fact[float]) -> Fact[float]:
    if tpot.value is not None:
        return Fact(1000.0 / tpot.value, Provenance.DERIVED, tpot.evidence)
    per_user = read.derived(
        lambda row: row["output_tps"] / row["concurrency"] if row["output_tps"] and row["concurrency"] else None
    )
    if not per_user.known:
        return Fact(reason="neither the time per token nor the requests in flight are written")
    words = "throughput / requests in flight: the wait for the first token is in it"
    return Fact(per_user.value, Provenance.DERIVED, per_user.evidence, words)


def _decoding(read: Reader, gen_tps: Fact[float], tpot: Fact[float]) -> Fact[float]:
    """Requests decoding at once: throughput x time per token (Little's law), at most those asked for."""
    asked = read.rows[0]["concurrency"]
    if gen_tps.value is not None and tpot.value is not None and gen_tps.provenance is not Provenance.DERIVED:
        value = requests_decoding(gen_tps.value * _after_first(read), tpot.value)
        if asked and value > asked:
            words = "throughput x time per token, at most those asked for"
            return Fact(float(asked), Provenance.DERIVED, read.evidence, words)
        return Fact(value, Provenance.DERIVED, read.evidence, "throughput x time per token")
    seen = read.fact("concurrency_seen")
    if seen.known:
        return seen
    if asked:
        return Fact(float(asked), Provenance.ASSUMED, read.evidence, "as asked for")
    return Fact(reason="the requests in flight are not written, and the time per token is not")


def _after_first(read: Reader) -> float:
    """Share of the output tokens that come after a request's first one; 1 where the counts are not written."""
    tokens = sum(row["output_tokens"] or 0 for row in read.rows)
    requests = sum(row["requests"] or 0 for row in read.rows)
    return (tokens - requests) / tokens if tokens > requests > 0 else 1.0


def _cycle(
    read: Reader,
    gen_tps: Fact[float],
    tpot: Fact[float],
    itl: Fact[float],
    per_cycle: Fact[float],
    decoding: Fact[float],
    plain: bool,
) -> Fact[float]:
    """The cycle (step without speculation): a measured step, the gap between chunks, tokens per cycle x TPOT, or from
    the throughput. The throughput comes first where the mean time per token contradicts it (stalls in few requests)."""
    step = read.fact("step_ms")
    if step.known:
        return step
    asked, tokens = read.rows[0]["concurrency"], per_cycle.value
    by_tps: Fact[float] = Fact(reason=per_cycle.reason or "the requests in flight are not known")
    if gen_tps.value and asked and tokens:
        words = "1000 x tokens per cycle x requests / throughput"
        by_tps = Fact(1000.0 * tokens * asked / gen_tps.value, Provenance.DERIVED, gen_tps.evidence, words)
    if tpot.value and gen_tps.value and asked and by_tps.known:
        decoding_by_times = requests_decoding(gen_tps.value * _after_first(read), tpot.value)
        if decoding_by_times > _BEYOND * asked:
            return by_tps
    if plain and tpot.known:
        return tpot  # a step emits one token, however many of them a starved client reads at once
    if itl.value is not None:
        return itl
    if tpot.value is not None and tokens is not None:
        return Fact(tokens * tpot.value, Provenance.DERIVED, tpot.evidence, "tokens per cycle x time per token")
    return by_tps if decoding.known else Fact(reason=decoding.reason)


#: what a copied figure has in common with its original besides speeds
_OWN = ("output_tokens", "duration_s", "accept_length_printed", "accept_rate_printed", "tokens_per_cycle_printed")


def without_copies(rows: list[Row]) -> list[Row]:
    """A figure copied into several rows of a table is one measurement, not several that agree to the last digit."""
    speeds = ("output_tps", "user_tps", "tpot_mean_ms", "tpot_median_ms", "itl_mean_ms", "itl_median_ms", "step_ms")
    seen: dict[tuple[object, ...], Row] = {}
    for row in rows:
        seen.setdefault(tuple(row[name] for name in (*speeds, *_OWN)), row)
    return list(seen.values())


def run_values(rows: Sequence[Row]) -> tuple[float, ...]:
    """Throughput of each run, or the inverse of its time per token where no throughput is written."""
    found = []
    for row in rows:
        value = row["output_tps"] or _tps_of_tokens(row)
        if value is None:
            tpot = row["tpot_mean_ms"] or row["tpot_median_ms"] or _tpot_of_user(row)
            value = 1000.0 * (row["concurrency"] or 1) / tpot if tpot else None
        if value is not None and math.isfinite(value) and value > 0:
            found.append(float(value))
    return tuple(found)


def total(rows: Sequence[Row], column: str) -> float | None:
    """Sum of a column over the rows; None when a row lacks it."""
    values = [row[column] for row in rows]
    return None if any(value is None for value in values) else math.fsum(values)


def count(rows: Sequence[Row], column: str) -> int | None:
    """Sum of a column of counts over the rows; None when a row lacks it."""
    value = total(rows, column)
    return None if value is None else int(value)


def notes(rows: Sequence[Row]) -> tuple[str, ...]:
    """What is odd about the rows, once each."""
    found = [row["doubt"] for row in rows if row["doubt"]]
    lengths = [row["accept_length_printed"] for row in rows if row["accept_length_printed"]]
    if len(lengths) > 1 and max(lengths) > (1.0 + _ODD) * min(lengths):
        found.append(
            f"taken as repeats, but their accept lengths differ ({min(lengths):.2f} to {max(lengths):.2f}): "
            "other prompts, or two set-ups in one"
        )
    models = {row["model"] for row in rows if row["model"]}
    if len(models) > 1:
        found.append(f"taken as repeats, but they name {len(models)} models")
    return tuple(dict.fromkeys(found))
