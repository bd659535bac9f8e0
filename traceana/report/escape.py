"""Untrusted text made safe: for a terminal (no control characters) and for GitHub Markdown (no markup, no links).

Markdown policy: every word that is not plain (letters, digits, common punctuation) becomes a code span. GitHub neither
formats nor links inside code: no HTML, no @mention, no #reference, no URL. Entities would not do: GitHub looks for
mentions after it has decoded them.
"""

from __future__ import annotations

import re

#: characters that are invisible, move the cursor or reorder text: C0, DEL, C1, soft hyphen, bidi marks, embeddings,
#: overrides and isolates, zero-width characters, line and paragraph separators, surrogates, tags
_HIDDEN_RANGES = (
    "\x7f-\x9f\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2"
    "\u115f-\u1160\u17b4-\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_HIDDEN = re.compile(f"[\x00-\x1f{_HIDDEN_RANGES}]")
_HIDDEN_BUT_NEWLINE = re.compile(f"[\x00-\x09\x0b-\x1f{_HIDDEN_RANGES}]")
#: what stays dangerous inside a JSON string literal shown on a terminal; C0 is escaped by the encoder
HIDDEN_IN_JSON = re.compile(f"[{_HIDDEN_RANGES}]")
_BLANKS = re.compile(r"[ \t\r\n]+")

#: longest text of one field that is drawn, in characters
FIELD_LIMIT = 4000


def _as_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible(text: str, *, keep_newlines: bool = False) -> str:
    r"""The text with every hidden or control character written out: ESC becomes `\x1b`, U+202E becomes `\u202e`."""
    return (_HIDDEN_BUT_NEWLINE if keep_newlines else _HIDDEN).sub(_as_escape, text)


def clip(text: str, limit: int = FIELD_LIMIT) -> str:
    """At most `limit` characters of the text, and how many were left out."""
    left_out = len(text) - limit
    return text if left_out <= 0 else f"{text[:limit].rstrip()} … (+{left_out:,} characters)"


def one_line(text: str, limit: int = FIELD_LIMIT) -> str:
    """The text on one line, safe for a terminal: blanks and line ends become one space, the rest as `visible`."""
    return visible(_BLANKS.sub(" ", clip(text, limit)).strip())


def short(text: str, limit: int) -> str:
    """The text on one line, cut to `limit` characters with an ellipsis: for words that should be short."""
    line = one_line(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


#: a word GitHub shows as it is; everything else goes into a code span
_PLAIN = re.compile(r"[(\"']?[^\W_](?:[^\W_]|[.,;/%+×·…?!'’()\"-])*:?|[-+·×=/…(),.;%]+|->")
_LINKED = re.compile(r"(?i)[(\"']*(?:www\.|gh-\d|(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b)")
#: the same words begin a list, a heading rule or a table delimiter when they open a line
_OPENS_BLOCK = re.compile(r"[-+=]+>?|\d{1,9}[.)]")


def code(text: str) -> str:
    """A code span that nothing in the text can close."""
    if not text:
        return ""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def markdown(text: str, limit: int = FIELD_LIMIT, *, opens_block: bool = True) -> str:
    """Untrusted prose for GitHub Markdown on one line: plain words as they are, all others in code spans.

    With `opens_block` the text may stand at the start of a line, where `-` or `1.` would begin a list.
    """
    out: list[str] = []
    pending: list[str] = []  # neighbouring words that share a code span

    def flush() -> None:
        if pending:
            out.append(code(" ".join(pending)))
            pending.clear()

    for position, word in enumerate(one_line(text, limit).split(" ")):
        opening = opens_block and position == 0 and _OPENS_BLOCK.fullmatch(word)
        if _PLAIN.fullmatch(word) and not _LINKED.match(word) and not opening:
            flush()
            out.append(word)
            continue
        before, middle, after = _split(word)
        if before:
            flush()
        pending.append(middle)
        if before or after:
            span = code(" ".join(pending))
            pending.clear()
            out.append(f"{before}{span}{after}")
    flush()
    return " ".join(piece for piece in out if piece)


def _split(word: str) -> tuple[str, str, str]:
    """Punctuation around a word stays outside of the code span."""
    inner = word.lstrip("(\"'")
    middle = inner.rstrip(".,;:!?)\"'")
    if not middle:
        return "", word, ""
    return word[: len(word) - len(inner)], middle, inner[len(middle) :]


def cell(text: str, limit: int = 200) -> str:
    """Untrusted prose for a cell of a GFM table; a pipe becomes `\\x7c`: table readers disagree on how to escape it."""
    return markdown(clip(text, limit).replace("|", "\\x7c"), opens_block=False)


def fence(text: str) -> str:
    """A fenced code block that nothing in the text can close; control characters are written out."""
    body = visible(text.replace("\r\n", "\n"), keep_newlines=True).strip("\n")
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", body)), default=0))
    return f"{ticks}text\n{body}\n{ticks}"
