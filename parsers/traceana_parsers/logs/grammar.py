"""Line grammars as data, and the two ways of reading a line by one.

`KeyValueGrammar`: lines of `key: value` pairs. Read by key, never by position: the pattern for a block of lines is
derived from the first line that no earlier pattern fits, so a new field in the middle costs nothing and loses nothing.
`PatternGrammar`: lines with a fixed wording, read by one regular expression with named groups.

Each grammar carries example lines with the values they must give; tests run every one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceana_parsers.logs.prefixes import HEADS

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a line: where its value goes. `kind`: int, float, percent (stored as 0 ... 1), bool, list or str."""

    key: str  # as printed; lower case compares
    column: str
    kind: str


@dataclass(frozen=True, slots=True)
class Example:
    """A line and the values it must give, by column (events: `kind`, `subject`, `value` or a name in `attrs`)."""

    line: str
    gives: dict[str, object]
    versions: str = ""


@dataclass(frozen=True, slots=True)
class KeyValueGrammar:
    """`anchor` marks the family; a line that holds it belongs here. `required` columns missing make a row partial."""

    name: str
    engine: str
    anchor: str
    table: str
    fields: tuple[Field, ...]
    required: tuple[str, ...]
    constants: tuple[tuple[str, str], ...] = ()
    extras: tuple[tuple[str, str, str], ...] = ()  # (column, literal that must occur, pattern) for what is no pair
    lead: str = ""  # between the head and the anchor; may hold one group named `engine_index`
    anchor_is_key: bool = False  # the anchor is itself the first key of the line
    versions: str = ""
    source: str = ""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternGrammar:
    """`anchor` is a literal that every line of the family holds; `pattern` (Rust regex) reads it, unanchored.

    Without a match the line counts as unread, unless `optional`. Groups `subject` and `value` fill those columns, all
    groups go to `attrs`. `follow`: how many lines after it belong to it. `fold`: equal lines of a block become one row.
    """

    name: str
    engine: str
    anchor: str
    pattern: str
    kind: str  # of the event; settings grammars: the origin
    table: str = "events"
    optional: bool = False
    columns: tuple[tuple[str, str], ...] = ()  # more columns, each by a pattern of its own (lines of varying order)
    follow: int = 0
    fold: bool = False
    last: bool = False  # a progress bar: the last occurrence on the line counts
    versions: str = ""
    source: str = ""
    examples: tuple[Example, ...] = ()


Grammar = KeyValueGrammar | PatternGrammar

# a value ends at a blank, comma, quote, backslash, bracket or per cent sign; ASCII only keeps the matcher one-pass.
# One-pass (no two ways on from any character) halves the cost of a line: what ends the last value is never part of it.
_VALUE = r"[!#$&-+\--Z^-~]+"
_LAST_VALUE = r"[!#$&-'*-+\--Z^-~]+"
_LIST = r"[0-9., na]*[0-9n]"
_STOP = r"(?:$|[\\\"\r\[(])"
_END = rf"(?:{_STOP}|[%, ][,. |]*(?:(?:tokens(?:/s)?|reqs|ms|GB)[,. |]*)?{_STOP})"
_AFTER_LIST = rf"(?:ms)?[.|]*{_END}"  # these characters belong to a single value
_PAIR = re.compile(
    r"(?P<key>[#A-Za-z][A-Za-z0-9 #_()/.+-]{0,60}?)(?P<sep>: +|=)"
    r"(?P<value>-?\d[\d.]*(?:, \d[\d.]*)+(?=, [A-Z]|$|[\s\\\"])|-?\d[\d.:T-]*\d|-?\d|nan|inf|N/A|\?|True|False|[A-Za-z]+)"
    r"(?=[,%.\s\"\\\[]|ms|$)"
)
_MAX_PATTERNS = 48  # kept from block to block
_MAX_NEW = 64  # forms derived per block: a block of lines that all differ is no log of one family
_MAX_TRIES = 500  # lines per block that are looked at for a new form
_MAX_HEAD, _MAX_BODY = 2048, 4096  # characters before and after the anchor that are looked at
_MAX_KEYS = 64
_MAX_UNKNOWN = 200  # unknown keys that are kept to be shown
_MAY_HOLD_PAIR = r"(?:: |=)[-0-9A-Za-z?]"


@dataclass(frozen=True, slots=True)
class _Derived:
    """A derived pattern: capture group i holds the value of `keys[i]` after the head's `head_names`."""

    regex: str
    head_names: tuple[str, ...]
    keys: tuple[str, ...]


def derive(line: str, grammar: KeyValueGrammar) -> tuple[_Derived, ...]:
    """Patterns that read `line` and every line of the same keys: with each common head, then without a head.

    Returns () when the line holds no pair after the anchor.
    """
    start = line.find(grammar.anchor)
    body = line[start:]
    skip = 0 if grammar.anchor_is_key else len(grammar.anchor)
    out: list[str] = []
    keys: list[str] = []
    end = skip
    prefix = _loose(body[:skip])
    for match in _PAIR.finditer(body, skip):
        if keys and not re.fullmatch(r"[^\n\"\\]{0,60}", body[end : match.start()]):
            break  # another record glued behind this one
        out.append(_loose(body[end : match.start("value")]))
        out.append(f"({_LIST if ', ' in match['value'] else _VALUE})")
        key = match["key"].strip().lower()
        keys.append(key.split(" ")[-1] if match["sep"] == "=" else key)
        end = match.end("value")
        if len(keys) == _MAX_KEYS:
            break
    if not keys:
        return ()
    rest = body[end:].rstrip("\r")
    # a line cut off behind its last pair reads only its equals: its pattern must not take the head of whole lines
    tail = _AFTER_LIST if re.match(_AFTER_LIST, rest) else f"{_loose(rest[:60])}.*$"
    if tail == _AFTER_LIST and out[-1] == f"({_VALUE})":
        out[-1], tail = f"({_LAST_VALUE})", _END
    text = grammar.lead + prefix + "".join(out) + tail
    lead_names = tuple(re.findall(r"\(\?P<(\w+)>", grammar.lead))
    heads = tuple(
        _Derived(head + text, tuple(re.findall(r"\(\?P<(\w+)>", head)) + lead_names, tuple(keys)) for head in HEADS
    )
    return (*heads, _Derived(text, lead_names, tuple(keys)))


