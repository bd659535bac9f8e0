"""What a column's heading says: a load, a measured value with its statistic and unit, or a set-up's name."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from traceana_parsers.bench.numbers import UNITS
from traceana_parsers.bench.words import loads, speculates

LOADS = "load"
MEASURE = "measure"
DERIVED = "derived"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Heading:
    """One heading. `column` is the table column without its statistic: `ttft`, `output_tps`, `concurrency`."""

    text: str
    role: str
    column: str | None = None
    statistic: str | None = None  # mean, median, p90 ...; None when not written
    unit: str | None = None  # as in numbers.UNITS
    series: str | None = None  # words that are left: whose value it is
    load: tuple[tuple[str, int], ...] = ()  # loads written in the heading: `C32 tok/s`


#: whole headings, lower case, without unit and statistic -> column of a load
_LOADS = {
    "concurrency": (
        "c|cc|conc|concurrency|concurrent|# concurrent|num concurrent|"
        "n concurrent|concurrent requests|concurrent users|concurrent streams|max concurrency|"
        "users|user count|number of concurrency|"
        "number of users|num users|clients|num clients|parallel|parallelism|parallel requests|bs|batch|batch size|"
        "batchsize|max batch size|streams|sessions|requests in flight|n parallel|np|#users|# users|concurrency level"
    ),
    "context_tokens": (
        "context|ctx|context length|context tokens|context size|ctx len|input len|input length|isl|prompt len|"
        "prompt length|prompt tokens|n kv|input tokens|prompt size|input size|depth|random input len"
    ),
    "output_length": (
        "osl|output len|output length|output tokens per request|max tokens|gen len|generation length|max new tokens|"
        "random output len"
    ),
    "k": (
        "k|num speculative tokens|speculative tokens|num spec tokens|spec tokens|spec len|draft len|"
        "draft length|draft k|n draft|gamma|γ|mtp k|max draft len|tokens drafted per cycle|num draft"
    ),
    "num_steps": "steps|num steps|spec steps|draft steps|speculative num steps|spec num steps",
    "topk": "topk|top k|eagle topk|speculative eagle topk|spec topk",
    "num_draft_tokens": "num draft tokens|draft tokens|speculative num draft tokens|ndt",
    "request_rate": "request rate|arrival rate|rps target|request rate asked",
    "requests": "requests|num prompts|num requests|completed|successful requests|prompts|completed requests",
    "failed": "failed|errors|failed requests|num errors",
    "duration_s": "duration|benchmark duration|time taken for tests|elapsed|wall time|total time|wall",
    "input_tokens": "total input tokens|total prompt tokens",
    "output_tokens": "total output tokens|total generated tokens|generated tokens|completion tokens|output tokens",
    "tp": "tp|tp size|tensor parallel",
    "pp": "pp|pp size",
    "dp": "dp|dp size",
    "ep": "ep|ep size",
    "dcp": "dcp|dcp size",
}
WHOLE = {name: column for column, names in _LOADS.items() for name in names.split("|")}
#: loads that have no column of their own
BESIDE = frozenset({"tp", "pp", "dp", "ep", "dcp"})

#: words of a measured value, in order: the first that is in the heading decides. The match is cut out.
_MEASURES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (column, re.compile(pattern))
    for column, pattern in (
        (
            DERIVED,
            r"speed-?\s?ups?|\bgain\b|\bratio\b|\bchange\b|\bdiff(?:erence)?\b|\bdelta\b|δ|\bimprovement\b|\bwinner\b|\bvs\.?\b|\bover\b|\brelative\b|\bscaling\b|\befficiency\b|\boverhead\b|\bwin\b|±|\bci\b",
        ),
        (
            UNKNOWN,
            r"\bpeak\b|(?:/|\bper[- ]?)\s?gpu\b|\bmax(?:imum)? output\b|\bper[- ]?pos(?:ition)?\b|\bpos(?:ition)?\b"
            r"|\be2e output token throughput\b|\b(?:input|output) sequence length\b"
            r"|\btime to (?:second|first output) token\b",
        ),
        ("drafted", r"^drafted(?: tokens)?$|^(?:total|num) draft(?:ed)? tokens$"),
        ("accepted", r"^accepted(?: tokens)?$|^(?:total|num) accepted tokens$"),
        ("ttft", r"\bttft\b|\btime[- ]to[- ]first[- ]token\b|\bfirst[- ]token(?: latency)?\b"),
        (
            "tpot",
            r"\btpot\b|\btime[- ]per[- ]output[- ]token\b|\bper[- ]token latency\b|\bms/tok(?:en)?\b|\btoken latency\b",
        ),
        ("chunk", r"\binter[- ]chunk(?: latency)?\b|\bchunk (?:itl|latency|gap)\b|\bicl\b"),
        ("itl", r"\bitl\b|\binter[- ]token[- ]latency\b"),
        ("e2e", r"\be2el?\b(?: latency)?|\bend[- ]to[- ]end(?: latency)?\b|\brequest latency\b"),
        (
            "accept_length_printed",
            r"\ba\.\s?len\b"
            r"|\bacc(?:ept(?:ed|ance)?)?\.?[- ]?len(?:gth)?\b|^(?:mean |avg )?m?al$|^τ$|^tau$|\bmean accepted\b",
        ),
        (
            "tokens_per_cycle_printed",
            r"\b(?:tok(?:en)?s?|emitted)\s?(?:/|per)\s?(?:cycle|step|iter(?:ation)?|chunk|forward|round|verify|pass)\b",
        ),
        ("step_ms", r"\b(?:cycle|step)(?: (?:cost|time|latency|ms))?\b(?!s)"),
        ("cycles", r"^cycles$|^num cycles$|^verify steps$"),
        ("accept_rate_printed", r"\b(?:spec )?(?:draft )?(?:accept(?:ance)?(?: rate)?|acc\.? rate)\b"),
        ("requests_per_s", r"\breq(?:uest)?s?\s?/\s?s(?:ec)?\b|\brps\b|\bqps\b|\brequest throughput\b"),
        ("input_tps", r"\b(?:prefill|input|prompt|pp)\b.*(?:throughput|speed|tok|t/s|tps)|^(?:s )?pp\d*$"),
        (
            "user_tps",
            r"(?:throughput|speed|tok(?:en)?s?|tps|t/s)?\s?(?:/|per[- ])\s?(?:user|request|req|stream)\b"
            r"|\bsingle[- ]user\b|\buser (?:throughput|speed|tps)\b",
        ),
        ("total_tps", r"\btotal(?: token)? (?:throughput|tps)\b|^total$"),
        (
            "output_tps",
            r"\b(?:output |generation |gen |decode |aggregate |system |token |overall )*(?:throughput|speed|tps)\b"
            r"|^(?:s )?tg(?:\s?\d+\b.*)?$|^decode$|\baggregate(?: decode)?\b|\bgeneration\b",
        ),
    )
)
_STATISTICS = {
    "mean": "mean",
    "avg": "mean",
    "average": "mean",
    "median": "median",
    "med": "median",
    "p50": "median",
    "p90": "p90",
    "p95": "p95",
    "p99": "p99",
    "std": "std",
    "stddev": "std",
    "stdev": "std",
}
_RATE_INSIDE = re.compile(r"(?<![a-z])((?:k\s?)?tok(?:en)?s?/s(?:ec)?)(?![a-z/])")
_STATISTIC = re.compile(r"\b(" + "|".join(sorted(_STATISTICS, key=len, reverse=True)) + r")\b")
_UNIT_IN = re.compile(r"[(\[]\s*([^()\[\]]{1,30}?)\s*[)\]]")
_NAME_IN = re.compile(r"\(\s*([a-z]+(?:_[a-z0-9]+)+)\s*\)")
_UNIT_AT_END = re.compile(
    r"(?:^|[\s/])((?:k\s?)?(?:tok(?:en)?s?\s?/\s?s(?:ec(?:ond)?)?|tokens per second|t/s|tps)"
    r"(?:\s?/\s?(?:user|req(?:uest)?|stream))?"
    r"|req(?:uest)?s?/s(?:ec)?|ms|µs|μs|us|secs?|s|%|percent|gb/s)\s*$"
)
_FILLER = re.compile(
    r"\b(?:output|completion|out|of|the|in|by|server|client|tokens?|tok|latency|time|rate|value|result|results|and|for|num|pred|llm|inference|benchmark)\b|[+/:?*#()\[\]|=-]"
)
_RATIO = re.compile(r"\baccept(?:ance|ed)?[ -]ratio\b")
_INPUT = re.compile(r"\b(?:prefill|input|prompt|pp\d*)\b")
_COST = re.compile(r"\b(?:cost|time|latency|ms)\b")
#: measures whose column is WHAT_STATISTIC_ms
TIMES = frozenset({"ttft", "tpot", "itl", "chunk", "e2e"})
KINDS = {
    **dict.fromkeys([*TIMES, "step_ms", "duration_s"], "time"),
    "output_tps": "rate",
    "user_tps": "rate",
    "total_tps": "rate",
    "input_tps": "rate",
    "accept_rate_printed": "ratio",
}


def read(text: str) -> Heading:
    """What a heading says. Numbers in it are kept as loads (`C32 tok/s`), left-over words as the series."""
    shown = _identifier(re.sub(r"[*`]|<[^<>]{0,20}>", "", text)).strip()
    if len(shown) > 120:
        return Heading(shown[:120], UNKNOWN)
    load, bare = loads(shown.replace("_", " "))
    words, unit = _unit(_RATIO.sub("acceptance rate", bare.casefold()))
    statistic = None
    found = _STATISTIC.search(words)
    if found:
        statistic = _STATISTICS[found[1]]
        words = " ".join((words[: found.start()] + " " + words[found.end() :]).split())
    whole = WHOLE.get(" ".join(words.split()))
    if (
        whole is not None
        and not load
        and not (whole == "output_tokens" and unit and UNITS.get(unit, ("",))[0] == "rate")
    ):
        return Heading(shown, LOADS, whole, unit=unit)
    kind = unit_kind(unit)
    heading = Heading(shown, MEASURE, None, statistic, unit, load=tuple(sorted(load.items())))
    if kind == "rate" and _INPUT.search(words):
        return replace(heading, column="input_tps")
    for column, pattern in _MEASURES:
        match = pattern.search(words)
        if match is None:
            continue
        if column in (DERIVED, UNKNOWN):
            return replace(heading, role=column)
        if kind not in (None, KINDS.get(column, kind)):
            break
        if column == "step_ms" and kind is None and not _COST.search(words):
            break  # a number of a step
        return _with_rest(replace(heading, column=column), bare, words[: match.start()] + " " + words[match.end() :])
    if kind == "rate":
        return _with_rest(replace(heading, column="output_tps"), bare, words)
    if kind == "requests":
        return replace(heading, column="requests_per_s")
    return replace(heading, role=UNKNOWN, series=bare.strip(" ?:") if unit is None else _kept(bare, words.split()))


def _identifier(text: str) -> str:
    """The heading without the tool's own name of the value: `decode speed (generation_tps)`."""
    found = _NAME_IN.search(text)
    if found is None or _known(found[1].replace("_", " ")) is not None or not text[: found.start()].strip():
        return text
    return text[: found.start()] + text[found.end() :]


