"""Words that tell a run with speculation from one without, and loads written in words: `c=8`, `ctx=32k`, `K=2`."""

from __future__ import annotations

import re

from traceana_parsers.bench.numbers import tokens

_METHODS = (
    r"eagle[- ]?[123]?|p-eagle|mtp|nextn|next-n|dflash|dspark|medusa|hydra|n-?gram|lookahead|suffix"
    r"|spec(?:ulative)?(?: ?decod(?:e|ing))?|speculation|draft(?:er| model)?"
)
_OFF = re.compile(
    rf"\b(?:no|non|without|w/o|disabled?)[- _]?(?:{_METHODS})\b"
    rf"|\b(?:{_METHODS})[- _:=]*(?:off|disabled|=? ?false|= ?0)\b|\bno(?:spec|mtp|eagle|draft)\b"
    r"|\bvanilla\b|\bauto-?regressive\b|\btarget[- ]only\b|^\s*ar\s*$|\bar\b(?= (?:tok|baseline|only))",
    re.IGNORECASE,
)
_ON = re.compile(rf"(?<![a-z])(?:{_METHODS})(?![a-z])", re.IGNORECASE)
_BASE = re.compile(r"\bbase ?lines?\b|\bbase model\b|^\s*(?:base|plain|off|none)\s*$", re.IGNORECASE)

#: benchmarks that are named after what they test, with or without it
_BENCHES = re.compile(r"\bspec(?:ulative)?[-_ ]?bench\b", re.IGNORECASE)
_COUNTS = {"one": 1, "single": 1, "two": 2, "four": 4, "eight": 8, "sixteen": 16}
_USERS = r"(?:users?|clients?|concurrent(?: (?:requests|users|streams))?|streams?|parallel|requests? in flight)"
#: column -> forms of a load inside other words; group 1 is the number
_LOADS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (column, re.compile(pattern, re.IGNORECASE))
    for column, pattern in (
        (
            "concurrency",
            r"(?<![a-z0-9.])"
            r"(?:c|cc|conc-?|concurrency|bs|batch(?: size)?|users|clients)\s*[=: ]?\s*(\d{1,6})\b(?!\.\d)",
        ),
        ("concurrency", rf"\b(\d{{1,6}}|one|two|four|eight|sixteen) {_USERS}\b"),
        ("concurrency", r"\b(single|one)(?:[- ](?:request|stream|user))\b"),
        ("context_tokens", r"(?<![a-z0-9])(?:ctx|context|isl|input)\s*[=: ]\s*(\d{1,8}[km]?)\b"),
        ("output_length", r"(?<![a-z0-9])(?:osl|max[_ ]tokens)\s*[=: ]\s*(\d{1,7}k?)\b"),
        ("output_length", r"\b(\d{1,7}) tokens?\b"),
        ("k", r"(?<![a-z0-9])(?:mtp|nextn)\s*=\s*(\d{1,2})\b"),
        ("k", r"(?<![a-z0-9])(?:k|num_speculative_tokens|draft len(?:gth)?|draft tokens)\s*[=: ]\s*(\d{1,4})\b"),
    )
)


def speculates(*texts: str) -> bool | None:
    """Whether the texts speak of a run with (True) or without speculation; None when none does or one says both.

    The first text that says so decides; plain `baseline` counts only where no text names a method.
    """
    for text in texts:
        said = _said(text)
        if said is not None:
            return said
    for text in texts:
        if _BASE.search(text) and not _ON.search(text):
            return False
    return None


def _said(text: str) -> bool | None:
    text = _BENCHES.sub(" ", text)
    off = _OFF.search(text)
    if off is not None:
        rest = text[: off.start()] + text[off.end() :]
        return None if _ON.search(rest) else False
    if _ON.search(text):
        return None if _BASE.search(text) else True
    return None


def loads(text: str) -> tuple[dict[str, int], str]:
    """Loads written in a text, by column, and the text without them. `16k` is 16384 tokens."""
    found: dict[str, int] = {}
    if len(text) > 200:
        return found, text
    for column, pattern in _LOADS:
        match = pattern.search(text)
        if match is None or column in found:
            continue
        number = _COUNTS.get(match[1].casefold(), tokens(match[1]))
        if number is not None:
            found[column] = number
            text = text[: match.start()] + " " + text[match.end() :]
    return found, re.sub(r"^[\s,;:/|()-]+|[\s,;:/|(-]+$", "", re.sub(r"\s{2,}", " ", text))
