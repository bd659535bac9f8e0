"""Rows of one load point read together, and what they say of acceptance: with the bonus token, definitions told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from traceana.facts.locate import Locator
from traceana.facts.model import Evidence, Fact, Provenance

Row = dict[str, Any]

#: drafted steps account for less than this of the tokens: a look-up drafter that skips steps
_COVERED = 0.05


@dataclass(frozen=True, slots=True)
class Reader:
    """The rows of one point: means of columns and of what follows from them, with the rows as evidence."""

    rows: Sequence[Row]
    evidence: tuple[Evidence, ...]

    def fact(self, column: str) -> Fact[float]:
        """Mean of a column."""
        return self._mean([row[column] for row in self.rows], Provenance.MEASURED)

    def derived(self, of: Callable[[Row], float | None]) -> Fact[float]:
        """Mean over rows of a figure that follows from others."""
        return self._mean([of(row) for row in self.rows], Provenance.DERIVED)

    def time(self, what: str, kind: str) -> Fact[float]:
        """Mean (or median, as `kind` says) of a latency, the other one where that is not written."""
        found = self.fact(f"{what}_{kind}_ms")
        return found if found.known else self.fact(f"{what}_{'median' if kind == 'mean' else 'mean'}_ms")

    def _mean(self, values: Sequence[float | None], provenance: Provenance) -> Fact[float]:
        kept = [float(v) for v in values if v is not None and math.isfinite(v) and v > 0]
        if not kept:
            return Fact(reason="not written")
        return Fact(math.fsum(kept) / len(kept), provenance, self.evidence)


def per(row: Row, what: str, each: str) -> float | None:
    """One column over another; None where either is not known, or the other is 0."""
    return row[what] / row[each] if row[what] is not None and row[each] else None


def plus_one(value: float | None) -> float | None:
    """An accepted number of drafts as an accept length: the bonus token added."""
    return None if value is None else 1.0 + value


def tokens_per_chunk(read: Reader, tpot: Fact[float], itl: Fact[float], plain: bool) -> Fact[float]:
    """Tokens after the first / gaps between chunks; else gap / time per token. A chunk is one engine step (vLLM)."""
    counted = read.derived(
        lambda row: (
            (row["output_tokens"] - row["requests"]) / row["chunks"]
            if row["chunks"] and row["output_tokens"] and row["requests"] is not None
            else None
        )
    )
    if counted.known:
        return counted
    if plain:
        return Fact(1.0, Provenance.ASSUMED, read.evidence, "without speculation a step emits one token")
    if itl.value is not None and tpot.value is not None and itl.value > tpot.value and tpot is not itl:
        words = "mean gap between chunks / mean time per token"
        return Fact(itl.value / tpot.value, Provenance.DERIVED, itl.evidence, words)
    return Fact(reason="the chunks of the responses were not kept")


def accept_length(read: Reader, plain: bool) -> Fact[float]:
    """Accept length with the bonus token counted; `reason` says what the written one means."""
    if plain:
        return Fact(reason="this set-up does not speculate")
    counted = read.derived(lambda row: plus_one(per(row, "accepted", "drafts")))
    if counted.known:
        words = "1 + accepted / drafts, counted around the run; steps without a draft do not count"
        return Fact(counted.value, Provenance.DERIVED, counted.evidence, words)
    scopes = {row["accept_scope"] for row in read.rows if row["accept_length_printed"] is not None}
    written = read.fact("accept_length_printed")
    if written.value is None:
        return _length_of_rate(read)
    if any(row["accept_length_printed"] < 1.0 for row in read.rows if row["accept_length_printed"] is not None):
        words = "a value below 1 shows that it leaves the bonus token out; 1 was added"
        return Fact(written.value + 1.0, Provenance.DERIVED, written.evidence, words)
    if "lifetime" in scopes:
        words = "since the server started, not of this run alone (bonus token counted)"
        return Fact(written.value, Provenance.ASSUMED, written.evidence, words)
    if "snapshot" in scopes:
        words = "of a short window, not of the whole run"
        return Fact(written.value, Provenance.ASSUMED, written.evidence, words)
    if scopes == {"run"}:
        return Fact(written.value, Provenance.MEASURED, written.evidence, "of this run, bonus token counted")
    words = "as written; taken to count the bonus token"
    return Fact(written.value, Provenance.ASSUMED, written.evidence, words)


def _length_of_rate(read: Reader) -> Fact[float]:
    """1 + k x rate where drafts are a chain; a snapshot's rate gives none."""
    whole = [row for row in read.rows if row["accept_scope"] != "snapshot" and (row["topk"] or 1) == 1]
    found = Reader(whole, read.evidence).derived(
        lambda row: 1.0 + row["k"] * row["accept_rate_printed"] if row["k"] and row["accept_rate_printed"] else None
    )
    if found.known:
        return Fact(found.value, Provenance.DERIVED, found.evidence, "1 + k x acceptance rate")
    if any(row["accept_scope"] == "snapshot" for row in read.rows):
        return Fact(reason="only the acceptance of a short window is written")
    if any(row["accept_rate_printed"] is not None for row in read.rows):
        return Fact(reason="an acceptance rate is written, and not how many tokens are drafted per cycle")
    return Fact(reason="no acceptance is written")