def _with_rest(heading: Heading, bare: str, rest: str) -> Heading:
    """The heading with the words that are left as the series, in the writing of the heading itself."""
    column = heading.column
    if column == "output_tps" and heading.unit and heading.unit.endswith(("/user", "/req")):
        column = "user_tps"
    words = _FILLER.sub(" ", rest).split()
    if column == "user_tps":
        words = [word for word in words if word not in ("throughput", "speed", "tps", "decode", "generation")]
    if column in ("accept_length_printed", "accept_rate_printed") and set(words) <= {"spec", "speculative", "draft"}:
        words = []  # says nothing about whose it is
    return replace(heading, column=column, series=_kept(bare, words))


def _kept(text: str, words: list[str]) -> str | None:
    """The words of a text that are among the given ones, as written; a method's name may be one of several."""

    def is_kept(word: str) -> bool:
        bare = word.casefold().strip("():,[]?")
        if bare in words:
            return True
        parts = _FILLER.sub(" ", bare).split()  # EAGLE-3, p-eagle, no-spec, 3-1-4
        known = len(parts) > 1 and set(parts) <= set(words)
        return known and (speculates(bare) is not None or all(part.isdigit() for part in parts))

    return " ".join(word for word in text.split() if is_kept(word)).strip(" ,:-?") or None


