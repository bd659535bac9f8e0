"""What a look at two runs gathers: what differs and what is known of its effect, what is the same, what is unknown."""

from __future__ import annotations

from dataclasses import dataclass, field

from traceana.facts.settings_effects import Effect

_LONGEST = 100  # characters of a value that are kept


@dataclass(frozen=True, slots=True)
class Raw:
    """One thing that differs, with what is known of its effect, before it is sized. `setting`: it can be set back."""

    what: str
    before: str
    after: str
    effect: Effect
    setting: bool = False


@dataclass(slots=True)
class Found:
    """What a look at both runs gave."""

    raw: list[Raw] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    harmless: int = 0

    def look(self, what: str, before: object, after: object, effect: Effect) -> None:
        """Files one comparison: differs, same, or not known on one side or both."""
        if before is None or after is None:
            self.unknown.append(f"{what} ({'neither side says' if before is after else 'one side does not say'})")
        elif before == after:
            self.same.append(what)
        else:
            self.raw.append(Raw(what, shortened(before), shortened(after), effect))


def shortened(value: object) -> str:
    """A value for a sentence: four digits of a number, at most 100 characters of a text."""
    if isinstance(value, float):
        return f"{value:,.4g}"
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
