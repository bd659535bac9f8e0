"""`causes.toml`: symptoms, the causes that can produce them, and what tells two causes apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from traceana.toml_table import toml_table


@dataclass(frozen=True, slots=True)
class SymptomRow:
    """A symptom, the rules whose finding is the symptom itself, and those that put what it rests on in doubt."""

    key: str
    title: str
    shown_by: tuple[str, ...]
    doubted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause: which symptoms it can produce, how it is sized without evidence, what it excludes."""

    code: str
    symptoms: tuple[str, ...]
    size: str | None = None
    excludes: tuple[str, ...] = ()
    ranks: bool = False  # only where several GPUs share a layer
    background: bool = False  # holds without speculation as well
    seen_in: tuple[str, ...] = ()  # causes whose time this one shows from another side


@dataclass(frozen=True, slots=True)
class SettleRow:
    """The observation that tells two causes apart, and what each outcome means."""

    between: tuple[str, ...]
    look: str
    how: str
    outcomes: tuple[tuple[str, str], ...]
    answers: tuple[str, ...] = ()  # pointless unless one of these is still open


@cache
def _data() -> dict[str, Any]:
    return toml_table("traceana.rules", "causes.toml")


@cache
def symptom_rows() -> tuple[SymptomRow, ...]:
    """All symptoms, in the order of the table."""
    return tuple(
        SymptomRow(r["key"], r["title"], tuple(r["shown_by"]), tuple(r.get("doubted_by", ())))
        for r in _data()["symptom"]
    )


@cache
def cause_rows() -> tuple[CauseRow, ...]:
    """All causes, in the order of the table."""
    return tuple(
        CauseRow(
            r["code"],
            tuple(r["symptoms"]),
            r.get("size"),
            tuple(r.get("excludes", ())),
            r.get("ranks", False),
            r.get("background", False),
            tuple(r.get("seen_in", ())),
        )
        for r in _data()["cause"]
    )


@cache
def settle_rows() -> tuple[SettleRow, ...]:
    """All observations, cheaper ones first."""
    return tuple(
        SettleRow(
            tuple(r["between"]),
            r["look"],
            r["how"],
            tuple((a, b) for a, b in r["outcomes"]),
            tuple(r.get("answers", ())),
        )
        for r in _data()["settle"]
    )