def unit_kind(unit: str | None) -> str | None:
    """What a heading's unit measures (numbers.UNITS), `/user` at its end or not; None without a unit."""
    return None if unit is None else UNITS[re.sub(r"/(?:user|req)$", "", unit)][0]


def _unit(words: str) -> tuple[str, str | None]:
    """The words without their unit, and the unit as numbers.UNITS names it, `/user` kept at its end."""
    if re.search(r"\bpct\b", words):
        return words.replace("pct", " "), "%"
    for match in _UNIT_IN.finditer(words):
        unit = _known(match[1])
        if unit is not None:
            return " ".join((words[: match.start()] + " " + words[match.end() :]).split()), unit
    end = _UNIT_AT_END.search(words)
    if end and (unit := _known(end[1])) is not None:
        return words[: end.start(1)].strip(), unit
    inside = _RATE_INSIDE.search(words)
    if inside and (unit := _known(inside[1])) is not None:
        return " ".join((words[: inside.start()] + " " + words[inside.end() :]).split()), unit
    return words, None


def _known(text: str) -> str | None:
    name = " ".join(text.split()).replace(" /", "/").replace("/ ", "/").rstrip(".")
    name = re.sub(r"/(?:request|stream)$", "/req", name)
    base = (
        re.sub(r"/(?:user|req)$", "", name) if re.search(r"/s(?:ec(?:ond)?)?/(?:user|req)$|tps/user$", name) else name
    )
    return name if base in UNITS else None