def _loose(text: str) -> str:
    """Literal text as a pattern: numbers in it may differ from line to line, blanks may repeat."""
    return re.sub(r"(?:\\ )+", " +", re.sub(r"\d+(?:\\?\.\d+)?", r"[0-9.]+", _escape(text)))


def _escape(text: str) -> str:
    return "".join("\\" + c if c in r"\.+*?()|[]{}^$#&-~/" else "\\ " if c == " " else c for c in text)


class KeyValueReader:
    """Reads lines of one key-value grammar; keeps the patterns it derived from block to block."""

    def __init__(self, grammar: KeyValueGrammar) -> None:
        self.grammar = grammar
        self.unknown_keys: set[str] = set()
        self._patterns: dict[_Derived, int] = {}  # and how many lines each has read
        self._columns = {f.key.lower(): f for f in grammar.fields}

    def read(self, lines: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
        """Text values of the lines, one row per line read, and the positions of lines that fit no form.

        The frame has `row` (position in `lines`), the head columns found (`ts`, `tags`, ...), `headed` (whether a common
        head was read) and one text column per field of the grammar.
        """
        import polars as pl

        lines = self._shortened(lines)
        left = pl.DataFrame({"row": pl.int_range(len(lines), dtype=pl.UInt32, eager=True), "text": lines})
        frames: list[pl.DataFrame] = []
        for pattern in self._patterns:
            left = self._apply(pattern, left, frames)
        pairless = ~left["text"].str.contains(_MAY_HOLD_PAIR)
        missed: list[int] = left["row"].filter(pairless).to_list()
        left = left.filter(~pairless)
        new = 0
        for _ in range(_MAX_TRIES):
            if not left.height or new == _MAX_NEW:
                break
            first = left["row"][0]
            derived = derive(left["text"][0], self.grammar)
            new += bool(derived)
            for pattern in derived:
                left = self._apply(pattern, left, frames)
                if not left.height:
                    break
            if left.height and left["row"][0] == first:
                missed.append(first)
                left = left.slice(1)
        missed.extend(left["row"].to_list())
        self._forget()
        frame = pl.concat(frames, how="diagonal").sort("row") if frames else pl.DataFrame({"row": []})
        return frame, pl.Series("row", sorted(missed), dtype=pl.UInt32)

    def _shortened(self, lines: pl.Series) -> pl.Series:
        """Overlong lines cut to what stands around the anchor, at a blank: half a value must not be read as one."""
        import polars as pl

        long = (lines.str.len_bytes() > _MAX_HEAD + _MAX_BODY).arg_true()
        if not len(long):
            return lines
        cut = []
        for line in lines.gather(long).to_list():
            start = line.find(self.grammar.anchor)
            body = line[start : start + _MAX_BODY]
            end = body.rfind(" ") if start + _MAX_BODY < len(line) else len(body)
            cut.append(line[max(0, start - _MAX_HEAD) : start] + body[: max(end, len(self.grammar.anchor))].rstrip())
        return lines.clone().scatter(long, pl.Series(cut, dtype=pl.String))

    def _forget(self) -> None:
        """Drops the patterns that have read least: those of garbled lines must not crowd out real forms."""
        if len(self._patterns) > _MAX_PATTERNS:
            best = sorted(self._patterns.items(), key=lambda item: -item[1])[: _MAX_PATTERNS // 2]
            self._patterns = {pattern: count for pattern, count in self._patterns.items() if (pattern, count) in best}

    def _note(self, pattern: _Derived, count: int) -> None:
        if pattern not in self._patterns and len(self.unknown_keys) < _MAX_UNKNOWN:
            self.unknown_keys.update(k for k in pattern.keys if k not in self._columns)
        self._patterns[pattern] = self._patterns.get(pattern, 0) + count

    def _apply(self, pattern: _Derived, left: pl.DataFrame, frames: list[pl.DataFrame]) -> pl.DataFrame:
        import polars as pl

        if not left.height:
            return left
        groups = left["text"].str.extract_groups(pattern.regex).struct.unnest()
        groups.columns = [f"g{i}" for i in range(groups.width)]
        names = (*pattern.head_names, *pattern.keys)
        matched = groups[f"g{groups.width - 1}"].is_not_null()
        if not matched.any():
            return left
        self._note(pattern, int(matched.sum()))
        keep = {}
        for index, name in enumerate(names):
            if index < len(pattern.head_names):
                keep[name] = f"g{index}"
            elif (found := self._columns.get(name)) is not None and found.column not in keep:
                keep[found.column] = f"g{index}"
        rows = left.select("row").hstack(groups.select(**{new: pl.col(old) for new, old in keep.items()}))
        headed = "ts" in pattern.head_names
        frames.append(rows.filter(matched).with_columns(pl.lit(headed).alias("headed")))
        return left.filter(~matched)