def accept_rate(read: Reader) -> Fact[float]:
    """Accepted / drafted tokens: counted, else as written."""
    counted = read.derived(lambda row: per(row, "accepted", "drafted"))
    return counted if counted.known else read.fact("accept_rate_printed")


def tokens_per_cycle(read: Reader, chunk: Fact[float], length: Fact[float], plain: bool) -> Fact[float]:
    """Tokens per request and engine step: the multiplier. The accept length only where nothing better is known."""
    if plain:
        return Fact(1.0, Provenance.MEASURED, read.evidence)
    written = read.fact("tokens_per_cycle_printed")
    if written.known:
        return written
    by_cycles = read.derived(lambda row: per(row, "output_tokens", "cycles"))
    if by_cycles.known:
        return by_cycles
    if chunk.known:
        return chunk
    covered = read.derived(_covered)
    if covered.value is not None and covered.value < 1.0 - _COVERED:
        tokens = read.derived(lambda row: row["output_tokens"] / (row["output_tokens"] - row["accepted"]))
        return Fact(tokens.value, Provenance.DERIVED, tokens.evidence, "output tokens / (output tokens - accepted)")
    if length.value is None:
        return Fact(reason=length.reason)
    words = "the accept length, as if every step had a draft"
    return Fact(length.value, Provenance.ASSUMED, length.evidence, words)


def _covered(row: Row) -> float | None:
    """Share of the output tokens that steps with a draft emitted: (drafts + accepted) / output tokens."""
    if not (row["drafts"] and row["output_tokens"] and row["accepted"] is not None):
        return None
    if row["accepted"] >= row["output_tokens"]:
        return None  # other clients' tokens are in the counters
    return float((row["drafts"] + row["accepted"]) / row["output_tokens"])


def speculates(rows: Sequence[Row]) -> bool | None:
    """What the rows say of themselves: a flag, a number of drafts, or acceptance figures; None when nothing does."""
    flags = {row["speculative"] for row in rows if row["speculative"] is not None}
    if len(flags) == 1:
        return bool(flags.pop())
    if any(row["drafted"] or (row["accept_length_printed"] or 1.0) != 1.0 or row["k"] for row in rows):
        return True
    return None


def per_position(rows: Sequence[Row], where: Locator) -> Fact[tuple[float, ...]]:
    """Acceptance per draft position; rows of another length than the first are left out."""
    lists = [row["per_position"] for row in rows if row["per_position"]]
    same = [values for values in lists if len(values) == len(lists[0])] if lists else []
    if not same or any(not 0.0 <= v <= 1.0 for values in same for v in values):
        return Fact(reason="no acceptance per position is written")
    mean = tuple(math.fsum(column) / len(same) for column in zip(*same, strict=True))
    return Fact(mean, Provenance.MEASURED, tuple(where.at(row) for row in rows[:4]))


def draft_tokens(rows: Sequence[Row]) -> int | None:
    """k: as written, as the per-position list says, or drafted / drafts where that is whole."""
    first = rows[0]
    if first["k"] is not None:
        return int(first["k"])
    for row in rows:
        if row["per_position"]:
            return len(row["per_position"])
        if row["drafts"] and row["drafted"] and row["drafted"] % row["drafts"] == 0:
            return int(row["drafted"] // row["drafts"])
    return None
